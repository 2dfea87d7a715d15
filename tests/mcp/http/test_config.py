"""Everything is read and checked at construction."""

from __future__ import annotations

import builtins
from typing import Any

import mcp
import pytest

from mcpl_core.errors import InvalidValueError
from mcpl_core.mcp import McpExtraMissingError
from mcpl_core.mcp.http import RetrySettings, Timing, open_session, read_sdk, retrying_transport
from mcpl_core.mcp.http.config import read_config
from mcpl_core.mcp.replay import Replay
from mcpl_core.mcp.transports import CredentialRequest, GatewayTransport, HttpTransport
from tests.mcp.http.opened import INFO

URL = "http://a.example/mcp"


def options(**given: Any) -> dict[str, Any]:
    usual = {
        "client_info": INFO, "name": "n", "timeout": 3.0, "era": "auto", "retry_on_throttle": True, "replay": None,
        "handlers": None, "sdk": None, "carrier": None, "timing": None, "max_message_bytes": None,
    }  # fmt: skip
    return usual | given


def test_what_a_description_says() -> None:
    config = read_config(HttpTransport(URL, headers={"X-A": "1"}), options())
    assert (config.url, config.headers, config.hook, config.credentials) == (URL, {"x-a": "1"}, None, None)
    assert (config.retry, config.replay, config.timing) == (RetrySettings(), Replay(), Timing())
    assert (config.max_message_bytes, config.handlers) == (16 * 1024 * 1024, {})
    assert config.sdk.Client is mcp.Client


def test_what_a_gateway_says() -> None:
    async def vend(wanted: CredentialRequest) -> dict[str, str]:
        return {}

    config = read_config(GatewayTransport(URL, vend, "svc", ["a"], "user"), options(retry_on_throttle=False))
    assert config.credentials == (vend, CredentialRequest("svc", ("a",), "user"))
    assert config.retry is None
    plain = read_config(GatewayTransport(URL, vend), options())
    assert plain.credentials == (vend, CredentialRequest("gateway", None, None))


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"era": "legacy"}, "era"),
        ({"carrier": "tcp"}, "carrier"),
        ({"client_info": {"name": "n"}}, "client_info"),
        ({"client_info": {"name": 1, "version": "1"}}, "client_info"),
        ({"retry_on_throttle": {"tries": 3}}, "unknown_member"),
        ({"replay": {"tool": {}}}, "unknown_member"),
        ({"sdk": object()}, "sdk"),
        ({"client_info": 5}, "client_info"),
        ({"handlers": 5}, "handlers"),
        ({"handlers": {"ping": 5}}, "handlers"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": float("nan")}, "timeout"),
        ({"timeout": "5"}, "timeout"),
        ({"timeout": True}, "timeout"),
        ({"max_message_bytes": 0}, "max_message_bytes"),
        ({"max_message_bytes": 1.5}, "max_message_bytes"),
        ({"replay": {"on_record": 5}}, "replay_on_record"),
        ({"replay": {"tools": {5: {}}}}, "replay_tools"),
    ],
)
def test_what_makes_no_sense(given: dict[str, Any], code: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        open_session(HttpTransport(URL), **{"client_info": INFO, **given})
    assert caught.value.code == code


def test_headers_of_the_protocol_are_refused() -> None:
    with pytest.raises(InvalidValueError) as caught:
        read_config(HttpTransport(URL, headers={"Mcp-Session-Id": "x"}), options())
    assert caught.value.code == "header"


def test_other_transports_are_refused() -> None:
    odd: Any = "http://a.example/mcp"
    with pytest.raises(InvalidValueError) as caught:
        open_session(odd, client_info=INFO)
    assert caught.value.code == "transport"


class Given:
    """An SDK of the caller's own."""

    Client = staticmethod(lambda *arguments, **options: None)
    streamable_http_client = staticmethod(lambda *arguments, **options: None)


def test_an_sdk_that_is_given_is_read_now_and_the_installed_one_is_not_touched(monkeypatch: pytest.MonkeyPatch) -> None:
    _block(monkeypatch)
    given = Given()
    read = read_sdk(given)
    assert (read.Client, read.streamable_http_client) == (Given.Client, Given.streamable_http_client)
    given.Client = None  # type: ignore[assignment]
    assert read.Client is Given.Client
    with pytest.raises(InvalidValueError) as caught:
        read_sdk(given)
    assert caught.value.code == "sdk"


def test_without_the_sdk_there_is_one_error_that_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    _block(monkeypatch)
    inner: Any = object()
    for construct in (
        read_sdk,
        lambda: open_session(HttpTransport(URL), client_info=INFO),
        lambda: retrying_transport(inner),
    ):
        with pytest.raises(McpExtraMissingError) as caught:
            construct()
        assert (caught.value.library, caught.value.extra) == ("mcp", "mcp")
        assert (caught.value.__cause__, caught.value.__context__) == (None, None)


def _block(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def refuse(name: str, globals: Any = None, locals: Any = None, fromlist: Any = (), level: int = 0) -> Any:
        if level == 0 and name.split(".")[0] == "mcp":
            raise ImportError(name)
        return real(name, globals, locals, fromlist, level)

    monkeypatch.setattr(builtins, "__import__", refuse)


def test_a_configuration_shows_its_name_alone() -> None:
    config = read_config(HttpTransport(f"{URL}?token=canary", headers={"authorization": "canary"}), options())
    assert repr(config) == "<HttpConfig n>"


@pytest.mark.parametrize(
    ("given", "repeats"),
    [
        ({}, True),
        ({"retry_on_throttle": {"max_attempts": 1}}, False),
        ({"retry_on_throttle": False}, False),
        ({"retry_on_throttle": False, "replay": {"tools": {"t": {"on": ["throttle"]}}}}, False),
        ({"retry_on_throttle": False, "replay": {"tools": {"t": {"on": ["network"]}}}}, True),
    ],
)
def test_whether_anything_is_sent_twice(given: dict[str, Any], repeats: bool) -> None:
    assert read_config(HttpTransport(URL), options(**given)).may_repeat is repeats
