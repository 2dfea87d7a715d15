"""The queue of unread messages, against a list."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import QueueOverflowError
from mcpl_core.inbox import Inbox, InboxLimits
from mcpl_core.wire.messages import Notification, Request

LIMITS = InboxLimits(high_messages=4, high_bytes=100, hard_messages=8, hard_bytes=200)


def filled(*sizes: int, limits: InboxLimits = LIMITS) -> Inbox:
    inbox = Inbox(limits)
    for number, size in enumerate(sizes):
        inbox.put(Request(number, "m"), size)
    return inbox


def test_messages_leave_in_the_order_in_which_they_came() -> None:
    inbox = Inbox(LIMITS)
    first, second = Request(1, "a"), Notification("b")
    inbox.put(first, 10)
    inbox.put(second, 20)
    assert (len(inbox), inbox.bytes) == (2, 30)
    assert inbox.take() is first
    assert (len(inbox), inbox.bytes) == (1, 20)
    assert inbox.take() is second
    assert (len(inbox), inbox.bytes) == (0, 0)


@pytest.mark.parametrize(
    ("sizes", "high", "low", "full"),
    [
        ([], False, True, False),
        ([1, 1], False, True, False),
        ([1, 1, 1], False, False, False),
        ([1, 1, 1, 1], True, False, False),
        ([50], False, True, False),
        ([51], False, False, False),
        ([99], False, False, False),
        ([100], True, False, False),
        ([1] * 7, True, False, False),
        ([1] * 8, True, False, True),
        ([199], True, False, False),
        ([200], True, False, True),
    ],
)
def test_marks(sizes: list[int], high: bool, low: bool, full: bool) -> None:
    inbox = filled(*sizes)
    assert (inbox.high, inbox.low, inbox.put(Notification("one more"), 1)) == (high, low, not full)
    assert (len(inbox), inbox.bytes) == (len(sizes) + (not full), sum(sizes) + (not full))


def test_a_high_water_mark_of_one_is_low_only_when_empty() -> None:
    inbox = filled(1, limits=InboxLimits(1, 100, 8, 200))
    assert inbox.high
    assert not inbox.low
    inbox.take()
    assert inbox.low


def test_the_overflow_names_the_method_that_fills_the_queue() -> None:
    inbox = Inbox(LIMITS)
    for method in ("a", "flood", "flood", "b"):
        inbox.put(Notification(method), 7)
    error = inbox.overflow()
    assert isinstance(error, QueueOverflowError)
    assert (error.messages, error.size, error.method) == (4, 28, "flood")


def test_the_overflow_of_an_empty_queue_names_nothing() -> None:
    assert Inbox(InboxLimits(hard_messages=0)).overflow().method == ""


def test_defaults() -> None:
    assert InboxLimits() == (1024, 16 * 1024 * 1024, 65536, 64 * 1024 * 1024)


@given(st.lists(st.none() | st.integers(0, 60), max_size=60))
def test_it_behaves_as_a_list(steps: list[int | None]) -> None:
    """An integer puts a message of that size, ``None`` takes one."""
    inbox = Inbox(LIMITS)
    model: list[tuple[Request, int]] = []
    for number, step in enumerate(steps):
        if step is not None:
            message = Request(number, "m")
            full = len(model) >= 8 or sum(entry[1] for entry in model) >= 200
            assert inbox.put(message, step) is not full
            if not full:
                model.append((message, step))
        elif model:
            assert inbox.take() is model.pop(0)[0]
        size = sum(entry[1] for entry in model)
        assert (len(inbox), inbox.bytes) == (len(model), size)
        assert inbox.high == (len(model) >= 4 or size >= 100)
        assert not (inbox.high and inbox.low)
