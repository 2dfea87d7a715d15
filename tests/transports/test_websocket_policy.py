"""Which requests a listener takes."""

from __future__ import annotations

from typing import Any

import pytest
from websockets.datastructures import Headers
from websockets.http11 import Request

from mcpl_core.transports.websocket_policy import UpgradePolicy, UpgradeRequest, make_policy


def request(path: str = "/", **headers: str) -> UpgradeRequest:
    return UpgradeRequest(path, "", {name.lower().replace("_", "-"): value for name, value in headers.items()})


def policy(**changes: Any) -> UpgradePolicy:
    options: dict[str, Any] = {
        "path": None,
        "origins": (),
        "host": "127.0.0.1",
        "port": 8000,
        "secure": False,
        "allowed_hosts": None,
    }
    return make_policy(**options | changes)


def status(policy: UpgradePolicy, request: UpgradeRequest) -> int | None:
    refusal = policy.refusal(request)
    return None if refusal is None else refusal.status


# ---------------------------------------------------------------------------------------- the request


def test_a_request_is_read_and_shows_no_secrets() -> None:
    headers = Headers([("Host", "h"), ("Cookie", "a=1"), ("cookie", "b=2"), ("Authorization", "Bearer secret")])
    read = UpgradeRequest.read(Request("/p?token=secret&x=1", headers), "127.0.0.1:5")
    assert (read.path, read.query, read.peer) == ("/p", "token=secret&x=1", "127.0.0.1:5")
    assert read.headers == {"host": "h", "cookie": "a=1, b=2", "authorization": "Bearer secret"}
    assert "secret" not in repr(read)
    assert read == UpgradeRequest("/p", read.query, read.headers, "127.0.0.1:5")


@pytest.mark.parametrize(
    ("authorization", "query", "token"),
    [
        ("Bearer abc", "", "abc"),
        ("bearer  abc ", "token=other", "abc"),
        ("Basic abc", "token=q", "q"),
        ("Bearer ", "token=q", "q"),
        ("", "a=1&token=q%2B1&token=r", "q+1"),
        ("", "token=", None),
        ("", "", None),
    ],
)
def test_the_bearer_token(authorization: str, query: str, token: str | None) -> None:
    assert UpgradeRequest("/", query, {"authorization": authorization}).token == token


def test_the_subprotocols_offered() -> None:
    assert request(sec_websocket_protocol="a, b,, c ").subprotocols == ("a", "b", "c")
    assert request().subprotocols == ()


# ---------------------------------------------------------------------------------------- path and origin


def test_without_a_path_every_path_is_served() -> None:
    assert status(policy(host=None), request("/any")) is None


@pytest.mark.parametrize(("path", "expected"), [("/mcpl", None), ("/", 404), ("/mcpl/", 404), ("/MCPL", 404)])
def test_a_path_is_the_only_one(path: str, expected: int | None) -> None:
    assert status(policy(host=None, path="/mcpl"), request(path)) == expected


def test_a_request_without_an_origin_comes_from_a_program() -> None:
    assert status(policy(host=None), request()) is None


@pytest.mark.parametrize("origin", ["https://example.org", "null", "http://127.0.0.1:8000", "", "*"])
def test_no_origin_may_connect_by_default(origin: str) -> None:
    assert status(policy(host=None), request(origin=origin)) == 403


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        ("https://example.org", None),
        ("HTTPS://Example.org", None),
        ("https://example.org:8443", 403),
        ("http://example.org", 403),
        ("https://example.org.evil", 403),
        ("https://example.org, https://evil", 403),
    ],
)
def test_listed_origins_may_connect(origin: str, expected: int | None) -> None:
    assert status(policy(host=None, origins=["https://example.org"]), request(origin=origin)) == expected


# ---------------------------------------------------------------------------------------- host


@pytest.mark.parametrize("bound", ["127.0.0.1", "localhost", "::1", "127.1.2.3"])
@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1:8000", None),
        ("LocalHost:8000", None),
        ("[::1]:8000", None),
        ("localhost", 421),
        ("localhost:8001", 421),
        ("evil.example:8000", 421),
        ("localhost:8000.evil", 421),
        ("", 421),
        ("localhost:8000, localhost:8000", 421),
    ],
)
def test_on_loopback_only_loopback_names_are_served(bound: str, host: str, expected: int | None) -> None:
    assert status(policy(host=bound), request(host=host)) == expected


def test_a_request_without_a_host_has_none_of_the_names() -> None:
    assert status(policy(), request()) == 421


@pytest.mark.parametrize(("port", "secure"), [(80, False), (443, True)])
def test_the_schemes_own_port_may_be_left_out(port: int, secure: bool) -> None:
    assert status(policy(port=port, secure=secure), request(host="localhost")) is None
    assert status(policy(port=port, secure=not secure), request(host="localhost")) == 421


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("mcpl.example", None),
        ("MCPL.example:1", None),
        ("other.example:9000", None),
        ("other.example:9001", 421),
        ("other.example", 421),
        ("[fe80::1]:5", None),
        ("localhost:8000", None),
    ],
)
def test_allowed_hosts_are_served_beside_them(host: str, expected: int | None) -> None:
    allowed = policy(allowed_hosts=["mcpl.example", "Other.example:9000", "[fe80::1]"])
    assert status(allowed, request(host=host)) == expected


@pytest.mark.parametrize("bound", ["0.0.0.0", "::", "10.0.0.1", "mcpl.example", None])
def test_elsewhere_any_name_is_served_unless_names_are_given(bound: str | None) -> None:
    assert status(policy(host=bound), request(host="anything")) is None
    named = policy(host=bound, allowed_hosts=["mcpl.example"])
    assert status(named, request(host="anything")) == 421
    assert status(named, request(host="mcpl.example")) is None
    assert status(policy(host=bound, allowed_hosts=[]), request(host="anything")) == 421
