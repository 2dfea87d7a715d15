"""Hosts in processes of their own, to be killed: everything is imported once, and each host is a fork of this process.

It reads one JSON object a line and answers with one when the hosts of that job have ended:

    {"hosts": [{...}], "together": false}   ->   {"statuses": [-9]}

A host has these members: ``database`` (``[name, target]``), ``folder`` (of its server's ledger), ``mode`` (of the
server), ``life`` (what it does, see ``LIVES``), ``kill_at`` (a step, or null), ``ahead`` (of its clock, in
milliseconds) and ``result`` (a file for what came out).
With ``together`` each host waits at ``dispatch.begun`` until all are there.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio

from mcpl_core.approvals import (
    ApprovalError,
    ApprovalStore,
    ClaimKey,
    Outcome,
    PostgresApprovalStore,
    RunLease,
    SqliteApprovalStore,
    approval_id_of,
    reconcile,
)
from mcpl_core.approvals.clock import wall_clock_ms
from mcpl_core.approvals.steps import Step
from tests.approvals.acceptance import CALL, RUN, TOOL, Host, connected
from tests.approvals.databases import POSTGRES_DSN

SERVER = str(Path(__file__).with_name("write_server.py"))
APPROVAL_ID = approval_id_of(RUN, CALL.call_id)


def store_of(database: list[str]) -> Any:
    """The store of a database, to be entered."""
    name, target = database
    return SqliteApprovalStore(target) if name == "sqlite" else PostgresApprovalStore(POSTGRES_DSN, schema=target)


async def whole_life(host: Host) -> str:
    """From the question to the result."""
    await host.approve(await host.ask())
    return (await host.dispatch("second")).effect_state


async def shared_dispatch(host: Host) -> str:
    """A dispatch under a lease that several processes of one host share."""
    try:
        return (await host.writes.dispatch(RunLease(RUN, "shared", 2), CALL)).effect_state
    except ApprovalError as exc:
        return exc.code


async def reconciliation(host: Host) -> str:
    """Somebody looked at the server's data."""
    record = await host.gateway.get(APPROVAL_ID)
    await reconcile(
        host.gateway,
        APPROVAL_ID,
        intent_digest=record.intent.digest,
        principal_id="bob",
        result=Outcome("committed", "found"),
    )
    return "reconciled"


async def keyed_call(host: Host) -> str:
    """A call with an idempotency key, whose process may end in the middle of it."""

    async def operation() -> Outcome:
        host.gateway.on_step("dispatch.answered")
        return Outcome("committed", "made")

    key = ClaimKey("alice", TOOL, "key")
    try:
        return (await host.writes.idempotency.execute_once(key, CALL.arguments, operation)).effect_state
    except ApprovalError as exc:
        return exc.code


LIVES: dict[str, Callable[[Host], Awaitable[str]]] = {
    "whole": whole_life,
    "shared": shared_dispatch,
    "reconcile": reconciliation,
    "keyed": keyed_call,
}


async def live(job: dict[str, Any], on_step: Callable[[Step], None]) -> None:
    store: ApprovalStore
    async with store_of(job["database"]) as store:
        host = Host(store, on_step, lambda: wall_clock_ms() + job["ahead"])
        folder = Path(job["folder"])
        async with connected(host, folder, SERVER, sys.executable, job["mode"]):
            result = await LIVES[job["life"]](host)
    await anyio.Path(job["result"]).write_text(result, encoding="utf-8")


def fork(job: dict[str, Any], gate: tuple[int, int] | None) -> int:
    pid = os.fork()
    if pid:
        return pid
    status = 1
    try:
        # The answers of the forge are not the host's.
        os.dup2(2, 1)

        def on_step(step: Step) -> None:
            if step == job["kill_at"]:
                os.kill(os.getpid(), signal.SIGKILL)
            if step == "dispatch.begun" and gate is not None:
                os.write(gate[1], b"x")
                os.read(gate[0], 1)

        asyncio.run(live(job, on_step))
        status = 0
    finally:
        os._exit(status)


def run(hosts: list[dict[str, Any]], together: bool) -> list[int]:
    """Runs hosts, side by side, to their ends. Returns their exit statuses; minus the signal that killed one."""
    if not together:
        return [os.waitstatus_to_exitcode(os.waitpid(fork(job, None), 0)[1]) for job in hosts]
    arrived, go = os.pipe(), os.pipe()
    pids = [fork(job, (go[0], arrived[1])) for job in hosts]
    for _ in pids:
        os.read(arrived[0], 1)
    os.write(go[1], b"x" * len(pids))
    return [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]


def main() -> None:
    for line in sys.stdin:
        job = json.loads(line)
        sys.stdout.write(json.dumps({"statuses": run(job["hosts"], job["together"])}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
