"""Texts that came in one read to their messages, for speed: what each is says ``messages``.

Owns: how many are read at once, and the readers for one kind of message. Does not own: what a message is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from typing import Any

import msgspec
from msgspec import UnsetType

from .messages import DEFAULT_MAX_DEPTH, Message, Notification, Request, Success, decode_message
from .values import depth_exceeds, utf8_flaw

__all__ = ("decode_messages",)


class _Unlike(msgspec.Struct, tag_field="jsonrpc", tag=""):
    """What no text can be. In a union with it the tag of the other type must not be left out."""

    nothing: UnsetType


#: From so many texts on it pays to read them as one kind.
_MANY = 8
#: Readers for one kind of message alone, which refuse any text that is not of it, and some that are.
_decode_like: dict[type, Callable[[bytes], Any]] = {
    kind: msgspec.json.Decoder(kind | _Unlike).decode for kind in (Notification, Request, Success)
}


def decode_messages(texts: Sequence[bytes], *, max_depth: int = DEFAULT_MAX_DEPTH) -> Iterable[Message]:
    """Reads texts that came together, each as ``decode_message`` does.

    What one read brings is mostly of one kind. Such texts are read in half the time, all checks included, since the
    codec decides by itself what they are. When it refuses one, or there is more to see to, each is read alone.
    """
    if len(texts) < _MANY:
        return [decode_message(text, max_depth=max_depth) for text in texts]
    message = decode_message(texts[0], max_depth=max_depth)
    rest = texts[1:]
    decode = _decode_like.get(type(message))
    if decode is not None and _are_fit(rest, max_depth):
        try:
            return [message, *map(decode, rest)]
        except (msgspec.DecodeError, RecursionError):
            pass  # then one of them is something else
    # Each in its turn, since what is said of a text that is no message may take a hundred times its memory.
    return chain((message,), (decode_message(text, max_depth=max_depth) for text in rest))


def _are_fit(texts: Sequence[bytes], max_depth: int) -> bool:
    """Whether all are UTF-8, and none is too deep; as in ``decode_message``."""
    short = 2 * max_depth
    if max(map(len, texts)) > short and any(len(text) > short and depth_exceeds(text, max_depth) for text in texts):
        return False
    joined = b"\n".join(texts)  # no character has a line feed in it
    return joined.isascii() or not utf8_flaw(joined)
