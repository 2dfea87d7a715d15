"""Events that were handled before."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from mcpl_core.host.dedupe import EventKey, SeenEvents, event_key
from mcpl_core.host.events import EventAnswer

YES = EventAnswer(inference_id="inf_1")


class Store:
    """A store that is a dictionary."""

    def __init__(self, kept: dict[EventKey, EventAnswer] | None = None) -> None:
        self.kept = kept if kept is not None else {}
        self.closed = False

    def load(self) -> Iterable[tuple[EventKey, EventAnswer]]:
        return list(self.kept.items())

    def add(self, key: EventKey, answer: EventAnswer) -> None:
        self.kept[key] = answer

    def remove(self, key: EventKey) -> None:
        self.kept.pop(key, None)

    def close(self) -> None:
        self.closed = True


@pytest.mark.spec("9.4-1")
def test_an_event_is_seen_once_it_was_handled() -> None:
    seen = SeenEvents()
    key = event_key("s", "e1")
    assert seen.find(key) is None
    seen.settle(key, YES)
    assert seen.find(key) == YES
    assert seen.find(event_key("s", "e2")) is None


def test_servers_and_channels_are_kept_apart() -> None:
    seen = SeenEvents()
    seen.settle(event_key("s", "1"), YES)
    assert seen.find(event_key("other", "1")) is None
    assert seen.find(event_key("s", "1", "channel")) is None


def test_the_oldest_id_of_a_server_is_forgotten_and_no_other_servers() -> None:
    seen = SeenEvents(limit=2)
    seen.settle(event_key("quiet", "1"), YES)
    for id in ("1", "2", "3"):
        seen.settle(event_key("loud", id), YES)
    assert [seen.find(event_key("loud", id)) is not None for id in ("1", "2", "3")] == [False, True, True]
    assert seen.find(event_key("quiet", "1")) == YES


def test_long_ids_are_kept_short_and_apart() -> None:
    one, other = event_key("s", "x" * 10_000, "c" * 10_000), event_key("s", "x" * 10_001)
    assert one.id != other.id
    assert all(len(text) < 100 for text in (one.id, one.channel or "", other.id))
    assert event_key("s", "x\ud800" * 1000).id.startswith("sha256:")


def test_a_store_keeps_what_is_seen() -> None:
    store = Store()
    first = SeenEvents(limit=2, store=store)
    for id in ("1", "2", "3"):
        first.settle(event_key("s", id), YES)
    assert list(store.kept) == [event_key("s", "2"), event_key("s", "3")]
    again = SeenEvents(limit=1, store=store)
    assert again.find(event_key("s", "3")) == YES
    assert list(store.kept) == [event_key("s", "3")]
    again.forget("s")
    again.close()
    assert (store.kept, store.closed) == ({}, True)


def test_without_a_store_forgetting_and_closing_are_quiet() -> None:
    seen = SeenEvents()
    seen.settle(event_key("s", "1"), YES)
    seen.forget("s")
    seen.forget("unknown")
    seen.close()
    assert seen.find(event_key("s", "1")) is None
