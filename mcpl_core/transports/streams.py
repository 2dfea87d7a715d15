"""Messages as lines over byte streams that the caller brings.

Owns: which engine serves which kind of stream. Does not own: the caller's input, which is never closed here; the
output is released once, by ``aclose``.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

from anyio.abc import ByteReceiveStream, ByteSendStream

from ..wire.framing import DEFAULT_MAX_MESSAGE_BYTES
from .base import DEFAULT_CLOSE_TIMEOUT, Transport
from .byte_streams import (
    AnyioSink,
    AnyioSource,
    ByteSink,
    ByteSource,
    StreamReaderSource,
    StreamWriterSink,
    TaskInput,
    TaskOutput,
)
from .files import BinaryFile, FileSink, FileSource, is_binary_file
from .lines import LineTransport
from .loop import EventLoop

if TYPE_CHECKING:
    from trio.abc import ReceiveStream, SendStream

__all__ = ("ReceiveFrom", "SendTo", "StreamTransport", "stream_transport")

#: What messages can be received from.
ReceiveFrom: TypeAlias = "ByteReceiveStream | asyncio.StreamReader | BinaryFile | ReceiveStream"
#: What messages can be sent to.
SendTo: TypeAlias = "ByteSendStream | asyncio.StreamWriter | BinaryFile | SendStream"

_KINDS = "an AnyIO or trio byte stream, an asyncio {} or a binary file object"


class StreamTransport(LineTransport):
    """Lines over a pair of byte streams.

    Args:
        receive: where messages come from. It stays the caller's and is never closed.
        send: where messages go to. ``aclose`` closes it.
        max_message_bytes: the longest incoming message, in bytes; a longer one is skipped and reported.
        close_timeout: seconds that ``aclose`` may take to send what was written.

    Raises:
        TypeError: one of the two is no byte stream that is known here.
    """

    name = "stream"

    def __init__(
        self,
        receive: ReceiveFrom,
        send: SendTo,
        *,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        close_timeout: float = DEFAULT_CLOSE_TIMEOUT,
    ) -> None:
        super().__init__(max_message_bytes=max_message_bytes, close_timeout=close_timeout)
        self._source = _source_for(receive)
        self._sink_for = _sink_for(send)

    async def _open(self, loop: EventLoop) -> None:
        self._output = TaskOutput(self, loop, self._sink_for(loop))
        self._input = TaskInput(self, loop, self._source(loop))


def stream_transport(
    receive: ReceiveFrom,
    send: SendTo | None = None,
    *,
    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
    close_timeout: float = DEFAULT_CLOSE_TIMEOUT,
) -> Transport:
    """A transport over byte streams that are open already.

    Args:
        receive: an AnyIO ``ByteReceiveStream``, an asyncio ``StreamReader``, a binary file object that can be read,
            or a trio ``ReceiveStream``. It is never closed. A file object is read by a thread, and what that thread
            has read and nobody has taken when the transport closes is lost to the caller.
        send: an AnyIO ``ByteSendStream``, an asyncio ``StreamWriter``, a binary file object that can be written, or a
            trio ``SendStream``; left out: ``receive``, which then goes both ways.
        max_message_bytes: the longest incoming message, in bytes; a longer one is skipped and reported.
        close_timeout: seconds that ``aclose`` may take to send what was written.

    Raises:
        TypeError: one of the two is no byte stream that is known here.
    """
    return StreamTransport(
        receive,
        receive if send is None else send,  # type: ignore[arg-type]  # whether it can send is found out there
        max_message_bytes=max_message_bytes,
        close_timeout=close_timeout,
    )


def _trio_kind(stream: object, name: str) -> bool:
    """Whether this is trio's own stream; trio is not imported for the question."""
    trio = sys.modules.get("trio")
    return trio is not None and isinstance(stream, getattr(trio.abc, name))


def _source_for(stream: Any) -> Callable[[EventLoop], ByteSource]:
    if isinstance(stream, ByteReceiveStream):
        return lambda _: AnyioSource(stream)
    if isinstance(stream, asyncio.StreamReader):
        return lambda _: StreamReaderSource(stream)
    if is_binary_file(stream):
        return lambda loop: FileSource(loop, stream)
    if _trio_kind(stream, "ReceiveStream"):
        # Only when trio is there.
        from .trio_streams import TrioSource

        return lambda _: TrioSource(stream, owned=False)
    raise TypeError(f"messages come from {_KINDS.format('StreamReader')}, not from {_describe(stream)}")


def _sink_for(stream: Any) -> Callable[[EventLoop], ByteSink]:
    if isinstance(stream, ByteSendStream):
        return lambda _: AnyioSink(stream)
    if isinstance(stream, asyncio.StreamWriter):
        return lambda _: StreamWriterSink(stream)
    if is_binary_file(stream):
        return lambda loop: FileSink(loop, stream)
    if _trio_kind(stream, "SendStream"):
        from .trio_streams import TrioSink

        return lambda _: TrioSink(stream)
    raise TypeError(f"messages go to {_KINDS.format('StreamWriter')}, not to {_describe(stream)}")


def _describe(stream: object) -> str:
    if hasattr(stream, "buffer"):  # sys.stdin
        return f"a text stream; its .buffer is a binary file object ({stream!r})"
    return repr(stream)
