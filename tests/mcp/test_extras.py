"""What a server declares about a tool in ``_meta``."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.mcp.extras import EXTRAS_KEY, MOST_WARNINGS, ToolExtras, WarningLedger, read_extras


def read(declared: Any, ledger: WarningLedger | None = None) -> ToolExtras:
    definition = {"name": "t", "_meta": {EXTRAS_KEY: declared}}
    return read_extras("s", definition, WarningLedger() if ledger is None else ledger)


def test_well_formed_declarations_are_read() -> None:
    declared = {"category": "files", "tags": ["a", "b"], "needs": ["mail"], "time": True, "later": {"unknown": 1}}
    assert read(declared) == ToolExtras("files", ("a", "b"), ("mail",), True)


@pytest.mark.parametrize(
    "definition", [{}, {"_meta": None}, {"_meta": []}, {"_meta": {}}, {"_meta": {EXTRAS_KEY: None}}]
)
def test_without_declarations_there_are_none(definition: dict[str, Any]) -> None:
    ledger = WarningLedger()
    assert read_extras("s", definition, ledger) == ToolExtras()
    assert len(ledger) == 0


@pytest.mark.spec("R-mcp-15")
@pytest.mark.parametrize(
    ("field", "bad"),
    [
        ("category", ""), ("category", "x" * 65), ("category", 7), ("category", "a\nb"),
        ("tags", "a"), ("tags", ["a"] * 33), ("tags", ["a", 7]), ("needs", [""]), ("time", 1), ("time", None),
    ],
)  # fmt: skip
def test_a_bad_field_is_dropped_with_one_warning(field: str, bad: Any, caplog: pytest.LogCaptureFixture) -> None:
    ledger = WarningLedger()
    for _ in range(3):
        assert read({"category": "files", **{field: bad}}, ledger) == ToolExtras(
            category=None if field == "category" else "files"
        )
    assert len(caplog.records) == len(ledger) == 1
    assert field in caplog.text


def test_declarations_that_are_no_object(caplog: pytest.LogCaptureFixture) -> None:
    assert read(["canary"]) == ToolExtras()
    assert len(caplog.records) == 1
    assert "canary" not in caplog.text


def test_as_many_as_there_may_be() -> None:
    assert len(read({"tags": ["a"] * 32, "category": "x" * 64}).tags) == 32
    assert (ToolExtras().time, ToolExtras().tags, ToolExtras().category) == (False, (), None)


def test_the_ledger_is_bounded(caplog: pytest.LogCaptureFixture) -> None:
    ledger = WarningLedger()
    for number in range(MOST_WARNINGS + 50):
        ledger.warn("s", f"t{number}", "tags")
    assert len(ledger) == len(caplog.records) == MOST_WARNINGS == 500


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.sampled_from(["category", "tags", "needs", "time", "x"]), JSON) | JSON)
def test_nothing_raises(declared: Any) -> None:
    extras = read(declared, WarningLedger(limit=0))
    assert all(isinstance(tag, str) for tag in extras.tags + extras.needs)
