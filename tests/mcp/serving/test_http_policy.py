"""Which requests are let in: the whole matrix, without a socket."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.errors import InvalidValueError
from mcpl_core.mcp.serving import IncomingRequest
from mcpl_core.mcp.serving.http_policy import is_loopback_host, make_http_policy

HOST = "127.0.0.1:8000"
GOOD = {"host": HOST, "content-type": "application/json"}


def status(headers: dict[str, str | None], *, method: str = "POST", path: str = "/mcp", **options: Any) -> int | None:
    given = {"host": "127.0.0.1", "path": "/mcp", "allowed_hosts": None, "allowed_origins": None, **options}
    merged = {name: value for name, value in {**GOOD, **headers}.items() if value is not None}
    refusal = make_http_policy(**given).refusal(IncomingRequest(method, path, headers=merged))
    return None if refusal is None else refusal.status


LISTED = ["https://app.example", "http://localhost:3000"]


@pytest.mark.parametrize(
    ("headers", "unset", "listed", "any"),
    [
        ({}, None, None, None),
        ({"origin": "http://127.0.0.1:8000"}, None, 403, None),
        ({"origin": "https://app.example"}, 403, None, None),
        ({"origin": "https://APP.example"}, 403, None, None),
        ({"origin": "https://app.example.evil"}, 403, 403, None),
        ({"origin": "http://app.example"}, 403, 403, None),
        ({"origin": "null"}, 403, 403, None),
        ({"origin": ""}, 403, 403, None),
        ({"sec-fetch-site": "cross-site"}, 403, 403, None),
        ({"sec-fetch-site": "same-origin, cross-site"}, 403, 403, None),
        ({"sec-fetch-site": "same-origin"}, None, None, None),
        ({"sec-fetch-site": "cross-site", "origin": "https://app.example"}, 403, None, None),
        ({"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:8000"}, 403, 403, None),
    ],
)
@pytest.mark.spec("R-mcpserve-4")
def test_origins(headers: dict[str, str | None], unset: int | None, listed: int | None, any: int | None) -> None:
    assert status(headers) == unset
    assert status(headers, allowed_origins=LISTED) == listed
    assert status(headers, allowed_origins="any") == any


def test_an_origin_that_is_none_is_not_that_of_a_host_without_a_name() -> None:
    for origin in ("null", ""):
        assert status({"host": "", "origin": origin}, allowed_hosts="any") == 403
        assert status({"host": None, "origin": origin}, allowed_hosts="any") == 403


@pytest.mark.parametrize(
    ("host", "loopback", "elsewhere", "listed", "any"),
    [
        ("127.0.0.1:8000", None, None, 421, None),
        ("localhost", None, None, 421, None),
        ("LOCALHOST:9", None, None, 421, None),
        ("[::1]:8000", None, None, 421, None),
        ("evil.example", 421, None, 421, None),
        ("mcp.example", 421, None, None, None),
        ("mcp.example:443", 421, None, None, None),
        ("pinned.example:81", 421, None, None, None),
        ("pinned.example:82", 421, None, 421, None),
        ("pinned.example", 421, None, 421, None),
        ("", 421, None, 421, None),
    ],
)
def test_hosts(host: str, loopback: int | None, elsewhere: int | None, listed: int | None, any: int | None) -> None:
    names = ["mcp.example", "pinned.example:81"]
    assert status({"host": host}) == loopback
    assert status({"host": host}, host="0.0.0.0") == elsewhere
    assert status({"host": host}, allowed_hosts=names) == listed
    assert status({"host": host}, host="0.0.0.0", allowed_hosts=names) == listed
    assert status({"host": host}, allowed_hosts="any") == any


@pytest.mark.parametrize(
    ("bound", "host"),
    [
        ("127.0.0.2", "127.0.0.2:8000"),
        ("::1", "[::1]:8000"),
        ("0:0:0:0:0:0:0:1", "[0:0:0:0:0:0:0:1]"),
        ("[::1]", "[::1]"),
    ],
)
def test_on_a_loopback_bind_the_address_itself_is_a_name(bound: str, host: str) -> None:
    assert status({"host": host}, host=bound) is None
    assert status({"host": "127.0.0.3"}, host=bound) == 421
    assert status({"host": "localhost"}, host=bound) is None


@pytest.mark.parametrize(
    ("content_type", "expected"),
    [
        ("application/json", None),
        ("application/json; charset=utf-8", None),
        ("Application/JSON ;charset=utf-8", None),
        ("text/plain", 415),
        ("application/json-patch+json", 415),
        ("text/plain, application/json", 415),
        ("", 415),
        (None, 415),
    ],
)
def test_content_types(content_type: str | None, expected: int | None) -> None:
    assert status({"content-type": content_type}) == expected


def test_a_request_has_one_length() -> None:
    assert status({"content-length": "3"}) is None
    assert status({"transfer-encoding": "chunked"}) is None
    assert status({"content-length": "3", "transfer-encoding": "chunked"}, path="/x") == 400


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
def test_only_post_is_served(method: str) -> None:
    assert status({}, method=method) == 405


@pytest.mark.parametrize("path", ["/", "/mcp/", "/mcp2", "/MCP", "/other"])
def test_only_its_path_is_served(path: str) -> None:
    assert status({}, path=path) == 404
    assert status({}, path="/other/mcp") == 404


@pytest.mark.spec("R-mcpserve-5")
def test_the_order_of_the_checks() -> None:
    wrong: dict[str, str | None] = {
        "host": "evil.example",
        "origin": "http://evil.example",
        "content-type": "text/plain",
    }
    assert status(wrong, path="/x", method="GET") == 404
    assert status(wrong, method="GET") == 421
    assert status({**wrong, "origin": "http://other.example"}) == 421
    assert status({**wrong, "host": HOST}, method="GET") == 403
    assert status({"content-type": "text/plain"}, method="GET") == 405
    assert status({"content-type": "text/plain"}) == 415


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"allowed_hosts": "mcp.example"}, "allowed_hosts"),
        ({"allowed_hosts": [3]}, "allowed_hosts"),
        ({"allowed_hosts": 3}, "allowed_hosts"),
        ({"allowed_hosts": b"mcp.example"}, "allowed_hosts"),
        ({"allowed_origins": "https://app.example"}, "allowed_origins"),
        ({"allowed_origins": ["app.example"]}, "allowed_origins"),
        ({"allowed_origins": ["null"]}, "allowed_origins"),
        ({"allowed_origins": ["https://app.example/"]}, "allowed_origins"),
        ({"allowed_origins": ["https://[app"]}, "allowed_origins"),
    ],
)
def test_what_cannot_be_meant_is_refused(options: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        make_http_policy(
            **{"path": "/mcp", "host": "localhost", "allowed_hosts": None, "allowed_origins": None} | options
        )
    assert refused.value.code == code


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("localhost", True),
        ("127.8.0.1", True),
        ("::1", True),
        ("[::1]", True),
        ("0.0.0.0", False),
        ("mcp.example", False),
    ],
)
def test_loopback(host: str, loopback: bool) -> None:
    assert is_loopback_host(host) is loopback


def test_the_token_is_a_bearers() -> None:
    assert IncomingRequest("POST", "/", headers={"authorization": "Bearer abc "}).token == "abc"
    for value in ("Basic abc", "Bearer ", ""):
        assert IncomingRequest("POST", "/", headers={"authorization": value}).token is None
    assert "abc" not in repr(IncomingRequest("POST", "/", "token=abc", {"authorization": "Bearer abc"}))
