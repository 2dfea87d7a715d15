"""Which events wait for whom, and who is at them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import anyio
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from mcpl_core import InvalidValueError, UnencodableError
from mcpl_core.protocol import PushEventParams
from mcpl_core.server import Outbox, OutboxStoreError
from mcpl_core.server.events import event_params
from mcpl_core.server.journal import Change
from mcpl_core.server.outbox import retry_delay

pytestmark = pytest.mark.anyio


class Host:
    """A connection that takes what it is told to."""

    def __init__(self, *sets: str) -> None:
        self.sets = set(sets)
        self.woken = 0

    def may_take(self, event: PushEventParams) -> bool:
        return event.feature_set in self.sets

    def wake(self) -> None:
        self.woken += 1


class MemoryStore:
    """A disk that can fail."""

    def __init__(self, *rows: tuple[str, str, bytes]) -> None:
        self.rows = list(rows)
        self.broken = self.closed = False

    def load(self) -> Iterator[tuple[str, str, bytes]]:
        yield from self.rows

    def apply(self, changes: Sequence[Change]) -> None:
        if self.broken:
            raise OutboxStoreError("full")
        for principal, event_id, text in changes:
            self.rows = [row for row in self.rows if row[:2] != (principal, event_id)]
            if text is not None:
                self.rows.append((principal, event_id, text))

    def close(self) -> None:
        self.closed = True

    @property
    def ids(self) -> list[tuple[str, str]]:
        return [(principal, event_id) for principal, event_id, _ in self.rows]


def event(id: str, feature_set: str = "a") -> PushEventParams:
    return event_params(feature_set, "x", event_id=id)


def owed(outbox: Outbox, host: Host, principal: str = "p") -> list[str]:
    return [waiting.event_id for waiting, _ in outbox.owed(principal, host)]


async def test_an_event_waits_for_a_principal_who_is_away() -> None:
    outbox, host = Outbox(), Host("a")
    await outbox.put(["p"], event("1"))
    assert (outbox.waiting("p"), outbox.principals) == (1, ("p",))
    outbox.attach("p", host)
    assert owed(outbox, host) == ["1"]
    assert host.woken == 1
    outbox.settle("p", host, "1")
    assert (outbox.waiting("p"), owed(outbox, host)) == (0, [])


async def test_it_goes_to_every_connection_that_may_take_it_now() -> None:
    outbox = Outbox()
    first, second, other, stranger = Host("a"), Host("a"), Host("b"), Host("a")
    for host in (first, second, other):
        outbox.attach("p", host)
    outbox.attach("q", stranger)
    await outbox.put(["p"], event("1"))
    assert [owed(outbox, host) for host in (first, second, other, stranger)] == [["1"], ["1"], [], []]
    assert [host.woken for host in (first, second, other, stranger)] == [1, 1, 0, 0]
    # Done when one answered and none of the others is still at it.
    outbox.settle("p", first, "1")
    assert (outbox.waiting("p"), owed(outbox, first)) == (1, [])
    outbox.detach("p", second)
    assert outbox.waiting("p") == 0


async def test_what_a_connection_was_at_goes_to_another_when_it_ended() -> None:
    outbox, first, second = Outbox(), Host("a"), Host()
    outbox.attach("p", first)
    outbox.attach("p", second)
    await outbox.put(["p"], event("1"))
    second.sets.add("a")
    assert owed(outbox, second) == []
    outbox.detach("p", first)
    assert (owed(outbox, second), second.woken) == (["1"], 1)
    outbox.detach("p", first)


async def test_what_may_not_be_taken_any_more_goes_back() -> None:
    outbox, first, second = Outbox(), Host("a"), Host("b")
    outbox.attach("p", first)
    outbox.attach("p", second)
    await outbox.put(["p"], event("1"))
    first.sets.clear()
    outbox.reassign("p")
    assert [owed(outbox, host) for host in (first, second)] == [[], []]
    second.sets.add("a")
    outbox.reassign("p")
    assert owed(outbox, second) == ["1"]
    outbox.settle("p", second, "1")
    assert outbox.waiting("p") == 0


async def test_what_is_under_way_is_neither_owed_nor_taken_away() -> None:
    outbox, host = Outbox(), Host("a")
    outbox.attach("p", host)
    await outbox.put(["p"], event("1"))
    ((_, attempts),) = outbox.owed("p", host)
    attempts.under_way = True
    host.sets.clear()
    outbox.reassign("p")
    assert owed(outbox, host) == []
    attempts.under_way = False
    assert owed(outbox, host) == ["1"]


async def test_an_answered_event_is_not_given_to_a_later_connection() -> None:
    outbox, first, second, late = Outbox(), Host("a"), Host("a"), Host("a")
    outbox.attach("p", first)
    outbox.attach("p", second)
    await outbox.put(["p"], event("1"))
    outbox.settle("p", first, "1")
    outbox.attach("p", late)
    assert [owed(outbox, host) for host in (first, second, late)] == [[], ["1"], []]


async def test_one_event_for_several_principals() -> None:
    outbox, host = Outbox(), Host("a")
    outbox.attach("q", host)
    await outbox.put(["p", "q", "p"], event("1"))
    outbox.settle("q", host, "1")
    assert (outbox.waiting("p"), outbox.waiting("q")) == (1, 0)


@pytest.mark.spec("9.4-2")
async def test_an_event_that_waits_already_is_the_same_event() -> None:
    outbox, host = Outbox(), Host("a")
    outbox.attach("p", host)
    await outbox.put(["p"], event("1"))
    await outbox.put(["p"], event("1"))
    assert (owed(outbox, host), outbox.waiting("p")) == (["1"], 1)


async def test_the_oldest_is_dropped_beyond_the_bound() -> None:
    outbox, host = Outbox(limit=2), Host("a")
    outbox.attach("p", host)
    for id in "123":
        await outbox.put(["p"], event(id))
    await outbox.put(["q"], event("4"))
    assert (owed(outbox, host), outbox.dropped) == (["2", "3"], 1)
    # An answer to the one that was dropped comes too late and does no harm.
    outbox.settle("p", host, "1")
    with pytest.raises(InvalidValueError):
        Outbox(limit=0)


async def test_who_is_known() -> None:
    outbox, host = Outbox(), Host()
    outbox.attach("p", host)
    outbox.detach("p", host)
    assert list(outbox.principals) == ["p"]
    await outbox.put(["q"], event("1"))
    assert list(outbox.principals) == ["p", "q"]
    outbox.forget("p")
    outbox.forget("q")
    assert list(outbox.principals) == []
    outbox.attach("p", host)
    outbox.forget("p")
    assert list(outbox.principals) == ["p"]


async def test_an_event_without_a_json_form_is_refused() -> None:
    outbox = Outbox()
    with pytest.raises(UnencodableError):
        await outbox.put(["p"], event_params("a", "x", origin={"a": object()}))
    assert outbox.waiting("p") == 0


# -- the disk


async def test_an_event_is_on_the_disk_when_put_returns_and_off_it_when_flushed() -> None:
    store, host = MemoryStore(), Host("a")
    outbox = Outbox(store=store)
    outbox.attach("p", host)
    await outbox.put(["p", "q"], event("1"))
    assert store.ids == [("p", "1"), ("q", "1")]
    outbox.settle("p", host, "1")
    await outbox.flush()
    assert store.ids == [("q", "1")]


async def test_a_new_outbox_has_what_the_old_one_kept() -> None:
    store = MemoryStore()
    for id in "12":
        await Outbox(store=store).put(["p"], event(id))
    outbox, host = Outbox(store=store), Host("a")
    outbox.attach("p", host)
    assert owed(outbox, host) == ["1", "2"]
    assert next(outbox.owed("p", host))[0].payload.text == "x"


async def test_what_cannot_be_read_is_dropped_from_the_disk(caplog: pytest.LogCaptureFixture) -> None:
    store = MemoryStore(("p", "1", b"{"), ("p", "2", b'{"featureSet":3}'))
    outbox = Outbox(store=store)
    assert outbox.waiting("p") == 0
    outbox.close()
    assert (store.ids, store.closed) == ([], True)
    assert len(caplog.records) == 2


async def test_an_event_that_could_not_be_stored_is_not_kept() -> None:
    store, host = MemoryStore(), Host("a")
    outbox = Outbox(store=store)
    outbox.attach("p", host)
    store.broken = True
    with pytest.raises(OutboxStoreError):
        await outbox.put(["p"], event("1"))
    assert (owed(outbox, host), outbox.waiting("p")) == ([], 0)


async def test_what_is_done_is_forgotten_with_the_next_write_that_succeeds() -> None:
    store, host = MemoryStore(), Host("a")
    outbox = Outbox(store=store)
    outbox.attach("p", host)
    await outbox.put(["p"], event("1"))
    outbox.settle("p", host, "1")
    store.broken = True
    with pytest.raises(OutboxStoreError):
        await outbox.flush()
    store.broken = False
    await outbox.put(["p"], event("2"))
    assert store.ids == [("p", "2")]


async def test_dropped_events_leave_the_disk_too() -> None:
    store = MemoryStore()
    outbox = Outbox(limit=1, store=store)
    for id in "12":
        await outbox.put(["p"], event(id))
    outbox.close()
    assert store.ids == [("p", "2")]


async def test_without_a_disk_there_is_nothing_to_flush_or_to_close() -> None:
    outbox = Outbox()
    await outbox.put(["p"], event("1"))
    await outbox.flush()
    outbox.close()
    assert outbox.waiting("p") == 1


async def test_a_put_that_is_cancelled_is_done_or_not() -> None:
    store = MemoryStore()
    outbox = Outbox(store=store)
    with anyio.CancelScope() as scope:
        scope.cancel()
        await outbox.put(["p"], event("1"))
    assert (store.ids, outbox.waiting("p")) == ([], 0)

    class Cancelling(MemoryStore):
        def apply(self, changes: Sequence[Change]) -> None:
            anyio.from_thread.run_sync(scope.cancel)
            super().apply(changes)

    store = Cancelling()
    outbox = Outbox(store=store)
    with anyio.CancelScope() as scope:
        await outbox.put(["p"], event("1"))
        await anyio.lowlevel.checkpoint()
    assert scope.cancelled_caught
    assert (store.ids, outbox.waiting("p")) == ([("p", "1")], 1)


@pytest.mark.parametrize(
    ("attempt", "delay"), [(1, 1.0), (2, 2.0), (3, 4.0), (6, 32.0), (7, 60.0), (100, 60.0), (10**6, 60.0)]
)
def test_the_delay_doubles_up_to_its_bound(attempt: int, delay: float) -> None:
    assert retry_delay(attempt, 1.0, 60.0) == delay


class SharedOutbox(RuleBasedStateMachine):
    """Three connections of one principal. Whatever they do, an event waits until one of them answered."""

    def __init__(self) -> None:
        super().__init__()
        self.outbox = Outbox()
        self.hosts = [Host("a") for _ in range(3)]
        self.attached: list[Host] = []
        self.put_in: set[str] = set()
        self.answered: set[str] = set()

    host = st.integers(0, 2)

    @rule(id=st.sampled_from("12345"))
    def put(self, id: str) -> None:
        if id not in self.put_in:
            self.put_in.add(id)
            anyio.run(self.outbox.put, ["p"], event(id))

    @rule(number=host)
    def answer_the_oldest(self, number: int) -> None:
        for id in owed(self.outbox, self.hosts[number])[:1]:
            self.outbox.settle("p", self.hosts[number], id)
            self.answered.add(id)

    @rule(number=host)
    def attach(self, number: int) -> None:
        if self.hosts[number] not in self.attached:
            self.attached.append(self.hosts[number])
            self.outbox.attach("p", self.hosts[number])

    @rule(number=host)
    def detach(self, number: int) -> None:
        if self.hosts[number] in self.attached:
            self.attached.remove(self.hosts[number])
        self.outbox.detach("p", self.hosts[number])

    @rule(number=host, sets=st.sampled_from([{"a"}, set()]))
    def change_the_policy(self, number: int, sets: set[str]) -> None:
        self.hosts[number].sets = set(sets)
        self.outbox.reassign("p")

    @invariant()
    def an_event_waits_until_it_is_answered_and_somebody_is_at_it(self) -> None:
        able = [host for host in self.attached if host.sets]
        for id in self.put_in - self.answered:
            assert id in self.outbox._of("p")
            assert not able or any(id in owed(self.outbox, host) for host in able)

    def teardown(self) -> None:
        for host in self.hosts:
            self.outbox.detach("p", host)
        assert self.outbox.waiting("p") == len(self.put_in - self.answered)


TestSharedOutbox = SharedOutbox.TestCase
TestSharedOutbox.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
