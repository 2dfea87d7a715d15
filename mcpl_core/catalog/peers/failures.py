"""From what a session raised to a code, and to what is known of whether anything was sent.

Owns: two readings. Sessions of this package are read by the class of the error, which says whose it is; a session of
the official SDK by the number, since there a local condition has one too. Does not own: what a code means for a write
(``permits``).

The exception ends here: nothing keeps it, or its text.
"""

from __future__ import annotations

from typing import Final

from ...errors import (
    ConnectionClosedError,
    ConnectionTimeoutError,
    InvalidResultError,
    LocalProtocolError,
    MessageTooLargeError,
    RpcError,
    UnencodableError,
)
from .base import PeerFailure

__all__ = ("SDK_CONNECTION_CLOSED", "SDK_TIMEOUTS", "own_failure", "sdk_failure")

#: By their definitions nothing was sent. Classes below them may mean something else.
_NOT_SENT: Final = frozenset({LocalProtocolError, MessageTooLargeError, UnencodableError})

#: Numbers of a timeout in a session of the SDK: its own, of either line.
SDK_TIMEOUTS: Final = frozenset({408, -32001})
#: The number of a connection that closed, there.
SDK_CONNECTION_CLOSED: Final = -32000


def own_failure(exc: Exception) -> PeerFailure:
    """What an error of one of our sessions comes to. A peer may answer with any number it likes; only the class tells
    an answer from a local condition."""
    match exc:
        case ConnectionTimeoutError():
            return PeerFailure("mcp_timeout")
        case RpcError():
            return PeerFailure("mcp_protocol_error")
        case InvalidResultError():
            return PeerFailure("mcp_result_invalid")
        case ConnectionClosedError(outcome="not-sent"):
            return PeerFailure("mcp_connection_closed", submitted=False)
        case _ if type(exc) in _NOT_SENT:
            return PeerFailure("mcp_transport_error", submitted=False)
    return PeerFailure("mcp_transport_error")


def sdk_failure(exc: Exception) -> PeerFailure:
    """What an error of a session of the SDK comes to. It never says that nothing was sent, so nothing is known of
    that."""
    code = getattr(getattr(exc, "error", None), "code", None)
    if isinstance(code, int):
        if code in SDK_TIMEOUTS:
            return PeerFailure("mcp_timeout")
        return PeerFailure("mcp_transport_error" if code == SDK_CONNECTION_CLOSED else "mcp_protocol_error")
    if isinstance(exc, ValueError | TypeError):
        # A result that its models refuse.
        return PeerFailure("mcp_result_invalid")
    return PeerFailure("mcp_transport_error")
