"""Five ways in which a write can end, each with a server in a process of its own and an approval that is durable.

python acceptance.py SERVER INTERPRETER

SERVER is the path of ``write_server.py``, INTERPRETER runs it. This file can be copied anywhere: it needs the installed
package and nothing of its source tree. It prints one line for each mode and ends with status 1 at the first that
fails.

For each mode: the host asks for an approval and lets go of everything; another host opens the store and approves; a
third takes the run up and dispatches. Then the receipt or the claim, the file that was written and the ledger of the
server are compared with what must be; and a fourth host, with a server that would answer, must not dispatch again.

What this shows is the contract between a host and the package over one synthetic server; of other servers it shows
nothing.
"""

from __future__ import annotations

import asyncio
import fcntl
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mcpl_core import McplConnection
from mcpl_core.approvals import (
    ApprovalError,
    ApprovalGateway,
    ApprovalRequired,
    ApprovalStore,
    Checkpoint,
    Clock,
    DurableWrites,
    Idempotency,
    Outcome,
    RunLedger,
    SqliteApprovalStore,
    SteadyClock,
    ToolCall,
)
from mcpl_core.approvals.clock import wall_clock_ms
from mcpl_core.approvals.steps import StepHook, no_hook
from mcpl_core.catalog import (
    ApprovalBinding,
    CatalogMonitor,
    ConnectionPeer,
    ToolPolicy,
    WriteBinding,
    WriteRegistration,
    discover_write_tools,
)

TOOL = "store_value"
CALL = ToolCall("call-1", TOOL, {"value": "the one value"})
RUN = "run-1"


@dataclass(frozen=True)
class Expected:
    """What a mode must come to."""

    error_code: str | None
    events: tuple[str, ...]
    status: int
    written: bool
    effect: str = "unknown"


MODES = {
    "success": Expected(None, ("started", "received", "written", "answered", "exited"), 0, True, "committed"),
    "response_lost": Expected("mcp_transport_error", ("started", "received", "written", "lost", "exited"), 0, True),
    "exit_before_write": Expected("mcp_transport_error", ("started", "received", "exited"), 3, False),
    "exit_after_write": Expected("mcp_transport_error", ("started", "received", "written", "exited"), 4, True),
    "error_after_write": Expected(
        "mcp_protocol_error", ("started", "received", "written", "answered", "exited"), 0, True
    ),
}

#: The tool as the host binds it.
BINDINGS = {
    "store.value": WriteBinding(
        local_name=TOOL,
        policy=ToolPolicy(title="Store the value", mode="confirm", risk_level="write"),
        scope=lambda context, arguments: context.principal == "alice",
        authority=ApprovalBinding(
            binding_id="values", binding_revision="1", scope_id="alice-only", scope_revision="1", effect="write"
        ),
    )
}


class Host:
    """One life of a host: the store is opened, and closed at its end."""

    def __init__(self, store: ApprovalStore, on_step: StepHook = no_hook, clock: Clock = wall_clock_ms) -> None:
        clock = SteadyClock(clock)
        self.store = store
        self.registrations: dict[str, WriteRegistration] = {}
        self.gateway = ApprovalGateway(
            store, authorize=lambda principal, record, command: principal == "bob", clock=clock, on_step=on_step
        )
        self.ledger = RunLedger(store, clock)
        self.writes = DurableWrites(
            approvals=self.gateway,
            idempotency=Idempotency(store, clock),
            checkpointed={TOOL},
            find=self.registrations.get,
        )

    async def ask(self) -> str:
        """Suspends the run. Returns the id of the approval."""
        run = await self.ledger.begin(RUN, principal_id="alice", preset_fingerprint="preset-1")
        lease = await self.ledger.acquire(RUN, "worker")
        await self.ledger.begin_invocation(lease, "invocation-1")
        await self.ledger.settle_invocation(lease, "invocation-1")
        checkpoint = Checkpoint(RUN, "invocation-1", (CALL,))
        try:
            await self.writes.prepare(run, lease, checkpoint, expires_at_ms=self.gateway.clock() + 10 * 60 * 1000)
        except ApprovalRequired as signal:
            return signal.approval_id
        raise AssertionError("nobody was asked")

    async def approve(self, approval_id: str) -> None:
        record = await self.gateway.get(approval_id)
        await self.gateway.decide(record.command("approve", "decision-1"), principal_id="bob")

    async def dispatch(self, owner: str) -> Outcome:
        lease = await self.ledger.acquire(RUN, owner)
        try:
            return await self.writes.dispatch(lease, CALL)
        finally:
            await self.ledger.release(lease)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Host]:
    """A host over the store in ``folder``."""
    async with SqliteApprovalStore(folder / "approvals.db") as store:
        await store.activate()
        yield Host(store)


@asynccontextmanager
async def connected(host: Host, folder: Path, server: str, interpreter: str, mode: str) -> AsyncIterator[Any]:
    """The server of a mode, its one tool discovered and bound."""
    async with McplConnection.spawn([interpreter, "-I", "-S", server, mode, folder]) as connection:
        facts = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "host", "version": "1"}}
        peer = ConnectionPeer(connection, await connection.send_request("initialize", facts))
        await connection.send_notification("notifications/initialized")
        monitor = CatalogMonitor()
        peer.watch(monitor)
        catalog = await discover_write_tools(peer, "values", BINDINGS, monitor=monitor)
        host.registrations[TOOL] = catalog.find(TOOL)
        yield connection


def entries(folder: Path) -> list[dict[str, Any]]:
    """The ledger, when the server that wrote it has ended."""
    with (folder / "ledger").open() as file:
        fcntl.flock(file, fcntl.LOCK_SH)
        return [json.loads(line) for line in file]


def written(folder: Path) -> int:
    """How often the value was written."""
    path = folder / "value"
    return len(path.read_text().splitlines()) if path.exists() else 0


def check(condition: bool, what: object) -> None:
    if not condition:
        raise AssertionError(what)


async def run(mode: str, folder: Path, server: str, interpreter: str) -> None:
    """One mode.

    Raises:
        AssertionError: something is not as it must be.
    """
    expected = MODES[mode]
    async with opened(folder) as host, connected(host, folder, server, interpreter, "success"):
        approval_id = await host.ask()
    (folder / "ledger").unlink()
    async with opened(folder) as host:
        check((await host.gateway.get(approval_id)).status == "pending", "the approval is not durable")
        await host.approve(approval_id)
    async with opened(folder) as host:
        async with connected(host, folder, server, interpreter, mode) as connection:
            outcome = await host.dispatch("second")
        check((outcome.effect_state, outcome.error_code) == (expected.effect, expected.error_code), outcome)
        check("words of the server" not in repr(outcome.to_json()), "the server's words got through")
        check(connection.transport.returncode == expected.status, connection.transport.returncode)
    found = entries(folder)
    check(tuple(each["event"] for each in found) == expected.events, found)
    check(written(folder) == expected.written, "the file is not as it must be")
    await look_again(folder, approval_id, outcome, server, interpreter)
    check(written(folder) == expected.written, "it was written again")


async def look_again(folder: Path, approval_id: str, outcome: Outcome, server: str, interpreter: str) -> None:
    """The store is opened once more, with a server that would answer."""
    committed = outcome.effect_state == "committed"
    async with opened(folder) as host, connected(host, folder, server, interpreter, "success"):
        claim = await host.store.read(lambda tx: tx.claim_of(approval_id))
        receipt = await host.store.read(lambda tx: tx.receipt_of(approval_id))
        check((receipt is not None, claim is None) == (committed, committed), "receipt and claim")
        try:
            again = await host.dispatch("third")
            check(committed and again == outcome, again)
        except ApprovalError as exc:
            check(not committed and exc.code == "approval_claim_conflict", exc.code)
        kinds = [event.kind for event in await host.gateway.events(approval_id)]
        check(kinds == ["proposed", "approved", "executed", "returned" if committed else "unknown"], kinds)
        diagnosis = await host.gateway.diagnose()
        check(diagnosis.unknown_effects == (not committed), diagnosis)
    received = [each for each in entries(folder) if each["event"] == "received"]
    check(len(received) == 1, f"{len(received)} requests")


def main(server: str, interpreter: str) -> None:
    for mode in MODES:
        with tempfile.TemporaryDirectory() as folder:
            asyncio.run(run(mode, Path(folder), server, interpreter))
        sys.stdout.write(f"{mode}: as it must be\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
