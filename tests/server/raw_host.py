"""A host made of bytes, for tests of servers: it knows JSON and nothing of this package's own wire code.

Over a byte stream a message is a line, over a WebSocket it is a text message.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol

import anyio
from anyio.abc import ByteStream, Process

from mcpl_core import McplConnection
from mcpl_core.server import McplServer

__all__ = ("ALL_PATHS", "Lines", "RawHost", "hosted", "memory_byte_streams", "spawned")

Json = dict[str, Any]

#: Every capability of SPEC 6.2.
ALL_PATHS = (
    "pushEvents",
    "tools",
    "modelInfo",
    "inferenceRequest",
    "inferenceRequest.streaming",
    "inferenceLifecycle",
    "contextHooks.beforeInference.observe",
    "contextHooks.beforeInference.inject.system",
    "contextHooks.beforeInference.inject.beforeUser",
    "contextHooks.beforeInference.inject.afterUser",
    "channels.register",
    "channels.lifecycle",
    "channels.publish",
    "channels.incoming",
    "channels.streaming",
    "channels.acknowledge",
    "channels.typing",
)


class Wire(Protocol):
    """Whole texts, both ways."""

    async def send_text(self, text: str) -> None: ...
    async def receive_text(self) -> str: ...
    async def aclose(self) -> None: ...


class Lines:
    """A wire of lines over a byte stream."""

    def __init__(self, stream: ByteStream) -> None:
        self._stream = stream
        self._buffer = b""

    async def send_text(self, text: str) -> None:
        await self._stream.send(text.encode() + b"\n")

    async def receive_text(self) -> str:
        while b"\n" not in self._buffer:
            self._buffer += await self._stream.receive()
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    async def send_eof(self) -> None:
        await self._stream.send_eof()

    async def aclose(self) -> None:
        await self._stream.aclose()


class RawHost:
    """The other end of a server under test."""

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.answers: dict[Any, Json] = {}
        #: Requests and notifications of the server that no test looked at yet.
        self.heard: deque[Json] = deque()
        self.all: list[Json] = []
        self._last = 0

    async def send(self, *messages: Json) -> None:
        """Sends messages in one piece, as far as the wire can."""
        texts = [json.dumps({"jsonrpc": "2.0", **message}) for message in messages]
        if isinstance(self.wire, Lines):
            await self.wire.send_text("\n".join(texts))
        else:
            for text in texts:
                await self.wire.send_text(text)

    def request(self, name: str, params: Any = None) -> Json:
        """A request with an id of its own, to be sent."""
        self._last += 1
        return {"id": self._last, "method": name} | ({} if params is None else {"params": params})

    async def ask(self, name: str, params: Any = None) -> Json:
        """Sends a request; the answer as it came: with ``result`` or ``error``."""
        request = self.request(name, params)
        await self.send(request)
        return await self.answer(request["id"])

    async def result(self, name: str, params: Any = None) -> Any:
        """The result of a request that must have one."""
        answer = await self.ask(name, params)
        assert "result" in answer, answer
        return answer["result"]

    async def error(self, name: str, params: Any = None) -> Json:
        """The error of a request that must have one."""
        answer = await self.ask(name, params)
        assert "error" in answer, answer
        error: Json = answer["error"]
        return error

    async def notify(self, name: str, params: Any = None) -> None:
        await self.send({"method": name} | ({} if params is None else {"params": params}))

    async def answer(self, id: Any) -> Json:
        """Reads until the answer to ``id`` is there."""
        while id not in self.answers:
            await self._read()
        return self.answers.pop(id)

    async def next(self, name: str | None = None) -> Json:
        """Reads until a request or notification (of this method) is there."""
        while True:
            for message in self.heard:
                if name is None or message["method"] == name:
                    self.heard.remove(message)
                    return message
            await self._read()

    async def reply(self, message: Json, result: Any) -> None:
        await self.send({"id": message["id"], "result": result})

    async def refuse(self, message: Json, code: int, data: Any = None) -> None:
        error = {"code": code, "message": "no"} | ({} if data is None else {"data": data})
        await self.send({"id": message["id"], "error": error})

    async def _read(self) -> None:
        message = json.loads(await self.wire.receive_text())
        self.all.append(message)
        if "method" in message:
            self.heard.append(message)
        else:
            self.answers[message["id"]] = message

    # -- the beginning of most tests

    async def initialize(self, *, mcpl: bool = True, version: str = "2025-11-25") -> Json:
        experimental = {"mcpl": {"version": "0.5", "featureSets": True}} if mcpl else {}
        params = {
            "protocolVersion": version,
            "capabilities": {"experimental": experimental},
            "clientInfo": {"name": "raw", "version": "1"},
        }
        result: Json = await self.result("initialize", params)
        await self.notify("notifications/initialized")
        return result

    async def grant(self, *paths: str, **more: Any) -> Json:
        """Sends a policy and returns the receipt."""
        receipt: Json = await self.result("featureSets/update", {"effectiveCapabilities": list(paths), **more})
        return receipt

    async def begin(self, *paths: str, **more: Any) -> Json:
        """A handshake and a first policy."""
        await self.initialize()
        return await self.grant(*paths, **more)

    async def tool(self, name: str, arguments: Any = None, **more: Any) -> Json:
        result: Json = await self.result("tools/call", {"name": name, "arguments": arguments or {}, **more})
        return result

    async def settled(self) -> None:
        """Returns when the server has dealt with everything that was sent to it before, as far as it needs no worker
        that waits."""
        await self.result("ping")


class _MemoryByteStream(ByteStream):
    """One end of a pair in memory."""

    def __init__(self, send: Any, receive: Any) -> None:
        self._send, self._receive = send, receive

    async def send(self, item: bytes) -> None:
        await self._send.send(item)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        data: bytes = await self._receive.receive()
        return data

    async def send_eof(self) -> None:
        self._send.close()

    async def aclose(self) -> None:
        self._send.close()
        self._receive.close()


class _Pipes(ByteStream):
    """The pipes of a child, as one stream."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._stdin, self._stdout = process.stdin, process.stdout

    async def send(self, item: bytes) -> None:
        await self._stdin.send(item)

    async def receive(self, max_bytes: int = 65536) -> bytes:
        return await self._stdout.receive(max_bytes)

    async def send_eof(self) -> None:
        await self._stdin.aclose()

    async def aclose(self) -> None:
        await self._stdin.aclose()
        await self._stdout.aclose()


@asynccontextmanager
async def spawned(*command: str, stderr: Any = None) -> AsyncIterator[tuple[RawHost, Process]]:
    """A raw host at the pipes of a Python program, which ends with the block."""
    with anyio.fail_after(20):
        async with await anyio.open_process([sys.executable, *command], stderr=stderr) as process:
            try:
                yield RawHost(Lines(_Pipes(process))), process
            finally:
                if process.returncode is None:
                    with suppress(ProcessLookupError):
                        process.kill()


def memory_byte_streams() -> tuple[ByteStream, ByteStream]:
    """Two ends of a byte stream; each can be ended on its own."""
    there, from_there = anyio.create_memory_object_stream[bytes](1000)
    back, from_back = anyio.create_memory_object_stream[bytes](1000)
    return _MemoryByteStream(there, from_back), _MemoryByteStream(back, from_there)


@asynccontextmanager
async def hosted(server: McplServer, *, principal: str = "local", **options: Any) -> AsyncIterator[RawHost]:
    """A raw host at the other end of a served connection; the whole must be over within some seconds."""
    ours, theirs = memory_byte_streams()
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:

            async def serve() -> None:
                async with theirs, McplConnection.from_streams(theirs, **options) as connection:
                    await server.serve(connection, principal=principal)

            tasks.start_soon(serve)
            try:
                yield RawHost(Lines(ours))
            finally:
                await ours.aclose()
