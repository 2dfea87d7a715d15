"""The seam between the parts: what is a session, and what is none."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core import McplConnection
from mcpl_core.mcp.given import GivenSession
from mcpl_core.mcp.mock import MockSession
from mcpl_core.mcp.native import NativeSession
from mcpl_core.mcp.session import DEFAULT_TERMINATE_BOUND, RawSession, WatchedSession

pytestmark = pytest.mark.anyio


def test_ending_a_remote_session_is_bounded() -> None:
    assert DEFAULT_TERMINATE_BOUND == 5.0


async def test_every_implementation_is_a_session() -> None:
    connection, _ = McplConnection.memory_pair()
    native: WatchedSession = NativeSession(connection, None)
    given: RawSession = GivenSession(Given(), None)
    mock: RawSession = MockSession()
    assert all(isinstance(each, RawSession) for each in (native, given, mock))
    assert [isinstance(each, WatchedSession) for each in (native, given, mock)] == [True, False, False]
    assert not isinstance(connection, RawSession)
    # A connection of the caller's own may do what it likes.
    assert [each.may_repeat for each in (native, given, mock)] == [False, True, False]


class Given:
    def list_tools(self) -> Any:
        return []

    def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        return {}

    def close(self) -> None:
        pass
