"""Until done, or until somebody says stop."""

from __future__ import annotations

import os
import signal

import anyio
import pytest

from mcpl_core.cli.running import Stopped, run_until_stopped


def interrupt(number: int = signal.SIGINT) -> None:
    os.kill(os.getpid(), number)


def test_the_result_and_the_error_come_out_as_they_are() -> None:
    async def work() -> int:
        await anyio.lowlevel.checkpoint()
        return 7

    async def fail() -> int:
        raise ZeroDivisionError

    assert run_until_stopped(work) == 7
    with pytest.raises(ZeroDivisionError):
        run_until_stopped(fail)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_first_signal_asks(number: int) -> None:
    async def work() -> str:
        interrupt(number)
        with anyio.fail_after(5):
            await asked.wait()
        return "ended in order"

    asked = anyio.Event()
    assert run_until_stopped(work, asked.set) == "ended in order"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_without_a_way_to_ask_the_first_signal_ends(number: int) -> None:
    cleaned = []

    async def work() -> None:
        try:
            interrupt(number)
            await anyio.sleep_forever()
        finally:
            cleaned.append(True)

    for stop in (None, lambda: False):
        with pytest.raises(Stopped) as caught:
            run_until_stopped(work, stop)
        assert (caught.value.signal, caught.value.status) == (number, 128 + number)
    assert cleaned == [True, True]


def test_the_second_signal_does_not_ask() -> None:
    asked = []

    def stop() -> None:
        asked.append(True)
        interrupt()

    async def work() -> None:
        interrupt()
        await anyio.sleep_forever()

    with pytest.raises(Stopped):
        run_until_stopped(work, stop)
    assert asked == [True]
