"""What the programs of all contenders share: their arguments, the event loop, and the line with the figures.

Owns: ``main``, starting the server's process, and the mark of the line. Does not own: any library.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

import anyio

from ..meter import descendants_of
from ..workload import Order

__all__ = (
    "MARK",
    "HOST",
    "emit",
    "environment",
    "main",
    "run",
    "say_url",
    "server_command",
    "server_process",
    "websocket_server",
)

#: What stands before the figures on standard output.
MARK = "FIGURES "
HOST = "127.0.0.1"

Program = Callable[[Order], Coroutine[Any, Any, dict[str, float] | None]]


def emit(figures: dict[str, float]) -> None:
    """Prints the figures, for the runner to read."""
    sys.stdout.write(f"\n{MARK}{json.dumps(figures)}\n")
    sys.stdout.flush()


def run(program: Program, order: Order) -> dict[str, float] | None:
    """Runs a coroutine function on the event loop that the order names."""
    if order.loop == "trio":
        return anyio.run(program, order, backend="trio")
    return anyio.run(program, order, backend_options={"use_uvloop": order.loop == "uvloop"})


def main(client: Program, serve: Program) -> None:
    """The program of a contender."""
    order = Order.read(sys.argv[2])
    figures = run({"client": client, "serve": serve}[sys.argv[1]], order)
    if figures is not None:
        emit(figures)
        # How long a library takes to say goodbye, and whether its server notices, is no figure.
        for pid in descendants_of(os.getpid()):
            os.kill(pid, signal.SIGKILL)
        os._exit(0)


def server_command(module: str, order: Order) -> list[str]:
    """How to start the server of a contender."""
    return [sys.executable, "-m", module, "serve", order.text]


def environment() -> dict[str, str]:
    """For libraries that start a server with a small environment of their own."""
    return dict(os.environ)


@contextmanager
def server_process(module: str, order: Order) -> Iterator[subprocess.Popen[bytes]]:
    """The server of a contender, with unbuffered pipes; it is killed at the end."""
    command, pipe = server_command(module, order), subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, bufsize=0) as process:
        try:
            yield process
        finally:
            process.kill()


@asynccontextmanager
async def websocket_server(module: str, order: Order) -> AsyncIterator[tuple[str, int]]:
    """The server of a contender on a port of its own choice: its URL and its process."""
    with server_process(module, order) as process:
        assert process.stdout is not None
        url = process.stdout.readline().decode().strip()
        if not url:
            raise ConnectionRefusedError(f"the server of {module} ended before it listened")
        yield url, process.pid


def say_url(url: str) -> None:
    """Tells the client where the server listens."""
    sys.stdout.write(f"{url}\n")
    sys.stdout.flush()
