"""What the options of connecting mean."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from mcpl_core.cli.options import _WORDS
from mcpl_core.cli.output import CommandError
from mcpl_core.cli.target import TargetOptions, secret_from, tls_context
from mcpl_core.transports.subprocess import SubprocessTransport
from mcpl_core.transports.websocket import WebSocketTransport


def options(*endpoint: str, words: list[str] | None = None, **others: Any) -> TargetOptions:
    context: Any = SimpleNamespace(meta={} if words is None else {_WORDS: words})
    return TargetOptions(context, list(endpoint) or None, **others)


def test_a_command() -> None:
    target = options(words=["cat", "-u"], env=["A=1", "B=x=y"]).target()
    assert target.is_command
    assert target.where == ["cat", "-u"]
    assert target.options["env"] == {"A": "1", "B": "x=y"}
    assert target.options["inherit_env"] is True
    assert isinstance(target.transport(), SubprocessTransport)
    assert target.transport() is not target.transport()
    assert options(words=["cat"], clean_env=True).target().options["inherit_env"] is False


def test_an_endpoint_with_its_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_TOKEN", " abc \n")
    target = options("wss://example.org/x", header=["X-Room: 7 : 8"], token_env="A_TOKEN").target()
    assert not target.is_command
    assert target.options["headers"] == [("X-Room", "7 : 8"), ("Authorization", "Bearer abc")]
    assert isinstance(target.transport(), WebSocketTransport)
    assert "abc" not in repr(target)


def test_whether_there_is_one() -> None:
    assert not options().given()
    assert options("ws://x").given()
    assert options(words=[]).given()


def test_size_limits_reach_the_transport() -> None:
    for target in (options("unix:///x", max_message_bytes=5000), options(words=["cat"], max_message_bytes=5000)):
        assert target.target().transport().max_message_bytes == 5000


@pytest.mark.parametrize(
    "wrong",
    [
        options(),
        options("a", "b"),
        options("nonsense"),
        options("ws://x#y"),
        options("ws://x", words=["cat"]),
        options(words=[]),
        options(words=[""]),
        options(words=["cat"], header=["A:1"]),
        options(words=["cat"], token_env="A"),
        options(words=["cat"], ca="x"),
        options(words=["cat"], env=["=1"]),
        options("ws://x", env=["A=1"]),
        options("ws://x", clean_env=True),
        options("ws://x", header=["A"]),
        options("ws://x", header=["bad name: 1"]),
        options("unix:///x", header=["A:1"]),
        options("ws://x", ca="x"),
        options("wss://x", ca="/nonexistent"),
        options("ws://x", token_env="NOT_SET_ANYWHERE"),
    ],
)
def test_what_makes_no_sense(wrong: TargetOptions) -> None:
    with pytest.raises(CommandError) as caught:
        wrong.target()
    assert caught.value.status == 2


def test_secrets_are_found_or_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EMPTY", "  ")
    for name in ("EMPTY", "NOT_SET_ANYWHERE"):
        with pytest.raises(CommandError, match=name):
            secret_from(name)


def test_certificates_that_are_none(tmp_path: Any) -> None:
    path = tmp_path / "ca.pem"
    path.write_text("nothing")
    with pytest.raises(CommandError):
        tls_context(str(path))
