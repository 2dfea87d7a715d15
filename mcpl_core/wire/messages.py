"""One JSON text to one message, and back (JSON-RPC 2.0).

Owns: envelope decoding and classification, and the envelopes we write. Params and results stay
``msgspec.Raw`` until somebody asks. Does not own: the reading and writing of values (``values``), who a
message is for (``peer``), what its params mean (``protocol``).
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ..errors import (
    InvalidParams,
    InvalidValueError,
    MalformedKind,
    MalformedMessageError,
    RpcError,
    rpc_error,
)
from .values import (
    decode_value,
    depth_exceeds,
    dump_ascii,
    encode_value,
    has_surrogate_escape,
    load_lenient,
    utf8_flaw,
)

__all__ = (
    "DEFAULT_MAX_DEPTH",
    "Failure",
    "Id",
    "Malformed",
    "Message",
    "Notification",
    "Request",
    "Success",
    "decode_message",
    "encode_failure",
    "encode_notification",
    "encode_request",
    "encode_response",
)

#: Arrays and objects inside each other. Far above any real message, far below every parser's own limit.
DEFAULT_MAX_DEPTH = 256

#: A JSON-RPC id. ``1`` and ``"1"`` are different ids.
Id = int | str

_ABSENT: Final = Raw(b"")


class _Envelope(msgspec.Struct, gc=False):
    """Every member loosely typed: what is wrong with one is said by classification, not by the parser."""

    jsonrpc: Any = UNSET
    id: Any = UNSET
    method: Any = UNSET
    params: Raw = _ABSENT
    result: Raw = _ABSENT
    error: Raw = _ABSENT


class _Incoming(msgspec.Struct):
    """What requests and notifications share: params that are read only when somebody asks."""

    @property
    def params(self: Any) -> Any:
        """The plain JSON value of ``params``, decoded on first use; ``None`` when absent or null.

        Raises:
            InvalidParams: params are neither an object nor an array, or hold a number that no double can.
        """
        if self._params is UNSET:
            self._params = _decode_params(self.raw_params)
        return self._params


class Notification(_Incoming):
    """A notification from the peer.

    Attributes:
        method: the method name.
        raw_params: the JSON text of ``params`` as received, empty when absent.
    """

    method: str
    raw_params: Raw = _ABSENT
    _params: Any = UNSET


class Request(_Incoming):
    """A request from the peer; it wants exactly one answer.

    Attributes:
        id: the id to answer with.
        method: the method name.
        raw_params: the JSON text of ``params`` as received, empty when absent.
    """

    id: Id
    method: str
    raw_params: Raw = _ABSENT
    _params: Any = UNSET


class Success(msgspec.Struct, gc=False):
    """A response that carries a result, still raw."""

    id: Id
    result: Raw


class Failure(msgspec.Struct):
    """A response that carries an error. ``id`` is ``None`` when the peer could not tell for which request."""

    id: Id | None
    error: RpcError


class Malformed(msgspec.Struct):
    """A text that is no message of any kind.

    Attributes:
        error: what is wrong with it.
        reply_id: the id to answer -32600 with (``None``: id null), or ``UNSET`` when it must not be answered.
    """

    error: MalformedMessageError
    reply_id: Id | None | UnsetType = UNSET


Message = Request | Notification | Success | Failure | Malformed


_decode_envelope = msgspec.json.Decoder(_Envelope).decode
_decode_members = msgspec.json.Decoder(dict[str, Raw]).decode
_decode_any = msgspec.json.Decoder().decode
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
        return _classify_response(env, text)
    if type(method) is str and env.jsonrpc == "2.0" and env.result is _ABSENT and env.error is _ABSENT:
        if id is UNSET:
            return Notification(method, env.params)
        if type(id) is int or type(id) is str or (id := _whole(id)) is not None:
            return Request(id, method, env.params)
    return _classify_invalid(env, text)


def _classify_response(env: _Envelope, text: bytes) -> Message:
    result, error = env.result, env.error
    if result is _ABSENT and error is _ABSENT:
        return _classify_invalid(env, text)
    if env.jsonrpc != "2.0":
        return _malformed("invalid-response", "jsonrpc is not 2.0", text)
    id = env.id if type(env.id) is int or type(env.id) is str else _whole(env.id)
    # Some peers write `"error": null` beside a result: null says that there is no error.
    failed = error is not _ABSENT and (result is _ABSENT or bytes(error) != b"null")
    if failed and (id is not None or env.id is None):
        return Failure(id, _read_error(error))
    if id is None:
        return _malformed("invalid-response", "its id is neither a string nor an integer", text)
    return Success(id, result)


def _classify_invalid(env: _Envelope, text: bytes) -> Malformed:
    """Valid JSON that is no message: which answer does it get, if any (JSON-RPC 2.0 section 5)?"""
    if env.result is not _ABSENT or env.error is not _ABSENT:
        # Whatever looks like a response is never answered, or two peers could argue without end.
        return _malformed("invalid-response", "it has a method and a result or an error", text)
    detail = "jsonrpc is not 2.0" if env.jsonrpc != "2.0" else "method is not a string"
    if env.id is UNSET:
        return _malformed("invalid-request", detail, text)
    id = env.id if type(env.id) is int or type(env.id) is str else _whole(env.id)
    if id is None:
        return _malformed("invalid-id", "the id is neither a string nor an integer", text, None)
    return _malformed("invalid-request", detail, text, id)


def _read_hard(text: bytes) -> _Envelope | Malformed:
    """A text that the envelope decoder refused: an envelope all the same, or what is wrong with it."""
    if has_surrogate_escape(text):
        return _read_escaped(text)
    try:
        # An object with a member that no Python value can hold (1e400): read the members one by one.
        members = _decode_members(text)
    except msgspec.ValidationError:
        pass
    except msgspec.DecodeError as exc:
        return _malformed("not-json", str(exc), text)
    except RecursionError:
        return _malformed("too-deep", "deeper than any parser reads", text)
    else:
        loose = {name: members[name] for name in ("params", "result", "error") if name in members}
        return _Envelope(**{name: _scalar(members, name) for name in ("jsonrpc", "id", "method")}, **loose)
    try:
        return _not_an_object(_decode_any(text), text)
    except (msgspec.DecodeError, RecursionError) as exc:
        return _malformed("not-json", str(exc), text)


def _scalar(members: dict[str, Raw], name: str) -> Any:
    if name not in members:
        return UNSET
    try:
        return _decode_any(members[name])
    except msgspec.DecodeError:
        return _UNUSABLE


def _read_escaped(text: bytes) -> _Envelope | Malformed:
    """A text with surrogate escapes, which only ``json`` reads when they stand alone."""
    try:
        value = load_lenient(text)
    except (ValueError, RecursionError) as exc:
        return _malformed("not-json", str(exc), text)
    if not isinstance(value, dict):
        return _not_an_object(value, text)
    loose = {name: Raw(dump_ascii(value[name])) for name in ("params", "result", "error") if name in value}
    return _Envelope(**{name: value.get(name, UNSET) for name in ("jsonrpc", "id", "method")}, **loose)


def _not_an_object(value: Any, text: bytes) -> Malformed:
    if isinstance(value, list):
        return _malformed("batch", "batches are not accepted", text, None)
    return _malformed("invalid-request", "not an object", text)


def _malformed(kind: MalformedKind, detail: str, text: bytes, reply_id: Id | None | UnsetType = UNSET) -> Malformed:
    return Malformed(MalformedMessageError(kind, detail, text[:200]), reply_id)


def _whole(id: Any) -> int | None:
    """JavaScript has one number type: a peer may write ``1.0`` for ``1``. Beyond 2^53 that is no one id."""
    return int(id) if type(id) is float and id.is_integer() and abs(id) <= 2**53 else None


def _too_deep(text: bytes, max_depth: int) -> Malformed:
    reply_id: Id | UnsetType = UNSET
    try:
        env = _decode_envelope(text)
    except (msgspec.DecodeError, RecursionError):
        pass
    else:
        invalid = _classify_invalid(env, text)
        if invalid.reply_id is not None:
            reply_id = invalid.reply_id
    return _malformed("too-deep", f"more than {max_depth} levels", text, reply_id)


def _read_error(raw: Raw) -> RpcError:
    """The error object of a response, whatever stands in its place."""
    try:
        value = decode_value(raw)
    except InvalidValueError:
        value = bytes(raw)[:200]
    if value is None:
        return rpc_error(RpcError.default_code, "the peer answered with neither a result nor an error")
    if not isinstance(value, dict):
        return rpc_error(RpcError.default_code, f"the peer answered with an error that is no object: {value!r:.200}")
    code, message = value.get("code"), value.get("message")
    if type(code) is not int:
        whole = _whole(code)
        code = RpcError.default_code if whole is None else whole
    if type(message) is not str:
        message = f"the peer answered with an error of code {value.get('code')!r} and no text"
    return rpc_error(code, message, value.get("data"))


def _decode_params(raw: Raw) -> Any:
    if raw is _ABSENT:
        return None
    try:
        value = decode_value(raw)
    except InvalidValueError as exc:
        raise InvalidParams(data={"path": exc.path, "detail": exc.detail}) from exc
    if value is not None and not isinstance(value, dict | list):
        raise InvalidParams(data={"path": "$", "detail": "params are neither an object nor an array"})
    return value


class _OutRequest(msgspec.Struct, tag_field="jsonrpc", tag="2.0", gc=False):
    id: Id
    method: str
    params: Any = UNSET


class _OutNotification(msgspec.Struct, tag_field="jsonrpc", tag="2.0", gc=False):
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
    """The text of a request. ``params``: anything with a JSON form, ``Raw`` as it is; ``UNSET``: left out.

    Raises:
        UnencodableError: ``params`` have no JSON form.
    """
    return encode_value(_OutRequest(id, method, params))


def encode_notification(method: str, params: Any = UNSET) -> bytes:
    """The text of a notification; as ``encode_request``.

    Raises:
        UnencodableError: ``params`` have no JSON form.
    """
    return encode_value(_OutNotification(method, params))


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
