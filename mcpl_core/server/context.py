"""What a handler is given beside its params: the call it serves, and the host that made it.

Owns: the view of one call. Does not own: the calls to the host (``calls``) and the connection's state (``session``).
"""

from __future__ import annotations

from typing import Any

from ..grants import GrantState
from ..protocol import method
from ..wire.messages import Id
from .calls import HostCalls

__all__ = ("Context",)


class Context(HostCalls):
    """The context of one call, or of one connection in hooks that serve no call.

    Everything that ``HostCalls`` offers goes to the host of this connection, and goes on working after the call ended
    while the connection lives. In a plain function, which runs in a worker thread, use it through
    ``anyio.from_thread.run``.

    Args:
        calls: the calls of the connection.
        principal: who is at the other end, as the application said when it served the connection.
        host: the host's ``clientInfo`` as received.
        protocol_version: the MCP version of the handshake.
        mcpl: the host speaks MCPL.
        advertised: the host's ``experimental.mcpl`` object as received; empty without one.
        session_state: a dict of the application's own, one for each connection.
        request_id: the id of the request, ``None`` for a notification and outside of calls.
        params: the typed params of the call; of a tool call ``ToolsCallParams``, whose ``state`` or ``checkpoint`` is
            what the host keeps (SPEC 8.4). A new state goes back with ``ToolResult``.

    Attributes:
        meta: the ``_meta`` object of the params, empty when there is none.
        ended: the call was answered.
    """

    def __init__(
        self,
        calls: HostCalls,
        *,
        principal: str,
        host: dict[str, Any],
        protocol_version: str,
        mcpl: bool,
        advertised: dict[str, Any] | None = None,
        session_state: dict[str, Any],
        request_id: Id | None = None,
        params: Any = None,
    ) -> None:
        super().__init__(calls.connection, calls.policy, calls.methods, calls.inferences)
        self.principal = principal
        self.host = host
        self.protocol_version = protocol_version
        self.mcpl = mcpl
        self.advertised: dict[str, Any] = advertised if advertised is not None else {}
        self.session_state = session_state
        self.request_id = request_id
        self.params = params
        meta = getattr(params, "meta", None)
        self.meta: dict[str, Any] = meta if isinstance(meta, dict) else {}
        self.ended = False

    @property
    def grant(self) -> GrantState:
        """What the host grants now."""
        return self.policy.grant

    @property
    def wanted(self) -> bool:
        """Whether the host still waits for the answer to this request. It may have taken the request back, or be gone.
        Always false outside of requests."""
        return self.room > 0

    @property
    def room(self) -> int:
        """How many bytes the JSON text of this request's result may have; 0 when it is not ``wanted``."""
        return 0 if self.request_id is None or self.ended else self.connection.room_for(self.request_id)

    async def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tells the host how far the call is (MCP progress). Nothing is sent when the host did not ask for it, or
        has its answer.

        Args:
            progress: rises with each call.
            total: how much there is, if known.
            message: for people.
        """
        token = self.meta.get("progressToken")
        if self.ended or type(token) not in (int, str):
            return
        optional = {"total": total, "message": message}
        params = {"progressToken": token, "progress": progress}
        params |= {name: value for name, value in optional.items() if value is not None}
        await self.connection.send_notification(method.PROGRESS, params)
