"""One server at one connection, as the parts of a session see it.

Owns: the facts that they share, the check of everything that goes out, and the refusal of what comes in, with its
record. Does not own: what the parts do, and the first look at an incoming message (``session``).
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import Any, NoReturn

from ..connection import McplConnection
from ..errors import CapabilityDenied, LocalProtocolError, RpcError
from ..protocol import Method, method
from .audit import Audit
from .authority import Authority
from .channels import ChannelRegistry
from .hub import Hub
from .policy import HostPolicy

__all__ = ("Effect", "ServerLink")

#: What a message does once it was found allowed, as it is taken from the wire. It returns the result, or ``Later``.
Effect = Callable[[Any], Any]

#: What a host may ask of a server that is, or became, a plain MCP server.
_PLAIN = frozenset({method.INITIALIZE, method.INITIALIZED, method.PING, method.TOOLS_LIST, method.TOOLS_CALL})


class ServerLink:
    """See the module.

    Args:
        hub: what all servers share.
        server: the id that the host gave this one.
        connection: to it.
        policy: the host's rules.

    Attributes:
        open: the handshake and the initial exchange are over, with whatever result.
        in_hook: context hooks of this server that are being awaited.
    """

    def __init__(self, hub: Hub, server: str, connection: McplConnection, policy: HostPolicy) -> None:
        self.hub = hub
        self.server = server
        self.connection = connection
        self.authority = Authority(server, policy)
        self.channels = ChannelRegistry(
            self.authority.permits_channel, self.authority.allows, hub.settings.channel_limit
        )
        self.audit = Audit(server, hub.handlers.on_audit, hub.wall_clock)
        self.open = False
        self.in_hook = 0

    def row(self, name: str) -> Method:
        """The row of a method."""
        return self.hub.methods[name]

    @property
    def is_mcpl(self) -> bool:
        """Whether the server is a full peer now: the initial exchange is complete, and nobody fell back."""
        return self.authority.mode == "mcpl" and self.authority.ready

    # -- what comes in

    def check_claim(self, name: str, feature_set: str, *further: str) -> None:
        """Whether a message that claims a feature set may have its effect now: grant first, then the set (SPEC 6.4).

        Args:
            name: the method.
            feature_set: as the server claims it; it can only deny.
            further: paths that the message needs beside those of its method.

        Raises:
            CapabilityDenied, UnknownFeatureSet, FeatureSetNotEnabled: it may not; that was recorded.
        """
        needs = (self.row(name).capabilities, *((path,) for path in further))
        checks: list[Callable[[Collection[str]], RpcError | None]] = [
            self.authority.check,
            partial(self.authority.check_feature_set, feature_set),
        ]
        for check in checks:
            for alternatives in needs:
                if (denied := check(alternatives)) is not None:
                    self.deny(name, denied, feature_set)

    def deny(self, name: str, denied: RpcError, feature_set: Any = None) -> NoReturn:
        """Records why a message is refused, and raises the answer. A mismatch of declaration and use is a remark on the
        server, too (SPEC 6.4)."""
        data = denied.data if isinstance(denied.data, dict) else {}
        code = str(data.get("reason") or denied.code)
        self.audit.record(name, "denied", feature_set=feature_set, code=code)
        if code == "declaration_mismatch":
            self.audit.note(name, code, f"its uses do not name {data.get('capability')}", feature_set=feature_set)
        raise denied

    # -- what goes out

    def may_send(self, name: str) -> bool:
        """Whether a message of this method may be sent to the server now (SPEC 5.4)."""
        entry = self.hub.methods.get(name)
        return entry is not None and entry.sent_by("host") and self._may_send(entry)

    def _may_send(self, entry: Method) -> bool:
        if self.is_mcpl:
            return self.authority.check(entry.capabilities) is None
        return entry.name in _PLAIN and self.open and self.authority.mode == "mcp-only"

    def check_sending(self, name: str) -> Method:
        """The row of a method that may be sent now.

        Raises:
            CapabilityDenied: the grant does not hold what it needs; nothing is sent.
            LocalProtocolError: no host sends it, or the server is a plain MCP server.
        """
        entry = self.hub.methods.get(name)
        if entry is None or not entry.sent_by("host"):
            raise LocalProtocolError(f"{name} is no method that a host sends")
        if self._may_send(entry):
            return entry
        self.audit.record(name, "denied", code="capability_denied")
        if not self.is_mcpl:
            raise LocalProtocolError(f"{name} needs a server that speaks MCPL, and {self.server} does not")
        denied = self.authority.check(entry.capabilities)
        raise denied if denied is not None else CapabilityDenied
