"""The file."""

from __future__ import annotations

import sqlite3
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
