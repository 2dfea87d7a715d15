"""From exceptions to codes: by class for sessions of this package, by number for those of the SDK."""

from __future__ import annotations

import pytest

from mcpl_core.catalog.peers.base import PeerFailure
from mcpl_core.catalog.peers.failures import own_failure, sdk_failure
from mcpl_core.errors import (
    ConnectionClosedError,
    ConnectionTimeoutError,
    InvalidResultError,
    LocalProtocolError,
    MessageTooLargeError,
    RpcError,
    TransportError,
    UnencodableError,
)
from tests.catalog.kit import CANARY


class SdkError(Exception):
    """As the SDK's: the number is in ``error``."""

    def __init__(self, code: object) -> None:
        super().__init__(CANARY)
        self.error = type("ErrorData", (), {"code": code})()


class _Subclass(LocalProtocolError):
    """Says something else than its parent does."""


@pytest.mark.spec("R-catalog-4")
@pytest.mark.parametrize(
    ("error", "failure"),
    [
        (ConnectionTimeoutError("tools/call", 1.0), PeerFailure("mcp_timeout")),
        # A peer may answer with the numbers that the SDK gives to local conditions.
        (RpcError(-32001, CANARY), PeerFailure("mcp_protocol_error")),
        (RpcError(-32000, CANARY), PeerFailure("mcp_protocol_error")),
        (RpcError(408, CANARY), PeerFailure("mcp_protocol_error")),
        (RpcError(-32602, CANARY), PeerFailure("mcp_protocol_error")),
        (InvalidResultError("tools/call", CANARY), PeerFailure("mcp_result_invalid")),
        (ConnectionClosedError("not-sent"), PeerFailure("mcp_connection_closed", submitted=False)),
        (ConnectionClosedError("no-response"), PeerFailure("mcp_transport_error")),
        (ConnectionClosedError(None), PeerFailure("mcp_transport_error")),
        (MessageTooLargeError(2, 1), PeerFailure("mcp_transport_error", submitted=False)),
        (UnencodableError(CANARY), PeerFailure("mcp_transport_error", submitted=False)),
        (LocalProtocolError(CANARY), PeerFailure("mcp_transport_error", submitted=False)),
        (_Subclass(CANARY), PeerFailure("mcp_transport_error")),
        (TransportError(CANARY), PeerFailure("mcp_transport_error")),
        (RuntimeError(CANARY), PeerFailure("mcp_transport_error")),
        (ExceptionGroup(CANARY, [RuntimeError()]), PeerFailure("mcp_transport_error")),
    ],
)
def test_our_own_sessions(error: Exception, failure: PeerFailure) -> None:
    assert own_failure(error) == failure


@pytest.mark.spec("R-catalog-4")
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (SdkError(408), "mcp_timeout"),
        (SdkError(-32001), "mcp_timeout"),
        (SdkError(-32000), "mcp_transport_error"),
        (SdkError(-32602), "mcp_protocol_error"),
        (SdkError(-32603), "mcp_protocol_error"),
        (SdkError(7), "mcp_protocol_error"),
        (SdkError("7"), "mcp_transport_error"),
        (ValueError(CANARY), "mcp_result_invalid"),
        (TypeError(CANARY), "mcp_result_invalid"),
        (OSError(CANARY), "mcp_transport_error"),
        (RuntimeError(CANARY), "mcp_transport_error"),
        (ExceptionGroup(CANARY, [ValueError()]), "mcp_transport_error"),
    ],
)
def test_sessions_of_the_sdk(error: Exception, code: str) -> None:
    assert sdk_failure(error).code == code
    assert sdk_failure(error).submitted
