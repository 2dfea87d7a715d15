"""Durable changes, one after the other and never in the event loop."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence

import anyio
import anyio.from_thread
import pytest

from mcpl_core.server.journal import Change, Journal, OutboxStoreError

pytestmark = pytest.mark.anyio


class Recorder:
    """A store that notes what it is asked, and from where."""

    def __init__(self) -> None:
        self.batches: list[list[Change]] = []
        self.threads: set[int] = set()
        self.at_once = self.most_at_once = 0
        self.fail = self.closed = False
        self.hold: threading.Event | None = None

    def load(self) -> Iterable[tuple[str, str, bytes]]:
        return ()

    def apply(self, changes: Sequence[Change]) -> None:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.threads.add(threading.get_ident())
        if self.hold is not None:
            self.hold.wait(5)
        self.at_once -= 1
        if self.fail:
            raise OutboxStoreError("full")
        self.batches.append(list(changes))

    def close(self) -> None:
        self.closed = True


def keep(id: str) -> Change:
    return Change("p", id, b"{}")


def done(id: str) -> Change:
    return Change("p", id, None)


async def test_a_write_happens_outside_of_the_event_loop() -> None:
    store = Recorder()
    await Journal(store).write([keep("1")])
    assert store.batches == [[keep("1")]]
    assert threading.get_ident() not in store.threads


async def test_what_was_noted_is_written_first_with_the_next_write() -> None:
    store = Recorder()
    journal = Journal(store)
    journal.note(done("1"))
    assert store.batches == []
    await journal.write([keep("2")])
    assert store.batches == [[done("1"), keep("2")]]


async def test_a_flush_writes_what_was_noted_and_nothing_else() -> None:
    store = Recorder()
    journal = Journal(store)
    await journal.flush()
    journal.note(done("1"))
    journal.note(done("2"))
    await journal.flush()
    await journal.flush()
    assert store.batches == [[done("1"), done("2")]]


async def test_of_two_flushes_at_once_one_has_nothing_left() -> None:
    store = Recorder()
    store.hold = threading.Event()
    journal = Journal(store)
    journal.note(done("1"))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(journal.write, [])
            tasks.start_soon(journal.write, [])
            await anyio.wait_all_tasks_blocked()
            store.hold.set()
    assert store.batches == [[done("1")]]


async def test_one_write_at_a_time_in_order_while_the_event_loop_goes_on() -> None:
    store = Recorder()
    store.hold = threading.Event()
    journal = Journal(store)
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            for id in "123":
                tasks.start_soon(journal.write, [keep(id)])
            await anyio.wait_all_tasks_blocked()
            journal.note(done("0"))
            store.hold.set()
    assert store.most_at_once == 1
    written = [change for batch in store.batches for change in batch]
    assert sorted(written) == [done("0"), keep("1"), keep("2"), keep("3")]


async def test_a_write_that_failed_is_raised_and_loses_nothing_that_was_noted() -> None:
    store = Recorder()
    journal = Journal(store)
    journal.note(done("1"))
    store.fail = True
    with pytest.raises(OutboxStoreError):
        await journal.write([keep("2")])
    journal.note(done("3"))
    store.fail = False
    await journal.flush()
    assert store.batches == [[done("1"), done("3")]]


async def test_a_write_that_was_cancelled_before_it_began_loses_nothing_that_was_noted() -> None:
    store = Recorder()
    journal = Journal(store)
    journal.note(done("1"))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await journal.flush()
    assert store.batches == []
    journal.close()
    assert store.batches == [[done("1")]]


def test_closing_writes_the_rest_and_releases_the_store() -> None:
    store = Recorder()
    journal = Journal(store)
    journal.close()
    assert (store.batches, store.closed) == ([], True)
    store = Recorder()
    journal = Journal(store)
    journal.note(done("1"))
    store.fail = True
    with pytest.raises(OutboxStoreError):
        journal.close()
    assert store.closed


def test_one_journal_serves_event_loop_after_event_loop() -> None:
    store = Recorder()
    journal = Journal(store)
    for number, backend in enumerate(("asyncio", "trio", "asyncio")):
        anyio.run(journal.write, [keep(str(number))], backend=backend)
    assert len(store.batches) == 3


def test_an_error_says_what_failed() -> None:
    error = OutboxStoreError("disk full")
    assert error.detail == "disk full"
    assert "disk full" in str(error)
