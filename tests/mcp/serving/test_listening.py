"""Options that the endpoints with an address have in common."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from mcpl_core.errors import InvalidValueError
from mcpl_core.mcp.serving.answers import Answers
from mcpl_core.mcp.serving.listening import ListeningEndpoint, checked_count, checked_seconds


class Here(ListeningEndpoint):
    async def run(self, answers: Answers, ready: Callable[[], None]) -> None: ...

    async def stop(self) -> None: ...


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ((-1, "localhost", "/mcp"), "port"),
        ((70_000, "localhost", "/mcp"), "port"),
        ((True, "localhost", "/mcp"), "port"),
        (("80", "localhost", "/mcp"), "port"),
        ((0, "", "/mcp"), "host"),
        ((0, None, "/mcp"), "host"),
        ((0, "localhost", "mcp"), "path"),
        ((0, "localhost", "/mcp?x=1"), "path"),
        ((0, "localhost", "/mcp#x"), "path"),
        ((0, "localhost", None), "path"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: Any, code: str) -> None:
    with pytest.raises(InvalidValueError) as refused:
        Here(*given)
    assert refused.value.code == code


def test_the_port_is_that_of_the_address() -> None:
    endpoint = Here(0, "localhost", "/")
    with pytest.raises(AttributeError):
        _ = endpoint.port
    endpoint.address = ("127.0.0.1", 65_535)
    assert endpoint.port == 65_535


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "1", None])
def test_a_count_is_a_whole_number_above_zero(value: Any) -> None:
    assert checked_count("n", 1) == 1
    with pytest.raises(InvalidValueError) as refused:
        checked_count("n", value)
    assert refused.value.code == "n"


@pytest.mark.parametrize("value", [-0.1, math.nan, math.inf, True, "1", None])
def test_seconds_are_a_number_that_ends(value: Any) -> None:
    assert (checked_seconds("s", 0), checked_seconds("s", 1.5)) == (0, 1.5)
    with pytest.raises(InvalidValueError) as refused:
        checked_seconds("s", value)
    assert refused.value.code == "s"
