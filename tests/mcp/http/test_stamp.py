"""What a request carries about the protocol itself, in both eras."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.errors import LocalProtocolError, UnencodableError
from mcpl_core.mcp.http.stamp import Stamp, is_modern

INFO = {"name": "n", "version": "1"}
META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": INFO,
    "io.modelcontextprotocol/clientCapabilities": {},
}


def tool(name: str, **properties: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object", "properties": properties}}


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_the_handshake_era_needs_the_version_alone(version: str) -> None:
    stamp = Stamp(version, INFO, {})
    assert not is_modern(version)
    assert stamp.params(None) is None
    assert stamp.params({"a": 1}) == {"a": 1}
    assert stamp.headers("tools/call", {"name": "t"}) == {"mcp-protocol-version": version}


def test_the_modern_era_says_it_in_every_request() -> None:
    stamp = Stamp("2026-07-28", INFO, {})
    given = {"name": "t", "_meta": {"progressToken": "p"}}
    assert is_modern("2026-07-28")
    assert stamp.params(None) == {"_meta": META}
    assert stamp.params(given) == {"name": "t", "_meta": {"progressToken": "p", **META}}
    assert given == {"name": "t", "_meta": {"progressToken": "p"}}
    assert stamp.params({"_meta": 3}) == {"_meta": META}
    assert stamp.params({"_meta": dict.fromkeys(META, "mine")}) == {"_meta": META}


@pytest.mark.parametrize(
    ("method", "params", "name"),
    [
        ("tools/call", {"name": "plain"}, "plain"),
        ("tools/call", {"name": "größe"}, "=?base64?Z3LDtsOfZQ==?="),
        ("prompts/get", {"name": "p"}, "p"),
        ("resources/read", {"uri": "test://x"}, "test://x"),
        ("resources/read", {"name": "x"}, None),
        ("tools/list", {"name": "x"}, None),
        ("tools/list", None, None),
        ("tools/call", {"name": 3}, None),
    ],
)
def test_headers_mirror_the_method_and_the_name(method: str, params: Any, name: str | None) -> None:
    headers = Stamp("2026-07-28", INFO, {}).headers(method, params)
    assert headers.pop("mcp-protocol-version") == "2026-07-28"
    assert headers.pop("mcp-method") == method
    assert headers == ({} if name is None else {"mcp-name": name})


def test_headers_mirror_the_arguments_that_a_schema_names() -> None:
    stamp = Stamp("2026-07-28", INFO, {})
    region = {"type": "string", "x-mcp-header": "Region"}
    stamp.learn({"tools": [tool("t", region=region, size={"type": "integer"}), "odd", {"name": 3}]})
    call = {"name": "t", "arguments": {"region": "eu", "size": 3}}
    assert stamp.headers("tools/call", call)["Mcp-Param-Region"] == "eu"
    assert "Mcp-Param-Region" not in stamp.headers("tools/call", {"name": "t", "arguments": {"size": 3}})
    assert "Mcp-Param-Region" not in stamp.headers("tools/call", {"name": "t"})
    assert "Mcp-Param-Region" not in stamp.headers("tools/call", {"name": "other", "arguments": {"region": "eu"}})


@pytest.mark.spec("R-mcphttp-19")
def test_a_schema_that_asks_for_headers_wrongly_is_not_called() -> None:
    stamp = Stamp("2026-07-28", INFO, {})
    stamp.learn({"tools": [tool("bad", x={"type": "object", "x-mcp-header": "X"})]})
    with pytest.raises(LocalProtocolError):
        stamp.headers("tools/call", {"name": "bad", "arguments": {}})
    stamp.learn({"tools": [tool("bad", x={"type": "string"})]})
    assert stamp.headers("tools/call", {"name": "bad"})


@pytest.mark.parametrize("result", [{}, {"tools": 3}, {"tools": [None]}])
def test_what_is_no_list_of_tools_teaches_nothing(result: dict[str, Any]) -> None:
    stamp = Stamp("2026-07-28", INFO, {})
    stamp.learn(result)
    assert set(stamp.headers("tools/call", {"name": "t"})) == {"mcp-protocol-version", "mcp-method", "mcp-name"}


def test_in_the_handshake_era_no_schema_asks_for_headers() -> None:
    stamp = Stamp("2025-11-25", INFO, {})
    stamp.learn({"tools": [tool("bad", x={"type": "object", "x-mcp-header": "X"})]})
    assert stamp.headers("tools/call", {"name": "bad"}) == {"mcp-protocol-version": "2025-11-25"}


def test_a_method_that_no_header_can_hold_is_coded() -> None:
    assert Stamp("2026-07-28", INFO, {}).headers("größe", None)["mcp-method"] == "=?base64?Z3LDtsOfZQ==?="


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("\ud800", None),
        ("tools/call", {"name": "\ud800"}),
        ("tools/call", {"name": "t", "arguments": {"region": "\ud800"}}),
    ],
)
def test_lone_surrogates_have_no_form_in_a_header(method: str, params: Any) -> None:
    stamp = Stamp("2026-07-28", INFO, {})
    stamp.learn({"tools": [tool("t", region={"type": "string", "x-mcp-header": "Region"})]})
    with pytest.raises(UnencodableError):
        stamp.headers(method, params)
