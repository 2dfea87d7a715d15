"""What an endpoint may look like, and which transport or listener it means."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from mcpl_core.errors import InvalidValueError
from mcpl_core.transports.endpoints import listener_for, transport_for
from mcpl_core.transports.listeners import TcpListener, UnixListener
from mcpl_core.transports.sockets import TcpTransport, UnixTransport
from mcpl_core.transports.subprocess import SubprocessTransport
from tests.transports.certificate import client_context, server_context


@pytest.mark.parametrize(
    ("endpoint", "kind", "name"),
    [
        ("tcp://localhost:80", TcpTransport, "tcp://localhost:80"),
        ("TCP://localhost:80/", TcpTransport, "tcp://localhost:80"),
        ("tcp://[::1]:80", TcpTransport, "tcp://[::1]:80"),
        ("tls://example.org:443", TcpTransport, "tls://example.org:443"),
        ("unix:///run/a%20b.sock", UnixTransport, "unix:///run/a b.sock"),
        (["python", "-c", "tcp://not.a.url:1"], SubprocessTransport, "python"),
        ((Path("/usr/bin/python"),), SubprocessTransport, "python"),
    ],
)
def test_transports(endpoint: Any, kind: type, name: str) -> None:
    transport = transport_for(endpoint)
    assert type(transport) is kind
    assert transport.name == name


@pytest.mark.parametrize("endpoint", ["ws://example.org/a?b=c", "wss://example.org:8443/a", "mcpl://example.org/a"])
def test_websockets(endpoint: str) -> None:
    from mcpl_core.transports.websocket import WebSocketTransport

    transport = transport_for(endpoint, max_message_bytes=5, headers={"A": "b"})
    assert isinstance(transport, WebSocketTransport)
    assert transport.max_message_bytes == 5
    assert transport.name.startswith(endpoint.partition(":")[0].replace("mcpl", "wss") + "://example.org")


def test_options_reach_the_transport() -> None:
    transport = transport_for("tcp://localhost:1", max_message_bytes=5, close_timeout=7)
    assert (transport.max_message_bytes, transport.close_timeout) == (5, 7)
    child = transport_for(["x"], env={"A": "1"}, cwd=None, max_message_bytes=5)
    assert child.max_message_bytes == 5
    assert transport_for("tls://localhost:1", ssl=client_context()).name == "tls://localhost:1"
    with pytest.raises(TypeError):
        transport_for("tcp://localhost:1", env={})


@pytest.mark.parametrize(
    ("endpoint", "code"),
    [
        ("", "scheme"),
        ("localhost:80", "scheme"),
        ("python server.py", "scheme"),
        ("/usr/bin/python", "scheme"),
        ("http://localhost:80", "scheme"),
        ("stdio:", "scheme"),
        ("tcp:localhost:80", "empty_authority"),
        ("tcp:/localhost:80", "empty_authority"),
        ("tcp://:80", "empty_authority"),
        ("tcp://", "empty_authority"),
        ("tcp://localhost", "port"),
        ("tcp://localhost:", "port"),
        ("tcp://localhost:0", "port"),
        ("tcp://localhost:x", "port"),
        ("tcp://localhost:65536", "port"),
        ("tcp://localhost:-1", "port"),
        ("tcp://[::1:80", "host"),
        ("tcp://user@localhost:80", "userinfo"),
        ("tcp://user:secret@localhost:80", "userinfo"),
        ("tls://@localhost:80", "userinfo"),
        ("tcp://localhost:80#", "fragment"),
        ("tcp://localhost:80#x", "fragment"),
        ("tcp://localhost:80/path", "path"),
        ("tcp://localhost:80?", "query"),
        ("tcp://localhost:80?a", "query"),
        ("tcp://local host:80", "character"),
        ("tcp://localhost\\:80", "character"),
        ("tcp://localhost:80\n", "character"),
        ("tcp://local\x00host:80", "character"),
        ("tcp://\ud800:80", "character"),
        ("unix://host/path", "host"),
        ("unix:///", "path"),
        ("unix://", "path"),
        ("unix:relative", "empty_authority"),
        ("unix:///a%00b", "path"),
        ("unix:///a?b", "query"),
        ("unix:///a#b", "fragment"),
        ("unix://u@/a", "userinfo"),
        ("ws://user:secret@localhost", "userinfo"),
        ("wss://localhost#", "fragment"),
        ("ws:localhost", "empty_authority"),
        ("mcpl://user@localhost", "userinfo"),
        ("mcpl://localhost/a/../b", "dot_segment"),
        ("mcpl:localhost", "scheme"),
    ],
)
def test_what_is_no_endpoint(endpoint: str, code: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        transport_for(endpoint)
    assert caught.value.code == code
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("wrong", [None, 3, b"tcp://localhost:80", Path("program")])
def test_neither_url_nor_command(wrong: Any) -> None:
    with pytest.raises(TypeError):
        transport_for(wrong)
    with pytest.raises(TypeError):
        listener_for(wrong)


def test_tls_where_it_has_no_meaning() -> None:
    for endpoint in ("tcp://localhost:1", "ws://localhost"):
        with pytest.raises(TypeError):
            transport_for(endpoint, ssl=client_context())
        with pytest.raises(TypeError):
            listener_for(endpoint, ssl=server_context())
    assert transport_for("tcp://localhost:1", ssl=False).name == "tcp://localhost:1"


def test_listeners(tmp_path: Path) -> None:
    assert isinstance(listener_for("tcp://127.0.0.1:0", max_connections=3), TcpListener)
    assert listener_for("tcp://127.0.0.1:0", max_connections=3).max_connections == 3
    assert isinstance(listener_for("tls://localhost:8000", ssl=server_context()), TcpListener)
    assert isinstance(listener_for(f"unix://{tmp_path}/socket", mode=0o660), UnixListener)


def test_websocket_listeners(monkeypatch: pytest.MonkeyPatch) -> None:
    from mcpl_core.transports.websocket import WebSocketListener

    assert isinstance(listener_for("ws://127.0.0.1:0"), WebSocketListener)
    calls: list[tuple[str, int, dict[str, Any]]] = []

    def record(host: str, port: int, **options: Any) -> None:
        calls.append((host, port, options))

    monkeypatch.setattr("mcpl_core.transports.websocket.WebSocketListener", record)
    context = server_context()
    listener_for("wss://127.0.0.1/path", ssl=context, origins=["https://example.org"])
    listener_for("ws://[::1]:8000/")
    listener_for("ws://localhost", path="/other")
    assert calls == [
        ("127.0.0.1", 443, {"path": "/path", "ssl": context, "origins": ["https://example.org"]}),
        ("::1", 8000, {"path": "/"}),
        ("localhost", 80, {"path": "/other"}),
    ]


@pytest.mark.parametrize(
    ("endpoint", "code"),
    [
        ("mcpl://localhost", "scheme"),
        ("localhost:80", "scheme"),
        ("tcp://localhost", "port"),
        ("ws://", "empty_authority"),
        ("ws://localhost?a", "query"),
        ("ws://user@localhost", "userinfo"),
        ("unix:///", "path"),
    ],
)
def test_what_nobody_listens_on(endpoint: str, code: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        listener_for(endpoint)
    assert caught.value.code == code


@pytest.mark.parametrize("endpoint", ["tls://localhost:1", "wss://localhost"])
def test_a_listener_with_tls_needs_a_certificate(endpoint: str) -> None:
    with pytest.raises(TypeError):
        listener_for(endpoint)


def test_a_command_that_looks_like_nothing_else() -> None:
    transport = transport_for([sys.executable])
    assert isinstance(transport, SubprocessTransport)
    with pytest.raises(InvalidValueError):
        transport_for([])


@pytest.mark.parametrize("endpoint", ["tls://127.0.0.1:0", "wss://127.0.0.1:0"])
def test_a_listener_with_tls_needs_a_context(endpoint: str) -> None:
    with pytest.raises(TypeError):
        listener_for(endpoint, ssl=True)


@pytest.mark.parametrize("name", ["origins", "allowed_hosts"])
def test_one_string_is_no_list_of_strings(name: str) -> None:
    with pytest.raises(TypeError):
        listener_for("ws://127.0.0.1:0", **{name: "https://example.org"})
