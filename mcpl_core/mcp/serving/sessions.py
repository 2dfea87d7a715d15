"""Which runtime a caller is served: sessions, tenants, and the resolver that tells them apart.

Owns: the registry, and that a caller who cannot be told apart is served nothing. Does not own: who a caller is (the
transport's ``authenticate`` says so).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

from ...errors import InvalidRequest
from .call import Peer
from .middleware import Run

__all__ = ("UNRESOLVED", "Session", "SessionRegistry", "TenantResolver")

#: The word in an error's ``data.reason`` when nobody can tell which runtime a caller is for.
UNRESOLVED: Final = "unresolved_tenant"

#: Says which registered session a caller is for: a session id or a tenant id; ``None``: none. Sync or async.
TenantResolver = Callable[[Peer], str | None | Awaitable[str | None]]


@dataclass(frozen=True, slots=True)
class Session:
    """A registered session.

    Attributes:
        id: its id.
        runtime: what its callers are served.
        tenant_id: whose it is, or ``None``.
    """

    id: str
    runtime: Any
    tenant_id: str | None = None


class SessionRegistry:
    """The sessions of one server, in memory.

    Args:
        resolver: see ``TenantResolver``.
    """

    def __init__(self, resolver: TenantResolver | None = None) -> None:
        self._resolver = resolver
        self._sessions: dict[str, Session] = {}

    def register(self, id: str, runtime: Any, *, tenant_id: str | None = None) -> Session:
        """Registers a session; it takes the place of one with the same id."""
        session = Session(id, runtime, tenant_id)
        self._sessions.pop(id, None)
        self._sessions[id] = session
        return session

    def unregister(self, id: str) -> bool:
        """Forgets a session; whether there was one."""
        return self._sessions.pop(id, None) is not None

    def get(self, id: str) -> Session | None:
        """The session with this id, or ``None``."""
        return self._sessions.get(id)

    def list(self) -> tuple[Session, ...]:
        """All of them, the one registered last at the end."""
        return tuple(self._sessions.values())

    @property
    def tells_apart(self) -> bool:
        """Whether callers are told apart: there is a resolver, or there are sessions that one would have to choose
        from."""
        return self._resolver is not None or bool(self._sessions)

    async def resolve(self, peer: Peer, run: Run) -> Session:
        """The session that a caller is for: the one with the id that the resolver gave, else the one that was
        registered last for that tenant.

        Args:
            peer: the caller.
            run: runs the resolver.

        Raises:
            InvalidRequest: nobody can tell (``data.reason`` is ``UNRESOLVED``). There is no other runtime to fall back
                to: it would be somebody else's.
        """
        key = None if self._resolver is None else await run(self._resolver, peer)
        if isinstance(key, str):
            if (session := self._sessions.get(key)) is not None:
                return session
            for session in reversed(self._sessions.values()):
                if session.tenant_id == key:
                    return session
        raise InvalidRequest(message="nobody can tell whom this request is for", data={"reason": UNRESOLVED})
