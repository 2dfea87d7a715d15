"""``mcpl record``: what passes is written, without secrets, as it passes."""

from __future__ import annotations

import json
import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from mcpl_core.cli import main
from mcpl_core.testing import read_transcript
from tests.cli.processes import ECHO_SERVER, mcpl, relay_to, running

PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
CAT = [
    sys.executable,
    "-c",
    "import sys\nfor line in sys.stdin.buffer:\n sys.stdout.buffer.write(line); sys.stdout.flush()",
]


def test_a_hosts_session_with_its_server(tmp_path: Path) -> None:
    path = tmp_path / "session.jsonl"
    secret = {"jsonrpc": "2.0", "id": 2, "method": "login", "params": {"password": "hunter2", "note": "my pin is 1234"}}
    with running("record", str(path), "--redact", "note", "--", *ECHO_SERVER) as record:
        record.say(PING)
        record.out()
        # Written as it passes.
        assert len(read_transcript(path)) == 2
        record.say(secret)
        assert json.loads(record.out())["error"]["code"] == -32601
        assert record.end() == 0
        assert record.err() == f"mcpl record: 4 messages recorded in {path}"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["direction"] for line in lines] == ["to-server", "to-host", "to-server", "to-host"]
    assert all(line["time"].endswith("Z") for line in lines)
    assert lines[0]["message"] == PING
    assert lines[2]["message"]["params"] == {"password": "[redacted]", "note": "[redacted]"}
    assert sorted(lines[2]["redacted"]) == ["$.params.note", "$.params.password"]
    assert "hunter2" not in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_rules_can_be_added_and_left_out(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    message = b'{"password":"hunter2","text":"agent 007"}\n'
    assert (
        mcpl("record", str(path), "--redact-pattern", r"agent (?P<secret>\d+)", "-q", "--", *CAT, input=message).stderr
        == ""
    )
    assert json.loads(read_transcript(path)[0].message) == {"password": "[redacted]", "text": "agent [redacted]"}
    assert mcpl("record", str(path), "--no-redaction", "--", *CAT, input=message).returncode == 0
    assert [entry.message for entry in read_transcript(path)] == [message.strip()] * 2


def test_connections_are_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    with running("record", str(path), "--json", "--listen", "ws://127.0.0.1:0", "--", *CAT) as record:
        endpoint = json.loads(record.err_until("listening"))["endpoint"]
        for number in range(2):
            assert mcpl("relay", endpoint, input=b"").returncode == 0
            with running("relay", endpoint) as relay:
                relay.say(number)
                assert relay.out() == str(number)
        assert record.end(signal.SIGINT) == 0
        assert json.loads(record.err_until('"recorded"'))["messages"] == 4
    numbers = {entry["connection"] for entry in map(json.loads, path.read_text().splitlines())}
    assert len(numbers) == 2
    for number in numbers:
        assert len(read_transcript(path, connection=number)) == 2


def test_a_probe_is_recorded_too(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    done = mcpl("record", str(path), "--probe", "--allow", "pushEvents", "--", *ECHO_SERVER)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("echo 1.0.0\n")
    first = json.loads(read_transcript(path)[0].message)
    assert first["method"] == "initialize"
    assert "messages recorded" in done.stderr


def test_a_record_that_cannot_go_on_ends_the_relay() -> None:
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full")
    with running("record", "/dev/full", "--", *CAT) as record:
        record.say(PING)
        assert record.process.wait(30) == 1
        assert "the record cannot be written: No space left" in record.err_until("cannot be written")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        ([], "file"),
        (["/nonexistent/t.jsonl", "--", "cat"], "cannot write /nonexistent/t.jsonl"),
        (["FILE", "--redact-pattern", "(", "--", "cat"], "--redact-pattern"),
        (["FILE", "--allow", "tools", "--", "cat"], "add --probe"),
        (["FILE", "--probe", "--listen", "ws://127.0.0.1:0", "--", "cat"], "leave --listen"),
        (["FILE", "--probe", "--allow", "nonsense", "--", "cat"], "capability paths"),
        (["FILE"], "name an endpoint"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], part: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = str(tmp_path / "t.jsonl")
    assert main(["record", *(path if word == "FILE" else word for word in arguments)]) == 2
    errors = capfd.readouterr().err
    assert errors.splitlines()[-1].startswith("mcpl: ")
    assert part in errors


def test_a_mistake_leaves_an_older_record_alone(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    path.write_text("precious")
    assert main(["record", str(path), "nonsense"]) == 2
    assert path.read_text() == "precious"


def test_a_relayed_relay_is_recorded_at_either_end(tmp_path: Path) -> None:
    near, far = tmp_path / "near.jsonl", tmp_path / "far.jsonl"
    command = [sys.executable, "-m", "mcpl_core", "record", str(far), "--", *ECHO_SERVER]
    with relay_to("--", *command) as (endpoint, _):
        done = mcpl("record", str(near), endpoint, input=b"")
        assert done.returncode == 0
        with running("record", str(near), endpoint) as record:
            record.say(PING)
            record.out()
            record.end()
    assert [entry.message for entry in read_transcript(near)] == [entry.message for entry in read_transcript(far)]
