"""One JSON text to one message, and back (JSON-RPC 2.0).

Owns: envelope decoding and classification, and the envelopes we write. Params and results stay
``msgspec.Raw`` until somebody asks. Does not own: the reading and writing of values (``values``), who a
message is for (``peer``), what its params mean (``protocol``), texts that came together (``together``).
"""

from __future__ import annotations

from typing import Any, Final, final

import msgspec
from msgspec import UNSET, Raw, UnsetType, field
from msgspec.structs import astuple

from ..errors import (
    InvalidParams,
    InvalidValueError,
    MalformedKind,
    MalformedMessageError,
    RpcError,
    rpc_error,
)
from .values import (
    decode_plain,
    decode_value,
    depth_exceeds,
    encode_value,
    has_surrogate_escape,
    hide_surrogates,
    show_surrogates,
    utf8_flaw,
)

__all__ = (
    "DEFAULT_MAX_DEPTH",
    "Failure",
    "Id",
    "Malformed",
    "Message",
    "Notification",
    "OutNotification",
    "OutRequest",
    "Request",
    "Success",
    "decode_message",
    "encode_failure",
    "encode_notification",
    "encode_request",
    "encode_response",
    "given",
    "read_id",
)

#: Arrays and objects inside each other. Far above any real message, far below every parser's own limit.
DEFAULT_MAX_DEPTH = 256

#: A JSON-RPC id. ``1`` and ``"1"`` are different ids.
Id = int | str

_ABSENT: Final = Raw(b"")


class _Envelope(msgspec.Struct, gc=False):
    """What stands in a message. Where these types do not fit, ``_read_hard`` fills it with whatever is there."""

    jsonrpc: str | UnsetType = UNSET
    id: int | float | str | None | UnsetType = UNSET
    method: str | UnsetType = UNSET
    params: Raw = _ABSENT
    result: Raw = _ABSENT
    error: Raw = _ABSENT


class _RawEnvelope(msgspec.Struct, gc=False):
    """The same with nothing decoded, so that nothing in it can be refused."""

    jsonrpc: Raw = _ABSENT
    id: Raw = _ABSENT
    method: Raw = _ABSENT
    params: Raw = _ABSENT
    result: Raw = _ABSENT
    error: Raw = _ABSENT


# `gc=False`, here and below: nothing in a message refers to it. The three kinds of message that derive from it are also
# read straight from texts (``together``): the tag, and that other members are refused, is for that.
class _Wire(msgspec.Struct, gc=False, tag_field="jsonrpc", tag="2.0", forbid_unknown_fields=True):
    """What is read straight from a text that is of its kind beyond doubt."""


class _Incoming(_Wire, gc=False):
    """What requests and notifications share: params that are read only when somebody asks."""

    @property
    def params(self: Any) -> Any:
        """The plain JSON value of ``params``, decoded on first use; ``None`` when absent or null.

        Whoever asks gets the same value; do not change it.

        Raises:
            InvalidParams: params are neither an object nor an array, or hold a number that no double can.
        """
        params = self._params
        if params is UNSET:
            raw = self.raw_params
            try:
                params = None if raw is _ABSENT else decode_plain(raw)
            except (msgspec.DecodeError, RecursionError):
                params = _decode_params(raw)
            if type(params) is not dict and type(params) is not list and params is not None:
                raise InvalidParams(data={"path": "$", "detail": "params are neither an object nor an array"})
            self._params = params
        return params

    def __eq__(self, other: object) -> bool:
        """Equal as received; whether somebody has read the params does not count."""
        return type(other) is type(self) and astuple(self)[:-1] == astuple(other)[:-1]

    def __repr__(self: Any) -> str:
        """Without the params, which may be long, and secret."""
        id = f"id={self.id!r:.100}, " if isinstance(self, Request) else ""
        return f"{type(self).__name__}({id}method={self.method!r:.100}, raw_params=<{_size(self.raw_params)} bytes>)"


@final
class Notification(_Incoming, gc=False):
    """A notification from the peer.

    Attributes:
        method: the method name.
        raw_params: the JSON text of ``params`` as received, empty when absent.
    """

    method: str
    raw_params: Raw = field(name="params", default=_ABSENT)
    #: The value, once read. Of a type that no text has.
    _params: UnsetType = UNSET  # type: ignore[assignment]


@final
class Request(_Incoming, gc=False):
    """A request from the peer; it wants exactly one answer.

    Attributes:
        id: the id to answer with.
        method: the method name.
        raw_params: the JSON text of ``params`` as received, empty when absent.
    """

    id: Id
    method: str
    raw_params: Raw = field(name="params", default=_ABSENT)
    _params: UnsetType = UNSET  # type: ignore[assignment]


@final
class Success(_Wire, gc=False):
    """A response that carries a result, still raw."""

    id: Id
    result: Raw


@final
class Failure(msgspec.Struct):
    """A response that carries an error. ``id`` is ``None`` when the peer could not tell for which request."""

    id: Id | None
    error: RpcError


@final
class Malformed(msgspec.Struct):
    """A text that is no message of any kind.

    Attributes:
        error: what is wrong with it.
        reply_id: the id to answer -32600 with (``None``: id null), or ``UNSET`` when it must not be answered.
        answers: the id of the request of ours that it answers, when it is a broken response.
    """

    error: MalformedMessageError
    reply_id: Id | None | UnsetType = UNSET
    answers: Id | UnsetType = UNSET


Message = Request | Notification | Success | Failure | Malformed


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_raw_envelope = msgspec.json.Decoder(_RawEnvelope).decode
_decode_raw = msgspec.json.Decoder(Raw).decode
_UNUSABLE: Final = object()


def decode_message(text: bytes, *, max_depth: int = DEFAULT_MAX_DEPTH) -> Message:
    """Reads one JSON text. Never raises; what cannot be read comes back as ``Malformed``.

    Args:
        text: one whole JSON text in UTF-8, without framing.
        max_depth: the deepest nesting of arrays and objects that is read.
    """
    if not text.isascii() and (flaw := utf8_flaw(text)):
        return _malformed("invalid-utf8", flaw, text)
    # Each level takes two bytes, so a short text cannot be too deep.
    if len(text) > 2 * max_depth and depth_exceeds(text, max_depth):
        return _too_deep(text, max_depth)
    try:
        env: _Envelope | Malformed = _decode_envelope(text)
    except (msgspec.DecodeError, RecursionError):
        env = _read_hard(text)
    if not isinstance(env, _Envelope):
        return env
    method, id = env.method, env.id
    if method is UNSET:
        if type(id) is int and env.result is not _ABSENT and env.error is _ABSENT and env.jsonrpc == "2.0":
            return Success(id, env.result)  # as the next line would, for most answers and with a call less
        return _classify_response(env, text)
    if type(method) is str and env.jsonrpc == "2.0" and env.result is _ABSENT and env.error is _ABSENT:
        if id is UNSET:
            return Notification(method, env.params)
        if type(id) is int or type(id) is str or (id := read_id(id)) is not None:
            return Request(id, method, env.params)
    return _classify_invalid(env, text)


def read_id(value: Any) -> Id | None:
    """The id that a decoded value is, ``None`` when it is none.

    JavaScript has one number type: a peer may write ``1.0`` for ``1``. Beyond 2^53 that is no one id.
    """
    if type(value) is int or type(value) is str:
        return value
    return int(value) if type(value) is float and value.is_integer() and abs(value) <= 2**53 else None


def _classify_response(env: _Envelope, text: bytes) -> Message:
    id, result, error = env.id, env.result, env.error
    if type(id) is not int and type(id) is not str:
        id = read_id(id)
    if env.jsonrpc != "2.0":
        return _classify_invalid(env, text)
    if result is _ABSENT and error is _ABSENT:
        # Some peers answer so when a result is undefined.
        detail = "neither a method nor a result nor an error"
        return _classify_invalid(env, text) if id is None else _malformed("empty", detail, text, id, id)
    # Some peers write `"error": null` beside a result: null says that there is no error.
    failed = error is not _ABSENT and (result is _ABSENT or bytes(error) != b"null")
    if failed and (id is not None or env.id is None):
        return Failure(id, _read_error(error))
    if id is None:
        return _malformed("invalid-response", "its id is neither a string nor an integer", text)
    return Success(id, result)


def _classify_invalid(env: _Envelope, text: bytes) -> Malformed:
    """Valid JSON that is no message: which answer does it get, if any (JSON-RPC 2.0 section 5)?"""
    old = env.jsonrpc != "2.0"
    if env.result is not _ABSENT or env.error is not _ABSENT:
        # Whatever looks like a response is never answered, or two peers could argue without end.
        detail = "jsonrpc is not 2.0" if old else "a method, and a result or an error"
        return _malformed("invalid-response", detail, text)
    detail = "jsonrpc is not 2.0" if old else "no method" if env.method is UNSET else "method is not a string"
    if env.id is UNSET:
        return _malformed("invalid-request", detail, text)
    id = read_id(env.id)
    if id is None:
        return _malformed("invalid-id", "the id is neither a string nor an integer", text, None)
    return _malformed("invalid-request", detail, text, id)


def _read_hard(text: bytes) -> _Envelope | Malformed:
    """A text that the envelope decoder refused: an envelope all the same, or what is wrong with it.

    It may hold lone surrogates, a number that no Python value can hold (1e400), or an id that is an object.
    """
    hidden = hide_surrogates(text) if has_surrogate_escape(text) else text
    try:
        rough = _decode_raw_envelope(hidden)
    except msgspec.ValidationError:
        return _read_no_object(hidden, text)
    except msgspec.DecodeError as exc:
        return _malformed("not-json", str(exc), text)
    except RecursionError:
        return _malformed("too-deep", "deeper than any parser reads", text)
    if hidden is not text:
        rough = _RawEnvelope(*(raw if raw is _ABSENT else Raw(show_surrogates(bytes(raw))) for raw in astuple(rough)))
    jsonrpc, id, method = _scalar(rough.jsonrpc), _scalar(rough.id), _scalar(rough.method)
    return _Envelope(jsonrpc, id, method, rough.params, rough.result, rough.error)


def _scalar(raw: Raw) -> Any:
    """A member that can only be a string, a number or null; anything else is not worth its memory."""
    if raw is _ABSENT:
        return UNSET
    text = bytes(raw)
    if text[0] in b"[{":
        return _UNUSABLE
    try:
        return decode_value(text)
    except InvalidValueError:
        return _UNUSABLE


def _read_no_object(hidden: bytes, text: bytes) -> Malformed:
    try:
        first = bytes(_decode_raw(hidden))[0]
    except msgspec.DecodeError as exc:
        return _malformed("not-json", str(exc), text)
    except RecursionError:
        return _malformed("too-deep", "deeper than any parser reads", text)
    if first == ord("["):
        return _malformed("batch", "batches are not accepted", text, None)
    return _malformed("invalid-request", "not an object", text)


def _malformed(
    kind: MalformedKind,
    detail: str,
    text: bytes,
    reply_id: Id | None | UnsetType = UNSET,
    answers: Id | UnsetType = UNSET,
) -> Malformed:
    return Malformed(MalformedMessageError(kind, detail, text[:200]), reply_id, answers)


def _too_deep(text: bytes, max_depth: int) -> Malformed:
    env = _read_hard(text)
    if isinstance(env, Malformed):
        return env
    id = read_id(env.id)
    answers = id if id is not None and env.method is UNSET and env.jsonrpc == "2.0" else UNSET
    reply_id = _classify_invalid(env, text).reply_id
    return _malformed("too-deep", f"more than {max_depth} levels", text, reply_id, answers)


def _read_error(raw: Raw) -> RpcError:
    """The error object of a response, whatever stands in its place."""
    try:
        value = decode_value(raw)
    except InvalidValueError:
        # It holds a number that no double can.
        text = f"the peer answered with an error that cannot be read: {bytes(raw)[:200]!r}"
        return rpc_error(RpcError.default_code, text)
    if value is None:
        return rpc_error(RpcError.default_code, "the peer answered with neither a result nor an error")
    if not isinstance(value, dict):
        return rpc_error(RpcError.default_code, f"the peer answered with an error that is no object: {value!r:.200}")
    code, message = read_id(value.get("code")), value.get("message")
    if type(message) is not str:
        message = f"the peer answered with an error of code {value.get('code')!r:.40} and no text"
    return rpc_error(code if isinstance(code, int) else RpcError.default_code, message, value.get("data"))


def _size(raw: Raw) -> int:
    return memoryview(raw).nbytes


def _decode_params(raw: Raw) -> Any:
    """Params that the fast decoder refused."""
    if not _size(raw):
        return None  # of a message that was made by hand
    try:
        return decode_value(raw)
    except InvalidValueError as exc:
        raise InvalidParams(data={"path": exc.path, "detail": exc.detail}) from exc


def given(raw: Raw) -> Raw | UnsetType:
    """``raw`` as the params of an envelope; ``UNSET`` when it is empty."""
    return raw if _size(raw) else UNSET


class OutRequest(msgspec.Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    """The envelope of a request; ``params`` as ``encode_request`` says, but for an empty ``Raw`` (``given``)."""

    id: Id
    method: str
    params: Any = UNSET


class OutNotification(msgspec.Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    """The envelope of a notification; as ``OutRequest``."""

    method: str
    params: Any = UNSET


class _OutResponse(msgspec.Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    id: Id
    result: Any


class _OutError(msgspec.Struct, omit_defaults=True):
    code: int
    message: str
    data: Any = None


class _OutFailure(msgspec.Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    id: Id | None
    error: _OutError


def encode_request(id: Id, method: str, params: Any = UNSET) -> bytes:
    """The text of a request.

    ``params``: anything with a JSON form, ``Raw`` as it is; ``UNSET`` and an empty ``Raw`` (the ``raw_params`` of a
    message that had none) are left out.

    Raises:
        UnencodableError: ``params`` have no JSON form.
    """
    return encode_value(OutRequest(id, method, params if type(params) is not Raw else given(params)))


def encode_notification(method: str, params: Any = UNSET) -> bytes:
    """The text of a notification; as ``encode_request``.

    Raises:
        UnencodableError: ``params`` have no JSON form.
    """
    return encode_value(OutNotification(method, params if type(params) is not Raw else given(params)))


def encode_response(id: Id, result: Any) -> bytes:
    """The text of a response.

    Raises:
        UnencodableError: ``result`` has no JSON form.
    """
    return encode_value(_OutResponse(id, result))


def encode_failure(id: Id | None, code: int, message: str, data: Any = None) -> bytes:
    """The text of an error response; ``data`` is left out when ``None``.

    Raises:
        UnencodableError: ``data`` has no JSON form.
    """
    return encode_value(_OutFailure(id, _OutError(code, message, data)))
