"""Starting and stopping what serves.

Owns: the task that an endpoint runs in, that it is up when starting returns, and that stopping ends it in a bounded
time. Does not own: the endpoints.
"""

from __future__ import annotations

from types import TracebackType
from typing import Final, Self

import anyio

from ...errors import LocalProtocolError
from ...transports.tasks import OwnTasks
from .answers import Answers
from .endpoints import Endpoint

__all__ = ("Runner",)

#: Seconds that an endpoint may take to stop beyond its grace; then it is cancelled.
_STOP_TIMEOUT: Final = 10.0


class Runner:
    """Runs one endpoint, in tasks of its own. An async context manager: what it began ends with it."""

    def __init__(self) -> None:
        self._tasks = OwnTasks()
        self._endpoint: Endpoint | None = None
        self._settled = anyio.Event()
        self._ended = anyio.Event()
        self._failure: BaseException | None = None

    async def __aenter__(self) -> Self:
        if self._tasks.group is not None:
            raise LocalProtocolError("this is entered once")
        await self._tasks.begin()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        try:
            with anyio.CancelScope(shield=True):
                await self.stop()
        finally:
            await self._tasks.end()

    async def start(self, endpoint: Endpoint, answers: Answers) -> None:
        """Starts the endpoint; returns when it can be reached. After a failure another one may be started.

        Raises:
            LocalProtocolError: this was not entered, or another one was started.
            McplError: it cannot be reached; whatever kept it from that.
        """
        tasks = self._tasks.group
        if tasks is None:
            raise LocalProtocolError("enter it first (async with): what serves ends with the block")
        if self._endpoint is not None:
            raise LocalProtocolError("it was started already; one server is one transport")
        self._endpoint = endpoint
        tasks.start_soon(self._run, endpoint, answers, name=f"mcp {endpoint.kind}")
        await self._settled.wait()
        if self._failure is not None:
            failure, self._failure, self._endpoint = self._failure, None, None
            self._settled, self._ended = anyio.Event(), anyio.Event()
            raise failure

    async def _run(self, endpoint: Endpoint, answers: Answers) -> None:
        try:
            await endpoint.run(answers, self._settled.set)
        except Exception as exc:
            self._failure = exc
            if self._settled.is_set():
                # It could be reached, and nobody may be waiting for its end.
                answers.runner.report(exc)
        finally:
            self._settled.set()
            self._ended.set()

    async def wait(self) -> None:
        """Returns when the endpoint has ended, by itself or stopped.

        Raises:
            McplError: what it ended of, if it failed.
        """
        await self._ended.wait()
        if self._failure is not None:
            raise self._failure

    async def stop(self) -> None:
        """Stops the endpoint, and returns when it has ended. Any number of times, from any task; without a start it
        does nothing."""
        if self._endpoint is None:
            return
        with anyio.move_on_after(self._endpoint.grace + _STOP_TIMEOUT):
            await self._endpoint.stop()
            await self._ended.wait()
            return
        assert self._tasks.group is not None
        self._tasks.group.cancel_scope.cancel()
