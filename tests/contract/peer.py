"""The far side of every connection of the contract: it does what it is told over the wire.

In this process as a task; as a program, over its own standard input and output. At its end the program writes to
standard error how many messages it has collected.
"""

from __future__ import annotations

import sys
from typing import Any

import anyio
import msgspec
from anyio.lowlevel import checkpoint

from mcpl_core.connection import McplConnection
from mcpl_core.dispatch import Router
from mcpl_core.errors import MalformedMessageError
from mcpl_core.wire.messages import Notification, Request

__all__ = ("Peer",)


class Peer:
    """What one far side has seen, and what it can be told to do."""

    def __init__(self, connection: McplConnection) -> None:
        self.connection = connection
        self.collected: list[Any] = []
        self.errors: list[str] = []
        self.cancelled = 0
        connection.on_error(self._on_error)

    def _on_error(self, error: BaseException) -> None:
        self.errors.append(error.kind if isinstance(error, MalformedMessageError) else type(error).__name__)

    async def run(self) -> None:
        async with self.connection:
            await self.connection.serve(self.router(), limit=1000)

    def router(self) -> Router:
        return Router(
            {
                "echo": lambda message: message.params,
                "echo_later": self.echo_later,
                "hang": self.hang,
                "ask_back": self.ask_back,
                "collect": lambda message: self.collected.append(message.params),
                "collected": lambda message: self.collected,
                "numbers": lambda message: [params[0] for params in self.collected],
                "errors": lambda message: self.errors,
                "cancelled": lambda message: self.cancelled,
                "flood": self.flood,
                "raw": lambda message: self.connection.transport.write(message.params[0].encode()),
                "half_close": lambda message: self.connection.send_eof(),
                "close": lambda message: self.connection.aclose(),
            }
        )

    async def echo_later(self, message: Request) -> Any:
        for _ in range(50):  # turns, in which the half-close of whoever asked can arrive
            await checkpoint()
        return message.params

    async def hang(self, message: Request) -> None:
        try:
            await anyio.sleep_forever()
        finally:
            self.cancelled += 1

    async def ask_back(self, message: Request) -> Any:
        return await self.connection.send_request(message.params[0], message.params[1])

    async def flood(self, message: Request | Notification) -> None:
        """Many messages from several senders at once: params are senders, messages of each, bytes of each."""
        senders, count, size = message.params

        async def send(sender: int) -> None:
            for number in range(count):
                await self.connection.send_notification("item", [sender, number, "x" * size])

        async with anyio.create_task_group() as tasks:
            for sender in range(senders):
                tasks.start_soon(send, sender)


async def main() -> None:
    peer = Peer(McplConnection.stdio())
    try:
        await peer.run()
    finally:
        sys.stderr.write(f"collected {len(peer.collected)}\n")


if __name__ == "__main__":
    # As quickly as possible: a host may start many of these.
    assert msgspec.__version__
    anyio.run(main)
