"""The contract between a connection and what carries its messages.

Owns: the two interfaces. A *transport* carries whole messages, one ``bytes`` each, in both directions: framing is
its own affair. It pushes what comes in into a *sink*, synchronously, so that the way from the read callback to the
task that waits has no task switch in it; it takes what goes out synchronously, too, and says with ``behind`` and
``drain`` when the peer does not keep up. Does not own: JSON, ids, and when to close (the connection decides).

The order of closing is fixed. A transport tells its sink of the end of each direction at most once, and of nothing
after ``aclose`` began. ``TransportError`` means that the carrier failed; ``None`` in its place that it simply ended.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol

from ..errors import MalformedMessageError, TransportError
from ..wire.framing import DEFAULT_MAX_MESSAGE_BYTES
from .loop import EventLoop

__all__ = (
    "BURST",
    "DEFAULT_CLOSE_TIMEOUT",
    "DEFAULT_MAX_CONNECTIONS",
    "JOIN_FIRST",
    "JOIN_MOST",
    "WRITE_HIGH_WATER",
    "Listener",
    "Sink",
    "Transport",
)

#: Bytes handed over and not yet taken by the carrier, past which ``behind`` is true.
WRITE_HIGH_WATER = 256 * 1024

#: Seconds between two messages that are taken to be written in the same turn of the loop. Where that is wrong, nothing
#: is lost but a system call or a turn.
BURST = 20e-6

#: Short messages that are joined into the first write of a turn. More would keep the peer idle for longer than a write
#: costs. Each further write of the turn joins twice as many, up to the second number.
JOIN_FIRST, JOIN_MOST = 8, 64

#: Seconds that ``aclose`` may take: to flush, and to say goodbye where the carrier has such a thing.
DEFAULT_CLOSE_TIMEOUT = 2.0

#: Open connections of one listener, past which further ones are closed (refused) at once.
DEFAULT_MAX_CONNECTIONS = 100


class Sink(Protocol):
    """Where a transport pushes what comes in. No method blocks, and none raises."""

    def messages_received(self, messages: list[bytes]) -> None:
        """Whole messages in the order of the wire, at least one; all that one read brought."""

    def message_malformed(self, error: MalformedMessageError) -> None:
        """Something that is no message was skipped: an over-long line, a binary WebSocket message."""

    def input_ended(self, error: TransportError | None) -> None:
        """Nothing more comes in. ``error``: why, when the carrier failed; ``None``: the peer ended it."""

    def output_failed(self, error: TransportError | None) -> None:
        """Nothing more goes out, and not because of ``send_eof`` or ``aclose``."""


class Transport(ABC):
    """Carries messages between two peers. Used by one connection, once: start, then anything, then ``aclose``.

    Args:
        max_message_bytes: the longest incoming message, in bytes; a longer one is skipped and reported.
        close_timeout: seconds that ``aclose`` may take.
    """

    #: Whom the transport talks to, for error messages: scheme, host and port, or a command's name. No secrets.
    name: str = "transport"

    def __init__(
        self,
        *,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        close_timeout: float = DEFAULT_CLOSE_TIMEOUT,
    ) -> None:
        self.max_message_bytes = max_message_bytes
        self.close_timeout = close_timeout

    @abstractmethod
    async def start(self, sink: Sink, loop: EventLoop) -> None:
        """Dials, spawns or takes over what carries the messages, and begins to push into ``sink``.

        The end of an input that is already at its end is told in a later turn, never inside this call.

        Raises:
            TransportError: there is nobody to talk to. Nothing is left behind.
        """

    @abstractmethod
    def write(self, message: bytes) -> None:
        """Takes one message: JSON text without framing. Never blocks and never raises; after the output
        ended it does nothing. What two calls hand over arrives in their order and never interleaves."""

    @property
    @abstractmethod
    def behind(self) -> bool:
        """Whether more than ``WRITE_HIGH_WATER`` bytes wait for the carrier."""

    @abstractmethod
    async def drain(self) -> None:
        """Returns when the transport is not behind any more, or its output ended. Any number of tasks may wait."""

    @abstractmethod
    def pause_reading(self) -> None:
        """Asks the peer to wait: messages already read may still be pushed, then no more. Idempotent."""

    @abstractmethod
    def resume_reading(self) -> None:
        """Undoes ``pause_reading``. Idempotent; never pushes inside the call."""

    @abstractmethod
    async def send_eof(self) -> None:
        """Ends the output on purpose, after what was written; the input goes on.

        A carrier that has no half-close (a WebSocket) says goodbye instead, and the input then ends soon.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Flushes what was written, as far as ``close_timeout`` allows, and releases the carrier. Nothing is
        pushed from the moment of the call. Any number of calls from any task; each returns when it is done.
        Cancelling it releases the carrier at once. Before ``start`` it releases what the transport was made of,
        an accepted socket for example; a transport that was closed cannot be started."""


class Listener(ABC):
    """Accepts peers and makes a ``Transport`` of each.

    Args:
        max_connections: how many accepted transports may be open at once; a further peer is refused.

    Raises:
        TypeError: ``max_connections`` is no whole number.
    """

    #: Where it listens, as an endpoint string with the real port, once started.
    endpoint: str = ""

    def __init__(self, *, max_connections: int = DEFAULT_MAX_CONNECTIONS) -> None:
        if not isinstance(max_connections, int):
            raise TypeError(f"max_connections is a whole number, not {max_connections!r}")
        self.max_connections = max_connections

    @abstractmethod
    async def start(self, loop: EventLoop, accepted: Callable[[Transport], None]) -> None:
        """Binds, and calls ``accepted`` with a transport for each peer. The transport is not started yet and
        reads nothing until it is; what the peer sends meanwhile waits.

        Raises:
            TransportError: the address cannot be bound.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Stops accepting and releases the address. Transports accepted before live on. Idempotent."""
