"""Who gets in, judged by the head of a request alone, without a socket."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpl_core.mcp.serving.http_policy import make_http_policy

application = pytest.importorskip("mcpl_core.mcp.serving.http_application")

pytestmark = pytest.mark.anyio

POLICY = make_http_policy(path="/mcp", host="localhost", allowed_hosts=None, allowed_origins=None)
HEAD = {"host": "localhost", "content-type": "application/json"}


class Sdk:
    """Takes what is let in."""

    def __init__(self) -> None:
        self.taken: list[Any] = []

    async def handle_request(self, scope: Any, receive: Any, send: Any) -> None:
        self.taken.append(scope[application.PEER])


async def unread() -> Any:
    raise AssertionError("the body was read")


async def judged(authenticate: Any = None, *more: tuple[str, str], timeout: float = 5.0, **head: str) -> Any:
    """The status of the refusal, or principal and headers of who was let in."""
    sdk, sent = Sdk(), list[Any]()

    async def send(message: Any) -> None:
        sent.append(message)

    lines = [*({**HEAD, **head}).items(), *more]
    scope = {
        "type": "http",
        "method": "POST",
        "path": "/mcp",
        "query_string": b"",
        "headers": [(name.replace("_", "-").encode(), value.encode("latin-1")) for name, value in lines],
        "client": None,
    }
    await application.HttpApplication(sdk, POLICY, authenticate, timeout)(scope, unread, send)
    return sdk.taken[0] if sdk.taken else sent[0]["status"]


async def test_without_authenticate_everybody_is_local() -> None:
    principal, headers = await judged()
    assert principal == "local"
    assert headers == HEAD


async def test_the_policy_comes_first() -> None:
    asked: list[Any] = []
    assert await judged(asked.append, origin="https://evil.example") == 403
    assert await judged(asked.append, content_type="text/plain") == 415
    assert asked == []
    assert await judged(asked.append) == 401
    assert len(asked) == 1


async def test_values_of_one_header_stand_together() -> None:
    _, headers = await judged(None, ("X-Tag", "a"), ("x-tag", "b\xff"))
    assert headers["x-tag"] == "a, b\xff"
    assert await judged(None, ("host", "evil.example")) == 421
    assert await judged(None, ("origin", "http://localhost"), ("origin", "https://evil.example")) == 403


@pytest.mark.parametrize(
    ("said", "outcome"),
    [("ann", "ann"), (True, "local"), (0, 0), ("", ""), (None, 401), (False, 401), (ValueError("no"), 500)],
)
async def test_what_authenticate_says_is_who_calls(said: Any, outcome: Any) -> None:
    async def later(request: Any) -> Any:
        return at_once(request)

    def at_once(request: Any) -> Any:
        if isinstance(said, Exception):
            raise said
        return said

    for authenticate in (at_once, later):
        got = await judged(authenticate)
        assert (got[0] if isinstance(got, tuple) else got) == outcome


async def test_authenticate_has_its_time() -> None:
    assert await judged(lambda request: anyio.sleep_forever(), timeout=0) == 500


async def test_a_request_that_is_cancelled_is_not_a_failure_of_authenticate() -> None:
    with anyio.CancelScope() as scope:
        scope.cancel()
        await judged(lambda request: anyio.sleep_forever())
    assert scope.cancelled_caught
