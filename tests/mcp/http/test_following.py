"""Streams of events that answer a request, and the rest of those that broke."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import pytest

from mcpl_core.errors import TransportError
from mcpl_core.mcp.http.following import Follower, is_event_stream
from tests.mcp.http.fakes import Body, FakeTime, Inner, post

pytestmark = pytest.mark.anyio

EVENTS = {"content-type": "text/event-stream"}


def stream(text: bytes, **headers: str) -> httpx2.Response:
    return httpx2.Response(200, headers={**EVENTS, **headers}, stream=Body(text))


class Following:
    """A follower with a clock that stands still, for an answer that says so."""

    def __init__(self, *rest: Any) -> None:
        self.inner = Inner(*rest or (404,))
        self.time = FakeTime()
        self.heard: list[bytes] = []

    def saw(self, text: bytes) -> bool:
        self.heard.append(text)
        return text.startswith(b"answer")

    async def follow(self, first: httpx2.Response, resumes: bool = True) -> Any:
        follower = Follower(self.inner.handle_async_request, self.time.timing, 100)
        request = post(**{"mcp-session-id": "s", "mcp-protocol-version": "v", "authorization": "canary"})
        return await follower.follow(request, first, self.saw, resumes)


async def test_the_answer_ends_it() -> None:
    following = Following()
    assert await following.follow(stream(b"id: 1\ndata: note\n\ndata: answer\n\ndata: answer 2\n\n")) == b"answer"
    assert following.heard == [b"note", b"answer", b"answer 2"]
    assert following.inner.requests == []


async def test_the_rest_is_asked_for_by_the_latest_id() -> None:
    following = Following(stream(b"id: 2\ndata: note\n\n"), stream(b"retry: 7000\n\n"), stream(b"data: answer\n\n"))
    assert await following.follow(stream(b"id: 1\nretry: 500\n\n")) == b"answer"
    asked = following.inner.requests
    assert [each.headers["last-event-id"] for each in asked] == ["1", "2", "2"]
    assert following.time.slept == [0.5, 0.5, 7.0]
    assert {each.method for each in asked} == {"GET"}
    assert (asked[0].headers["mcp-session-id"], asked[0].headers["mcp-protocol-version"]) == ("s", "v")
    assert asked[0].headers["accept"] == "text/event-stream"
    assert "authorization" not in asked[0].headers
    assert following.heard == [b"note", b"answer"]


async def test_without_an_id_there_is_no_rest() -> None:
    following = Following()
    assert await following.follow(stream(b"data: note\n\n")) is None
    assert await following.follow(stream(b"id: 1\n\n"), resumes=False) is None
    assert (following.inner.requests, following.time.slept) == ([], [])


async def test_a_server_that_hangs_up_at_once_keeps_nobody_busy() -> None:
    following = Following(stream(b"data: answer\n\n"))
    assert await following.follow(stream(b"id: 1\nretry: 0\n\n")) == b"answer"
    assert following.time.slept == [0.1]


@pytest.mark.parametrize(
    "there",
    [
        404,
        httpx2.ReadError("reset"),
        ValueError("canary"),
        httpx2.Response(200),
        httpx2.Response(500, headers=EVENTS, content=b"data: answer\n\n"),
    ],
)
async def test_a_rest_that_is_not_there_is_asked_for_twice(there: Any) -> None:
    following = Following(there)
    assert await following.follow(stream(b"id: 1\n\n")) is None
    assert following.time.slept == [1.0, 1.0]
    again = Following(there, stream(b""), there, there, stream(b"data: answer\n\n"))
    assert await again.follow(stream(b"id: 1\n\n")) is None
    assert len(again.inner.requests) == 4


async def test_what_is_no_rest_is_closed() -> None:
    body = Body(b"no")
    await Following(httpx2.Response(200, stream=body)).follow(stream(b"id: 1\n\n"))
    assert body.closed


async def test_what_fails() -> None:
    class Broken(Body):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield self.text
            raise httpx2.ReadError("canary")

    found = await Following().follow(httpx2.Response(200, stream=Broken(b"data: note\n\n")))
    assert isinstance(found, TransportError)
    assert "canary" not in str(found)
    answered = httpx2.Response(200, stream=Broken(b"data: answer\n\n"))
    assert await Following().follow(answered) == b"answer"
    resumed = Following(stream(b"data: answer\n\n"))
    assert await resumed.follow(httpx2.Response(200, stream=Broken(b"id: 1\n\n"))) == b"answer"


async def test_an_event_that_is_too_long_ends_it() -> None:
    following = Following(stream(b"data: answer\n\n"))
    assert isinstance(await following.follow(stream(b"id: 1\n\ndata: " + b"a" * 101)), TransportError)
    assert following.inner.requests == []


async def test_whoever_gives_up_ends_the_wait_for_the_rest_too() -> None:
    async def never(request: httpx2.Request) -> httpx2.Response:
        await anyio.sleep_forever()
        raise AssertionError

    following = Following(never)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(following.follow, stream(b"id: 1\n\n"))
        await anyio.wait_all_tasks_blocked()
        assert len(following.inner.requests) == 1
        tasks.cancel_scope.cancel()


def test_what_a_stream_of_events_is() -> None:
    assert is_event_stream(stream(b"", **{"content-type": "Text/Event-Stream; charset=utf-8"}))
    assert not is_event_stream(httpx2.Response(200))


async def test_a_stream_may_stay_open_after_its_answer_only_for_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    class Open(Body):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield self.text
            await anyio.sleep_forever()

    monkeypatch.setattr("mcpl_core.mcp.http.following._LINGER", 0)
    body = Open(b"data: answer\n\n")
    with anyio.fail_after(5):
        assert await Following().follow(httpx2.Response(200, stream=body)) == b"answer"
    assert body.closed
