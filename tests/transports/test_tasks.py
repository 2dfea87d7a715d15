"""The task group behind a connection."""

from __future__ import annotations

import anyio
import pytest

from mcpl_core.transports.tasks import OwnTasks

pytestmark = pytest.mark.anyio


async def test_tasks_run_until_the_end() -> None:
    tasks = OwnTasks()
    loop = await tasks.begin()
    started, ended = anyio.Event(), anyio.Event()

    async def run() -> None:
        started.set()
        try:
            await anyio.sleep_forever()
        finally:
            ended.set()

    assert loop.tasks is tasks.group
    loop.tasks.start_soon(run)
    await started.wait()
    await tasks.end()
    assert ended.is_set()


async def test_a_failure_of_the_block_is_not_wrapped() -> None:
    tasks = OwnTasks()
    await tasks.begin()
    with pytest.raises(KeyError):
        try:
            raise KeyError("of the caller")
        finally:
            await tasks.end()
