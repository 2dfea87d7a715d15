"""Recording: direction, time, no secrets; in memory and in a file."""

from __future__ import annotations

import json
import os
import stat
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import anyio
import pytest

from mcpl_core.connection import McplConnection
from mcpl_core.relay import Relay
from mcpl_core.testing.recorder import Recorder
from mcpl_core.testing.redaction import NO_REDACTION
from mcpl_core.testing.transcripts import Entry, read_transcript
from mcpl_core.transports.memory import ScriptedTransport, memory_transports

NOON = datetime(2026, 8, 30, 14, 0, 0, 250, tzinfo=timezone(timedelta(hours=2)))
STAMP = "2026-08-30T12:00:00.000250Z"


def test_messages_are_kept_as_they_are() -> None:
    recorder = Recorder(now=lambda: NOON)
    recorder.record("to-server", b'{ "a": 1 }')
    recorder.record("to-host", b"no JSON", connection=2)
    assert recorder.entries == [
        Entry("to-server", b'{ "a": 1 }', STAMP),
        Entry("to-host", b"no JSON", STAMP, connection=2),
    ]
    assert recorder.count == 2


def test_secrets_are_taken_out_and_their_places_are_told() -> None:
    recorder = Recorder()
    recorder.record("to-server", b'{"b":{"password":"hunter2"},"a":"Bearer abcDEF123"}')
    recorder.record("to-server", b"oops password=hunter2")
    recorder.record("to-server", rb'{"lone":"\ud800","password":"hunter2"}')
    assert [(entry.message, entry.redacted) for entry in recorder.entries] == [
        (b'{"b":{"password":"[redacted]"},"a":"Bearer [redacted]"}', ("$.a", "$.b.password")),
        (b"oops password=[redacted]", ("$",)),
        (rb'{"lone":"\ud800","password":"[redacted]"}', ("$.password",)),
    ]


def test_without_rules_nothing_is_taken_out() -> None:
    recorder = Recorder(redaction=NO_REDACTION)
    recorder.record("to-server", b'{"password":"hunter2"}')
    assert recorder.entries[0].message == b'{"password":"hunter2"}'


def test_a_file_is_written_message_by_message_for_its_owner_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with Recorder(path) as recorder:
        recorder.record("to-server", b'{"a":1}')
        assert len(read_transcript(path)) == 1
        recorder.record("to-host", b'{"token":"abc"}')
    assert [entry.message for entry in read_transcript(path)] == [b'{"a":1}', b'{"token":"[redacted]"}']
    if os.name == "posix":
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert recorder.entries == []
    with pytest.raises(ValueError):
        recorder.record("to-host", b"late")
    recorder.close()


def test_each_line_has_the_time_of_its_message(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    before = datetime.now(UTC)
    with Recorder(path) as recorder:
        recorder.record("to-server", b"1")
    after = datetime.now(UTC)
    (line,) = path.read_text().splitlines()
    assert before <= datetime.fromisoformat(json.loads(line)["time"]) <= after


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OSError):
        Recorder(tmp_path / "no" / "t.jsonl")


@pytest.mark.anyio
async def test_a_tap_on_either_side_writes_the_same_directions() -> None:
    at_host, at_server = Recorder(), Recorder()
    left, right = memory_transports()
    async with (
        McplConnection(at_host.tap(left, "host")) as host,
        McplConnection(at_server.tap(right, "server")) as server,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(server.serve, {"echo": lambda request: request.params})
        with anyio.fail_after(5):
            await host.send_request("echo", {"a": 1})
            await host.aclose()
    for recorder in (at_host, at_server):
        assert [entry.direction for entry in recorder.entries] == ["to-server", "to-host"]


@pytest.mark.anyio
async def test_a_relay_can_be_recorded() -> None:
    left, right = ScriptedTransport(), ScriptedTransport()
    relay = Relay(left, right)
    recorder = Recorder()
    relay.on_message(recorder.observer(connection=3))
    left.feed(b"1")
    right.feed(b"2")
    left.end()
    right.end()
    with anyio.fail_after(5):
        await relay.run()
    assert {(entry.direction, entry.message, entry.connection) for entry in recorder.entries} == {
        ("to-server", b"1", 3),
        ("to-host", b"2", 3),
    }
