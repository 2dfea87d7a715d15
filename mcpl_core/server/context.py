"""What a handler is given beside its params: the call it serves, and the host that made it.

Owns: the view of one call. Does not own: the calls to the host (``calls``) and the connection's state (``session``).
"""

from __future__ import annotations

from typing import Any

from ..connection import McplConnection
from ..grants import GrantState
from ..protocol import method
from ..wire.messages import Id
from .calls import HostCalls

__all__ = ("Context",)


class Context(HostCalls):
    """The context of one call, or of one connection in hooks that serve no call.

    Everything that ``HostCalls`` offers goes to the host of this connection.

    Attributes:
        principal: who is at the other end, as the application said when it served the connection.
        host: the host's ``clientInfo`` as received.
        protocol_version: the MCP version of the handshake.
        mcpl: the host speaks MCPL.
        request_id: the id of the request, ``None`` for a notification and outside of calls.
        meta: the ``_meta`` object of the params, empty when there is none.
        params: the typed params of the call.
        session_state: a dict of the application's own, one for each connection.
    """

    def __init__(
        self,
        calls: HostCalls,
        *,
        principal: str,
        host: dict[str, Any],
        protocol_version: str,
        mcpl: bool,
        session_state: dict[str, Any],
        request_id: Id | None = None,
        meta: dict[str, Any] | None = None,
        params: Any = None,
    ) -> None:
        # The streams are the connection's, whoever asked.
        self.__dict__.update(calls.__dict__)
        self.principal = principal
        self.host = host
        self.protocol_version = protocol_version
        self.mcpl = mcpl
        self.session_state = session_state
        self.request_id = request_id
        self.meta = meta if meta is not None else {}
        self.params = params

    connection: McplConnection

    @property
    def grant(self) -> GrantState:
        """What the host grants now."""
        return self.policy.grant

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tells the host how far the call is (MCP progress). Nothing is sent when the host did not ask for it.

        Args:
            progress: rises with each call.
            total: how much there is, if known.
            message: for people.
        """
        token = self.meta.get("progressToken")
        if type(token) not in (int, str):
            return
        optional = {"total": total, "message": message}
        params = {"progressToken": token, "progress": progress}
        params |= {name: value for name, value in optional.items() if value is not None}
        await self.connection.send_notification(method.PROGRESS, params)
