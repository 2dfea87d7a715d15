"""A transport with somebody listening: every message in either direction is shown to an observer.

Owns: the wrapping. Does not own: what the observer does with it (a transcript, a recording). Messages pass through
untouched and in order; an observer that raises is told to the ``mcpl_core`` logger and loses nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Literal, TypeAlias

from ..errors import MalformedMessageError, TransportError
from .base import Sink, Transport
from .loop import EventLoop

__all__ = ("Direction", "TapObserver", "TappedTransport")

_logger = logging.getLogger("mcpl_core")

Direction: TypeAlias = Literal["sent", "received"]
TapObserver: TypeAlias = Callable[[Direction, bytes], object]


class TappedTransport(Transport):
    """Another transport, with an observer.

    Args:
        transport: what carries the messages; owned by this one.
        observer: called with ``"sent"`` or ``"received"`` and the text of each message.
    """

    def __init__(self, transport: Transport, observer: TapObserver) -> None:
        super().__init__(max_message_bytes=transport.max_message_bytes, close_timeout=transport.close_timeout)
        self.name = transport.name
        self.inner = transport
        self._observer = observer
        self._sink: Sink | None = None

    async def start(self, sink: Sink, loop: EventLoop) -> None:
        self._sink = sink
        await self.inner.start(self, loop)
        self.name = self.inner.name

    def write(self, message: bytes) -> None:
        self._show("sent", message)
        self.inner.write(message)

    @property
    def behind(self) -> bool:
        return self.inner.behind

    async def drain(self) -> None:
        await self.inner.drain()

    def pause_reading(self) -> None:
        self.inner.pause_reading()

    def resume_reading(self) -> None:
        self.inner.resume_reading()

    async def send_eof(self) -> None:
        await self.inner.send_eof()

    async def aclose(self) -> None:
        await self.inner.aclose()

    # -- the sink of the inner transport

    def messages_received(self, messages: list[bytes]) -> None:
        """See ``Sink``."""
        for message in messages:
            self._show("received", message)
        if self._sink is not None:
            self._sink.messages_received(messages)

    def message_malformed(self, error: MalformedMessageError) -> None:
        """See ``Sink``."""
        if self._sink is not None:
            self._sink.message_malformed(error)

    def input_ended(self, error: TransportError | None) -> None:
        """See ``Sink``."""
        if self._sink is not None:
            self._sink.input_ended(error)

    def output_failed(self, error: TransportError | None) -> None:
        """See ``Sink``."""
        if self._sink is not None:
            self._sink.output_failed(error)

    def _show(self, direction: Direction, message: bytes) -> None:
        try:
            self._observer(direction, message)
        except Exception:
            _logger.exception("%s: a tap failed", self.name)
