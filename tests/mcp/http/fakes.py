"""Clocks that stand still, chance without chance, and an inner transport that does what a test says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import httpx2

from mcpl_core.mcp.http import Timing

WHEN = 784111777.0  # Sun, 06 Nov 1994 08:49:37 GMT


class FakeTime:
    """A clock that only sleeping moves."""

    def __init__(self, chance: float = 0.0) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        self.timing = Timing(lambda: self.now, lambda: WHEN, self.sleep, lambda: chance)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


class Inner(httpx2.AsyncBaseTransport):
    """Answers with what the test gives, one after the other; the last one for all that follow."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.requests: list[httpx2.Request] = []
        self.closed = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        self.requests.append(request)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        if isinstance(answer, int):
            return httpx2.Response(answer)
        if callable(answer):
            made: httpx2.Response = await answer(request)
            return made
        found: httpx2.Response = answer
        return found

    async def aclose(self) -> None:
        self.closed += 1


class Body(httpx2.AsyncByteStream):
    """A body that somebody has to close."""

    def __init__(self, text: bytes = b"") -> None:
        self.text = text
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield self.text

    async def aclose(self) -> None:
        self.closed = True


def post(url: str = "http://a.example/mcp", content: Any = b"{}", **headers: str) -> httpx2.Request:
    return httpx2.Request("POST", url, content=content, headers=headers)
