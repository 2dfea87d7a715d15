"""The scenarios themselves: what is wrong is seen, on every event loop."""

from __future__ import annotations

import os
import subprocess
from contextlib import AbstractContextManager
from importlib import import_module
from pathlib import Path
from typing import Any

import anyio.lowlevel
import pytest

from benchmarks import meter
from benchmarks.contenders import blocking, core, floor, program, tool_calls
from benchmarks.drive import WrongAnswerError, drive
from benchmarks.meter import Meter, only_child, percentiles, processor_seconds
from benchmarks.service import Service
from benchmarks.stalled import measure_stall
from benchmarks.workload import LARGE, SMALL, Order, large

pytestmark = pytest.mark.anyio


class Peer:
    """Answers in this process; subclasses answer wrongly."""

    def __init__(self) -> None:
        self.service = Service()

    async def request(self, method: str, params: Any) -> Any:
        await anyio.lowlevel.checkpoint()
        return params if method == "echo" else await self.service.wait_count(params)

    async def notify(self, method: str, params: Any) -> None:
        self.service.count(params)


class Forgetful(Peer):
    async def request(self, method: str, params: Any) -> Any:
        result = await super().request(method, params)
        return result if method == "wait_count" else {**result, "text": "", "data": ""}


class Late(Peer):
    """Wrong from the third answer on."""

    answers = 0

    async def request(self, method: str, params: Any) -> Any:
        self.answers += 1
        result = await super().request(method, params)
        return {**result, "seq": 0, "data": ""} if self.answers > 2 else result


class Subtle(Late):
    """The same, but wrong only to who looks at the whole answer."""

    async def request(self, method: str, params: Any) -> Any:
        await super().request(method, params)
        return altered(params) if self.answers > 2 else params


def altered(params: dict[str, Any]) -> dict[str, Any]:
    name = "data" if "data" in params else "text"
    return {**params, name: params[name][::-1]}


class Lossy(Peer):
    async def notify(self, method: str, params: Any) -> None:
        self.service.count({**params, "seq": 0})


def order(scenario: str, **more: Any) -> Order:
    return Order(scenario, **{"seconds": 0.01, "warm_up": 0.001} | more)


@pytest.mark.parametrize("scenario", ["A", "B", "C", "E", "D1"])
async def test_right_answers_give_figures(scenario: str) -> None:
    figures = await drive(Peer(), order(scenario))
    assert figures["operations"] >= 1
    assert figures["per_second"] > 0


@pytest.mark.parametrize("kind", [Forgetful, Late, Subtle])
@pytest.mark.parametrize("scenario", ["A", "D1"])
async def test_a_wrong_answer_gives_none(kind: type[Peer], scenario: str) -> None:
    with pytest.raises(WrongAnswerError):
        await drive(kind(), order(scenario))


@pytest.mark.parametrize("scenario", ["A", "D1"])
def test_a_wrong_answer_gives_none_without_an_event_loop_either(scenario: str) -> None:
    class Client(blocking._Client):
        asked = 0

        def call(self, method: str, params: Any) -> Any:
            self.asked += 1
            return altered(params) if self.asked > (scenario == "D1") else params

        def echoes(self, width: int, seconds: float) -> list[int]:
            return [1000]

    with pytest.raises(WrongAnswerError):
        blocking._measure(Client(0, 0), order(scenario), os.getpid())


async def test_a_wrong_answer_among_many_gives_none() -> None:
    with pytest.raises(ExceptionGroup) as caught:
        await drive(Late(), order("B"))
    assert caught.group_contains(WrongAnswerError)


async def test_what_was_lost_gives_none() -> None:
    with pytest.raises(WrongAnswerError):
        await drive(Lossy(), order("C"))


async def test_an_unknown_scenario_is_an_error() -> None:
    for name in ("Z", "F"):
        with pytest.raises(ValueError, match="no scenario"):
            await drive(Peer(), order(name))


async def test_a_stall_is_measured_and_ends(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    stalled = order("F", stalled_bytes=5000, settle=0.0, gate=str(gate))
    peer = Peer()
    figures = await measure_stall(peer, stalled, os.getpid())
    assert gate.exists()
    assert (peer.service.counted, figures["drained"], figures["at_rest"]) == (5, 1.0, 0.0)
    with pytest.raises(ArithmeticError):
        await measure_stall(Lossy(), stalled, os.getpid())


async def test_the_service_stalls_until_the_gate_opens(tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    service = Service(str(gate))
    with anyio.fail_after(5):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(service.slow, SMALL)
            tasks.start_soon(service.slow, SMALL)
            tasks.start_soon(service.wait_count, {"n": 2})
            await anyio.wait_all_tasks_blocked()
            assert service.counted == 0
            gate.touch()
    assert await service.wait_count({"n": 2}) == {"n": 2, "total": 2 * SMALL["seq"]}


@pytest.mark.parametrize("style", ["pull", "router", "inline"])
async def test_connections_in_memory(style: str) -> None:
    for scenario in ("B", "C"):
        assert (await core.client(order(scenario, link="memory", style=style)))["operations"] >= 1


async def test_tool_calls_in_memory() -> None:
    assert (await tool_calls.client(order("T", link="memory")))["operations"] >= 64


@pytest.mark.parametrize("name", ["core", "tool_calls", "mcp_sdk"])
async def test_what_is_measured_in_memory_starts_no_process(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("mcp")
    contender = import_module(f"benchmarks.contenders.{name}")
    monkeypatch.setattr(contender, "server_command", lambda *arguments: pytest.fail("a process was started"))
    scenario = "A" if name == "core" else "T"
    assert (await contender.client(order(scenario, link="memory", style="tool")))["operations"] >= 1


def test_a_server_that_dies_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """The floor has nothing that watches its peer, except that the pipe ends."""

    def dead(module: str, order: Order) -> AbstractContextManager[subprocess.Popen[bytes]]:
        return program.server_process("benchmarks.contenders.no_such_program", order)

    async def client() -> None:
        with anyio.fail_after(20):
            await floor.client(order("A"))

    monkeypatch.setattr(floor, "server_process", dead)
    with pytest.raises(ConnectionResetError):
        anyio.run(client)


async def test_a_server_that_does_not_listen_is_an_error() -> None:
    with pytest.raises(ConnectionRefusedError):
        async with program.websocket_server("benchmarks.contenders.no_such_program", order("A", link="ws")):
            pass


def test_large_messages_have_their_size() -> None:
    assert {name: len(large(name)["data"]) for name in LARGE} == LARGE


def test_percentiles() -> None:
    assert percentiles([1000 * number for number in range(100, 0, -1)]) == {"p50_us": 51.0, "p99_us": 100.0}
    assert percentiles([5000]) == {"p50_us": 5.0, "p99_us": 5.0}


def test_the_meter_counts_both_sides() -> None:
    with Meter(1) as meter:
        pass
    meter.seconds, meter.processor = 2.0, 1.0
    assert meter.figures(1000) == {"operations": 1000, "per_second": 500.0, "cpu_us": 1000.0}


def test_where_other_processes_are_not_known_nothing_is_said_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(meter, "LINUX", False)
    assert only_child() == ()
    for others, known in (((1,), False), ((), True)):
        with Meter(*others) as clock:
            pass
        assert ("cpu_us" in clock.figures(1)) is known


def test_a_process_without_children_has_none() -> None:
    with pytest.raises(LookupError):
        only_child(2**22 + 1)
    assert processor_seconds(os.getpid()) > 0
