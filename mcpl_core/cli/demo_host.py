"""The second part of ``mcpl demo``: a host, its servers, and what happens to them.

Owns: the story and what it prints. Does not own: the servers, two of which are the examples that everybody can read.

A memory server runs as a child process and a chat bridge behind a WebSocket (the relay puts it there). Something is
remembered, somebody writes in the chat, the host takes a capability back while a hook is under way, a server changes
its manifest, and one is killed and comes back.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Final, TypeVar

import anyio
import anyio.lowlevel
from anyio.abc import TaskGroup
from anyio.streams.buffered import BufferedByteReceiveStream
from rich.console import Console
from rich.markup import escape

from ..connection import McplConnection
from ..errors import TransportError
from ..host import ChannelMessage, HostedServer, HostEvent, HostPolicy, ManifestReceipt, McplHost, PushEvent
from ..relay import RelayListener
from ..server import McplServer
from ..transports.endpoints import listener_for
from ..transports.subprocess import SubprocessTransport
from .resources import resource_path

__all__ = ("host_tour",)

E = TypeVar("E", bound=HostEvent)

_INJECT: Final = "contextHooks.beforeInference.inject.beforeUser"
_ROOM: Final = "the room is at "

_POLICY: Final = HostPolicy.allow("tools", "pushEvents", "contextHooks.beforeInference.observe", _INJECT, "channels.*")


async def host_tour(console: Console) -> None:
    """The whole story. It ends by itself, and so do the processes that it starts.

    Raises:
        McplError: a step did not go as it should.
    """
    async with anyio.create_task_group() as tasks, McplHost("mcpl-demo", "1.0.0", policy=_POLICY) as host:
        memory = await host.add("memory", [sys.executable, str(resource_path("examples") / "memory_server.py")])
        async with _chat_behind_a_websocket(tasks) as (endpoint, room):
            chat = await host.add("chat", endpoint)
            for server in (memory, chat):
                _introduce(console, server)
            await _remember(console, host, memory)
            await _chat(console, host, chat, await room())
            await _revoke(console, host)
            await _change(console, host, tasks)
            await _crash(console, memory)
            await host.aclose()
        tasks.cancel_scope.cancel()


def _step(console: Console, text: str) -> None:
    console.print(f"\n[bold]{escape(text)}[/]", soft_wrap=True)


def _say(console: Console, text: str) -> None:
    console.print(f"  {escape(text)}", soft_wrap=True)


def _introduce(console: Console, server: HostedServer) -> None:
    facts = server.describe()
    _step(console, f"{facts.id}: {facts.info['name']} {facts.info['version']}, as {facts.mode}")
    for path in facts.advertised:
        console.print(f"  {'[green]granted[/]' if server.grant.allows(path) else '[red]denied [/]'} {path}")


async def _next(host: McplHost, kind: type[E]) -> E:
    """The next event of a kind; a host tells of changed tools and channels, too."""
    async for event in host.events():
        if isinstance(event, kind):
            return event
    raise TransportError("the host closed")


async def _remember(console: Console, host: McplHost, memory: HostedServer) -> None:
    _step(console, "the model calls a tool of the memory server, which tells that something was kept")
    result = await memory.call_tool("remember", {"text": "tea is better than coffee", "importance": 5})
    _say(console, f"memory remember: {result.text}")
    event = await _next(host, PushEvent)
    _say(console, f"event from {event.server}: {event.text}  {' '.join(event.tags)}")


async def _chat(console: Console, host: McplHost, chat: HostedServer, room: int) -> None:
    _step(console, "somebody writes in the chat room, and the host answers through its channel")
    async with await anyio.connect_tcp("127.0.0.1", room) as person:
        # The room takes people at once; the channel is there when the bridge registered it.
        while not chat.channels:  # noqa: ASYNC110 - a host is told of events, not of registrations
            await anyio.sleep(0.01)
        await person.send(b"Ada\n@agent what is better, tea or coffee?\n")
        event = await _next(host, ChannelMessage)
        _say(console, f"message in {event.channel_id}: {event.text.strip()}  {' '.join(event.tags)}")
        await chat.publish(chat.channels[0].id, "tea, as you said yourself")
        line = await BufferedByteReceiveStream(person).receive_until(b"\n", 1000)
        _say(console, f"in the room: {line.decode()}")


async def _revoke(console: Console, host: McplHost) -> None:
    _step(console, "before an inference the memory server adds what it knows; then that is taken back under way")
    question = "is tea better than coffee"
    async with host.inference(conversation_id="demo") as inference:
        before = await inference.before(question)
        for item in before.items:
            _say(console, f"{item.server} at {item.position}: {' '.join(item.text.split())}")
    async with host.inference(conversation_id="demo", turn_index=1) as inference, anyio.create_task_group() as tasks:
        count: list[int] = []

        async def ask() -> None:
            count.append(len((await inference.before(question)).items))

        tasks.start_soon(ask)
        # The hook goes out before the policy does; its answer comes after.
        await anyio.lowlevel.checkpoint()
        await host.set_policy(HostPolicy(rules=_POLICY.rules).also(deny=_INJECT))
    _say(console, f"asked, revoked, answered: {count[0]} injections accepted")
    await host.set_policy(_POLICY)
    _say(console, "granted again: told, acknowledged, then in force")


async def _change(console: Console, host: McplHost, tasks: TaskGroup) -> None:
    _step(console, "a server announces another manifest; the host fetches it and compares")
    weather = McplServer("weather", "1.0.0")
    weather.feature_set("weather.news", "Tells of storms", uses=["pushEvents"])
    here, there = McplConnection.memory_pair()
    tasks.start_soon(_serve, weather, there)
    await host.add("weather", here)
    with weather.edit_manifest() as manifest:
        del manifest["pushEvents"]
        manifest["modelInfo"] = True
    receipt = await _next(host, ManifestReceipt)
    while not receipt.domains:
        receipt = await _next(host, ManifestReceipt)
    for line in receipt.text.splitlines():
        _say(console, f"{receipt.server}: {line}")
    await host.remove("weather")


async def _serve(server: McplServer, connection: McplConnection) -> None:
    async with connection:
        await server.serve(connection)


async def _crash(console: Console, memory: HostedServer) -> None:
    _step(console, "the memory server is killed, and comes back with a handshake and a grant of its own")
    transport = memory.session.connection.transport
    assert isinstance(transport, SubprocessTransport)
    assert transport.pid is not None
    os.kill(transport.pid, signal.SIGKILL)
    await memory.wait("waiting", "connecting")
    _say(console, f"memory is {memory.state}: {memory.failure}")
    await memory.wait("ready")
    found = await memory.call_tool("search", {"word": "tea"})
    _say(console, f"memory is {memory.state}; what it finds about tea: {found.text or 'nothing, it is a new process'}")


@asynccontextmanager
async def _chat_behind_a_websocket(tasks: TaskGroup) -> AsyncIterator[tuple[str, Callable[[], Awaitable[int]]]]:
    """The chat bridge speaks over standard input and output; the relay puts it on a WebSocket."""
    told, heard = anyio.create_memory_object_stream[int](10)

    def hear(line: str) -> None:
        if line.startswith(_ROOM):
            told.send_nowait(int(line.removeprefix(_ROOM)))

    def bridge() -> SubprocessTransport:
        command = [sys.executable, str(resource_path("examples") / "chat_bridge.py"), "0"]
        return SubprocessTransport(command, on_stderr=hear)

    async def room() -> int:
        return await heard.receive()

    relay = RelayListener(listener_for("ws://127.0.0.1:0"), bridge)
    with told, heard:
        endpoint = await tasks.start(relay.run)
        if not endpoint:
            raise TransportError("the relay did not start")
        try:
            yield endpoint, room
        finally:
            relay.stop()
