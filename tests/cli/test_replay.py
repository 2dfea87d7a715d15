"""``mcpl replay``: a record against a live server or host, and what it reports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from mcpl_core.cli import main
from tests.cli.processes import ECHO_SERVER, LIMIT, MCPL, mcpl, relay_to, running, terminal


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A probe of the example server that calls its tool and is sent an event."""
    path = tmp_path_factory.mktemp("records") / "session.jsonl"
    done = mcpl(
        "probe", "--record", str(path), "--allow", "pushEvents", "--call", "echo", '{"text": "hi"}', "--", *ECHO_SERVER
    )
    assert done.returncode == 0, done.stderr
    return path


def altered(session: Path, tmp_path: Path, old: str, new: str) -> str:
    text = session.read_text()
    assert old in text
    path = tmp_path / "altered.jsonl"
    path.write_text(text.replace(old, new))
    return str(path)


def test_the_same_server_shows_no_difference(session: Path) -> None:
    done = mcpl("replay", str(session), "--ignore", "timestamp", "--", *ECHO_SERVER)
    assert (done.returncode, done.stderr) == (0, ""), done.stdout
    assert "no differences" in done.stdout.splitlines()[-1]
    assert done.stdout.count("\u2713") == len(session.read_text().splitlines())


def test_what_varies_is_a_difference_unless_it_is_ignored(session: Path) -> None:
    done = mcpl("replay", str(session), "-q", "--", *ECHO_SERVER)
    assert done.returncode == 1
    assert "$.params.timestamp" in done.stdout
    assert "1 difference" in done.stdout.splitlines()[-1]
    assert mcpl("replay", str(session), "--ignore", "$.params.timestamp", "--", *ECHO_SERVER).returncode == 0


def test_another_server_is_reported_as_json(session: Path, tmp_path: Path) -> None:
    path = altered(session, tmp_path, "Says it again", "Says it twice")
    done = mcpl("replay", path, "--json", "--ignore", "timestamp", "--", *ECHO_SERVER)
    assert done.returncode == 1
    report = json.loads(done.stdout)
    assert (report["same"], report["error"]) == (False, None)
    (found,) = report["differences"]
    assert found["kind"] == "changed"
    assert found["path"] == "$.result.tools[0].description"
    assert (found["recorded"], found["live"]) == ("Says it twice", "Says it again")


def test_over_a_websocket(session: Path) -> None:
    with relay_to("--", *ECHO_SERVER) as (endpoint, _):
        done = mcpl("replay", str(session), "--ignore", "timestamp", endpoint)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_plays_the_server_for_a_host_that_starts_it(session: Path) -> None:
    probe = mcpl(
        "probe", "--json", "--allow", "pushEvents", "--call", "echo", '{"text": "hi"}',
        "--", *MCPL, "replay", str(session), "--as", "server", "--ignore", "clientInfo",
    )  # fmt: skip
    assert probe.returncode == 0, probe.stderr
    facts = json.loads(probe.stdout)
    assert facts["server"] == {"name": "echo", "version": "1.0.0"}
    assert facts["call"]["text"] == "hi"


def test_it_plays_the_server_for_the_first_who_connects(session: Path) -> None:
    with running("replay", str(session), "--as", "server", "--listen", "ws://127.0.0.1:0") as server:
        endpoint = server.err_until("listening on").rpartition(" ")[2]
        probe = mcpl("probe", "--allow", "pushEvents", "--call", "echo", '{"text": "other"}', endpoint)
        assert probe.returncode == 0, probe.stderr
        assert server.process.wait(LIMIT) == 1
        lines = []
        while line := server.out():
            lines.append(line)
    assert "1 difference" in lines[-1]
    assert any('"hi" became "other"' in line for line in lines)


def test_the_report_stays_off_the_protocol(session: Path) -> None:
    done = subprocess.run(
        [*MCPL, "replay", str(session), "--as", "server", "--patience", "0.1"],
        input=b"", capture_output=True, timeout=LIMIT,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stdout == b""
    assert b"missing: initialize" in done.stderr


def test_a_server_that_dies_is_a_failure_and_what_it_owed_is_missing(session: Path) -> None:
    done = mcpl("replay", str(session), "--", sys.executable, "-c", "raise SystemExit(3)")
    assert done.returncode == 1
    assert "missing: the answer to request 1" in done.stdout
    assert "exited with status 3" in done.stdout
    done = mcpl("replay", str(session), "--json", "--", sys.executable, "-c", "raise SystemExit(3)")
    assert "status 3" in json.loads(done.stdout)["error"]


def test_what_was_taken_out_is_told(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    mcpl(
        "record",
        str(path),
        "--",
        *ECHO_SERVER,
        input=b'{"jsonrpc":"2.0","id":1,"method":"x","params":{"token":"abc"}}\n',
    )
    done = mcpl("replay", str(path), "--", *ECHO_SERVER)
    assert done.returncode == 0
    assert "taken out" in done.stdout


def test_on_a_terminal(session: Path, tmp_path: Path) -> None:
    path = altered(session, tmp_path, "Says it again", "Says it twice")
    with terminal("replay", path, "--ignore", "timestamp", "--", *ECHO_SERVER) as screen:
        assert screen.end() == 1
    assert "\x1b[3" in screen.text and "\u2717" in screen.text
    assert "1 difference" in screen.text


def test_on_a_terminal_ctrl_c_stops_it(session: Path) -> None:
    with terminal("replay", str(session), "--as", "server", "--listen", "ws://127.0.0.1:0") as screen:
        screen.until("listening on")
        screen.press_ctrl_c()
        assert screen.end() == 130
    assert "interrupted" in screen.text and "Traceback" not in screen.text


@pytest.mark.parametrize(
    ("arguments", "status", "part"),
    [
        (["/nonexistent.jsonl", "--", "cat"], 2, "cannot read /nonexistent.jsonl"),
        ([__file__, "--", "cat"], 2, "is no record: line 1"),
        (["FILE", "--connection", "7", "--", "cat"], 2, "no messages"),
        (["FILE", "--as", "nobody", "--", "cat"], 2, "--as takes host or server"),
        (["FILE", "--listen", "ws://127.0.0.1:0", "--", "cat"], 2, "not both"),
        (["FILE"], 2, "name an endpoint"),
        (["FILE", "--", "/nonexistent/server"], 1, "/nonexistent/server"),
        (["FILE", "--as", "server", "--listen", "tcp://192.0.2.1:1"], 1, "192.0.2.1"),
    ],
)
def test_a_mistake_is_one_line(
    arguments: list[str], status: int, part: str, session: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", *(str(session) if word == "FILE" else word for word in arguments)]) == status
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("mcpl: ") and captured.err.count("\n") == 1
    assert part in captured.err
