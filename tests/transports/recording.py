"""What the tests of the transports share: a sink that records, and a transport that runs for the length of a block."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any

import anyio
import anyio.lowlevel

from mcpl_core.errors import MalformedMessageError, TransportError
from mcpl_core.transports.base import Transport
from mcpl_core.transports.loop import EventLoop, current_loop

#: Seconds after which a test that waits has failed.
LIMIT = 20.0


class RecordingSink:
    """Records everything that a transport pushes.

    Attributes:
        messages: all messages.
        chunks: how many came with each push.
        malformed: what was skipped.
        log: the names of the calls in order, equal neighbours once.
        input_error, output_error: what the ends were told with.
        on_messages: called with what came in, inside the push.
    """

    def __init__(self) -> None:
        self.messages: list[bytes] = []
        self.chunks: list[int] = []
        self.size = 0
        self.malformed: list[MalformedMessageError] = []
        self.log: list[str] = []
        self.input_error: TransportError | None = None
        self.output_error: TransportError | None = None
        self.on_messages: Callable[[list[bytes]], object] | None = None
        self._changed = anyio.Event()

    def messages_received(self, messages: list[bytes]) -> None:
        assert messages
        self.messages += messages
        self.chunks.append(len(messages))
        self._note("messages")
        if self.on_messages is not None:
            self.on_messages(messages)

    def message_malformed(self, error: MalformedMessageError) -> None:
        self.malformed.append(error)
        self._note("malformed")

    def input_ended(self, error: TransportError | None) -> None:
        assert "input" not in self.log, "told twice"
        self.input_error = error
        self._note("input")

    def output_failed(self, error: TransportError | None) -> None:
        assert "output" not in self.log, "told twice"
        self.output_error = error
        self._note("output")

    def _note(self, what: str) -> None:
        if self.log[-1:] != [what]:
            self.log.append(what)
        self._changed.set()

    async def until(self, condition: Callable[[], object]) -> None:
        """Returns when ``condition`` holds; it is looked at after each call."""
        with anyio.fail_after(LIMIT):
            while not condition():
                self._changed = anyio.Event()
                await self._changed.wait()

    async def until_messages(self, count: int) -> list[bytes]:
        """The messages, once there are ``count`` of them."""
        await self.until(lambda: len(self.messages) >= count)
        return self.messages

    async def until_input_ended(self) -> TransportError | None:
        """What the input ended with."""
        await self.until(lambda: "input" in self.log)
        return self.input_error

    async def until_output_failed(self) -> TransportError | None:
        """What the output failed with."""
        await self.until(lambda: "output" in self.log)
        return self.output_error


@asynccontextmanager
async def event_loop() -> AsyncIterator[EventLoop]:
    """The services of the running loop, with a task group that ends with the block."""
    async with anyio.create_task_group() as tasks:
        try:
            yield current_loop(tasks)
        finally:
            tasks.cancel_scope.cancel()


@asynccontextmanager
async def running() -> AsyncIterator[EventLoop]:
    """As ``event_loop``, for a block that is quick."""
    with anyio.fail_after(5):
        async with event_loop() as loop:
            yield loop


@asynccontextmanager
async def started(transport: Transport, sink: RecordingSink | None = None) -> AsyncIterator[RecordingSink]:
    """Starts ``transport`` and closes it at the end."""
    sink = sink or RecordingSink()
    async with event_loop() as loop:
        await transport.start(sink, loop)
        try:
            yield sink
        finally:
            with anyio.fail_after(LIMIT, shield=True):
                await transport.aclose()


async def turns(count: int = 5) -> None:
    """Gives other tasks and callbacks their turn."""
    for _ in range(count):
        await anyio.lowlevel.checkpoint()


async def read_from(fd: int, size: int = 65536) -> bytes:
    """Reads once from a descriptor, without blocking the event loop."""
    with anyio.fail_after(LIMIT):
        await anyio.wait_readable(fd)
    return os.read(fd, size)


def open_descriptors() -> Counter[str]:
    """How many descriptors of each kind this process has open; empty where the system does not tell."""
    found: Counter[str] = Counter()
    if sys.platform == "linux":
        for name in os.listdir("/proc/self/fd"):
            with suppress(OSError):  # the one that lists them
                found[os.readlink(f"/proc/self/fd/{name}").partition(":[")[0]] += 1
    return found


def resident_megabytes(pid: int | str = "self") -> float:
    """Resident memory of a process."""
    with open(f"/proc/{pid}/status", encoding="ascii") as status:
        line = next(line for line in status if line.startswith("VmRSS"))
    return int(line.split()[1]) / 1024


def is_behind(transport: Transport) -> bool:
    """``transport.behind``, asked anew where a type checker believes to know it."""
    return transport.behind


def is_asyncio(backend: tuple[str, dict[str, Any]]) -> bool:
    """Whether the ``anyio_backend`` fixture stands for asyncio or uvloop."""
    return backend[0] == "asyncio"
