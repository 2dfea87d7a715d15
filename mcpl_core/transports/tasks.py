"""The tasks of a connection and of a listener.

Owns: the task group that both stand on, entered and left by hand, since they are context managers themselves. Does not
own: what the tasks do.
"""

from __future__ import annotations

import anyio
from anyio.abc import TaskGroup

from .loop import EventLoop, current_loop

__all__ = ("OwnTasks",)


class OwnTasks:
    """The tasks of something that is entered and left, with ``async with``, by one task of the caller's."""

    def __init__(self) -> None:
        self.group: TaskGroup | None = None

    async def begin(self) -> EventLoop:
        """Makes the task group. From now on ``end`` must be called, by the same task."""
        self.group = anyio.create_task_group()
        await self.group.__aenter__()
        return current_loop(self.group)

    async def end(self) -> None:
        """Cancels what still runs. The caller's exception is not handed to the group: it would come back wrapped in an
        ``ExceptionGroup``."""
        assert self.group is not None
        self.group.cancel_scope.cancel()
        await self.group.__aexit__(None, None, None)
