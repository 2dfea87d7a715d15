"""One initialised MCP session, as every part above it sees one.

Owns: the protocol ``RawSession``, the seam between the client, the catalogue and the carriers, and how one is opened.
Does not own: any implementation (``native`` over a connection, ``hosted`` over an MCPL host's session, ``http`` over
Streamable HTTP), and what results mean (``results``).
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, runtime_checkable

from msgspec import UNSET, UnsetType

if TYPE_CHECKING:
    from .outcomes import TerminateOutcome

__all__ = ("DEFAULT_TERMINATE_BOUND", "RawSession", "SessionOpener", "WatchedSession")

#: Seconds that ending a remote session may take.
DEFAULT_TERMINATE_BOUND = 5.0


@runtime_checkable
class RawSession(Protocol):
    """One initialised MCP session. Results are what the peer sent, as plain JSON: nothing is validated or dropped."""

    @property
    def protocol_version(self) -> str:
        """The MCP version that both speak."""

    @property
    def server_info(self) -> dict[str, Any]:
        """Who the server says it is; names nothing that decides anything."""

    @property
    def capabilities(self) -> dict[str, Any]:
        """The server's ``capabilities``, as received."""

    @property
    def instructions(self) -> str | None:
        """The server's words for the model, if any."""

    @property
    def may_repeat(self) -> bool:
        """Whether it sends a request again by itself when an attempt fails. Then a call can reach the peer more than
        once, and how its last attempt ended says nothing of those before."""

    async def request(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        timeout: float | None | UnsetType = UNSET,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
        reset_on_progress: bool = False,
        max_total: float | None = None,
    ) -> dict[str, Any]:
        """Sends a request and waits for its result. A caller that is cancelled, or gives up, tells the peer.

        Args:
            method: the method.
            params: its params; ``None``: left out. A ``_meta`` of theirs is kept; a ``progressToken`` is added only
                where progress is wanted (``on_progress`` or ``reset_on_progress``).
            timeout: seconds to wait; ``None``: without end; left out (``UNSET``): the session's own.
            on_progress: called with the params of each progress notification of this request, synchronously, in the
                order of the wire.
            reset_on_progress: whether progress lets it wait for ``timeout`` seconds anew.
            max_total: seconds to wait in all, however much progress there is; ``None``: without end.

        Raises:
            RpcError: the peer's error, as the class of its code.
            ConnectionTimeoutError: no answer in time.
            ConnectionClosedError: ``outcome`` says whether the request was handed to the carrier.
            InvalidResultError: the result is no JSON object.
        """

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Sends a notification. After closing it does nothing."""

    def on_notification(self, callback: Callable[[str, Any], None]) -> Callable[[], None]:
        """Calls ``callback(method, params)`` with each notification of the peer, synchronously, in the order of the
        wire; ``params`` is plain JSON or ``None``. Returns the call that ends it."""

    async def terminate(self, timeout: float = DEFAULT_TERMINATE_BOUND) -> TerminateOutcome:
        """Ends the session at the peer, as far as there is one, within ``timeout`` seconds, and closes this side
        whatever came of it. Never raises for a failure of the peer."""

    async def aclose(self) -> None:
        """Closes this side; the session at the peer is left as it is. From any task, any number of times."""


@runtime_checkable
class WatchedSession(RawSession, Protocol):
    """A session that tells when it is over. Where there is no connection to watch, a ``RawSession`` will do.

    One that also has a property ``is_closed`` says so at once, before anybody who waits has been woken.
    """

    async def wait_closed(self) -> BaseException | None:
        """Returns when the session is over, whoever ended it: the error that ended it, ``None`` for an ordinary end."""


#: Makes a session: a plain call that returns an async context manager. Entering it connects and shakes hands; leaving
#: it closes this side. Each call makes a new one. It is entered and left in one and the same task.
SessionOpener: TypeAlias = Callable[[], AbstractAsyncContextManager[RawSession]]
