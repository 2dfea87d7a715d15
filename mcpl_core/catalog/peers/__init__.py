"""Sessions as a catalog sees them: each an adapter that borrows what somebody else opened."""

from .base import PeerFailure, PeerMethod, PeerReply, PeerResult, ToolPeer
from .connection import ConnectionPeer, HostPeer
from .raw import RawPeer, ToolSession
from .sdk import SdkNotices, SdkPeer

__all__ = (
    "ConnectionPeer",
    "HostPeer",
    "PeerFailure",
    "PeerMethod",
    "PeerReply",
    "PeerResult",
    "RawPeer",
    "SdkNotices",
    "SdkPeer",
    "ToolPeer",
    "ToolSession",
)
