"""Descriptions of the ways to a server."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from mcpl_core.errors import InvalidValueError
from mcpl_core.mcp.transports import (
    Consent,
    CredentialRequest,
    GatewayTransport,
    HttpRequest,
    HttpTransport,
    StdioTransport,
    WebSocketTransport,
)

CANARY = "canary-5d1e"


async def vend(request: CredentialRequest) -> Mapping[str, str]:
    return {"authorization": CANARY}


async def sign(request: HttpRequest) -> None:
    request.headers["x-signature"] = CANARY


EVERY: list[Callable[..., Any]] = [
    lambda **more: StdioTransport(["server"], **more),
    lambda **more: HttpTransport("https://example.com/mcp", **more),
    lambda **more: GatewayTransport("https://example.com/mcp", vend, **more),
    lambda **more: WebSocketTransport("wss://example.com/mcp", **more),
]


def code_of(make: Callable[[], Any]) -> str:
    with pytest.raises(InvalidValueError) as caught:
        make()
    assert CANARY not in str(caught.value) + repr(caught.value.args)
    return caught.value.code


@pytest.mark.parametrize("make", EVERY)
def test_settings_are_checked_and_copied(make: Callable[..., Any]) -> None:
    settings = {"mode": "read-only"}
    transport = make(settings=settings)
    settings["mode"] = "write"
    assert transport.settings == {"mode": "read-only"}
    assert code_of(lambda: make(settings={"token": "x"})) == "credential"


def test_nothing_secret_is_shown() -> None:
    shown = [
        StdioTransport(["/opt/server", CANARY], env={"KEY": CANARY}),
        StdioTransport(["server"], replace_env={CANARY: CANARY}, cwd=CANARY),
        HttpTransport(f"https://example.com/{CANARY}?key={CANARY}", {"Authorization": CANARY}, request_hook=sign),
        GatewayTransport(f"https://example.com/?{CANARY}", vend, service=CANARY, headers={"x": CANARY}),
        WebSocketTransport(f"wss://example.com/?{CANARY}", {"Authorization": CANARY}),
        HttpRequest("POST", f"https://example.com/?{CANARY}", {"authorization": CANARY}, CANARY.encode()),
        Consent(f"https://example.com/{CANARY}"),
    ]
    for each in shown:
        assert CANARY not in repr(each) + str(each)
    assert repr(shown[0]) == "<StdioTransport server>"
    assert repr(shown[2]) == "<HttpTransport https://example.com>"


def test_what_a_gateway_vends_is_not_in_it() -> None:
    transport = GatewayTransport("https://example.com/mcp", vend, scopes=["read"], mode="user")
    assert transport.credential_request == CredentialRequest("gateway", ("read",), "user")
    assert CANARY.encode() not in pickle.dumps(transport)


def test_what_a_gateway_does_not_say_is_not_invented() -> None:
    assert GatewayTransport("http://example.com", vend).credential_request == CredentialRequest("gateway", None, None)


@pytest.mark.parametrize(
    ("url", "code"),
    [
        (f"https://user:{CANARY}@example.com/", "userinfo"),
        (f"https://{CANARY}@example.com/", "userinfo"),
        (f"ftp://example.com/{CANARY}", "url"),
        (f"//example.com/{CANARY}", "url"),
        ("https://", "url"),
        ("https:///path", "url"),
        ("https://example.com:99999/", "url"),
        ("https://[::1", "url"),
        ("", "url"),
        (None, "url"),
        (b"https://example.com", "url"),
    ],
)
def test_urls_are_checked(url: Any, code: str) -> None:
    assert code_of(lambda: HttpTransport(url)) == code
    assert code_of(lambda: GatewayTransport(url, vend)) == code
    assert code_of(lambda: WebSocketTransport(url.replace("https", "wss") if isinstance(url, str) else url)) == code


def test_schemes_belong_to_transports() -> None:
    assert code_of(lambda: HttpTransport("ws://example.com")) == "url"
    assert code_of(lambda: WebSocketTransport("http://example.com")) == "url"


@pytest.mark.parametrize(
    "command", ["python server.py", b"python", [], (), None, 7, {"a"}, iter(["a"]), [7], ["a", None], [b"a"]]
)
def test_a_command_is_a_sequence_of_words(command: Any) -> None:
    assert code_of(lambda: StdioTransport(command)) == "command"


def test_an_environment_is_added_to_or_replaced() -> None:
    assert code_of(lambda: StdioTransport(["server"], env={}, replace_env={})) == "env"


@pytest.mark.parametrize(
    ("headers", "code"),
    [
        ([("a", "b")], "headers"),
        (None, "headers"),
        ({"": "x"}, "header_name"),
        ({"a b": "x"}, "header_name"),
        ({"a\r\nb": "x"}, "header_name"),
        ({7: "x"}, "header_name"),
        ({"\u00e9": "x"}, "header_name"),
        ({"a": f"{CANARY}\r\nx: y"}, "header_value"),
        ({"a": 7}, "header_value"),
        ({"a": "\0"}, "header_value"),
    ],
)
def test_headers_are_checked(headers: Any, code: str) -> None:
    assert code_of(lambda: HttpTransport("http://example.com", headers)) == code
    assert code_of(lambda: GatewayTransport("http://example.com", vend, headers=headers)) == code
    assert code_of(lambda: WebSocketTransport("ws://example.com", headers)) == code


def test_headers_are_copied_and_a_function_is_kept() -> None:
    headers = {"A": "1"}
    transport = HttpTransport("http://example.com", headers)
    headers["A"] = "2"
    assert transport.headers == {"A": "1"}
    assert WebSocketTransport("ws://example.com", headers=dict).headers is dict


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"credentials": None}, "credentials"),
        ({"mode": "robot"}, "mode"),
        ({"scopes": "read write"}, "scopes"),
        ({"scopes": 7}, "scopes"),
        ({"scopes": [7]}, "scopes"),
        ({"service": ""}, "service"),
        ({"service": None}, "service"),
        ({"request_hook": "sign"}, "request_hook"),
    ],
)
def test_a_gateway_needs_a_provider(options: dict[str, Any], code: str) -> None:
    given = {"credentials": vend, **options}
    assert code_of(lambda: GatewayTransport("http://example.com", **given)) == code
    with pytest.raises(TypeError):
        GatewayTransport("http://example.com")  # type: ignore[call-arg]


@pytest.mark.parametrize("name", ["env", "replace_env"])
@pytest.mark.parametrize(
    "variables",
    [7, ["A"], {7: "x"}, {"": "x"}, {"A=B": CANARY}, {"A\0": "x"}, {"A": 7}, {"A": None}, {"A": CANARY + "\0"}],
)
def test_variables_are_texts_that_can_be_passed_on(name: str, variables: Any) -> None:
    assert code_of(lambda: StdioTransport(["server"], **{name: variables})) == name


@pytest.mark.parametrize(("options", "code"), [({"cwd": 7}, "cwd"), ({"on_stderr": "x"}, "on_stderr")])
def test_the_rest_of_a_child_is_checked_too(options: dict[str, Any], code: str) -> None:
    assert code_of(lambda: StdioTransport(["server"], **options)) == code


def test_a_hook_is_a_function() -> None:
    assert code_of(lambda: HttpTransport("http://example.com", request_hook=7)) == "request_hook"  # type: ignore[arg-type]


@pytest.mark.parametrize("options", [7, None, ["ssl"], {"origin": "x"}, {"headers": {"A": CANARY}}, {"url": "ws://b"}])
def test_options_of_a_web_socket_are_those_that_it_has(options: Any) -> None:
    assert code_of(lambda: WebSocketTransport("ws://example.com", options=options)) == "options"
    assert WebSocketTransport("ws://example.com", options={"ping_interval": None}).options == {"ping_interval": None}


def test_a_description_does_not_change_later() -> None:
    command, variables, scopes, options = ["server"], {"A": "1"}, ["read"], {"compression": True}
    stdio = [StdioTransport(command, env=variables), StdioTransport(command, replace_env=variables)]
    gateway = GatewayTransport("http://example.com", vend, scopes=scopes)
    socket = WebSocketTransport("ws://example.com", options=options)
    for each in (command, scopes):
        each.append("more")
    for changed in (variables, options):
        changed.clear()
    assert [each.command for each in stdio] == [("server",)] * 2
    assert (stdio[0].env, stdio[1].replace_env) == ({"A": "1"}, {"A": "1"})
    assert (gateway.scopes, socket.options) == (("read",), {"compression": True})
