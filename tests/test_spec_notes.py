"""SPEC_NOTES.md and the tests agree: each built requirement is proven, and nothing else claims to be.

The tests are read with ``ast`` rather than from the running collection, so a run of one file judges the
whole suite too.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STATUSES = {"now", "later", "doc"}
SIDES = {"library", "host", "server", "both"}
REQUIREMENT = re.compile(r"(?:RFC\d+-)?\d+(?:\.\d+)*-\d+")
READING = re.compile(r"R-[a-z]+-\d+")


def _rows() -> Iterator[list[str]]:
    for line in (ROOT / "SPEC_NOTES.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")] if line.startswith("|") else []
        if cells and (REQUIREMENT.fullmatch(cells[0]) or READING.fullmatch(cells[0])):
            yield cells


ROWS = list(_rows())
REQUIREMENTS = {row[0]: row for row in ROWS if REQUIREMENT.fullmatch(row[0])}
READINGS = {row[0]: row for row in ROWS if READING.fullmatch(row[0])}


def _spec_calls(tree: ast.AST) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "spec":
            owner = node.func.value
            if isinstance(owner, ast.Attribute) and owner.attr == "mark":
                yield node


def _marks() -> tuple[dict[str, list[str]], list[str]]:
    """The ids that tests carry, with their places, and the places of marks that are no string literals."""
    found: dict[str, list[str]] = {}
    unreadable: list[str] = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        for call in _spec_calls(ast.parse(path.read_text(encoding="utf-8"))):
            place = f"{path.relative_to(ROOT)}:{call.lineno}"
            if not call.args or call.keywords:
                unreadable.append(place)
            for arg in call.args:
                if isinstance(arg, ast.Constant) and isinstance(arg.value, str):
                    found.setdefault(arg.value, []).append(place)
                else:
                    unreadable.append(place)
    return found, unreadable


MARKS, UNREADABLE = _marks()


def _with_status(*statuses: str) -> set[str]:
    return {spec_id for spec_id, row in REQUIREMENTS.items() if row[4] in statuses}


def test_ids_are_unique() -> None:
    ids = [row[0] for row in ROWS]
    assert sorted(ids) == sorted(set(ids))
    assert REQUIREMENTS
    assert READINGS


def test_requirement_rows_are_well_formed() -> None:
    assert [
        row
        for row in REQUIREMENTS.values()
        if len(row) != 6 or not all(row[:5]) or row[3] not in SIDES or row[4] not in STATUSES
    ] == []


def test_reading_rows_are_complete() -> None:
    assert [row for row in READINGS.values() if len(row) != 4 or not all(row)] == []


def test_cross_references_exist() -> None:
    """What the last column of a requirement refers to has a row of its own."""
    notes = " ".join(row[5] for row in REQUIREMENTS.values())
    named = {*re.findall(READING.pattern, notes), *re.findall(REQUIREMENT.pattern, notes)}
    assert named <= READINGS.keys() | REQUIREMENTS.keys()


def test_marks_are_string_literals() -> None:
    assert UNREADABLE == []


def test_tests_name_known_ids() -> None:
    unknown = {name: MARKS[name] for name in MARKS.keys() - REQUIREMENTS.keys() - READINGS.keys()}
    assert unknown == {}


def test_every_built_requirement_has_a_test() -> None:
    assert sorted(_with_status("now") - MARKS.keys()) == []


def test_nothing_unbuilt_claims_a_test() -> None:
    claimed = {name: MARKS[name] for name in _with_status("later", "doc") & MARKS.keys()}
    assert claimed == {}


def test_the_scan_sees_what_pytest_collects(collected_spec_marks: Mapping[str, list[str]]) -> None:
    """Marks that only exist at run time (``add_marker``, a computed id) would escape the checks above."""
    assert sorted(collected_spec_marks.keys() - MARKS.keys()) == []
