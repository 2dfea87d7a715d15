"""The file."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from mcpl_core.toolsets import FileToolsetStore, ToolsetStoreError
from mcpl_core.toolsets.keeping import Row


def test_what_was_kept_is_there_again_in_its_order(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    store = FileToolsetStore(path)
    store.apply([Row("a", "", b"1"), Row("a", "instance x", b"2"), Row("b", "", b"3")])
    store.apply([Row("a", "", b"4"), Row("b", "", None), Row("nobody", "", None)])
    store.close()
    again = FileToolsetStore(path)
    assert list(again.load()) == [("a", "", b"4"), ("a", "instance x", b"2")]
    again.close()


def test_all_or_nothing(tmp_path: Path) -> None:
    store = FileToolsetStore(tmp_path / "kept")
    with pytest.raises(ToolsetStoreError):
        store.apply([Row("a", "", b"1"), Row("a", "x", object())])  # type: ignore[arg-type]
    assert list(store.load()) == []
    store.apply([Row("a", "", b"1")])
    assert len(list(store.load())) == 1
    store.close()


def test_one_server_at_a_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "kept"
    store = FileToolsetStore(path)
    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **options: real(*args, **{**options, "timeout": 0.0}))
    with pytest.raises(ToolsetStoreError):
        FileToolsetStore(path)
    store.close()
    FileToolsetStore(path).close()


def test_files_that_are_none(tmp_path: Path) -> None:
    other = tmp_path / "text"
    other.write_bytes(b"this is no database, and long enough to be seen as none" * 20)
    for path in (other, tmp_path / "no" / "folder"):
        with pytest.raises(ToolsetStoreError):
            FileToolsetStore(path)


def test_a_file_of_a_later_version_is_left_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "later"
    FileToolsetStore(path).close()
    with sqlite3.connect(path) as database:
        assert database.execute("PRAGMA user_version").fetchone() == (1,)
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(ToolsetStoreError):
        FileToolsetStore(path)


def test_a_store_that_was_closed_fails_as_one(tmp_path: Path) -> None:
    store = FileToolsetStore(tmp_path / "kept")
    store.close()
    for use in (lambda: list(store.load()), lambda: store.apply([Row("a", "", b"1")])):
        with pytest.raises(ToolsetStoreError):
            use()


def test_a_full_disk_changes_nothing(tmp_path: Path) -> None:
    store = FileToolsetStore(tmp_path / "kept")
    store.apply([Row("a", "", b"1")])
    store._database.execute("PRAGMA max_page_count = 4")
    with pytest.raises(ToolsetStoreError):
        store.apply([Row("a", "", b"2"), *(Row("a", str(number), b"x" * 4000) for number in range(9))])
    assert list(store.load()) == [("a", "", b"1")]
    store.apply([Row("a", "", b"3")])
    assert list(store.load()) == [("a", "", b"3")]
    store.close()


def test_a_damaged_file_cannot_be_read(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    store = FileToolsetStore(path)
    store.apply([Row("a", str(number), b"x" * 400) for number in range(50)])
    store.close()
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    store = FileToolsetStore(path)
    with pytest.raises(ToolsetStoreError):
        list(store.load())
    store.close()


@pytest.mark.parametrize("row", [(b"a", "x", b"1"), ("a", b"x", b"1"), ("a", "x", "1"), ("a", "x", 10**9)])
def test_a_file_that_somebody_else_wrote_into(tmp_path: Path, row: tuple[object, ...]) -> None:
    path = tmp_path / "kept"
    FileToolsetStore(path).close()
    with sqlite3.connect(path) as database:
        database.execute("INSERT INTO kept VALUES (?, ?, ?)", row)
    database.close()
    store = FileToolsetStore(path)
    with pytest.raises(ToolsetStoreError):
        list(store.load())
    store.close()


KILLED = """
import os, signal, sqlite3, sys
from mcpl_core.toolsets import FileToolsetStore
from mcpl_core.toolsets.keeping import Row
store = FileToolsetStore(sys.argv[1])
store.apply([Row("a", "", b"1"), Row("a", "instance x", b"2")])
store._database.execute("PRAGMA cache_spill = 1")
store._database.execute("PRAGMA cache_size = 1")
store._database.create_function("die", 0, lambda: os.kill(os.getpid(), signal.SIGKILL))
store._database.execute("CREATE TEMP TRIGGER t AFTER DELETE ON kept BEGIN SELECT die(); END")
store.apply([Row("b", str(number), b"3" * 5000) for number in range(100)] + [Row("a", "instance x", None)])
"""


@pytest.mark.skipif(sys.platform == "win32", reason="nothing kills like this there")
def test_a_process_that_is_killed_while_it_writes_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "kept"
    ended = subprocess.run([sys.executable, "-c", KILLED, str(path)], check=False, timeout=30)
    assert ended.returncode == -9
    assert (tmp_path / "kept-journal").exists()
    store = FileToolsetStore(path)
    assert list(store.load()) == [("a", "", b"1"), ("a", "instance x", b"2")]
    store.close()
