"""The other floor: blocking reads and writes on two pipes, msgspec, and no event loop at all.

One write for whatever was made from one read; a flood is written in batches of 64 KiB. No library that shares its
thread can do this; it shows what the pipes and the JSON cost alone.
"""

from __future__ import annotations

import os
import sys
import time
from typing import Any

import msgspec

from ..drive import WrongAnswerError, check_echo, check_sums
from ..meter import Meter, percentiles, pin
from ..workload import FLOOD_ROUND, LARGE, SMALL, WIDTHS, Order, large
from .program import emit, server_process

__all__ = ("client", "serve")

encode = msgspec.json.Encoder().encode
decode = msgspec.json.Decoder().decode
#: Bytes of one read, and of one batch of a flood.
CHUNK = 65536


def write_all(fd: int, data: bytes | bytearray) -> None:
    written = os.write(fd, data)
    while written < len(data):
        written += os.write(fd, memoryview(data)[written:])


class _Lines:
    """Whole lines from a descriptor."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._rest = b""

    def read(self) -> list[bytes]:
        """At least one line; none at the end."""
        parts = [self._rest]
        while data := os.read(self._fd, CHUNK):
            parts.append(data)
            if b"\n" in data:
                *lines, self._rest = b"".join(parts).split(b"\n")
                return lines
        return []


def serve(order: Order) -> None:
    """The server, on standard input and output."""
    lines = _Lines(0)
    counted = total = 0
    while batch := lines.read():
        out = []
        for line in batch:
            message = decode(line)
            if message["method"] == "count":
                counted += 1
                total += message["params"]["seq"]
                continue
            result = message["params"] if message["method"] == "echo" else {"n": counted, "total": total}
            out.append(encode({"jsonrpc": "2.0", "id": message["id"], "result": result}) + b"\n")
        if out:
            write_all(1, b"".join(out))


class _Client:
    def __init__(self, write: int, read: int) -> None:
        self._write = write
        self._lines = _Lines(read)
        self._id = 0
        self._flooded = 0

    def text(self, method: str, params: Any) -> bytes:
        self._id += 1
        return encode({"jsonrpc": "2.0", "id": self._id, "method": method, "params": params}) + b"\n"

    def send(self, data: bytes | bytearray) -> None:
        write_all(self._write, data)

    def answers(self) -> list[Any]:
        lines = self._lines.read()
        if not lines:
            raise ConnectionResetError("the server ended")
        return [decode(line) for line in lines]

    def call(self, method: str, params: Any) -> Any:
        self.send(self.text(method, params))
        (answer,) = self.answers()
        if answer["id"] != self._id:
            raise WrongAnswerError(f"answer {answer['id']} to request {self._id}")
        return answer["result"]

    def echoes(self, width: int, seconds: float) -> list[int]:
        """Nanoseconds of each request; each answer is followed by the next request."""
        clock = time.perf_counter_ns
        end = clock() + int(seconds * 1e9)
        started: dict[int, int] = {}
        latencies = []
        out = []
        for _ in range(width):
            out.append(self.text("echo", SMALL))
            started[self._id] = clock()
        self.send(b"".join(out))
        while started:
            out.clear()
            for answer in self.answers():
                now = clock()
                latencies.append(now - started.pop(answer["id"]))
                if answer["result"]["seq"] != SMALL["seq"]:
                    raise WrongAnswerError(f"the echo is not what was sent: {answer!r:.200}")
                if now < end:
                    out.append(self.text("echo", SMALL))
                    started[self._id] = now
            if out:
                self.send(b"".join(out))
        return latencies

    def flood(self, seconds: float) -> int:
        """How many notifications were sent, all of which were read."""
        sent = 0
        batch = bytearray()
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            for _ in range(FLOOD_ROUND):
                batch += encode({"jsonrpc": "2.0", "method": "count", "params": SMALL})
                batch += b"\n"
                if len(batch) >= CHUNK:
                    self.send(batch)
                    batch.clear()
            sent += FLOOD_ROUND
        if batch:
            self.send(batch)
        self._flooded += sent
        check_sums(self.call("wait_count", {"n": self._flooded}), self._flooded)
        return sent


def client(order: Order) -> dict[str, float]:
    """Measures over a child process."""
    with server_process(__spec__.name, order) as process:
        assert process.stdin is not None and process.stdout is not None
        pin(process.pid, order.cpus[1:])
        client = _Client(process.stdin.fileno(), process.stdout.fileno())
        check_echo(client.call("echo", SMALL), SMALL)
        return _measure(client, order, process.pid)


def _measure(client: _Client, order: Order, server: int) -> dict[str, float]:
    if (width := WIDTHS.get(order.scenario)) is not None:
        client.echoes(width, order.warm_up)
        with Meter(server) as meter:
            latencies = client.echoes(width, order.seconds)
        check_echo(client.call("echo", SMALL), SMALL)
        return meter.figures(len(latencies)) | percentiles(latencies)
    if order.scenario == "C":
        client.flood(order.warm_up)
        with Meter(server) as meter:
            sent = client.flood(order.seconds)
        return meter.figures(sent)
    if order.scenario not in LARGE:
        raise ValueError(f"no scenario {order.scenario}")
    params = large(order.scenario)
    check_echo(client.call("echo", params), params)
    latencies = []
    with Meter(server) as meter:
        end = time.perf_counter() + order.seconds
        while len(latencies) < 3 or time.perf_counter() < end:
            began = time.perf_counter_ns()
            result = client.call("echo", params)
            latencies.append(time.perf_counter_ns() - began)
            if len(result["data"]) != len(params["data"]):
                raise WrongAnswerError("the echo is of another length")
    check_echo(client.call("echo", params), params)
    return meter.figures(len(latencies)) | percentiles(latencies)


if __name__ == "__main__":
    if sys.argv[1] == "serve":
        serve(Order.read(sys.argv[2]))
    else:
        emit(client(Order.read(sys.argv[2])))
