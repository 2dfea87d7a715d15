"""The file behind the outbox."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from mcpl_core.server import Change, FileOutboxStore, OutboxStoreError


def reopened(path: Path) -> list[tuple[str, str, bytes]]:
    store = FileOutboxStore(path)
    try:
        return list(store.load())
    finally:
        store.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "outbox.sqlite"


def test_what_was_applied_is_there_when_the_file_is_opened_again(path: Path) -> None:
    store = FileOutboxStore(path)
    assert list(store.load()) == []
    store.apply([Change("p", "1", b'{"a":1}'), Change("q", "1", b"{}"), Change("p", "2", b"{}")])
    store.apply([Change("q", "1", None), Change("q", "none", None)])
    store.close()
    assert reopened(path) == [("p", "1", b'{"a":1}'), ("p", "2", b"{}")]


def test_all_changes_or_none(path: Path) -> None:
    store = FileOutboxStore(path)
    store.apply([Change("p", "1", b"{}")])
    with pytest.raises(OutboxStoreError):
        store.apply([Change("p", "1", None), Change("p", "2", object())])  # type: ignore[arg-type]
    # The store goes on.
    store.apply([Change("p", "3", b"{}")])
    store.close()
    assert [event_id for _, event_id, _ in reopened(path)] == ["1", "3"]


def test_calls_may_come_from_any_thread(path: Path) -> None:
    store = FileOutboxStore(path)
    for id in "12":
        thread = threading.Thread(target=store.apply, args=([Change("p", id, b"{}")],))
        thread.start()
        thread.join()
    store.close()
    assert len(reopened(path)) == 2


def test_a_process_that_is_killed_loses_nothing_that_was_applied(path: Path) -> None:
    code = (
        "import os, sys; from mcpl_core.server import Change, FileOutboxStore; "
        "store = FileOutboxStore(sys.argv[1]); store.apply([Change('p', '1', b'{}')]); os._exit(1)"
    )
    subprocess.run([sys.executable, "-c", code, str(path)], check=False, timeout=30)
    assert reopened(path) == [("p", "1", b"{}")]


def test_a_file_is_one_servers_at_a_time(path: Path) -> None:
    store = FileOutboxStore(path)
    database = sqlite3.connect(path, timeout=0)
    with pytest.raises(sqlite3.OperationalError):
        database.execute("SELECT * FROM events")
    database.close()
    store.close()


@pytest.mark.parametrize("content", [b"no database, " * 100, b"\x00" * 4096])
def test_another_file_is_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(OutboxStoreError):
        FileOutboxStore(path)
    assert path.read_bytes() == content


def test_a_directory_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OutboxStoreError):
        FileOutboxStore(tmp_path / "none" / "outbox.sqlite")


def test_a_later_schema_is_refused_and_left_alone(path: Path) -> None:
    FileOutboxStore(path).close()
    database = sqlite3.connect(path)
    database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(OutboxStoreError):
        FileOutboxStore(path)
    database = sqlite3.connect(path)
    assert database.execute("PRAGMA user_version").fetchone() == (99,)
    database.close()


def test_a_closed_store_says_so(path: Path) -> None:
    store = FileOutboxStore(path)
    store.close()
    with pytest.raises(OutboxStoreError):
        store.apply([Change("p", "1", b"{}")])


@pytest.mark.parametrize("row", [(b"p", "1", b"{}"), ("p", b"1", b"{}"), ("p", "1", "{}"), ("p", "1", 10**9)])
def test_a_file_that_somebody_else_wrote_into(path: Path, row: tuple[object, ...]) -> None:
    FileOutboxStore(path).close()
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO events (principal, event_id, event) VALUES (?, ?, ?)", row)
    database.close()
    with pytest.raises(OutboxStoreError):
        reopened(path)
