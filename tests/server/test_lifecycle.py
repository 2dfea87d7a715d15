"""Each inference of the host begins and ends once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.protocol import InferenceLifecycleParams, LifecyclePhase
from mcpl_core.server.lifecycle import LifecycleTracker


def notice(id: str, phase: LifecyclePhase) -> InferenceLifecycleParams:
    return InferenceLifecycleParams(inference_id=id, phase=phase, conversation_id="c", turn_index=3)


@pytest.mark.parametrize("end", ["completed", "aborted", "failed"])
def test_a_beginning_and_an_end_are_passed_on(end: LifecyclePhase) -> None:
    tracker = LifecycleTracker(10)
    assert tracker.take(notice("a", "started"), 0) == (True, None)
    assert tracker.deadline() == 10
    assert tracker.take(notice("a", end), 1) == (True, None)
    assert tracker.deadline() is None


@pytest.mark.spec("10.5-5", "10.5-6")
def test_a_second_terminal_is_a_defect_and_not_passed_on() -> None:
    tracker = LifecycleTracker(10)
    tracker.take(notice("a", "started"), 0)
    tracker.take(notice("a", "completed"), 1)
    passed_on, defect = tracker.take(notice("a", "aborted"), 2)
    assert not passed_on
    assert defect


@pytest.mark.spec("10.5-5")
def test_a_terminal_without_a_beginning_is_a_defect_and_passed_on() -> None:
    tracker = LifecycleTracker(10)
    passed_on, defect = tracker.take(notice("a", "completed"), 0)
    assert passed_on
    assert defect
    assert not tracker.take(notice("a", "completed"), 0).passed_on


@pytest.mark.parametrize("again_after", ["started", "completed"])
def test_a_second_beginning_is_a_defect(again_after: LifecyclePhase) -> None:
    tracker = LifecycleTracker(10)
    tracker.take(notice("a", "started"), 0)
    if again_after == "completed":
        tracker.take(notice("a", "completed"), 0)
    passed_on, defect = tracker.take(notice("a", "started"), 5)
    assert not passed_on
    assert defect
    # The first one's deadline stands.
    assert tracker.deadline() == (10 if again_after == "started" else None)


@pytest.mark.spec("10.5-7", "10.5-8")
def test_a_missing_terminal_is_made_up_when_its_time_is_over() -> None:
    tracker = LifecycleTracker(10)
    tracker.take(notice("a", "started"), 0)
    tracker.take(notice("b", "started"), 5)
    assert tracker.expire(9.9) == []
    (made_up,) = tracker.expire(10)
    assert (made_up.inference_id, made_up.phase, made_up.conversation_id, made_up.turn_index) == ("a", "failed", "c", 3)
    assert made_up.slot("mcpl/synthetic") is True
    assert tracker.deadline() == 15
    # The host's own terminal, should it still come, is the second one.
    assert not tracker.take(notice("a", "completed"), 11).passed_on


def test_the_end_of_the_connection_ends_them_all() -> None:
    tracker = LifecycleTracker(10)
    for id in "abc":
        tracker.take(notice(id, "started"), 0)
    tracker.take(notice("b", "completed"), 0)
    assert [(ended.inference_id, ended.phase) for ended in tracker.end_all()] == [("a", "failed"), ("c", "failed")]
    assert tracker.end_all() == []
    assert tracker.deadline() is None


def test_memory_is_bounded() -> None:
    tracker = LifecycleTracker(10)
    taken = [tracker.take(notice(str(number), "started"), 0) for number in range(10_001)]
    assert [entry.passed_on for entry in taken].count(False) == 1
    for number in range(10_000):
        tracker.take(notice(str(number), "completed"), 0)
    assert len(tracker._ended) == 1024


PHASES: list[LifecyclePhase] = ["started", "completed", "aborted", "failed"]


@pytest.mark.spec("10.5-6")
@given(st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from(PHASES), st.integers(0, 30))))
def test_the_application_hears_of_each_inference_at_most_once_begun_and_once_ended(
    steps: list[tuple[str, LifecyclePhase, int]],
) -> None:
    tracker = LifecycleTracker(10)
    heard: list[tuple[str, bool]] = []
    now = 0
    for id, phase, later in steps:
        now += later
        heard += [(made_up.inference_id, True) for made_up in tracker.expire(now)]
        if tracker.take(notice(id, phase), now).passed_on:
            heard.append((id, phase != "started"))
    heard += [(made_up.inference_id, True) for made_up in tracker.end_all()]
    for id in "ab":
        of_this = [ended for heard_id, ended in heard if heard_id == id]
        assert of_this in ([], [True], [False, True])
