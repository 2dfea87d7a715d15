"""A peer without opinions: whole messages in and out, nothing answered, nothing checked.

Owns: a transport as two calls, ``send`` and ``receive``, with back-pressure. Does not own: JSON-RPC; for that there is
``McplConnection``. It is for tests that want to say exactly what is on the wire.
"""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Any, Self

import anyio
from anyio.abc import TaskGroup

from ..errors import ConnectionClosedError, LocalProtocolError, MalformedMessageError, TransportError
from ..transports.base import Transport
from ..transports.loop import Gate, current_loop
from ..wire.values import encode_value

__all__ = ("RawPeer",)

#: Bytes that nobody received yet, past which reading is paused.
_HIGH_WATER = 1024 * 1024


class RawPeer:
    """Sends and receives whole messages. An async context manager, entered once.

    Args:
        transport: what carries the messages; owned by this one.

    Attributes:
        malformed: frames that were no message.
    """

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.malformed: list[MalformedMessageError] = []
        self._inbox: deque[bytes] = deque()
        self._inbox_bytes = 0
        self._paused = False
        self._ended = False
        self._error: TransportError | None = None
        self._tasks: TaskGroup | None = None
        self._arrived: Gate | None = None

    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            raise LocalProtocolError("a peer is entered once")
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        loop = current_loop(self._tasks)
        self._arrived = Gate(loop)
        try:
            await self.transport.start(self, loop)
        except BaseException:
            await self._leave()
            raise
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self._leave()

    async def _leave(self) -> None:
        assert self._tasks is not None
        try:
            await self.transport.aclose()
        finally:
            # The caller's exception is not handed to the group: it would come back wrapped in an ExceptionGroup.
            self._tasks.cancel_scope.cancel()
            await self._tasks.__aexit__(None, None, None)

    async def send(self, message: bytes | str | dict[str, Any]) -> None:
        """Sends a text, or a value to encode; waits while the peer does not keep up. Once nothing can be sent any
        more it does nothing."""
        if isinstance(message, str):
            message = message.encode()
        self.transport.write(message if isinstance(message, bytes) else encode_value(message))
        await self.transport.drain()

    async def send_eof(self) -> None:
        """Ends the output; a carrier that cannot end one direction alone says goodbye."""
        await self.transport.send_eof()

    async def receive(self) -> bytes:
        """The next message. Cancelling it loses none.

        Raises:
            ConnectionClosedError: nothing more comes; ``reason`` is why, when something failed.
            LocalProtocolError: the peer was not entered.
        """
        if self._arrived is None:
            raise LocalProtocolError("the peer was not entered (async with)")
        while not self._inbox:
            if self._ended:
                raise ConnectionClosedError(None, self._error)
            await self._arrived.wait()
        message = self._inbox.popleft()
        self._inbox_bytes -= len(message)
        if self._paused and not self._inbox:
            self._paused = False
            self.transport.resume_reading()
        return message

    # -- the sink of the transport

    def messages_received(self, messages: list[bytes]) -> None:
        """See ``Sink``."""
        self._inbox += messages
        self._inbox_bytes += sum(map(len, messages))
        if self._inbox_bytes > _HIGH_WATER and not self._paused:
            self._paused = True
            self.transport.pause_reading()
        self._tell()

    def message_malformed(self, error: MalformedMessageError) -> None:
        """See ``Sink``."""
        self.malformed.append(error)

    def input_ended(self, error: TransportError | None) -> None:
        """See ``Sink``."""
        self._ended = True
        self._error = error or self._error
        self._tell()

    def output_failed(self, error: TransportError | None) -> None:
        """See ``Sink``. What the peer still says can be received; why nothing can be sent is told after it."""
        self._error = self._error or error

    def _tell(self) -> None:
        if self._arrived is not None:
            self._arrived.open()
