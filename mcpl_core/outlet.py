"""The way out: texts handed to the transport in the order of the calls, and who waits when it does not keep up.

Owns: what was sent (counted), the tasks that wait until the transport has caught up, and how much may wait for the
peer with no task behind it: from those who answer straight from the read callback, and from those who gave up. Does
not own: what may be sent and what it looks like (``wire.peer``), and how bytes travel (``transports``).
"""

from __future__ import annotations

from collections.abc import Callable

from anyio.lowlevel import checkpoint

from .errors import TransportError
from .transports.base import Transport
from .transports.loop import EventLoop, Gate, name_library

__all__ = ("TURN", "Outlet")

#: Calls in a row that did not have to wait, after which one gives the other tasks their turn.
TURN = 128


class Outlet:
    """The output of one connection.

    Args:
        transport: what takes the texts.
        hard_bytes: how much may wait that was written by ``push``, or that its sender gave up.
        failed: called with the reason when more than that waits; it closes the connection.
        relieved: called when the transport has caught up after a ``push`` that found it behind.
    """

    __slots__ = (
        "_failed",
        "_gate",
        "_given_up",
        "_hard_bytes",
        "_loop",
        "_relieved",
        "_transport",
        "_watched",
        "pushed",
        "sent",
    )

    def __init__(
        self,
        transport: Transport,
        hard_bytes: int,
        failed: Callable[[TransportError], object],
        relieved: Callable[[], object],
    ) -> None:
        self._transport = transport
        self._hard_bytes = hard_bytes
        self._failed = failed
        self._relieved = relieved
        self._loop: EventLoop | None = None
        self._gate: Gate | None = None
        self._watched = False
        self.sent = 0
        #: Bytes written by ``push`` since the transport fell behind.
        self.pushed = 0
        #: Bytes of others who stopped waiting, since then. They do not keep us from reading.
        self._given_up = 0

    def start(self, loop: EventLoop) -> None:
        """From now on there is somebody to wait."""
        self._loop = loop
        self._gate = Gate(loop)

    def write(self, text: bytes) -> bool:
        """Hands a text over at once. Whether its sender should now ``rest``, unless it waits for something else, as a
        request does for its answer. (Two calls, for the sake of the many texts after which nobody has to.)"""
        self.sent += 1
        self._transport.write(text)
        return self._transport.behind or not self.sent % TURN

    async def rest(self, size: int) -> None:
        """Returns when the transport has caught up or its output ended, and not before the others had their turn.
        ``size``: of the text that the caller wrote."""
        if self._transport.behind:
            try:
                await self.caught_up()
            except BaseException:
                self.give_up(size)
                raise
        else:
            await checkpoint()

    def push(self, text: bytes) -> None:
        """Hands a text over for somebody who cannot wait. A peer that reads nothing closes the connection."""
        self.write(text)
        if self._transport.behind:
            self.pushed += len(text)
            self._check()

    def give_up(self, size: int) -> None:
        """Somebody who handed over ``size`` bytes waits no longer. Who does so again and again at a peer that reads
        nothing would fill our memory: the connection closes."""
        if self._transport.behind:
            self._given_up += size
            self._check()

    def _check(self) -> None:
        waiting = self.pushed + self._given_up
        if waiting > self._hard_bytes:
            self._failed(TransportError(f"the peer does not read; {waiting} bytes wait for it and nobody for them"))
        else:
            self._watch()

    async def caught_up(self) -> None:
        """Returns when the transport is not behind any more, or its output ended."""
        if self._transport.behind and self._gate is not None:
            self._watch()
            await self._gate.wait()

    def _watch(self) -> None:
        # One task for all that wait, and one for each time that the transport falls behind.
        if not self._watched and self._loop is not None:
            self._watched = True
            name_library()
            self._loop.tasks.start_soon(self._drain, name="mcpl drain")

    async def _drain(self) -> None:
        try:
            await self._transport.drain()
        finally:
            self._watched = False
            self.release()

    def release(self) -> None:
        """Lets everybody go on who waits."""
        if self._gate is not None:
            self._gate.open()
        self._given_up = 0
        if self.pushed:
            self.pushed = 0
            self._relieved()
