"""Which store a command works with."""

from __future__ import annotations

from pathlib import Path

import anyio
import pytest

from mcpl_core.approvals import SqliteApprovalStore
from mcpl_core.cli import main
from mcpl_core.cli.approvals_options import StoreOptions
from mcpl_core.cli.approvals_store import at_the_gate
from mcpl_core.cli.output import CommandError


def _fails(options: StoreOptions) -> CommandError:
    async def work(gateway: object) -> None:
        pytest.fail("it was opened")

    with pytest.raises(CommandError) as caught:
        at_the_gate(options, work)
    return caught.value


@pytest.mark.parametrize(
    "options", [StoreOptions(), StoreOptions(store="a", postgres_env="B"), StoreOptions(store="a", schema="b")]
)
def test_exactly_one_store(options: StoreOptions) -> None:
    assert _fails(options).status == 2


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    path = tmp_path / "approvals.db"
    assert _fails(StoreOptions(store=str(path))).status == 1
    assert not path.exists()


def test_a_variable_that_is_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_SUCH_DSN", raising=False)
    assert "NO_SUCH_DSN" in str(_fails(StoreOptions(postgres_env="NO_SUCH_DSN")))


def test_a_database_that_nobody_answers_for(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("psycopg")
    monkeypatch.setenv("DSN", "host=127.0.0.1 port=1 password=hunter2 connect_timeout=2")
    failure = _fails(StoreOptions(postgres_env="DSN"))
    assert failure.status == 1 and "hunter2" not in str(failure)
    assert _fails(StoreOptions(postgres_env="DSN", schema="A B")).status == 2


def test_a_store_that_is_not_enabled(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "approvals.db"

    async def make() -> None:
        async with SqliteApprovalStore(path):
            pass

    anyio.run(make)
    assert main(["approvals", "list", "--store", str(path)]) == 1
    assert capsys.readouterr().err.startswith("mcpl: approval_storage_not_enabled: ")


def test_the_store_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "approvals.db"

    async def make() -> None:
        async with SqliteApprovalStore(path) as store:
            await store.activate()

    anyio.run(make)
    monkeypatch.setenv("MCPL_APPROVALS", str(path))
    assert main(["approvals", "list"]) == 0
    assert capsys.readouterr().out == "no approvals\n"
