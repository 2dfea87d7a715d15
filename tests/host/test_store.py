"""Files for what a host remembers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET

from mcpl_core.errors import LocalProtocolError
from mcpl_core.host.dedupe import SeenEvents, event_key
from mcpl_core.host.events import EventAnswer
from mcpl_core.host.state import Checkpoint, States
from mcpl_core.host.store import FileSeenStore, FileStateStore

STORES: list[Callable[[Path], Any]] = [FileSeenStore, FileStateStore]


def test_handled_events_survive(tmp_path: Path) -> None:
    path = tmp_path / "seen.db"
    answers = {
        event_key("s", "e1"): EventAnswer(inference_id="inf"),
        event_key("s", "e1", "chat"): EventAnswer(conversation_id="conv"),
        event_key("s", "e1", ""): EventAnswer(accepted=False, reason="declined"),
        event_key("s\ud800", "e\0"): EventAnswer(),
    }
    seen = SeenEvents(store=FileSeenStore(path))
    for key, answer in answers.items():
        seen.settle(key, EventAnswer(accepted=False))
        seen.settle(key, answer)
    seen.close()
    again = SeenEvents(store=FileSeenStore(path))
    assert {key: again.find(key) for key in answers} == answers
    again.forget("s")
    again.close()
    store = FileSeenStore(path)
    assert [key for key, _ in store.load()] == [event_key("s\ud800", "e\0")]
    store.close()


def test_states_survive(tmp_path: Path) -> None:
    path = tmp_path / "states.db"
    states = States(store=FileStateStore(path))
    tree = states.tree("s", "notes")
    tree.record("c1", None, {"n": [1, None, "\ud800"]})
    tree.record("o1", "c1")
    tree.record("z1", "o1", None)
    states.saved("s", "notes")
    states.tree("t").record("only", None, 1)
    states.saved("t")
    states.close()
    again = States(store=FileStateStore(path))
    assert again.tree("s", "notes").checkpoints == tree.checkpoints
    assert again.tree("s", "notes").current == "z1"
    assert [checkpoint.data for checkpoint in tree.checkpoints] == [{"n": [1, None, "\ud800"]}, UNSET, None]
    again.forget("s")
    again.close()
    store = FileStateStore(path)
    assert [(server, current) for server, _, _, current in store.load()] == [("t", "only")]
    store.save("u", "", [Checkpoint("a", None)], None)
    store.close()


def test_a_tree_that_cannot_be_read_is_passed_over(tmp_path: Path) -> None:
    path = tmp_path / "states.db"
    store = FileStateStore(path)
    store.save("s", "", [Checkpoint("a", None, 1, 1)], "a")
    store.close()
    with sqlite3.connect(path) as database:
        database.execute("""INSERT INTO trees VALUES ('"x"', '""', NULL, '[{}]'), ('"y"', '""', NULL, 'no'),
            ('"z"', '""', NULL, '[{"id": [], "parent": null}]'), ('"w"', '""', NULL, '[{"id": "a", "parent": 1}]')""")
    database.close()
    store = FileStateStore(path)
    assert [server for server, *_ in store.load()] == ["s"]
    store.close()


@pytest.mark.parametrize("make", STORES)
def test_a_later_schema_is_left_alone(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    path = tmp_path / "file.db"
    make(path).close()
    with sqlite3.connect(path) as database:
        database.execute("PRAGMA user_version = 99")
    database.close()
    with pytest.raises(LocalProtocolError):
        make(path)


@pytest.mark.parametrize("make", STORES)
def test_the_files_of_others_are_left_alone(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    other = STORES[1 - STORES.index(make)]
    path = tmp_path / "file.db"
    other(path).close()
    with pytest.raises(LocalProtocolError):
        make(path)
    foreign = tmp_path / "foreign.db"
    with sqlite3.connect(foreign) as database:
        database.execute("CREATE TABLE precious (x)")
    database.close()
    with pytest.raises(LocalProtocolError):
        make(foreign)
    text = tmp_path / "text.db"
    text.write_text("no database at all, but long enough to be looked at as one by the library " * 20)
    with pytest.raises(LocalProtocolError):
        make(text)


@pytest.mark.parametrize("make", STORES)
def test_a_file_belongs_to_one_process_at_a_time(
    tmp_path: Path, make: Callable[[Path], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "file.db"
    store = make(path)
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **more: connect(*args, **{**more, "timeout": 0.0}))
    with pytest.raises(LocalProtocolError):
        make(path)
    store.close()


@pytest.mark.parametrize("make", STORES)
def test_a_file_that_cannot_be_opened_is_our_error(tmp_path: Path, make: Callable[[Path], Any]) -> None:
    with pytest.raises((LocalProtocolError, sqlite3.OperationalError)):
        make(tmp_path / "missing" / "file.db")
