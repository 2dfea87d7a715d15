"""A server under a host's roof: the handle that outlives its connections.

Owns: where the server stands, the session of the moment behind the calls, and when to try again. Does not own: the
tasks (``host``), and one connection (``session``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import anyio

from ..errors import ConnectionClosedError
from ..grants import GrantState, Malformed
from ..negotiation import ServerMode
from ..receipts import Receipt, UnavailableFeature
from .calls import Calls
from .connect import Dialer, Endpoint
from .link import ServerLink
from .policy import HostPolicy
from .remote import RemoteServer
from .session import HostSession

__all__ = ("HostedServer", "ServerDescription", "ServerState", "reconnect_delay")

#: ``connecting``: an attempt is under way; ``ready``; ``waiting``: for the next attempt; ``closed``: for good.
ServerState = Literal["connecting", "ready", "waiting", "closed"]


def reconnect_delay(attempt: int, jitter: float, first: float, longest: float) -> float:
    """Seconds before attempt number ``attempt`` + 1, counted from 1: doubled each time, up to ``longest``.

    Args:
        jitter: from 0 to 1; spreads the delay over its upper half, so that many hosts do not come back at once.
    """
    full = float(min(longest, first * 2 ** min(attempt - 1, 30)))
    return full * (0.5 + 0.5 * jitter)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerDescription:
    """What there is to tell of a server, each fact by itself (RFC-004 5).

    Attributes:
        id: the id that the host gave it.
        state, mode: where it stands, and what it is.
        configured, canonical, resolved: the three values of its endpoint; they may hold an invitation in a query.
        info: what it says that it is.
        advertised: the capability paths that it advertises.
        grant: what it may do now.
        degraded: what it said that it will not provide.
        revision: the digest of the manifest in force.
        failure: why it is not connected.
    """

    id: str
    state: ServerState
    mode: ServerMode
    configured: str | tuple[str, ...] | None
    canonical: str | None
    resolved: str | None
    info: dict[str, Any]
    advertised: tuple[str, ...]
    grant: GrantState
    degraded: tuple[UnavailableFeature, ...]
    revision: str | None
    failure: BaseException | None

    def __repr__(self) -> str:
        return f"<ServerDescription {self.id}: {self.state}, {self.mode}>"


class HostedServer(RemoteServer):
    """One server of a ``McplHost``. Its calls go to the connection of the moment.

    Attributes:
        id: the id that the host gave it.
        policy: the rules that hold for it.
        failure: why the last connection ended or did not come about; ``None`` after an ordinary end.
    """

    def __init__(
        self, id: str, dialer: Dialer, policy: HostPolicy, *, reconnect: bool, require_mcpl: bool = False
    ) -> None:
        self.id = id
        self.policy = policy
        self.failure: BaseException | None = None
        self.dialer = dialer
        self.reconnect = reconnect
        self.require_mcpl = require_mcpl
        #: Whether its policy is its own, and not its host's.
        self.own_policy = False
        #: The session that is being made, or is the one of the moment: other rules must reach it before it is ready.
        self.attempt: HostSession | None = None
        #: Ends its supervision.
        self.scope = anyio.CancelScope()
        self._session: HostSession | None = None
        self._state: ServerState = "connecting"
        self._changed = anyio.Event()

    def __repr__(self) -> str:
        return f"<HostedServer {self.id}: {self.state}, {self.mode}>"

    # -- where it stands

    @property
    def state(self) -> ServerState:
        """Where it stands. From the moment its connection ends it is not ready, whoever noticed that first."""
        if self._state == "ready" and self._session is not None and not self._session.connection.can_ask:
            return "connecting"
        return self._state

    def move(self, state: ServerState, session: HostSession | None = None) -> None:
        """It stands elsewhere now; for its host."""
        self._state = state
        self._session = session
        changed, self._changed = self._changed, anyio.Event()
        changed.set()

    async def wait(self, *states: ServerState) -> ServerState:
        """Returns when it stands at one of these; which one."""
        while (state := self.state) not in states:
            await self._changed.wait()
        return state

    @property
    def endpoint(self) -> Endpoint:
        """Where it is."""
        return self.dialer.endpoint

    @property
    def session(self) -> HostSession:
        """The session of the moment.

        Raises:
            ConnectionClosedError: there is none; nothing was sent.
        """
        if self._session is None:
            raise ConnectionClosedError("not-sent", self.failure)
        return self._session

    @property
    def link(self) -> ServerLink:
        return self.session.link

    @property
    def calls(self) -> Calls:
        return self.session.calls

    # -- what it is; for a server that is not connected, what grants nothing

    @property
    def mode(self) -> ServerMode:
        """``mcpl``, ``mcp-only``, or ``close`` while it is not connected."""
        return "close" if self._session is None else self._session.mode

    @property
    def grant(self) -> GrantState:
        """What it may do at this moment."""
        return GrantState() if self._session is None else self._session.grant

    @property
    def receipt(self) -> Receipt | Malformed | None:
        """Its last answer to a policy."""
        return None if self._session is None else self._session.receipt

    @property
    def degraded(self) -> tuple[UnavailableFeature, ...]:
        """What the receipt said that it will not provide."""
        return () if self._session is None else self._session.degraded

    def describe(self) -> ServerDescription:
        """All of it, as of this moment."""
        session, endpoint = self._session, self.endpoint
        reading = None if session is None else session.manifest
        return ServerDescription(
            id=self.id,
            state=self.state,
            mode=self.mode,
            configured=endpoint.configured,
            canonical=endpoint.canonical,
            resolved=endpoint.resolved,
            info={} if session is None else session.info,
            advertised=() if session is None else tuple(sorted(session.link.authority.advertised)),
            grant=self.grant,
            degraded=self.degraded,
            revision=None if reading is None else reading.digest,
            failure=self.failure,
        )
