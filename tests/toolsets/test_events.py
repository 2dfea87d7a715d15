"""Events on their way."""

from __future__ import annotations

from collections import deque

from mcpl_core.protocol import PushEventParams, PushPayload
from mcpl_core.toolsets.events import EventBook, ToolsetEvent


class Connection:
    def __init__(self, may: bool = True) -> None:
        self.queue: deque[ToolsetEvent] = deque()
        self.may = may
        self.woken = 0

    def may_take_events(self) -> bool:
        return self.may

    def wake(self) -> None:
        self.woken += 1


def params(id: str) -> PushEventParams:
    return PushEventParams(
        feature_set="s.events", event_id=id, timestamp="t", payload=PushPayload(content=f"about {id}")
    )


def ids(events: object) -> list[str]:
    return [event.params.event_id for event in events]  # type: ignore[attr-defined]


def test_an_event_goes_to_all_that_may_take_it_and_is_done_with_the_last() -> None:
    book = EventBook(3)
    one, two, three = Connection(), Connection(), Connection(may=False)
    event = book.raise_event(params("a"), [one, two, three], None)
    assert (ids(one.queue), ids(two.queue), ids(three.queue), one.woken) == (["a"], ["a"], [], 1)
    book.answered(event, one)
    assert (ids(one.queue), book.held) == ([], [])
    # Somebody has it: it is not held although the other could not take it.
    book.given_back(event, two)
    assert book.held == []


def test_an_event_that_nobody_takes_is_held_and_the_oldest_dropped() -> None:
    book = EventBook(2)
    away = Connection(may=False)
    for id in "abc":
        book.raise_event(params(id), [away], None)
    assert (ids(book.held), book.dropped) == (["b", "c"], 1)
    back = Connection()
    book.release(back)
    assert ids(back.queue) == ["b", "c"]
    # It is on its way: another one does not get it too.
    other = Connection()
    book.release(other)
    assert (ids(other.queue), ids(book.readable())) == ([], [])
    book.answered(back.queue[0], back)
    assert ids(book.held) == ["c"]
    book.leave(back)
    assert (ids(back.queue), ids(book.readable())) == ([], ["c"])
    book.forget()
    assert book.held == []


def test_held_events_keep_their_order_whenever_they_come_back() -> None:
    book = EventBook(9)
    one = Connection()
    first = book.raise_event(params("a"), [one], None)
    one.may = False
    book.raise_event(params("b"), [one], None)
    book.given_back(first, one)
    assert ids(book.held) == ["a", "b"]


def test_an_event_rides_in_the_result_of_its_call() -> None:
    book = EventBook(3)
    caller, other = Connection(), Connection()
    event = book.raise_event(params("a"), [caller, other], caller)
    assert (ids(caller.queue), ids(other.queue)) == ([], ["a"])
    book.given_back(event, other)
    assert book.held == []
    book.rode([event])
    assert book.held == []
    left = book.raise_event(params("b"), [caller], caller)
    book.left_behind([left], caller)
    assert ids(caller.queue) == ["b"]
    gone = book.raise_event(params("c"), [], caller)
    book.left_behind([gone], None)
    assert ids(book.held) == ["c"]


def test_held_events_that_were_read_are_done() -> None:
    book = EventBook(3)
    event = book.raise_event(params("a"), [], None)
    book.read([event])
    assert (book.held, event.text) == ([], "about a")


def test_a_connection_that_answers_nothing_costs_no_more_than_one_that_is_away() -> None:
    book = EventBook(2)
    silent = Connection()
    for number in range(6):
        book.raise_event(params(str(number)), [silent], None)
    # The first may be under way.
    assert (ids(silent.queue), book.dropped, book.held) == (["0", "4", "5"], 3, [])


def test_as_it_stands_in_a_result() -> None:
    event = EventBook(1).raise_event(params("a"), [], None)
    carried = event.carried()
    assert (carried.event_id, carried.timestamp, carried.text) == ("a", "t", "about a")
    assert not carried.tags
