"""A server made of plain JSON, for tests of hosts: it says what the test says, when the test says it.

What it sends in one call arrives as one read, in order, inside that call; what the host sends waits to be looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio

from mcpl_core.host import HostHandlers, HostPolicy, HostSession, HostSettings, connect_server
from mcpl_core.host.audit import AuditRecord
from mcpl_core.transports.base import Sink
from mcpl_core.transports.loop import EventLoop
from mcpl_core.transports.memory import ScriptedTransport

__all__ = (
    "ALL",
    "CHANNEL",
    "LIMIT",
    "MANIFEST",
    "QUICK",
    "RawServer",
    "embedded",
    "event",
    "failure_of",
    "incoming",
    "message",
)

Json = dict[str, Any]

#: Seconds after which a test that waits has failed.
LIMIT = 20.0

_HOOK = "contextHooks.beforeInference"
#: Every capability of SPEC 6.2, ``inject.system`` by its name.
ALL = (
    "pushEvents", "tools", "modelInfo", "inferenceLifecycle", "inferenceRequest", "inferenceRequest.streaming",
    f"{_HOOK}.observe", f"{_HOOK}.inject.*", f"{_HOOK}.inject.system", "channels.*",
)  # fmt: skip

#: Advertises everything; one feature set for each thing that is claimed.
MANIFEST: Json = {
    "version": "0.5",
    "pushEvents": True,
    "modelInfo": True,
    "inferenceLifecycle": True,
    "inferenceRequest": {"streaming": True},
    "contextHooks": {"beforeInference": True},
    "channels": True,
    "featureSets": {
        "t.push": {"description": "Pushes", "uses": ["pushEvents"]},
        "t.tools": {"description": "Acts", "uses": ["tools"]},
        "t.infer": {"description": "Thinks", "uses": ["inferenceRequest", "inferenceRequest.streaming"]},
        "t.once": {"description": "Thinks in one piece", "uses": ["inferenceRequest"]},
        "t.state": {"description": "Keeps notes", "uses": ["tools"], "rollback": True},
        "t.broken": {"description": "Declares nothing", "uses": []},
    },
}
CHANNEL: Json = {"id": "chat:#general", "type": "chat", "label": "#general", "direction": "bidirectional"}
ACCEPTED: Json = {"accepted": True}

#: Numbers for tests that must not wait, and are not told what they do not ask for.
QUICK = HostSettings(changelog_delay=3600.0, manifest_interval=0.0, first_retry=0.0, longest_retry=0.0)


def event(id: str = "e1", feature_set: str = "t.push", **more: Any) -> Json:
    """The params of a ``push/event``."""
    content = [{"type": "text", "text": more.pop("text", id)}]
    return {
        "featureSet": feature_set,
        "eventId": id,
        "timestamp": "2026-01-01T00:00:00Z",
        "payload": {"content": content},
        **more,
    }


def message(id: str = "m1", channel: str = "chat:#general", **more: Any) -> Json:
    """One message of ``channels/incoming``."""
    return {
        "channelId": channel,
        "messageId": id,
        "author": {"id": "u1", "name": "Alice"},
        "timestamp": "2026-01-01T00:00:00Z",
        "content": [{"type": "text", "text": more.pop("text", id)}],
        **more,
    }


def incoming(*messages: Any) -> Json:
    """The params of a ``channels/incoming``."""
    return {"messages": list(messages)}


class _Transport(ScriptedTransport):
    """Says when the host has started it."""

    def __init__(self) -> None:
        super().__init__()
        self.started = anyio.Event()

    async def start(self, sink: Sink, loop: EventLoop) -> None:
        await super().start(sink, loop)
        self.started.set()


class RawServer:
    """See the module.

    Attributes:
        transport: the host's end.
        heard: everything that the host sent, as far as the test looked.
    """

    def __init__(self) -> None:
        self.transport = _Transport()
        self.heard: list[Json] = []
        self._asked: deque[Json] = deque()
        self._answers: dict[Any, Json] = {}
        self._last = 0

    # -- what it sends

    def send(self, *messages: Json) -> None:
        """Sends messages as one read would bring them."""
        self.transport.feed(*({"jsonrpc": "2.0", **each} for each in messages))

    def request(self, name: str, params: Any = None) -> Json:
        """A request of its own, to be sent."""
        self._last += 1
        return {"id": f"s{self._last}", "method": name} | ({} if params is None else {"params": params})

    @staticmethod
    def note(name: str, params: Any = None) -> Json:
        """A notification, to be sent."""
        return {"method": name} | ({} if params is None else {"params": params})

    @staticmethod
    def result(request: Json, result: Any) -> Json:
        """The answer to a request of the host, to be sent."""
        return {"id": request["id"], "result": result}

    def reply(self, request: Json, result: Any) -> None:
        self.send(self.result(request, result))

    def refuse(self, request: Json, code: int, data: Any = None) -> None:
        self.send({"id": request["id"], "error": {"code": code, "message": "no", "data": data}})

    async def ask(self, name: str, params: Any = None) -> Json:
        """Sends a request; the whole answer."""
        request = self.request(name, params)
        self.send(request)
        return await self.answer(request)

    async def served(self, name: str, params: Any = None) -> Any:
        """The result of a request that must have one."""
        answer = await self.ask(name, params)
        assert "result" in answer, answer
        return answer["result"]

    async def refused(self, name: str, params: Any = None) -> Json:
        """The error of a request that must have one."""
        answer = await self.ask(name, params)
        assert "error" in answer, answer
        error: Json = answer["error"]
        return error

    # -- what it hears

    async def answer(self, request: Json) -> Json:
        """The answer to one of its requests."""
        while request["id"] not in self._answers:
            await self._hear()
        return self._answers.pop(request["id"])

    async def next(self, name: str) -> Json:
        """The next request or notification of this method; others wait for their own turn."""
        while True:
            for each in self._asked:
                if each["method"] == name:
                    self._asked.remove(each)
                    return each
            await self._hear()

    async def waiting(self, name: str) -> list[Json]:
        """What the host sent of this method until now and no test took."""
        while len(self.transport.sent) > len(self.heard):
            await self._hear()
        return [each for each in self._asked if each["method"] == name]

    async def settled(self) -> None:
        """Returns when the host has dealt with everything that needs no worker that waits."""
        await self.served("ping")

    async def _hear(self) -> None:
        heard: Json = await self.transport.next_sent()
        self.heard.append(heard)
        if "method" in heard:
            self._asked.append(heard)
        else:
            self._answers[heard["id"]] = heard

    # -- the beginning of most tests

    async def initialize(self, manifest: Any = None, *, tools: Any = None, version: str = "2025-11-25") -> Json:
        """Answers ``initialize``; the request. ``manifest``: the ``experimental.mcpl`` member, ``None``: left out."""
        await self.transport.started.wait()
        request = await self.next("initialize")
        capabilities: Json = {} if manifest is None else {"experimental": {"mcpl": manifest}}
        capabilities |= {"tools": {} if tools is None else tools}
        self.reply(
            request,
            {
                "protocolVersion": version,
                "capabilities": capabilities,
                "serverInfo": {"name": "raw", "version": "1"},
                "instructions": "Be kind.",
            },
        )
        await self.next("notifications/initialized")
        return request

    async def policy(self, receipt: Json = ACCEPTED, *behind: Json) -> Json:
        """Answers the next policy, with these messages behind the receipt in one read; the request."""
        request = await self.next("featureSets/update")
        self.send(self.result(request, receipt), *behind)
        return request

    async def begin(self, manifest: Any = MANIFEST, receipt: Json = ACCEPTED, *behind: Json) -> None:
        """Handshake and first policy."""
        await self.initialize(manifest)
        if manifest is not None:
            await self.policy(receipt, *behind)


async def failure_of(raw: RawServer, script: Callable[[], Awaitable[object]], **options: Any) -> Exception:
    """What connecting to a server that follows this script raises."""
    options = {"settings": QUICK, "server": "raw", **options}
    failures: list[Exception] = []

    async def play() -> None:
        await raw.transport.started.wait()
        await script()

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(play)
            try:
                async with connect_server(raw.transport, **options):
                    pass
            except Exception as exc:
                failures.append(exc)
            tasks.cancel_scope.cancel()
    return failures[0]


@asynccontextmanager
async def embedded(
    policy: HostPolicy,
    manifest: Any = MANIFEST,
    *behind: Json,
    receipt: Json = ACCEPTED,
    audit: list[AuditRecord] | None = None,
    settings: HostSettings = QUICK,
    **options: Any,
) -> AsyncIterator[tuple[RawServer, HostSession]]:
    """A session at the other end of a raw server, after the handshake and the first policy.

    Args:
        behind: sent behind the first receipt, in one read with it.
        audit: gets the records.
        options: handlers, and members of the hub.
    """
    raw = RawServer()
    names = HostHandlers.__dataclass_fields__
    handlers = {name: options.pop(name) for name in list(options) if name in names}
    if audit is not None:
        handlers["on_audit"] = audit.append
    connecting = connect_server(
        raw.transport,
        policy=policy,
        server="raw",
        settings=settings,
        handlers=HostHandlers(**handlers),
        **options,
    )
    begun = anyio.Event()

    async def begin() -> None:
        await raw.begin(manifest, receipt, *behind)
        begun.set()

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(begin)
            async with connecting as session:
                await begun.wait()
                yield raw, session
