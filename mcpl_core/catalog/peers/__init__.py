"""Sessions as a catalog sees them: each an adapter that borrows what somebody else opened."""

from .base import PeerFailure, PeerMethod, PeerReply, PeerResult, ToolPeer

__all__ = ("PeerFailure", "PeerMethod", "PeerReply", "PeerResult", "ToolPeer")
