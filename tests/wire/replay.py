"""One function that runs a codec case whole, byte by byte, and with another message behind it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from msgspec import UNSET

from mcpl_core.errors import MalformedMessageError
from mcpl_core.wire.framing import DEFAULT_MAX_MESSAGE_BYTES, LineDecoder
from mcpl_core.wire.messages import Notification, Request
from mcpl_core.wire.peer import Answer, Event, Peer, Refusal, Stray
from mcpl_core.wire.values import decode_value

TAIL = b'{"jsonrpc":"2.0","method":"tail"}'


class Lines(NamedTuple):
    """What a byte stream holds: its messages, and how often a line was too long."""

    messages: list[bytes]
    too_long: int = 0


def split(chunks: Iterable[bytes], limit: int = DEFAULT_MAX_MESSAGE_BYTES) -> Lines:
    """The lines of these chunks, in one go."""
    decoder = LineDecoder(limit)
    lines = [line for chunk in chunks for line in decoder.feed(chunk)]
    lines += decoder.finish()
    assert decoder.finish() == []
    assert {error.kind for error in decoder.errors} <= {"too-long"}
    return Lines(lines, len(decoder.errors))


def replay(data: bytes, limit: int = DEFAULT_MAX_MESSAGE_BYTES) -> Lines:
    """The lines of ``data``, which are the same in whatever pieces it comes."""
    whole = split([data], limit)
    assert split((data[at : at + 1] for at in range(len(data))), limit) == whole
    tail = TAIL[:limit]
    tailed = split([data + b"\n" + tail + b"\n"], limit)
    assert tailed == (whole.messages + [tail], whole.too_long)
    return whole


def summary(event: Event[Any]) -> tuple[Any, ...]:
    """An event as plain facts that can be compared."""
    if isinstance(event, Request):
        return ("request", event.id, event.method, bytes(event.raw_params))
    if isinstance(event, Notification):
        return ("notification", event.method, bytes(event.raw_params))
    if isinstance(event, Answer):
        return ("answer", event.waiter, bytes(event.result))
    if isinstance(event, Refusal):
        return ("refusal", event.waiter, event.error.code, event.error.message, event.error.data)
    if isinstance(event, Stray):
        return ("stray", event.id)
    reply = None if event.reply is None else decode_value(event.reply)
    if reply is not None:
        assert reply["jsonrpc"] == "2.0" and reply["error"]["code"] == -32600
    kind = event.error.kind if isinstance(event.error, MalformedMessageError) else event.error.code
    return ("problem", kind, reply["id"] if reply is not None else UNSET)


def receive_all(peer: Peer[Any], lines: Iterable[bytes]) -> list[tuple[Any, ...]]:
    """What a peer makes of these texts."""
    return [summary(peer.receive(line)) for line in lines]
