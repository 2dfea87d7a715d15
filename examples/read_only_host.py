"""A host that lets a model search a memory, and nothing else.

    python examples/read_only_host.py           starts the memory server beside it, searches, and prints what came
    python examples/read_only_host.py PIN       the same, but only while the tool is what it was when PIN was written

The server lists more tools. Only what is bound here can be called, with arguments that fit, by whom the check allows.
"""

import sys
from pathlib import Path

import anyio

from mcpl_core.catalog import (
    CallContext,
    CatalogError,
    CatalogMonitor,
    HostPeer,
    ReadBinding,
    ToolPolicy,
    ToolSnapshot,
    check_pin,
    discover_tools,
    pin,
)
from mcpl_core.host import HostPolicy, connect_server

SERVER = Path(__file__).with_name("memory_server.py")


def known(context: CallContext, arguments: dict[str, object]) -> bool:
    """True allows; everything else denies."""
    return context.principal == "alice"


BINDINGS = {
    "search": ReadBinding(local_name="search_memory", policy=ToolPolicy(title="Search the memory"), scope=known)
}


def trust(found: ToolSnapshot, path: Path) -> None:
    """The first time it is up to whoever reads the file; from then on a change is refused."""
    if path.exists():
        check_pin(path, found)
    else:
        pin(found, path)


async def main(pinned: Path | None = None) -> None:
    policy = HostPolicy.allow("tools")
    async with connect_server([sys.executable, str(SERVER)], policy=policy, server="memory") as session:
        peer, monitor = HostPeer(session), CatalogMonitor()
        peer.watch(monitor)
        catalog = await discover_tools(peer, "memory", BINDINGS, monitor=monitor)
        print(f"catalog {catalog.snapshot.revision_digest}")
        if pinned is not None:
            trust(catalog.snapshot, pinned)
        search = catalog.find("search_memory")
        for principal, arguments in (
            ("alice", {"word": "owl"}),
            ("alice", {"path": "/"}),
            ("mallory", {"word": "owl"}),
        ):
            outcome = await search.call(arguments, CallContext(principal=principal))
            print(f"{principal} {outcome.error_code or 'ok'} {outcome.to_text()}")


if __name__ == "__main__":
    try:
        anyio.run(main, Path(sys.argv[1]) if len(sys.argv) > 1 else None)
    except CatalogError as error:
        sys.exit(error.code)
