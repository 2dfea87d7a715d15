"""What a caller says, and what client that makes."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from mcpl_core._version import __version__
from mcpl_core.errors import InvalidValueError
from mcpl_core.mcp.client import McpClient
from mcpl_core.mcp.connecting import CLIENT_INFO, mcp_client
from mcpl_core.mcp.errors import McpExtraMissingError
from mcpl_core.mcp.keeper import Reconnect
from mcpl_core.mcp.mock import MockSession
from mcpl_core.mcp.transports import GatewayTransport, HttpTransport, StdioTransport, WebSocketTransport
from tests.mcp.peers import FakeServer, served
from tests.mcp.test_given import Given

pytestmark = pytest.mark.anyio

HTTP = HttpTransport("http://127.0.0.1:1/mcp")


async def vend(request: Any) -> dict[str, str]:
    return {}


def error_of(**options: Any) -> InvalidValueError:
    with pytest.raises(InvalidValueError) as caught:
        mcp_client(**options)
    return caught.value


async def test_the_server_is_told_who_we_are() -> None:
    server = FakeServer()
    async with served(server):
        async with mcp_client(transport=server.connect) as client:
            assert client.name == "mcp"
        async with mcp_client(transport=server.connect, client_info={"name": "me", "version": "2", "title": "Me"}):
            pass
    told = [each["params"]["clientInfo"] for each in server.of("initialize")]
    assert told == [{"name": "mcp-live-core", "version": __version__}, {"name": "me", "version": "2", "title": "Me"}]
    assert told[0] == CLIENT_INFO


@pytest.mark.parametrize(
    "transport",
    [
        StdioTransport(["server"]),
        HTTP,
        GatewayTransport("http://127.0.0.1:1/mcp", vend),
        WebSocketTransport("ws://127.0.0.1:1/"),
        FakeServer().connect,
    ],
)
def test_nothing_is_dialled_before_it_is_entered(transport: Any) -> None:
    assert isinstance(mcp_client(transport=transport), McpClient)


@pytest.mark.parametrize("arm", ["connection", "session"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("transport", HTTP),
        ("client_info", {"name": "x", "version": "1"}),
        ("retry_on_throttle", False),
        ("replay", {"policy": "compatibility"}),
        ("sdk", object()),
        ("http_options", {"timing": None}),
        ("era", "handshake"),
        ("handlers", {}),
        ("reconnect", Reconnect()),
    ],
)
def test_what_belongs_to_a_connection_does_not_go_with_one_that_is_there(arm: str, name: str, value: Any) -> None:
    given = Given() if arm == "connection" else MockSession()
    error = error_of(**{arm: given, name: value})
    assert (error.code, error.path) == ("combination", f"$.{name}")
    assert len(error.detail) > len(f"{name} does not go with {arm}: ")


def test_one_way_is_chosen() -> None:
    assert error_of(connection=Given(), session=MockSession()).path == "$.session"
    assert error_of().code == "combination"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"name": ""}, "name"),
        ({"name": 7}, "name"),
        ({"result_mode": "json"}, "result_mode"),
        ({"replay": {"polic": "compatibility"}}, "unknown_member"),
        ({"transport": "http://example.com"}, "transport"),
        ({"transport": ["server"]}, "transport"),
        ({"transport": HTTP, "era": "tomorrow"}, "era"),
        ({"transport": HTTP, "sdk": object()}, "sdk"),
        ({"transport": HTTP, "http_options": {"carier": None}}, "http_options"),
        ({"transport": HTTP, "retry_on_throttle": {"attempts": 3}}, "unknown_member"),
        ({"transport": StdioTransport(["s"]), "era": "modern"}, "combination"),
        ({"transport": StdioTransport(["s"]), "sdk": object()}, "combination"),
        ({"transport": StdioTransport(["s"]), "http_options": {"timing": None}}, "combination"),
        ({"session": object()}, "session"),
    ],
)
def test_what_makes_no_sense_is_refused_at_construction(options: Any, code: str) -> None:
    assert error_of(**options).code == code


def test_without_the_sdk_http_alone_fails_and_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name == "mcp" or name.startswith("mcp.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "mcp", None)
    with pytest.raises(McpExtraMissingError) as caught:
        mcp_client(transport=HTTP)
    assert (caught.value.library, caught.value.extra) == ("mcp", "mcp")
    for options in ({"transport": StdioTransport(["server"])}, {"connection": Given()}, {"session": MockSession()}):
        mcp_client(**options)


async def test_a_session_that_is_there_stays_its_owners() -> None:
    session = MockSession(["echo"])
    async with mcp_client("own", session=session) as client:
        assert await client.call("echo") == "[mock result]"
    assert await session.request("tools/list") == {"tools": session.tools}
