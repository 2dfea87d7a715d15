"""Headers: their grammar, and what is shown of a URL."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.errors import InvalidValueError
from mcpl_core.mcp.http.headers import checked_headers, origin_of, redirect_origin, refuse_reserved


def test_names_are_lower_case() -> None:
    assert checked_headers({"X-Key": "a\tb \xe9", "authorization": "t"}) == {"x-key": "a\tb \xe9", "authorization": "t"}
    assert checked_headers({}) == {}


@pytest.mark.parametrize(
    "headers",
    [
        None, [("a", "b")], {"": "x"}, {"a b": "x"}, {"a:": "x"}, {"ä": "x"}, {1: "x"}, {"a": 1}, {"a": None},
        {"a": "canary\r\nx: y"}, {"a": "canary\n"}, {"a": "canary\0"}, {"a": "canary☃"},
    ],
)  # fmt: skip
def test_what_is_no_header_is_refused_and_not_shown(headers: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        checked_headers(headers)
    assert caught.value.code == "header"
    assert "canary" not in f"{caught.value!r} {caught.value}"


@pytest.mark.parametrize("name", ["Host", "content-length", "Mcp-Session-Id", "MCP-Protocol-Version", "Accept"])
def test_headers_of_the_protocol_are_not_for_callers(name: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        refuse_reserved({name: "canary"})
    assert caught.value.code == "header"
    assert "canary" not in f"{caught.value!r} {caught.value}"


def test_the_rest_is() -> None:
    assert refuse_reserved({"Authorization": "t", "User-Agent": "u"}) == {"authorization": "t", "user-agent": "u"}


@pytest.mark.parametrize(
    ("url", "origin"),
    [
        ("https://Example.com/a?token=canary", "https://example.com"),
        ("https://example.com:443/", "https://example.com"),
        ("http://example.com:8080/mcp", "http://example.com:8080"),
        ("http://[::1]:80/", "http://[::1]"),
        ("http://[::1]:8000/", "http://[::1]:8000"),
        ("http://user:canary@example.com/", "http://example.com"),
    ],
)
def test_an_origin_is_scheme_host_and_port(url: str, origin: str) -> None:
    assert origin_of(url) == origin


@pytest.mark.parametrize(
    ("location", "origin"),
    [
        ("/other", "http://a.example:81"),
        ("mcp/", "http://a.example:81"),
        ("//b.example/x", "http://b.example"),
        ("https://a.example:81/mcp", "https://a.example:81"),
        ("http://user:pw@a.example:81/mcp", None),
        ("http://[::1", None),
        ("mailto:x", None),
    ],
)
def test_where_a_redirect_leads(location: str, origin: str | None) -> None:
    assert redirect_origin("http://a.example:81/mcp", location) == origin
