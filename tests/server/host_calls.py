"""A server's calls at one end of a connection in memory, and at the other a host that the test plays."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import anyio
from anyio.abc import TaskGroup
from anyio.lowlevel import checkpoint

from mcpl_core import McplConnection, Request
from mcpl_core.capabilities import EXTENSION_CAPABILITIES, VOCABULARY
from mcpl_core.server import HostCalls, ServerPolicy

__all__ = ("DECLARED", "End", "ends", "quiet")

EXTENDED = VOCABULARY.extend(*EXTENSION_CAPABILITIES)
DECLARED: dict[str, Any] = {
    "a": {"description": "everything", "uses": [path for path in EXTENDED.paths if EXTENDED.usable(path)]},
    "b": {"description": "tools alone", "uses": ["tools"]},
    "c": {"description": "inference without streams", "uses": ["inferenceRequest"]},
}


async def quiet() -> None:
    """Returns when nothing moves any more: no task, and no call that the event loop was asked for."""
    for _ in range(2):
        for _ in range(20):
            await checkpoint()
        await anyio.wait_all_tasks_blocked()


class End(NamedTuple):
    """Both ends.

    Attributes:
        calls: the server's.
        host: the host's connection; pull from it.
        tasks: for what runs beside the test; cancelled at its end.
        reported: what the server's connection reported.
    """

    calls: HostCalls
    host: McplConnection
    tasks: TaskGroup
    reported: list[BaseException]

    def grant(self, *paths: str, **more: Any) -> None:
        """A policy comes from the host."""
        self.calls.policy.update({"effectiveCapabilities": list(paths), **more}, "request")
        self.calls.policy_changed()

    async def next(self, name: str) -> Request:
        """The next message, which must be a request of this method."""
        message = await self.host.next_message()
        assert isinstance(message, Request)
        assert message.method == name
        return message


@asynccontextmanager
async def ends(*paths: str, **options: Any) -> AsyncIterator[End]:
    """The whole must be over within some seconds."""
    server, host = McplConnection.memory_pair(**options)
    reported: list[BaseException] = []
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks, server, host:
            server.on_error(reported.append)
            policy = ServerPolicy(lambda: DECLARED, EXTENDED)
            end = End(HostCalls(server, policy), host, tasks, reported)
            if paths:
                end.grant(*paths)
            yield end
            tasks.cancel_scope.cancel()
