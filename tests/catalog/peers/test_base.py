"""The forms of answers show nothing of a peer by accident."""

from __future__ import annotations

from mcpl_core.catalog.peers.base import PeerFailure, PeerResult
from tests.catalog.kit import CANARY


def test_a_result_is_not_shown() -> None:
    assert CANARY not in repr(PeerResult({"text": CANARY}))


def test_nothing_is_known_to_be_unsent_unless_it_is_said() -> None:
    assert PeerFailure("mcp_timeout").submitted
    assert not PeerFailure("mcp_connection_closed", submitted=False).submitted
