"""What a host keeps in files outlives it: handled events, and the state of its servers' tools."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core import McplConnection
from mcpl_core.host import HostPolicy, McplHost, SeenEvents, States
from mcpl_core.host.store import FileSeenStore, FileStateStore
from mcpl_core.protocol import StateRecord, ToolsCallParams
from mcpl_core.server import Context, McplServer, ToolResult

pytestmark = pytest.mark.anyio


def notes() -> McplServer:
    """A server whose notes the host keeps, and that tells of each under an id of the note's own."""
    server = McplServer("notes", "1.0.0")
    sets = server.feature_set("notes.edit", "Keeps notes", uses=["tools", "pushEvents"], rollback=True)

    @server.tool
    async def note(ctx: Context, text: str) -> ToolResult:
        assert isinstance(ctx.params, ToolsCallParams)
        kept: list[str] = ctx.params.state if isinstance(ctx.params.state, list) else []
        data = [*kept, text]
        await ctx.push_event(sets, f"noted {text}", event_id=f"note-{text}")
        parent = None if not kept else f"after-{len(kept)}"
        return ToolResult(",".join(data), state=StateRecord(checkpoint=f"after-{len(data)}", parent=parent, data=data))

    return server


async def run_host(folder: Path, texts: list[str]) -> tuple[list[str], list[str]]:
    """One life of the host: calls the tool with each text; the results, and the events that were new."""
    results: list[str] = []
    events: list[str] = []
    with closing(FileSeenStore(folder / "seen")) as seen, closing(FileStateStore(folder / "states")) as states:
        kept: dict[str, Any] = {"seen": SeenEvents(store=seen), "states": States(store=states)}
        policy = HostPolicy.allow("tools", "pushEvents")
        async with McplHost("host", "1.0.0", policy=policy, **kept) as host, anyio.create_task_group() as tasks:
            here, there = McplConnection.memory_pair()

            async def serve() -> None:
                async with there:
                    await notes().serve(there)

            tasks.start_soon(serve)
            server = await host.add("notes", here)
            results += [(await server.call_tool("note", {"text": text})).text for text in texts]
            await host.aclose()
            events += [event.text async for event in host.events()]
    return results, events


async def test_events_and_state_outlive_the_host(tmp_path: Path) -> None:
    with anyio.fail_after(20):
        assert await run_host(tmp_path, ["a", "b"]) == (["a", "a,b"], ["noted a", "noted b"])
        # The event of "b" was handled in the life before; the state goes on where it was.
        assert await run_host(tmp_path, ["b", "c"]) == (["a,b,b", "a,b,b,c"], ["noted c"])
