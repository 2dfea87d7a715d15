"""Records of what a host did, and the two ways out."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.host.audit import Audit, AuditRecord


@pytest.mark.spec("13.2-1")
def test_a_record_has_server_set_inference_time_and_outcome() -> None:
    records: list[AuditRecord] = []
    audit = Audit("memory", records.append, lambda: 12.5)
    audit.record("push/event", "denied", feature_set="a.b", inference_id="inf_1", code="-32001", detail="why")
    assert records == [AuditRecord(12.5, "memory", "push/event", "denied", "a.b", "inf_1", "-32001", "why")]
    for word in ("memory", "push/event", "denied", "a.b", "inf_1", "-32001", "why"):
        assert word in str(records[0])


def test_the_log_gets_each_record_with_its_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "mcpl_core.host")
    audit = Audit("memory")
    audit.record("tools/call", "success")
    audit.record("tools/call", "timeout")
    assert [record.levelno for record in caplog.records] == [logging.INFO, logging.WARNING]


def test_a_peers_words_are_cut_and_stay_on_one_line() -> None:
    records: list[AuditRecord] = []
    audit = Audit("s", records.append)
    audit.record("a\nb", "success", feature_set="x" * 1000, inference_id={"no": "string"}, detail="d\r\n" * 400)
    record = records[0]
    assert record.operation == "a?b"
    assert len(record.feature_set or "") == 200
    assert record.inference_id is None
    assert "\n" not in str(record)
    assert len(record.detail) == 200


def test_an_observer_that_raises_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def observer(record: AuditRecord) -> None:
        raise RuntimeError("no")

    audit = Audit("s", observer)
    audit.note("x", "code")
    assert "an audit observer failed" in caplog.text


def test_a_flood_of_one_kind_does_not_flood_the_log(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    seen: list[Any] = []
    audit = Audit("s", seen.append, lambda: now[0])
    for _ in range(1000):
        audit.note("push/event", "flood")
    audit.note("other", "kind")
    assert len(seen) == 1001
    assert len(caplog.records) == 101
    now[0] = 61.0
    audit.note("push/event", "flood")
    assert "900 more lines" in caplog.text
    assert len(caplog.records) == 103


def test_many_kinds_share_what_is_left_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    audit = Audit("s", None, lambda: 0.0)
    for number in range(1000):
        audit.note(f"method/{number}", "flood")
    assert len(caplog.records) <= 200


def test_nothing_is_formatted_when_nobody_listens(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL, "mcpl_core.host")
    Audit("s").note("x", "y")
    assert caplog.records == []


@given(st.text(max_size=220) | st.text("a\n\r\u2028\u200b ", max_size=220))
def test_a_word_without_what_breaks_a_line_is_kept_as_it_is(word: str) -> None:
    records: list[AuditRecord] = []
    Audit("s", records.append).record("x", "success", detail=word)
    assert records[0].detail == "".join(each if each.isprintable() else "?" for each in word[:200])
