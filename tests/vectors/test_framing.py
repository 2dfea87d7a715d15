"""Runs ``vectors/framing.json``: each case whole, byte by byte, and with another message behind it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, get_args

import pytest

from mcpl_core.cli.framing import framing_answer
from mcpl_core.errors import MalformedKind

FILE = Path(__file__).parents[2] / "vectors" / "framing.json"
CASES: list[dict[str, Any]] = json.loads(FILE.read_text(encoding="utf-8"))["cases"]


def exact(value: Any) -> str:
    """JSON text, in which ``1``, ``1.0`` and ``true`` differ."""
    return json.dumps(value, sort_keys=True)


@pytest.mark.spec(
    "4-1", "4.1-1", "4.1-2", "R-wire-1", "R-wire-2", "R-wire-3", "R-wire-4", "R-wire-5", "R-wire-7", "R-wire-8",
    "R-wire-9", "R-wire-10", "R-wire-11", "R-wire-12", "R-wire-13", "R-wire-14",
)  # fmt: skip
@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_case(case: dict[str, Any]) -> None:
    assert exact(framing_answer(case["input"])) == exact(case["expected"])


def test_the_file_has_every_outcome() -> None:
    expected = [case["expected"] for case in CASES]
    types = {message["type"] for outcome in expected for message in outcome["messages"]}
    problems = {kind for outcome in expected for kind in outcome["problems"]}
    assert types == {"request", "notification", "result", "error", "stray"}
    assert problems == set(get_args(MalformedKind)) - {"binary"}
    assert {answer["code"] for outcome in expected for answer in outcome["answers"]} == {-32600}
    assert len({case["name"] for case in CASES}) == len(CASES) >= 80


def test_every_reader_keeps_the_file() -> None:
    """No lone surrogate and no integer beyond 2^53 stands in it as a value."""
    text = FILE.read_text(encoding="utf-8")
    json.dumps(json.loads(text), ensure_ascii=False).encode()
    integers: list[int] = []
    json.loads(text, parse_int=lambda digits: integers.append(int(digits)))
    assert max(map(abs, integers)) <= 2**53
