"""Messages as lines over two halves: an input that pushes bytes, an output that takes them.

Owns: the framing of every byte-stream transport, the order of closing (each end told at most once, nothing after
``aclose`` began), and how ``aclose`` is shared, bounded and cancelled. Does not own: where the bytes come from and
go to; each engine (event loop protocols, tasks, threads) is an ``Input`` and an ``Output``, and the two need not be
of the same kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Protocol

import anyio

from ..errors import LocalProtocolError, TransportError
from ..wire.framing import DEFAULT_MAX_MESSAGE_BYTES, LineDecoder
from .base import DEFAULT_CLOSE_TIMEOUT, Sink, Transport
from .loop import EventLoop

__all__ = (
    "JOIN_BYTES",
    "LINGER",
    "READ_SIZE",
    "Input",
    "InputEvents",
    "LineTransport",
    "Output",
    "OutputEvents",
    "transport_error",
)

#: Bytes of one read. Larger reads make a sequential exchange slower, not faster.
READ_SIZE = 64 * 1024

#: Bytes of short messages that are joined into one write; a message longer than this is never copied to join it.
JOIN_BYTES = 64 * 1024

#: Seconds that a socket which is closed waits for the peer to close its side, too. A socket closed while the peer still
#: sends is reset, and the reset can overtake what was sent last.
LINGER = 0.25

#: Seconds for letting go of descriptors once everything is aborted. Only a foreign file object that blocks
#: inside its own code can use them up.
_RELEASE_TIMEOUT = 1.0


class InputEvents(Protocol):
    """What an input tells."""

    def data_received(self, data: bytes, /) -> None:
        """Bytes, at least one."""

    def input_lost(self, cause: BaseException | None, /) -> None:
        """No more bytes come. ``cause``: what failed; ``None``: the end, or somebody closed it under us."""


class OutputEvents(Protocol):
    """What an output tells, and the flag that it keeps."""

    #: More than ``WRITE_HIGH_WATER`` bytes wait.
    behind: bool

    def output_lost(self, cause: BaseException | None, /) -> None:
        """No more bytes can go out, other than by ``send_eof``, ``finish`` or ``abort``."""


class Input(ABC):
    """One direction: bytes that come in. Owns what it was made of, also before ``begin``."""

    #: Bytes that were read and not told yet, because of ``pause``.
    held = 0

    @abstractmethod
    async def begin(self) -> None:
        """Begins to tell. What it has to tell may come before this returns."""

    @abstractmethod
    def pause(self) -> None:
        """No more ``data_received`` after what was already read."""

    @abstractmethod
    def resume(self) -> None:
        """Undoes ``pause``."""

    @abstractmethod
    def stop(self) -> None:
        """Begins to let go of the input. Idempotent."""

    @abstractmethod
    async def released(self) -> None:
        """Returns when ``stop`` is done."""


class Output(ABC):
    """One direction: lines that go out. Owns what it was made of, also before ``begin``."""

    @abstractmethod
    async def begin(self) -> None:
        """Begins to send."""

    @abstractmethod
    def write(self, message: bytes) -> None:
        """As ``Transport.write``."""

    def hold(self) -> None:  # noqa: B027 - an output that has nothing to join needs neither
        """Messages written from now on may be joined, until ``let_go``. Never nested."""

    def let_go(self) -> None:  # noqa: B027
        """Ends ``hold`` and sends what it joined."""

    @abstractmethod
    async def drain(self) -> None:
        """As ``Transport.drain``."""

    @abstractmethod
    async def send_eof(self) -> None:
        """As ``Transport.send_eof``."""

    @abstractmethod
    async def finish(self) -> None:
        """Sends what was written, however long that takes, and closes. The caller sets the bound."""

    @abstractmethod
    def abort(self) -> None:
        """Drops what was not sent and begins to let go. Idempotent; may follow ``finish``."""

    @abstractmethod
    async def released(self) -> None:
        """Returns when ``finish`` or ``abort`` is done."""


class _Nothing(Input, Output):
    """Stands for a half that was not opened."""

    async def begin(self) -> None: ...

    def pause(self) -> None: ...

    def resume(self) -> None: ...

    def stop(self) -> None: ...

    def write(self, message: bytes) -> None: ...

    async def drain(self) -> None: ...

    async def send_eof(self) -> None: ...

    async def finish(self) -> None: ...

    def abort(self) -> None: ...

    async def released(self) -> None: ...


def transport_error(name: str, cause: BaseException) -> TransportError:
    """What the carrier ``name`` failed with, ``cause`` being its ``__cause__``."""
    text = (cause.strerror if isinstance(cause, OSError) else None) or str(cause) or type(cause).__name__
    error = TransportError(f"{name}: {text}")
    error.__cause__ = cause
    return error


class LineTransport(Transport):
    """A transport whose messages are lines; subclasses open the two halves.

    Args:
        max_message_bytes: the longest incoming message, in bytes; a longer line is skipped and reported.
        close_timeout: seconds that ``aclose`` may take to send what was written.
    """

    # A plain attribute, kept by the output: a property would be a call more for each message.
    behind = False

    _sink: Sink
    _loop: EventLoop

    def __init__(
        self,
        *,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        close_timeout: float = DEFAULT_CLOSE_TIMEOUT,
    ) -> None:
        super().__init__(max_message_bytes=max_message_bytes, close_timeout=close_timeout)
        nothing = _Nothing()
        self._input: Input = nothing
        self._output: Output = nothing
        self._decoder = LineDecoder(max_message_bytes)
        self._begun = False
        self._started = False
        self._input_told = False
        self._output_told = False
        #: ``aclose`` began: nothing is pushed any more.
        self._silent = False
        self._closed: anyio.Event | None = None

    @abstractmethod
    async def _open(self, loop: EventLoop) -> None:
        """Puts ``_output`` and ``_input`` in place, each before it can have anything to tell.

        The caller begins them. When this raises, what it has put in place is released, so put it there first.

        Raises:
            TransportError: there is nobody to talk to.
        """

    async def start(self, sink: Sink, loop: EventLoop) -> None:
        if self._begun or self._silent:
            raise LocalProtocolError(f"{self.name}: a transport is started once")
        self._begun = True
        self._sink = sink
        self._loop = loop
        try:
            await self._open(loop)
            await self._output.begin()
            await self._input.begin()
        except BaseException:
            self._silent = True
            await self._let_go()
            self._input = self._output = _Nothing()
            raise
        self._started = True
        # One call less for each message.
        self.write = self._output.write  # type: ignore[method-assign]

    def write(self, message: bytes) -> None:
        self._output.write(message)

    async def drain(self) -> None:
        await self._output.drain()

    def pause_reading(self) -> None:
        self._input.pause()

    def resume_reading(self) -> None:
        self._input.resume()

    async def send_eof(self) -> None:
        await self._output.send_eof()

    # What the halves tell.

    def data_received(self, data: bytes) -> None:
        """For the input: bytes came in."""
        if self._silent:
            return
        messages = self._decoder.feed(data)
        if messages:
            output = self._output
            output.hold()
            self._sink.messages_received(messages)
            output.let_go()
        if self._decoder.errors:
            self._report_errors()

    def input_lost(self, cause: BaseException | None) -> None:
        """For the input: it ended. The first time counts."""
        if self._silent or self._input_told:
            return
        if not self._started:
            # Never inside ``start``: whoever called it has no chance yet to say who listens.
            self._loop.call_soon(lambda: self.input_lost(cause))
        else:
            error = None if cause is None else transport_error(self.name, cause)
            # Where the carrier failed, a line without an end was cut off; where the input ended, that ends the line.
            self._end_input(error, cut_off=error is not None)

    def output_lost(self, cause: BaseException | None) -> None:
        """For the output: it failed. The first time counts."""
        if self._silent or self._output_told:
            return
        if not self._started:
            self._loop.call_soon(lambda: self.output_lost(cause))
        else:
            self._output_told = True
            self._sink.output_failed(None if cause is None else transport_error(self.name, cause))

    def _end_input(self, error: TransportError | None, *, cut_off: bool) -> None:
        self._input_told = True
        last = [] if cut_off else self._decoder.finish()
        if last:
            self._sink.messages_received(last)
        self._report_errors()
        self._sink.input_ended(error)

    def _report_errors(self) -> None:
        errors, self._decoder.errors = self._decoder.errors, []
        for error in errors:
            self._sink.message_malformed(error)

    # Closing.

    async def aclose(self) -> None:
        self._silent = True
        closed = self._closed
        if closed is None:
            closed = self._closed = anyio.Event()
            try:
                await self._say_goodbye()
            finally:
                await self._let_go()
                closed.set()
            return
        try:
            await closed.wait()
        except BaseException:
            self._output.abort()
            raise

    async def _say_goodbye(self) -> None:
        """Sends what was written; bounded by ``close_timeout``."""
        self._input.stop()
        with anyio.move_on_after(self.close_timeout):
            await self._output.finish()

    async def _let_go(self) -> None:
        """Releases everything at once, also while the calling task is being cancelled."""
        self._output.abort()
        self._input.stop()
        with anyio.move_on_after(_RELEASE_TIMEOUT, shield=True):
            await self._output.released()
            await self._input.released()
