"""The client side of the scenarios, for every peer that can be awaited, on any event loop.

Owns: what is sent when, that every answer is the right one, and that nothing got lost. Does not own: the peers
(``contenders``), what is sent (``workload``) and the clocks (``meter``). A wrong answer, or a wrong count, is a
``WrongAnswerError``: no figure comes of it.
"""

from __future__ import annotations

import time
from typing import Any, Protocol

import anyio

from .meter import Meter, percentiles, pin
from .stalled import measure_stall
from .workload import FLOOD_ROUND, LARGE, SMALL, WIDTHS, Order, large

__all__ = ("Caller", "WrongAnswerError", "check_echo", "check_sums", "drive")


class WrongAnswerError(Exception):
    """A peer answered something else than what was asked, or lost messages."""


class Caller(Protocol):
    """A client, as the scenarios see it."""

    async def request(self, method: str, params: Any) -> Any:
        """Sends a request; the result."""
        ...

    async def notify(self, method: str, params: Any) -> object:
        """Sends a notification; waits where the library lets its caller wait."""
        ...


def check_echo(result: Any, params: Any) -> None:
    """The whole of an answer.

    Raises:
        WrongAnswerError: it is not what was sent.
    """
    if result != params:
        raise WrongAnswerError(f"the echo is not what was sent: {result!r:.200}")


def check_sums(sums: Any, number: int) -> None:
    """What the other side counted after ``number`` small notifications.

    Raises:
        WrongAnswerError: some are missing, or too many.
    """
    if sums["n"] != number or sums["total"] != number * SMALL["seq"]:
        raise WrongAnswerError(f"{number} notifications were sent, and {sums} came")


async def drive(caller: Caller, order: Order, *others: int) -> dict[str, float]:
    """Runs one scenario and returns its figures.

    Args:
        caller: the client of a connection that is open.
        order: what to do.
        others: the processes that take part beside this one: the server's, if it is another, and any between.

    Raises:
        WrongAnswerError: see there.
    """
    for pid in others:
        pin(pid, order.cpus[1:])
    if order.scenario in WIDTHS:
        check_echo(await caller.request("echo", SMALL), SMALL)
        await _echoes(caller, order, order.warm_up)
        figures = await _echoes(caller, order, order.seconds, *others)
        check_echo(await caller.request("echo", SMALL), SMALL)
        return figures
    if order.scenario == "C":
        before, _ = await _flood(caller, order, order.warm_up, 0)
        return (await _flood(caller, order, order.seconds, before, *others))[1]
    if order.scenario in LARGE:
        return await _large(caller, order, *others)
    if order.scenario == "F" and others:
        return await measure_stall(caller, order, others[0])
    raise ValueError(f"no scenario {order.scenario} over {order.link}")


async def _echoes(caller: Caller, order: Order, seconds: float, *others: int) -> dict[str, float]:
    """Small requests, so many in flight, each followed by the next when its answer came."""
    latencies: list[int] = []
    seq = SMALL["seq"]
    clock = time.perf_counter_ns

    async def one_after_the_other(end: int) -> None:
        request = caller.request
        began = clock()
        while True:  # once at least, however late it begins
            result = await request("echo", SMALL)
            if result["seq"] != seq:
                raise WrongAnswerError(f"the echo is not what was sent: {result!r:.200}")
            ended = clock()
            latencies.append(ended - began)
            began = ended
            if ended >= end:
                return

    with Meter(*others) as meter:
        end = clock() + int(seconds * 1e9)
        if WIDTHS[order.scenario] == 1:
            await one_after_the_other(end)
        else:
            async with anyio.create_task_group() as tasks:
                for _ in range(WIDTHS[order.scenario]):
                    tasks.start_soon(one_after_the_other, end)
    return meter.figures(len(latencies)) | percentiles(latencies)


async def _flood(
    caller: Caller, order: Order, seconds: float, before: int, *others: int
) -> tuple[int, dict[str, float]]:
    """Notifications for so long, and until the other side has read the last; the rate is over both. Returns how many
    there were since the beginning, and the figures."""
    sent = 0
    with Meter(*others) as meter:
        notify = caller.notify
        end = time.perf_counter() + seconds
        while time.perf_counter() < end and sent < order.flood_limit:
            for _ in range(FLOOD_ROUND):
                await notify("count", SMALL)
            sent += FLOOD_ROUND
        sums = await caller.request("wait_count", {"n": before + sent})
    check_sums(sums, before + sent)
    return before + sent, meter.figures(sent)


async def _large(caller: Caller, order: Order, *others: int) -> dict[str, float]:
    params = large(order.scenario)
    check_echo(await caller.request("echo", params), params)
    latencies: list[int] = []
    with Meter(*others) as meter:
        end = time.perf_counter() + order.seconds
        while len(latencies) < 3 or time.perf_counter() < end:
            began = time.perf_counter_ns()
            result = await caller.request("echo", params)
            latencies.append(time.perf_counter_ns() - began)
            if len(result["data"]) != len(params["data"]):
                raise WrongAnswerError("the echo is of another length")
    check_echo(await caller.request("echo", params), params)
    return meter.figures(len(latencies)) | percentiles(latencies)
