"""Which call runs here."""

from __future__ import annotations

import anyio
import anyio.to_thread
import pytest

from mcpl_core.toolsets.attribution import CallRecord, current_call, recorded, running_call

pytestmark = pytest.mark.anyio


async def test_tasks_and_threads_of_a_call_are_its_own() -> None:
    record: CallRecord[str, str] = CallRecord("p", "link")
    found: list[object] = []

    async def look() -> None:
        found.append(current_call("p"))

    async with anyio.create_task_group() as tasks:
        with recorded(record):
            tasks.start_soon(look)
            found.append(await anyio.to_thread.run_sync(current_call, "p"))
            assert current_call("other") is None
        assert current_call("p") is None
        assert running_call() is None
    assert found == [record, record]


async def test_an_answered_call_has_no_events_of_its_own_any_more() -> None:
    outer: CallRecord[str, str] = CallRecord("p", "link")
    inner: CallRecord[str, str] = CallRecord("p", "link")
    with recorded(outer):
        with recorded(inner):
            inner.answered = True
            assert current_call("p") is None
            assert running_call() is inner
        assert current_call("p") is outer
