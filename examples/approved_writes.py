"""A write that waits for somebody's approval, and happens at most once, whatever ends in between.

    python examples/approved_writes.py FOLDER

Started the first time it asks for the approval and ends. Decide, with what it prints:

    mcpl approvals decide ... --principal NAME --key ANY --store FOLDER/approvals.db

Started again it makes the call, and from then on tells what came of it. FOLDER holds the store of approvals, and the
notes that are written.
"""

import sys
from pathlib import Path

import anyio

from mcpl_core import McplConnection
from mcpl_core.approvals import (
    ApprovalError,
    ApprovalGateway,
    ApprovalRequired,
    Checkpoint,
    DurableWrites,
    Idempotency,
    RunLedger,
    SqliteApprovalStore,
    ToolCall,
)
from mcpl_core.catalog import (
    ApprovalBinding,
    CatalogMonitor,
    HostPeer,
    ToolPolicy,
    WriteBinding,
    WriteRegistration,
    discover_write_tools,
)
from mcpl_core.host import HostPolicy, connect_server
from mcpl_core.server import McplServer

BINDING = WriteBinding(
    local_name="write_note",
    policy=ToolPolicy(title="Write a note", mode="confirm", risk_level="write"),
    scope=lambda caller, arguments: caller.principal == "alice",
    authority=ApprovalBinding(
        binding_id="notes", binding_revision="1", scope_id="alice", scope_revision="1", effect="write"
    ),
)
#: What the model asked for. A host keeps it in the checkpoint of its run.
CALL = ToolCall("call-1", "write_note", {"text": "buy bread"})
READY = Checkpoint("run-1", "turn-1", (CALL,))


def notes_server(folder: Path) -> McplServer:
    """A server with one tool that writes."""
    server = McplServer("notes", "1.0.0")

    @server.tool
    def write(text: str) -> None:
        """Write a note."""
        with (folder / "notes.txt").open("a", encoding="utf-8") as file:
            file.write(f"{text}\n")

    return server


async def go_on(store: SqliteApprovalStore, tools: dict[str, WriteRegistration]) -> str:
    """Takes the run up where it is. Returns what there is to say of it."""
    gate = ApprovalGateway(store, authorize=lambda principal, record, command: False)  # nobody decides here
    runs, once = RunLedger(store, gate.clock), Idempotency(store, gate.clock)
    writes = DurableWrites(approvals=gate, idempotency=once, checkpointed={CALL.tool_name}, find=tools.get)
    run = await runs.begin("run-1", principal_id="alice", preset_fingerprint="v1")
    lease = await runs.acquire("run-1", "worker", ttl_ms=5_000)
    if run.settled_invocation is None:
        await runs.begin_invocation(lease, READY.invocation_id)  # here the model is asked
        await runs.settle_invocation(lease, READY.invocation_id)
    try:
        await writes.prepare(run, lease, READY, expires_at_ms=gate.clock() + 60 * 60 * 1000)
        outcome = await writes.dispatch(lease, CALL)
    except ApprovalRequired as waiting:  # all is saved, and the lease given back: the worker may end
        record = await gate.get(waiting.approval_id)
        return f"waits: {record.approval_id} approve --revision {record.revision} --digest {record.intent.digest}"
    except ApprovalError as refused:
        await runs.release(lease)
        return f"refused: {refused.code}"
    await runs.release(lease)
    return f"done: {outcome.effect_state} {outcome.error_code or ''}".rstrip()


async def main(folder: Path) -> None:
    near, far = McplConnection.memory_pair()
    async with SqliteApprovalStore(folder / "approvals.db") as store, far, anyio.create_task_group() as tasks:
        await store.activate()  # once for each store, before anything runs
        tasks.start_soon(notes_server(folder).serve, far)
        async with connect_server(near, policy=HostPolicy.allow("tools"), server="notes") as session:
            peer, monitor = HostPeer(session), CatalogMonitor()
            peer.watch(monitor)
            catalog = await discover_write_tools(peer, "notes", {"write": BINDING}, monitor=monitor)
            print(await go_on(store, {tool.local_name: tool for tool in catalog.registrations}))


if __name__ == "__main__":
    if len(sys.argv) != 2 or not Path(sys.argv[1]).is_dir():
        sys.exit("name a folder that is there: python examples/approved_writes.py FOLDER")
    anyio.run(main, Path(sys.argv[1]))
