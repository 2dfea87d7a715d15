"""``mcpl demo``: the wire over two transports, then a host with its servers, then a game.

Owns: the tour and what it prints. Does not own: the server, which is the example that everybody can read.
"""

from __future__ import annotations

import logging
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Final

import anyio
import typer
from anyio.streams.text import TextReceiveStream
from rich.console import Console

from ..connection import McplConnection
from ..errors import McplError, TransportError
from ..manifest import manifest_digest
from ..protocol import method
from ..transports.endpoints import transport_for
from ..transports.tap import TappedTransport
from ..wire.messages import Request
from .demo_host import host_tour
from .json_console import JsonConsole
from .output import CommandError
from .resources import resource_path
from .transcript import Transcript

__all__ = ("demo", "tour")

_SECONDS: Final = 60.0
_LISTENING: Final = "listening on "

#: What the host of the demo grants; everything else is denied.
_GRANT: Final = ["pushEvents", "tools"]


def demo(
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object a line.")] = False,
) -> int:
    """Show a host and a server talking over stdio and WebSockets, a host with several servers, and a game."""
    # What the story is about is told on standard output; the diagnostics of a killed server are part of it.
    logger = logging.getLogger("mcpl_core")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    failures: list[BaseException] = []
    try:
        anyio.run(tour, JsonConsole() if as_json else Console(highlight=False))
    except* (McplError, TimeoutError, OSError) as group:
        failures += _leaves(group)
    finally:
        logger.setLevel(level)
    if failures:
        raise CommandError(f"the demo failed: {failures[0]}", 1)
    return 0


def _leaves(error: BaseException) -> list[BaseException]:
    """The single exceptions in a group."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in _leaves(inner)]
    return [error]


async def tour(console: Console) -> None:
    """The whole tour.

    Raises:
        McplError: a step did not go as it should.
        TimeoutError: it took too long.
    """
    # Toolsets take as long to import as the other commands together.
    from .demo_arcade import arcade_tour

    server = resource_path("examples") / "echo_server.py"
    command = [sys.executable, str(server)]
    with anyio.fail_after(_SECONDS):
        console.rule("over stdio: the host starts the server")
        await _tour(console, command)
        console.print()
        console.rule("over a WebSocket: the server was there before")
        async with _listening(command) as endpoint:
            console.print(f"connecting to {endpoint}")
            await _tour(console, endpoint)
        console.print()
        console.rule("a host and its servers")
        await host_tour(console)
        console.print()
        console.rule("tools that come and go")
        await arcade_tour(console)
    console.print("\n[bold green]done[/]")


async def _tour(console: Console, endpoint: str | list[str]) -> None:
    show = console.show if isinstance(console, JsonConsole) else Transcript(console).show
    transport = TappedTransport(transport_for(endpoint), show)
    async with McplConnection(transport, request_timeout=10.0) as conn, anyio.create_task_group() as tasks:
        events: list[dict[str, Any]] = []
        tasks.start_soon(_take_events, conn, events)
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": {"experimental": {"mcpl": {"version": "0.5", "pushEvents": True}}},
            "clientInfo": {"name": "mcpl demo", "version": "1.0.0"},
        }
        answer = await conn.send_request(method.INITIALIZE, hello)
        await conn.send_notification(method.INITIALIZED)
        manifest = answer["capabilities"]["experimental"]["mcpl"]
        await conn.send_request(method.FEATURE_SETS_UPDATE, {"effectiveCapabilities": _GRANT})
        listed = await conn.send_request(method.TOOLS_LIST)
        name = listed["tools"][0]["name"]
        result = await conn.send_request(method.TOOLS_CALL, {"name": name, "arguments": {"text": "hello"}})
        same = manifest_digest(manifest) == manifest["revision"]
        console.print(
            f"manifest [bold]{manifest['revision'][:19]}\u2026[/] {'recomputed: equal' if same else 'DIFFERS'}"
        )
        console.print(f"tool [bold]{name}[/] said {result['content'][0]['text']!r}")
        console.print(f"event heard: {events[0]['payload']['content'][0]['text']!r}")
        await conn.aclose()


async def _take_events(conn: McplConnection, events: list[dict[str, Any]]) -> None:
    async for message in conn:
        if isinstance(message, Request):
            if message.method == method.PUSH_EVENT:
                events.append(message.params)
                await conn.send_response(message.id, {"accepted": True})
            else:
                await conn.send_error(message.id, -32601, "not in this demo")


@asynccontextmanager
async def _listening(command: list[str]) -> AsyncIterator[str]:
    """Starts the server behind a WebSocket on a free port; yields its endpoint."""
    async with await anyio.open_process(
        [*command, "ws://127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    ) as process:
        try:
            assert process.stderr is not None
            text = ""
            async for piece in TextReceiveStream(process.stderr):
                text += piece
                if _LISTENING in text and text.endswith("\n"):
                    break
            endpoint = text.partition(_LISTENING)[2].partition("\n")[0]
            if not endpoint:
                raise TransportError(f"the server did not start: {text.strip().splitlines()[-1:]}")
            yield endpoint
        finally:
            process.terminate()
