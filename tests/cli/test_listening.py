"""What the options of listening mean."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from mcpl_core.cli.listening import ListenOptions, LocalToken
from mcpl_core.cli.output import CommandError
from mcpl_core.transports.listeners import TcpListener, UnixListener
from mcpl_core.transports.websocket import WebSocketListener
from mcpl_core.transports.websocket_policy import UpgradeRequest


def test_each_kind_of_listener() -> None:
    assert isinstance(ListenOptions("ws://127.0.0.1:0").listener(5000), WebSocketListener)
    assert isinstance(ListenOptions("tcp://127.0.0.1:0").listener(5000), TcpListener)
    unix = ListenOptions("unix:///x", max_connections=3)
    assert isinstance(unix.listener(5000), UnixListener)
    assert unix.listener(5000).max_connections == 3
    assert unix.listener(5000, max_connections=1).max_connections == 1


def test_who_has_the_token_gets_in() -> None:
    token = LocalToken("s3cret-\u00e9")
    assert token(UpgradeRequest("/", headers={"authorization": "Bearer s3cret-\u00e9"})) == "token"
    assert token(UpgradeRequest("/", query="token=s3cret-%C3%A9")) == "token"
    for request in (UpgradeRequest("/"), UpgradeRequest("/", query="token=other"), UpgradeRequest("/", query="token=")):
        assert token(request) is None


@pytest.mark.parametrize(
    ("options", "unprotected"),
    [
        (ListenOptions("ws://127.0.0.1:0"), False),
        (ListenOptions("ws://localhost:0"), False),
        (ListenOptions("unix:///x"), False),
        (ListenOptions("ws://0.0.0.0:0"), True),
        (ListenOptions("tcp://example.org:1"), True),
        (ListenOptions("ws://0.0.0.0:0", listen_token_env="T"), False),
    ],
)
def test_whether_everybody_may_come(options: ListenOptions, unprotected: bool) -> None:
    assert options.unprotected() is unprotected


@pytest.mark.parametrize(
    "wrong",
    [
        {"listen": "nonsense"},
        {"listen": "http://127.0.0.1:0"},
        {"listen": "tcp://127.0.0.1"},
        {"listen": "tcp://127.0.0.1:0", "origin": ["https://x"]},
        {"listen": "unix:///x", "listen_token_env": "T"},
        {"listen": "ws://127.0.0.1:0", "listen_token_env": "NOT_SET_ANYWHERE"},
        {"listen": "wss://127.0.0.1:0"},
        {"listen": "tls://127.0.0.1:0"},
        {"listen": "wss://127.0.0.1:0", "cert": "/nonexistent"},
        {"listen": "ws://127.0.0.1:0", "cert": "/nonexistent"},
        {"listen": "unix:///x", "key": "/nonexistent"},
    ],
)
def test_what_makes_no_sense(wrong: dict[str, Any]) -> None:
    with pytest.raises(CommandError) as caught:
        ListenOptions(**wrong).listener(5000)
    assert caught.value.status == 2


def test_a_certificate_that_is_none(tmp_path: Path) -> None:
    path = tmp_path / "cert.pem"
    path.write_text("nothing")
    with pytest.raises(CommandError):
        ListenOptions("wss://127.0.0.1:0", cert=str(path)).listener(5000)


@pytest.mark.parametrize("option", ["origin", "listen_token_env", "cert", "key"])
def test_who_does_not_listen_lets_nobody_in(option: str) -> None:
    ListenOptions().check_unused()
    wrong: dict[str, Any] = {option: ["x"] if option == "origin" else "x"}
    with pytest.raises(CommandError) as caught:
        ListenOptions(**wrong).check_unused()
    assert f"--{option.replace('_', '-')} " in str(caught.value)
