"""``mcpl approvals``: looking, deciding, settling."""

from __future__ import annotations

import io
import json
import os
import sqlite3
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core.approvals import ApprovalRecord, RunLedger, SqliteApprovalStore, preview_of
from mcpl_core.approvals.clock import wall_clock_ms
from mcpl_core.cli import main
from tests.approvals.databases import database_for, needs_postgres, sqlite_database
from tests.approvals.world import LIFE, HandClock, Host, failing, host_at, tool_call

EVIL = "\x1b[2J\u202e\r\n"


class Command:
    """``mcpl approvals`` over one store, and the host that uses it too."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder = folder
        self.store = str(folder / "approvals.db")
        self._capsys = capsys

    def __call__(self, name: str, *arguments: str, status: int = 0) -> str:
        assert main(["approvals", name, "--store", self.store, *arguments]) == status
        captured = self._capsys.readouterr()
        if status:
            assert captured.out == "" and captured.err.count("\n") == 1
            return captured.err
        assert captured.err == ""
        return captured.out

    def damaged(self, name: str, *arguments: str) -> tuple[str, list[str]]:
        """What is printed where something is damaged, and what is said of that."""
        assert main(["approvals", name, "--store", self.store, *arguments]) == 1
        captured = self._capsys.readouterr()
        return captured.out, captured.err.splitlines()

    def host(self, work: Callable[[Host], Awaitable[Any]], ago: int = 0) -> Any:
        """Lets a host do something, ``ago`` milliseconds before now."""

        async def run() -> Any:
            async with host_at(self.folder, clock=HandClock(wall_clock_ms() - ago)) as host:
                return await work(host)

        return anyio.run(run)

    def proposed(self, run_id: str = "run", **call: Any) -> ApprovalRecord:
        async def work(host: Host) -> ApprovalRecord:
            run, lease = await host.ready(run_id)
            return await host.propose(run, lease, tool_call(**call), life=LIFE * 10)

        record: ApprovalRecord = self.host(work)
        return record

    def unknown(self, *, idle: bool = True) -> ApprovalRecord:
        async def work(host: Host) -> ApprovalRecord:
            lease, record = await host.approved()
            host.server.answer = failing("mcp_timeout")
            await host.dispatch(lease)
            if idle:
                await host.ledger.release(lease)
            return record

        record: ApprovalRecord = self.host(work)
        return record


@pytest.fixture
def command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Command:
    return Command(tmp_path, capsys)


def _decision(record: ApprovalRecord, decision: str = "approve", **changes: str) -> list[str]:
    options = {"revision": "1", "digest": record.intent.digest, "principal": "bob", "key": "k1"} | changes
    return [record.approval_id, decision, *(word for name, text in options.items() for word in (f"--{name}", text))]


def test_the_list(command: Command) -> None:
    first, second = command.proposed("a"), command.proposed("b", arguments={"value": "y"})
    lines = command("list").splitlines()
    assert lines[0].split() == ["approval", "status", "revision", "effect", "tool", "run", "expires"]
    assert [line.split()[0] for line in lines[1:]] == [first.approval_id, second.approval_id]
    assert lines[1].split()[1:6] == ["pending", "1", "write", "store_value", "a"]
    found = json.loads(command("list", "--run", "b", "--json"))
    assert [ApprovalRecord.from_json({k: v for k, v in each.items() if k != "statusNow"}) for each in found] == [second]
    assert json.loads(command("list", "--tool", "other", "--json")) == []
    assert command("list", "--status", "approved") == "no approvals\n"
    assert len(command("list", "--status", "pending").splitlines()) == 3
    assert "--status" in command("list", "--status", "open", status=2)


def test_the_list_shows_what_time_has_done_and_writes_nothing(command: Command) -> None:
    async def work(host: Host) -> None:
        run, lease = await host.ready()
        await host.propose(run, lease)

    command.host(work, ago=LIFE)
    (row,) = json.loads(command("list", "--status", "expired", "--json"))
    assert (row["status"], row["statusNow"], row["revision"]) == ("pending", "expired", 1)
    assert json.loads(command("list", "--json")) == [row]


def test_the_list_page_by_page(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = [command.proposed(f"run-{number}").approval_id for number in range(3)]
    ids.sort(key=lambda each: [row["approvalId"] for row in json.loads(command("list", "--json"))].index(each))
    *rows, more = command("list", "--limit", "2").splitlines()
    assert [row.split()[0] for row in rows[1:]] == ids[:2]
    assert more == f"there are more: --after {ids[1]}"
    rest = command("list", "--limit", "2", "--after", ids[1]).splitlines()
    assert [row.split()[0] for row in rest[1:]] == ids[2:]
    assert command("list", "--after", ids[2]) == "no approvals\n"
    # What the status leaves out does not count, wherever the store's own pages end.
    monkeypatch.setattr("mcpl_core.approvals.listing.PAGE", 1)
    assert json.loads(command("list", "--status", "expired", "--limit", "1", "--json")) == []
    listed = json.loads(command("list", "--status", "pending", "--limit", "2", "--json"))
    assert [row["approvalId"] for row in listed] == ids[:2]
    assert "approval_not_found" in command("list", "--after", "nothing", status=1)
    command("list", "--limit", "0", status=2)


def test_enabling(command: Command) -> None:
    for _ in range(2):
        assert command("enable") == "approvals are enabled\n"
        assert command("list") == "no approvals\n"
    command.unknown()


def test_enabling_what_is_in_use(command: Command, tmp_path: Path) -> None:
    async def begin() -> None:
        async with SqliteApprovalStore(command.store) as store:
            await RunLedger(store, wall_clock_ms).begin("run", principal_id="alice", preset_fingerprint="p")

    anyio.run(begin)
    assert "approval_activation_pending" in command("enable", status=1)


def test_diagnosing(command: Command) -> None:
    command.unknown()
    found = json.loads(command("diagnose"))
    assert (found["authority"], found["unknownEffects"], found["openRuns"]) == ("diagnosis_only", 1, 1)
    assert json.loads(command("diagnose", "--run", "nothing"))["unknownEffects"] == 0


def test_a_key_that_is_no_text(command: Command) -> None:
    command("enable")
    command("show", "\udcff", status=2)
    command("list", "--run", "a\udcff", status=2)


def test_one_approval(command: Command) -> None:
    record = command.proposed()
    preview = preview_of(record)
    text = command("show", record.approval_id)
    assert text.startswith(preview.text + "\n\n")
    assert f"preview       {preview.digest}\nrevision      1\nstatus        pending\n" in text
    assert "effect known  none" in text
    assert "proposed    revision 1, intentDigest" in text
    found = json.loads(command("show", record.approval_id, "--json"))
    assert found["record"] == record.to_json()
    assert (found["preview"], found["previewDigest"]) == (preview.text, preview.digest)
    assert (found["effect"], found["claim"], found["receipt"], found["statusNow"]) == ("none", None, None, "pending")
    assert [event["kind"] for event in found["events"]] == ["proposed"]
    assert command("show", "other", status=1).startswith("mcpl: approval_not_found: ")


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_deciding(command: Command, decision: str) -> None:
    record = command.proposed()
    preview = preview_of(record).digest
    status = {"approve": "approved", "reject": "rejected"}[decision]
    assert command("decide", *_decision(record, decision, preview=preview)) == (
        f"{status}  {record.approval_id}  revision 2\n"
    )
    again = json.loads(command("decide", *_decision(record, decision), "--json"))
    assert (again["status"], again["revision"], again["commandKey"]) == (status, 2, "k1")
    text = command("show", record.approval_id)
    assert f"principalId bob, previewDigest {preview}" in text

    async def dispatch(host: Host) -> str:
        lease = await host.ledger.acquire("run", "second")
        try:
            return (await host.dispatch(lease)).effect_state
        except Exception as exc:
            return str(exc.code)  # type: ignore[attr-defined]

    assert command.host(dispatch) == ("committed" if decision == "approve" else "approval_rejected")
    found = json.loads(command("show", record.approval_id, "--json"))
    assert found["effect"] == ("committed" if decision == "approve" else "none")


@pytest.mark.parametrize(
    ("changes", "status", "word"),
    [
        ({"revision": "2"}, 1, "approval_revision_conflict"),
        ({"digest": "0" * 64}, 1, "approval_revision_conflict"),
        ({"preview": "0" * 64}, 1, "approval_preview_conflict"),
        ({"principal": " "}, 2, "principal_id"),
        ({"key": ""}, 2, "commandKey"),
        ({"revision": "0"}, 2, "expectedRevision"),
        ({"revision": "x"}, 2, "revision"),
    ],
)
def test_what_is_refused(command: Command, changes: dict[str, str], status: int, word: str) -> None:
    record = command.proposed()
    assert word in command("decide", *_decision(record, **changes), status=status)
    assert json.loads(command("show", record.approval_id, "--json"))["statusNow"] == "pending"


def test_a_decision_that_is_none(command: Command) -> None:
    record = command.proposed()
    assert "approve or reject, not maybe" in command("decide", *_decision(record, "maybe"), status=2)
    arguments = _decision(record)
    at = arguments.index("--principal")
    assert "--principal" in command("decide", *arguments[:at], *arguments[at + 2 :], status=2)


def test_somebody_else_with_the_same_key(command: Command) -> None:
    record = command.proposed()
    command("decide", *_decision(record))
    assert "approval_command_conflict" in command("decide", *_decision(record, principal="eve"), status=1)
    assert "approval_command_conflict" in command("decide", *_decision(record, "reject"), status=1)


def _settling(record: ApprovalRecord, *arguments: str, digest: str = "") -> list[str]:
    return [record.approval_id, "--digest", digest or record.intent.digest, "--principal", "bob", *arguments]


def test_settling_with_a_result(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record = command.unknown()
    shown = json.loads(command("show", record.approval_id, "--json"))
    assert (shown["effect"], shown["claim"]["errorCode"]) == ("unknown", "mcp_timeout")
    assert "effect known  unknown" in command("show", record.approval_id)
    result = {"effectState": "committed", "result": {"text": ["it is there"]}, "errorCode": None}
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(result).encode())))
    text = command("reconcile", *_settling(record, "--result", "-", "--evidence", "page 3"))
    assert text == f"settled  {record.approval_id}  committed\n"
    shown = json.loads(command("show", record.approval_id, "--json"))
    assert (shown["effect"], shown["claim"], shown["receipt"]["outcome"]) == ("committed", None, result)
    assert shown["events"][-1]["facts"] == {"principalId": "bob", "effectState": "committed", "evidence": "page 3"}


def test_settling_with_a_proof(command: Command) -> None:
    record = command.unknown()
    assert "not executed" in command("reconcile", *_settling(record, "--not-executed"))
    assert json.loads(command("show", record.approval_id, "--json"))["effect"] == "none"
    assert "approval_claim_conflict" in command("reconcile", *_settling(record, "--not-executed"), status=1)


def test_settling_what_does_not_fit(command: Command, tmp_path: Path) -> None:
    record = command.unknown(idle=False)
    refused = command("reconcile", *_settling(record, "--not-executed"), status=1)
    assert "approval_reconciliation_requires_idle_run" in refused
    refused = command("reconcile", *_settling(record, "--not-executed", digest="0" * 64), status=1)
    assert "approval_claim_conflict" in refused
    for words in ((), ("--not-executed", "--result", "-")):
        assert "--not-executed" in command("reconcile", *_settling(record, *words), status=2)
    for number, text in enumerate(["{}", "[]", "no", '{"effectState": "maybe", "result": 1, "errorCode": null}']):
        path = tmp_path / f"{number}.json"
        path.write_text(text, encoding="utf-8")
        command("reconcile", *_settling(record, "--result", str(path)), status=2)
    assert json.loads(command("show", record.approval_id, "--json"))["effect"] == "unknown"


@pytest.mark.spec("R-approvals-12")
def test_nothing_of_a_model_acts_upon_the_terminal(command: Command) -> None:
    record = command.proposed(f"run{EVIL}x", arguments={"value": EVIL})
    for text in (command("list"), command("show", record.approval_id), command("list", "--json")):
        assert all(character == "\n" or 32 <= ord(character) < 127 for character in text)
    assert len(command("list").splitlines()) == 2


@needs_postgres
def test_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    with database_for("postgres", tmp_path) as database:

        async def propose() -> ApprovalRecord:
            async with database.open() as store:
                host = Host(store, clock=HandClock(wall_clock_ms()))
                run, lease = await host.ready()
                return await host.propose(run, lease)

        record = anyio.run(propose)
        where = ["--postgres-env", "MCPL_POSTGRES_DSN", "--schema", database.target]
        assert main(["approvals", "decide", *where, *_decision(record)]) == 0
        assert main(["approvals", "list", *where, "--json"]) == 0
        decided, listed = capsys.readouterr().out.splitlines()
        assert decided.startswith("approved") and json.loads(listed)[0]["status"] == "approved"


@needs_postgres
def test_a_database_without_a_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with database_for("postgres", tmp_path) as database:
        where = ["--postgres-env", "MCPL_POSTGRES_DSN", "--schema", database.target]
        assert main(["approvals", "list", *where]) == 1
        assert "there is no store" in capsys.readouterr().err
        assert main(["approvals", "enable", *where]) == 0
        assert main(["approvals", "list", *where]) == 0


def test_a_damaged_approval_is_said_beside_the_others(command: Command, tmp_path: Path) -> None:
    records = {name: command.proposed(name) for name in ("a", "b", "c")}
    bad = records["b"].approval_id
    database = sqlite_database(tmp_path)
    database.execute("UPDATE mcpl_approvals SET body = '{\"token\": \"hunter2\"' WHERE run_id = 'b'")
    good = {records["a"].approval_id, records["c"].approval_id}
    for words in ((), ("--status", "pending"), ("--limit", "2")):
        out, err = command.damaged("list", *words)
        assert {line.split()[0] for line in out.splitlines()[1:]} == good
        (line,) = err
        assert bad in line and "mcpl_approvals" in line and "hunter2" not in line
    out, err = command.damaged("list", "--json")
    assert {row["approvalId"] for row in json.loads(out)} == good
    assert command("list", "--run", "a").count("\n") == 2
    out, err = command.damaged("diagnose")
    assert json.loads(out)["damaged"] == 1 and bad in err[0]
    # What is about it alone says what is wrong.
    for name, *rest in (("show", bad), ("show", bad, "--json"), ("decide", *_decision(records["b"]))):
        refused = command(name, *rest, status=1)
        assert "approval_record_conflict" in refused and "no JSON" in refused and "hunter2" not in refused
    command("decide", *_decision(records["a"]))
    assert bad in command("decide", *_decision(records["b"]), status=1)
    database.execute("UPDATE mcpl_runs SET body = '{}' WHERE run_id = 'c'")
    out, err = command.damaged("list", "--json")
    assert [row["approvalId"] for row in json.loads(out)] == [records["a"].approval_id]
    assert {line.split(": ")[2] for line in err} == {bad, records["c"].approval_id}


@pytest.mark.parametrize(
    ("table", "effect", "part"),
    [
        ("mcpl_runs", "none", "status"),
        ("mcpl_approval_events", "none", "events"),
        ("mcpl_claims", "unknown", "claim"),
        ("mcpl_receipts", "unknown", "receipt"),
    ],
)
def test_what_can_be_read_of_an_approval_is_shown(
    command: Command, tmp_path: Path, table: str, effect: str, part: str
) -> None:
    record = command.proposed()
    database = sqlite_database(tmp_path)
    if table in ("mcpl_claims", "mcpl_receipts"):
        rest = "" if table == "mcpl_claims" else "NULL, "
        database.execute(f"INSERT INTO {table} VALUES ('a', 't', 'k', '{record.approval_id}', {rest}'{{}}')")
    else:
        database.execute(f"UPDATE {table} SET body = '{{}}'")
    out, err = command.damaged("show", record.approval_id)
    assert out.startswith(preview_of(record).text) and err == []
    assert f"effect known  {effect}\n" in out and f"damaged       {part}: {table}: " in out
    found = json.loads(command.damaged("show", record.approval_id, "--json")[0])
    assert (found["record"], found["effect"], found["statusNow"]) == (record.to_json(), effect, "pending")
    assert part in {each["what"] for each in found["damaged"]}


def test_looking_needs_no_right_to_write(command: Command, tmp_path: Path) -> None:
    """Nothing is left behind, and whoever writes at the time keeps nobody waiting."""
    record = command.proposed()
    before = {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    command("list")
    command("show", record.approval_id)
    command("diagnose")
    assert {path.name: path.stat().st_mtime_ns for path in tmp_path.iterdir()} == before
    other = sqlite3.connect(command.store, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute("DELETE FROM mcpl_approvals")
    assert record.approval_id in command("list")
    assert record.approval_id in command("show", record.approval_id)
    assert json.loads(command("diagnose"))["statuses"]["pending"] == 1
    other.close()
    os.rename(command.store, tmp_path / "moved.db")
    command("list", status=1)
    assert "approvals.db" not in os.listdir(tmp_path)
