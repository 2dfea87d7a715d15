"""Requests whose time runs, on a clock that does not matter here."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpl_core.mcp.waiting import WaitingRequests

pytestmark = pytest.mark.anyio

FOREVER = float("inf")


def told(params: dict[str, Any]) -> None:
    """Takes progress."""


@pytest.mark.parametrize(
    ("reset", "handler", "wanted"), [(False, None, False), (True, None, True), (False, told, True)]
)
async def test_a_token_stands_in_the_params_when_progress_is_wanted(reset: bool, handler: Any, wanted: bool) -> None:
    requests = WaitingRequests()
    waiting = requests.begin(30, None, reset, handler)
    given = {"name": "x", "_meta": {"mine": 1}}
    expected = {"name": "x", "_meta": {"mine": 1, "progressToken": waiting.token}} if wanted else given
    assert waiting.with_token(given) == expected
    assert given == {"name": "x", "_meta": {"mine": 1}}
    assert waiting.with_token(None) == ({"_meta": {"progressToken": waiting.token}} if wanted else None)
    assert (waiting.token is not None) is wanted
    assert len(requests.tokens) == wanted


async def test_tokens_differ() -> None:
    requests = WaitingRequests()
    assert len({requests.begin(None, None, True, None).token for _ in range(3)}) == 3


async def test_progress_that_grows_is_told_and_starts_the_timeout_anew() -> None:
    requests = WaitingRequests()
    waiting = requests.begin(30, None, True, told)
    waiting.scope.deadline = 0
    assert requests.progressed(waiting.token, 1) is told
    assert waiting.scope.deadline >= anyio.current_time() + 29
    for progress in (1, 0.5, True, "2", None):
        assert requests.progressed(waiting.token, progress) is None
    unknown: list[Any] = ["another", None, 3]
    for token in unknown:
        assert requests.progressed(token, 2) is None
    assert requests.progressed(waiting.token, 1.5) is told


async def test_after_the_answer_there_is_no_progress_and_after_the_end_nothing() -> None:
    requests = WaitingRequests()
    waiting, plain = requests.begin(30, None, True, told), requests.begin(30, None, False, None)
    requests.answered(waiting)
    assert requests.progressed(waiting.token, 1) is None
    assert requests.requests == {waiting, plain}
    for each in (waiting, plain):
        requests.end(each)
    assert (requests.requests, requests.tokens) == (set(), {})


async def test_while_a_person_is_asked_nobody_runs_out_of_time() -> None:
    requests = WaitingRequests()
    waiting = requests.begin(30, None, False, None)
    for change, paused in ((1, True), (1, True), (-1, True), (-1, False)):
        requests.ask(change)
        assert (waiting.scope.deadline == FOREVER) is paused
        assert (requests.begin(30, None, False, None).scope.deadline == FOREVER) is paused
