"""What a URL, a header, a proxy may be, and what of it errors may show."""

from __future__ import annotations

import ssl

import pytest

from mcpl_core.errors import InvalidValueError
from mcpl_core.transports.websocket_address import (
    Address,
    check_headers,
    check_subprotocols,
    is_loopback,
    origin_of,
    read_address,
    redirected,
)


@pytest.mark.parametrize(
    ("url", "host", "port", "resource", "origin"),
    [
        ("ws://localhost", "localhost", 80, "/", "ws://localhost"),
        ("ws://LOCALHOST:8080/a?token=t", "localhost", 8080, "/a?token=t", "ws://localhost:8080"),
        ("wss://example.org:443/", "example.org", 443, "/", "wss://example.org"),
        ("ws://[::1]:99/x", "::1", 99, "/x", "ws://[::1]:99"),
        ("WS://h/", "h", 80, "/", "ws://h"),
        ("wss://h\u00f6st.example/\u00fc", "xn--hst-sna.example", 443, "/%C3%BC", "wss://xn--hst-sna.example"),
    ],
)
def test_a_url(url: str, host: str, port: int, resource: str, origin: str) -> None:
    address = read_address(url)
    assert (address.host, address.port, address.uri.resource_name, address.origin) == (host, port, resource, origin)
    assert origin_of(address.uri) == origin
    assert (address.tls is not None) == url.lower().startswith("wss")
    assert repr(address) == f"Address({origin})"


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("http://h/", "scheme"),
        ("h:80", "scheme"),
        ("", "scheme"),
        ("ws://", "empty_authority"),
        ("ws:/path", "empty_authority"),
        ("ws://:80/", "empty_authority"),
        ("ws://user:secret@h/", "userinfo"),
        ("ws://secret@h/", "userinfo"),
        ("ws://@h/", "userinfo"),
        ("ws://h/#f", "fragment"),
        ("ws://h/#", "fragment"),
        ("ws://h:0/", "port"),
        ("ws://h:65536/", "port"),
        ("ws://h:x/", "port"),
        ("ws://[::1/", "host"),
        ("ws://" + "a" * 70 + "\u00f6.example/", "host"),
        ("ws://h/a b", "character"),
        ("ws://h/\n", "character"),
        ("ws://h\\x/", "character"),
        ("ws://h/\x7f", "character"),
    ],
)
def test_a_url_outside_the_grammar(url: str, code: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        read_address(url)
    assert caught.value.code == code
    assert "secret" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_tls_is_for_wss_alone() -> None:
    context = ssl.create_default_context()
    assert read_address("wss://h/", tls=context).tls is context
    with pytest.raises(InvalidValueError) as caught:
        read_address("ws://h/", tls=context)
    assert caught.value.code == "tls"


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("localhost", True),
        ("LOCALHOST.", True),
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("localhost.example", False),
        ("10.0.0.1", False),
        ("0.0.0.0", False),
        ("", False),
    ],
)
def test_loopback(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


# ---------------------------------------------------------------------------------------- proxies


def proxy_of(address: Address) -> tuple[str, str, int] | None:
    return None if address.proxy is None else (address.proxy.scheme, address.proxy.host, address.proxy.port)


def test_a_proxy_is_used_only_when_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("https_proxy", "http://secure.example:3129")
    monkeypatch.setenv("no_proxy", "direct.example")
    assert read_address("ws://h/").proxy is None
    assert read_address("ws://h/", proxy=False).proxy is None
    assert proxy_of(read_address("wss://h/", proxy=True)) == ("http", "secure.example", 3129)
    assert proxy_of(read_address("ws://direct.example/", proxy=True)) is None
    for host in ("localhost", "127.0.0.1", "[::1]"):
        assert read_address(f"ws://{host}/", proxy=True).proxy is None
    assert read_address("ws://h/", proxy=True, unix_path="/s").proxy is None


def test_a_proxy_that_is_named_is_used_for_every_host() -> None:
    address = read_address("ws://127.0.0.1/", proxy="http://user:pass@p:3128")
    assert proxy_of(address) == ("http", "p", 3128)
    assert address.proxy_tls is None
    assert read_address("ws://127.0.0.1/", proxy="https://p").proxy_tls is not None
    assert "pass" not in repr(address)


@pytest.mark.parametrize(
    "proxy", ["socks5://p:1080", "socks5h://p", "ftp://p", "p:3128", "http://", "http://p/x", "http://p:x"]
)
def test_other_proxies_are_refused(proxy: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        read_address("ws://h/", proxy=proxy)
    assert caught.value.code == "proxy"


# ---------------------------------------------------------------------------------------- redirects


@pytest.mark.parametrize(
    ("location", "resource"),
    [
        ("/b", "/b"),
        ("b?x=1", "/a/b?x=1"),
        ("ws://h:8080/b", "/b"),
        ("http://h:8080/b", "/b"),
        ("HTTP://H:8080/b", "/b"),
        ("//h:8080/b", "/b"),
    ],
)
def test_a_redirect_within_the_origin(location: str, resource: str) -> None:
    target = redirected(read_address("ws://h:8080/a/x?token=secret"), location)
    assert isinstance(target, Address)
    assert (target.origin, target.uri.resource_name) == ("ws://h:8080", resource)


@pytest.mark.parametrize(
    ("location", "origin"),
    [
        ("ws://h/", "ws://h"),
        ("ws://h:8081/?token=secret", "ws://h:8081"),
        ("wss://h:8080/", "wss://h:8080"),
        ("https://h:8080/", "wss://h:8080"),
        ("https://evil.example/path?secret", "wss://evil.example"),
        ("//evil.example:8080/", "ws://evil.example:8080"),
    ],
)
def test_a_redirect_to_another_origin_names_the_origin_alone(location: str, origin: str) -> None:
    assert redirected(read_address("ws://h:8080/a?token=secret"), location) == origin


@pytest.mark.parametrize(
    "location", ["ftp://h:8080/", "ws://u:p@h:8080/", "ws://h:8080/#f", "ws://[/", "a b", "mailto:x"]
)
def test_a_redirect_to_no_websocket(location: str) -> None:
    assert redirected(read_address("ws://h:8080/"), location) is None


# ---------------------------------------------------------------------------------------- headers, subprotocols


def test_headers_are_taken_as_a_mapping_or_pairs() -> None:
    assert check_headers(None) == []
    assert check_headers({"Authorization": "Bearer x", "X-A": "b\tc"}) == [
        ("Authorization", "Bearer x"),
        ("X-A", "b\tc"),
    ]
    assert check_headers([("Cookie", "a"), ("Cookie", "b")]) == [("Cookie", "a"), ("Cookie", "b")]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("Host", "h"),
        ("upgrade", "x"),
        ("Connection", "x"),
        ("Sec-WebSocket-Key", "x"),
        ("sec-websocket-protocol", "x"),
        ("Content-Length", "1"),
        ("a b", "x"),
        ("", "x"),
        ("X", "secret\r\nEvil: 1"),
        ("X", "secret\n"),
        ("X", "secret\u20ac"),
    ],
)
def test_headers_that_cannot_be_set(name: str, value: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        check_headers({name: value})
    assert caught.value.code == "header"
    assert "secret" not in str(caught.value)


def test_subprotocols() -> None:
    assert check_subprotocols(None) == []
    assert check_subprotocols(("mcpl", "a.b")) == ["mcpl", "a.b"]
    with pytest.raises(InvalidValueError) as caught:
        check_subprotocols(["secret/base64="])
    assert caught.value.code == "subprotocol"
    assert "secret" not in str(caught.value)
    with pytest.raises(TypeError):
        check_subprotocols("mcpl")
