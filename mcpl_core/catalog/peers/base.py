"""What a catalog needs of a peer, and the forms of its answers.

Owns: the contract and the answers, which are values: no exception of a session crosses it, and with that no text of a
peer. Does not own: sessions. Nobody here connects, initializes or closes one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

from ..errors import CatalogCode
from ..monitor import CatalogMonitor

__all__ = ("PeerFailure", "PeerMethod", "PeerReply", "PeerResult", "ToolPeer")

#: All that a catalog ever sends, beside the notice that a request was cancelled.
PeerMethod: TypeAlias = Literal["tools/list", "tools/call"]


@dataclass(frozen=True, slots=True)
class PeerResult:
    """The peer answered with a result.

    Attributes:
        value: as it came, plain JSON.
    """

    value: Any

    def __repr__(self) -> str:
        return "<PeerResult>"


@dataclass(frozen=True, slots=True)
class PeerFailure:
    """No result.

    Attributes:
        code: why.
        submitted: ``False`` only where it is *known* that nothing was handed to the transport.
    """

    code: CatalogCode
    submitted: bool = True


PeerReply: TypeAlias = PeerResult | PeerFailure


class ToolPeer(Protocol):
    """A session that somebody else opened, initialized, and will close."""

    @property
    def capabilities(self) -> Mapping[str, Any] | None:
        """The ``capabilities`` of the server's ``initialize`` result, as received; ``None``: not initialized."""
        ...

    @property
    def may_repeat(self) -> bool:
        """Whether the session may send a request again by itself. Through one that may, no writes are discovered: what
        it says of a last attempt says nothing of those before."""
        ...

    def watch(self, monitor: CatalogMonitor) -> Callable[[], None]:
        """Tells ``monitor`` the version that was negotiated, and from now on of each change of the list and of the
        close, beside whoever else listens. Returns the call that ends it.

        Raises:
            CatalogError: the version is one that the monitor does not accept.
        """
        ...

    async def request(self, method: PeerMethod, params: dict[str, Any]) -> PeerReply:
        """Hands on one request, once, and waits for its answer without a limit of its own. A caller that is cancelled
        tells the server so (``notifications/cancelled``), and its answer is dropped when it comes."""
        ...
