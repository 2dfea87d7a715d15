"""The family ``framing``: what one side of a new connection makes of bytes that arrive.

Owns: running such a case, in one piece and in others, and its answer as plain JSON. Does not own: what any byte
means (``wire``).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import UNSET

from ..errors import InvalidParams, MalformedMessageError, RpcError
from ..wire.framing import DEFAULT_MAX_MESSAGE_BYTES, LineDecoder
from ..wire.messages import DEFAULT_MAX_DEPTH, Notification, Request
from ..wire.peer import Answer, Event, Peer, Refusal, Stray
from ..wire.values import decode_value, encode_value

__all__ = ("framing_answer",)

_TAIL = {"type": "notification", "method": "tail"}
_TAIL_LINE = b'\n{"jsonrpc":"2.0","method":"tail"}\n'


def framing_answer(given: Mapping[str, Any]) -> dict[str, Any]:
    """The messages, problems and answers of a case.

    The bytes are fed whole, byte by byte, and with another message behind them. Where one of these differs, it is
    what comes back.
    """
    data = base64.b64decode(given["base64"], validate=True) if "base64" in given else given["text"].encode()
    whole = _Side(given, data).take([data])
    drip = _Side(given, data).take(data[at : at + 1] for at in range(len(data)))
    tailed = _Side(given, data).take([data + _TAIL_LINE])
    if tailed["messages"][-1:] == [_TAIL]:
        del tailed["messages"][-1]
    return next((answer for answer in (drip, tailed) if answer != whole), whole)


class _Side:
    """One side of a connection that has sent ``requests`` requests."""

    def __init__(self, given: Mapping[str, Any], data: bytes) -> None:
        limit = given.get("maxMessageBytes", DEFAULT_MAX_MESSAGE_BYTES)
        self._data = data
        self._decoder = LineDecoder(limit)
        self._peer: Peer[int] = Peer(max_message_bytes=limit, max_depth=given.get("maxDepth", DEFAULT_MAX_DEPTH))
        for number in range(given.get("requests", 0)):
            self._peer.request("m", UNSET, number + 1)
        self._messages: list[dict[str, Any]] = []
        self._problems: list[str] = []
        self._answers: list[dict[str, Any]] = []

    def take(self, chunks: Iterable[bytes]) -> dict[str, Any]:
        for chunk in chunks:
            self._receive(self._decoder.feed(chunk))
        self._receive(self._decoder.finish())
        problems = sorted(self._problems + [error.kind for error in self._decoder.errors])
        return {"messages": self._messages, "problems": problems, "answers": self._answers}

    def _receive(self, texts: list[bytes]) -> None:
        for text in texts:
            self._note(self._peer.receive(text))

    def _note(self, event: Event[int]) -> None:
        if isinstance(event, Request):
            self._messages.append({"type": "request", "id": _portable(event.id), **_content(event)})
        elif isinstance(event, Notification):
            self._messages.append({"type": "notification", **_content(event)})
        elif isinstance(event, Answer):
            result = _portable(decode_value(event.result))
            self._messages.append({"type": "result", "id": event.waiter, "result": result})
        elif isinstance(event, Refusal):
            self._messages.append({"type": "error", "id": event.waiter, **self._error(event.error)})
        elif isinstance(event, Stray):
            self._messages.append({"type": "stray", "id": _portable(event.id)})
        elif isinstance(event.error, MalformedMessageError):
            self._problems.append(event.error.kind)
            if event.reply is not None:
                reply = decode_value(event.reply)
                self._answers.append({"id": _portable(reply["id"]), "code": reply["error"]["code"]})
        else:
            self._messages.append({"type": "error", "id": None, **self._error(event.error)})

    def _error(self, error: RpcError) -> dict[str, Any]:
        members: dict[str, Any] = {"code": error.code}
        if error.message.encode() in self._data:
            # The peer's own words; what we say in their place is ours to choose.
            members["message"] = error.message
        return members if error.data is None else members | {"data": _portable(error.data)}


def _content(message: Request | Notification) -> dict[str, Any]:
    members: dict[str, Any] = {"method": _portable(message.method)}
    try:
        params = message.params
    except InvalidParams as error:
        return members | {"paramsError": error.code}
    return members | {"params": _portable(params)} if bytes(message.raw_params) else members


def _portable(value: Any) -> Any:
    """Not every JSON reader keeps large integers and lone surrogates: those are given as JSON text."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return {"json": encode_value(value).decode()}
    return {"json": str(value)} if isinstance(value, int) and abs(value) > 2**53 else value
