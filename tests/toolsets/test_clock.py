"""The machine's clock."""

from __future__ import annotations

import time

import anyio
import pytest

from mcpl_core.toolsets.clock import Clock, SystemClock

pytestmark = pytest.mark.anyio


async def test_it_goes_by_the_machine() -> None:
    clock: Clock = SystemClock()
    assert abs(clock.time() - time.time()) < 60
    with anyio.fail_after(5):
        await clock.sleep(0)
    with anyio.move_on_after(0.001) as scope:
        await clock.sleep(3600)
    assert scope.cancelled_caught
