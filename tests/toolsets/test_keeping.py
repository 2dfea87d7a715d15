"""What is kept, and when it is written."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from typing import Any

import anyio
import msgspec
import pytest

from mcpl_core.protocol import EndedInstance
from mcpl_core.toolsets import ToolsetStoreError
from mcpl_core.toolsets.keeping import InstanceRecord, Keeper, PrincipalRecord, Row
from mcpl_core.wire.values import encode_value

pytestmark = pytest.mark.anyio

GAME = InstanceRecord(toolset="game", instance="game-1", title="T", opened_at=1.0, dump="d")
LAMP = InstanceRecord(toolset="lamp", instance=None, title="L", opened_at=1.0, dump="d")
ENDED = EndedInstance(
    toolset="game", instance="game-0", title="T", reason="closed", ended_at="2027-01-15T08:00:00.250Z"
)


class Store:
    def __init__(self, *rows: tuple[str, str, bytes]) -> None:
        self.rows = list(rows)
        self.applied: list[list[Row]] = []
        self.fails = False
        self.closed = False
        self.threads: set[int] = set()

    def load(self) -> list[tuple[str, str, bytes]]:
        return self.rows

    def apply(self, rows: Sequence[Row]) -> None:
        self.threads.add(threading.get_ident())
        if self.fails:
            raise ToolsetStoreError("full")
        self.applied.append(list(rows))

    def close(self) -> None:
        self.closed = True


def ids(rows: Sequence[Row]) -> list[tuple[str, str, bool]]:
    return [(row.principal, row.id, row.data is not None) for row in rows]


async def test_writes_are_together_beside_the_loop_and_the_last_word_counts() -> None:
    store = Store()
    keeper = Keeper(store)
    assert keeper.active
    await keeper.write()
    keeper.note_principal("a", PrincipalRecord(counters={"game": 1}))
    keeper.note_instance("a", GAME)
    keeper.note_instance("a", LAMP)
    keeper.forget("a", LAMP.key)
    await keeper.write()
    await keeper.write()
    assert [ids(rows) for rows in store.applied] == [
        [("a", "", True), ("a", "instance game-1", True), ("a", "toolset lamp", False)]
    ]
    assert threading.get_ident() not in store.threads
    # What was never kept need not be forgotten.
    keeper.forget("a", ("game", "other"))
    keeper.forget("a")
    await keeper.write()
    assert ids(store.applied[1]) == [("a", "", False), ("a", "instance game-1", False)]


async def test_what_failed_is_written_with_the_next_unless_it_is_old() -> None:
    store = Store()
    keeper = Keeper(store)
    keeper.note_instance("a", GAME)
    keeper.note_instance("b", GAME)
    store.fails = True
    with pytest.raises(ToolsetStoreError):
        await keeper.write()
    store.fails = False
    keeper.forget("b", GAME.key)
    await keeper.write()
    assert ids(store.applied[0]) == [("a", "instance game-1", True), ("b", "instance game-1", False)]


async def test_what_is_noted_while_a_write_fails_is_the_last_word() -> None:
    class Late(Store):
        def apply(self, rows: Sequence[Row]) -> None:
            if self.fails:
                keeper.forget("a", GAME.key)
            super().apply(rows)

    store = Late()
    keeper = Keeper(store)
    keeper.note_instance("a", GAME)
    store.fails = True
    with pytest.raises(ToolsetStoreError):
        await keeper.write()
    store.fails = False
    await keeper.write()
    assert ids(store.applied[0]) == [("a", "instance game-1", False)]


async def test_writes_are_one_after_the_other() -> None:
    store = Store()
    keeper = Keeper(store)

    async def write(name: str) -> None:
        keeper.note_instance(name, GAME)
        await keeper.write()

    async with anyio.create_task_group() as tasks:
        for name in "abcd":
            tasks.start_soon(write, name)
    assert sorted(row.principal for rows in store.applied for row in rows) == list("abcd")


def test_reading_what_was_kept() -> None:
    first = Keeper(store := Store())
    first.note_principal("a", PrincipalRecord(counters={"game": 4}, idle_since=2.0))
    first.note_instance("a", GAME)
    first.note_instance("b", LAMP)
    first.close()
    assert store.closed
    rows = [(row.principal, row.id, row.data) for row in store.applied[0] if row.data is not None]
    keeper = Keeper(again := Store(*rows))
    assert keeper.principals == {
        "a": PrincipalRecord(counters={"game": 4}, idle_since=2.0),
        "b": PrincipalRecord(),
    }
    assert (keeper.instances("a"), keeper.instances("b"), keeper.instances("c")) == ([GAME], [LAMP], [])
    keeper.made_again("a", GAME)
    keeper.made_again("a", GAME)
    assert keeper.instances("a") == []
    keeper.forget("b")
    keeper.close()
    assert ids(again.applied[0]) == [("b", "", False), ("b", "toolset lamp", False)]


def test_rows_that_cannot_be_read_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    store = Store(("a", "", b"{"), ("a", "instance x", b'{"toolset":1}'), ("b", "", b"{}"))
    with caplog.at_level(logging.WARNING, "mcpl_core"):
        keeper = Keeper(store)
    assert len(caplog.records) == 2
    assert list(keeper.principals) == ["b"]
    keeper.close()
    assert ids(store.applied[0]) == [("a", "", False), ("a", "instance x", False)]


def test_closing_releases_in_any_case() -> None:
    store = Store()
    keeper = Keeper(store)
    keeper.note_instance("a", GAME)
    store.fails = True
    with pytest.raises(ToolsetStoreError):
        keeper.close()
    assert store.closed


async def test_without_a_store_nothing_is_kept() -> None:
    keeper = Keeper(None)
    keeper.note_instance("a", GAME)
    keeper.note_principal("a", PrincipalRecord())
    await keeper.write()
    keeper.close()
    assert (keeper.active, keeper.principals, keeper.instances("a")) == (False, {}, [])


class Careless(Store):
    """Of an application that has errors of its own."""

    def apply(self, rows: Sequence[Row]) -> None:
        if self.fails:
            raise OSError("no space")
        super().apply(rows)


async def test_whatever_a_store_raises_is_the_stores_error() -> None:
    store = Careless()
    keeper = Keeper(store)
    keeper.note_instance("a", GAME)
    store.fails = True
    with pytest.raises(ToolsetStoreError) as caught:
        await keeper.write()
    assert isinstance(caught.value.__cause__, OSError)
    store.fails = False
    await keeper.write()
    assert [ids(rows) for rows in store.applied] == [[("a", "instance game-1", True)]]
    for rows in ([("a", "b")], None):
        with pytest.raises(ToolsetStoreError):
            Keeper(Store(*rows) if rows else Unreadable())  # type: ignore[arg-type]


class Unreadable(Store):
    def load(self) -> list[tuple[str, str, bytes]]:
        raise OSError("not there")


@pytest.mark.parametrize(
    ("id", "changes"),
    [("instance game-2", {}), ("toolset game", {}), ("instance game-1", {"opened_at": 1e300}),
     ("instance game-1", {"opened_at": -1.0})],
)  # fmt: skip
def test_an_instance_in_the_wrong_row_or_of_no_time_is_dropped(
    id: str, changes: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    record = msgspec.structs.replace(GAME, **changes)
    with caplog.at_level(logging.WARNING, "mcpl_core"):
        keeper = Keeper(store := Store(("a", id, encode_value(record))))
    assert keeper.instances("a") == []
    keeper.close()
    assert ids(store.applied[0]) == [("a", id, False)]


@pytest.mark.spec("R-toolsets-9")
def test_what_ended_is_kept_beside_what_is_open() -> None:
    first = Keeper(store := Store())
    later = msgspec.structs.replace(ENDED, instance="game-1")
    for record in (ENDED, later):
        first.note_ended("a", record)
    first.note_instance("a", GAME)
    first.close()
    rows = [(row.principal, row.id, row.data) for row in store.applied[0] if row.data is not None]
    keeper = Keeper(again := Store(*rows))
    assert (keeper.ended("a"), keeper.ended("b"), keeper.instances("a")) == ([ENDED, later], [], [GAME])
    assert list(keeper.principals) == ["a"]
    keeper.forget_ended("a", later)
    keeper.forget_ended("a", later)
    keeper.forget_ended("b", ENDED)
    keeper.close()
    assert ids(again.applied[0]) == [("a", "ended game-1", False)]
    keeper = Keeper(again := Store(*rows))
    keeper.forget("a")
    assert keeper.ended("a") == []
    keeper.close()
    assert all(row.data is None for row in again.applied[0])
    assert {row.id for row in again.applied[0]} == {"", "ended game-0", "ended game-1", "instance game-1"}


def test_a_record_of_an_end_in_the_wrong_row_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    rows = [("a", "ended game-1", encode_value(ENDED)), ("a", "ended game-0", encode_value(GAME))]
    with caplog.at_level(logging.WARNING, "mcpl_core"):
        keeper = Keeper(store := Store(*rows))
    assert keeper.ended("a") == []
    keeper.close()
    assert ids(store.applied[0]) == [("a", "ended game-1", False), ("a", "ended game-0", False)]
