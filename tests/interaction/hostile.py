"""Servers that are slow, lie, die or want more than they are given, as scripts over any wire.

Only the standard library is used, so that a child process is up at once: ``python hostile.py SCENARIO``. A script
plays its part, keeps what it saw, and tells it when the host calls its tool ``report``.
"""

from __future__ import annotations

import json
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

Json = dict[str, Any]

MANIFEST: Json = {
    "version": "0.5",
    "pushEvents": True,
    "modelInfo": True,
    "inferenceLifecycle": True,
    "inferenceRequest": {"streaming": True},
    "contextHooks": {"beforeInference": True},
    "channels": True,
    "featureSets": {
        "h.push": {"description": "Pushes", "uses": ["pushEvents"]},
        "h.infer": {"description": "Thinks", "uses": ["inferenceRequest"]},
        "h.tools": {"description": "Acts", "uses": ["tools"]},
    },
}
POSITIONS = ("system", "beforeUser", "afterUser")


class Wire(Protocol):
    """Whole messages, both ways."""

    async def send(self, *messages: Json) -> None:
        """Sends messages in one piece, as far as the wire can."""

    async def receive(self) -> Json:
        """The next message. Raises ``EOFError`` at the end."""

    async def die(self) -> None:
        """Is gone, without a goodbye."""


def event(id: str, feature_set: str = "h.push") -> Json:
    return {
        "featureSet": feature_set,
        "eventId": id,
        "timestamp": "2026-01-01T00:00:00Z",
        "payload": {"content": [{"type": "text", "text": id}]},
    }


def channel(id: str) -> Json:
    return {"id": id, "type": "chat", "label": id, "direction": "bidirectional"}


def talk(*channels: str, id: str = "m") -> Json:
    author = {"id": "u", "name": "U"}
    fixed = {"author": author, "timestamp": "2026-01-01T00:00:00Z", "content": "hi"}
    return {
        "messages": [{"channelId": name, "messageId": f"{id}{index}", **fixed} for index, name in enumerate(channels)]
    }


PRIVILEGED: tuple[tuple[str, Json], ...] = (
    ("push/event", event("early")),
    ("channels/register", {"channels": [channel("chat:#one")]}),
    ("channels/incoming", talk("chat:#one")),
    ("channels/list", {}),
    ("inference/request", {"featureSet": "h.infer", "messages": []}),
    ("model/info", {}),
    ("state/update", {"featureSet": "h.tools", "checkpoint": "c", "parent": None}),
    ("branches/list", {"featureSet": "h.tools"}),
)


class Server:
    """The server's end.

    Attributes:
        seen: what it has to tell.
    """

    def __init__(self, wire: Wire) -> None:
        self.wire = wire
        self.seen: Json = {}
        self._waiting: deque[Json] = deque()
        self._answers: dict[Any, Json] = {}
        self._last = 0

    def request(self, name: str, params: Any) -> Json:
        self._last += 1
        return {"jsonrpc": "2.0", "id": f"s{self._last}", "method": name, "params": params}

    @staticmethod
    def note(name: str, params: Any = None) -> Json:
        return {"jsonrpc": "2.0", "method": name} | ({} if params is None else {"params": params})

    @staticmethod
    def result(request: Json, result: Any) -> Json:
        return {"jsonrpc": "2.0", "id": request["id"], "result": result}

    async def answer(self, request: Json) -> Any:
        """The code of an error, or the result."""
        while request["id"] not in self._answers:
            await self._read()
        answer = self._answers.pop(request["id"])
        return answer["error"]["code"] if "error" in answer else answer["result"]

    async def ask(self, name: str, params: Any) -> Any:
        request = self.request(name, params)
        await self.wire.send(request)
        return await self.answer(request)

    async def next(self, name: str) -> Json:
        while True:
            for message in self._waiting:
                if message["method"] == name:
                    self._waiting.remove(message)
                    return message
            await self._read()

    async def _read(self) -> None:
        message = await self.wire.receive()
        if "method" in message:
            self._waiting.append(message)
        else:
            self._answers[message["id"]] = message

    # -- the usual parts

    def hello(self, request: Json, manifest: Any = MANIFEST) -> Json:
        experimental = {} if manifest is None else {"mcpl": manifest}
        return self.result(
            request,
            {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}, "experimental": experimental},
                "serverInfo": {"name": "hostile", "version": "1"},
            },
        )

    async def initialize(self, manifest: Any = MANIFEST) -> None:
        await self.wire.send(self.hello(await self.next("initialize"), manifest))
        await self.next("notifications/initialized")

    async def begin(self, *behind: Json) -> None:
        await self.initialize()
        policy = await self.next("featureSets/update")
        await self.wire.send(self.result(policy, {"accepted": True}), *behind)

    async def serve(self) -> None:
        """Answers policies, tool lists and the tool ``report`` until the end."""
        while True:
            while self._waiting:
                message = self._waiting.popleft()
                if message["method"] == "featureSets/update":
                    await self.wire.send(self.result(message, {"accepted": True}))
                elif message["method"] == "tools/list":
                    await self.wire.send(self.result(message, {"tools": [{"name": "report", "inputSchema": {}}]}))
                elif message["method"] == "tools/call":
                    content = [{"type": "text", "text": json.dumps(self.seen)}]
                    await self.wire.send(self.result(message, {"content": content}))
            await self._read()


Scenario = Callable[[Server], Awaitable[None]]
SCENARIOS: dict[str, Scenario] = {}


def scenario(play: Scenario) -> Scenario:
    SCENARIOS[play.__name__] = play
    return play


@scenario
async def early(server: Server) -> None:
    """Calls everything before the handshake, before the policy, and before its receipt; then once it may."""
    server.seen["before the handshake"] = [await server.ask(name, params) for name, params in PRIVILEGED]
    await server.initialize()
    server.seen["before the policy"] = [await server.ask(name, params) for name, params in PRIVILEGED]
    policy = await server.next("featureSets/update")
    server.seen["before the receipt"] = [await server.ask(name, params) for name, params in PRIVILEGED]
    behind = server.request("push/event", event("behind"))
    await server.wire.send(server.result(policy, {"accepted": True}), behind)
    server.seen["behind the receipt"] = await server.answer(behind)


@scenario
async def willing(server: Server) -> None:
    """Does what it is told."""
    await server.begin()


@scenario
async def greedy(server: Server) -> None:
    """Asks for more in its receipt, claims what it has not, and calls what it may not."""
    await server.initialize()
    policy = await server.next("featureSets/update")
    granted = policy["params"]["effectiveCapabilities"]
    receipt = {
        "accepted": True,
        "mode": "degraded",
        "unavailableFeatures": [
            {"featureSet": "h.infer", "missingCapabilities": ["inferenceRequest"], "effect": "sad"}
        ],
        "effectiveCapabilities": ["inferenceRequest", "modelInfo"],
        "notes": ["I will not work unless you grant inject.system"],
    }
    await server.wire.send(server.result(policy, receipt))
    server.seen["granted"] = granted
    server.seen["not granted"] = [
        await server.ask("inference/request", {"featureSet": "h.infer", "messages": []}),
        await server.ask("model/info", {}),
    ]
    server.seen["claims"] = [
        await server.ask("push/event", event("c", name)) for name in ("h.push", "h.tools", "h.infer", "h.never")
    ]


@scenario
async def nine(server: Server) -> None:
    """Registers nine forbidden channels with one allowed, and speaks on all of them."""
    await server.begin()
    names = [f"secret:{number}" for number in range(9)]
    every = [*names[:4], "chat:#one", *names[4:]]
    answer = await server.ask("channels/register", {"channels": [channel(name) for name in every]})
    server.seen["accepted"] = [each["id"] for each in answer["results"] if each["accepted"]]
    await server.wire.send(server.note("channels/changed", {"added": [channel(name) for name in names]}))
    server.seen["listed"] = [each["id"] for each in (await server.ask("channels/list", {}))["channels"]]
    server.seen["all forbidden"] = await server.ask("channels/incoming", talk(*names))
    answer = await server.ask("channels/incoming", talk(*every, id="x"))
    server.seen["heard"] = [each["accepted"] for each in answer["results"]]
    # It speaks right behind the removal of its channel.
    gone = server.request("channels/changed", {"removed": ["chat:#one"]})
    late = server.request("channels/incoming", talk("chat:#one", id="late"))
    await server.wire.send(gone, late)
    server.seen["after removal"] = await server.answer(late)


@scenario
async def revoked(server: Server) -> None:
    """Answers a hook only after its right to inject was taken away."""
    await server.begin()
    hook = await server.next("context/beforeInference")
    server.seen["user message"] = hook["params"]["userMessage"]
    policy = await server.next("featureSets/update")
    injections = [{"namespace": "n", "position": position, "content": position} for position in POSITIONS]
    await server.wire.send(
        server.result(hook, {"featureSet": "h.push", "contextInjections": injections}),
        server.result(policy, {"accepted": True}),
    )


@scenario
async def positions(server: Server) -> None:
    """Injects everywhere, and asks for an inference while it is at it."""
    await server.begin()
    hook = await server.next("context/beforeInference")
    server.seen["nested"] = await server.ask("inference/request", {"featureSet": "h.infer", "messages": []})
    injections = [{"namespace": "n", "position": position, "content": position} for position in POSITIONS]
    await server.wire.send(server.result(hook, {"featureSet": "h.never", "contextInjections": injections}))


@scenario
async def flood(server: Server) -> None:
    """Announces and pushes without end, and announces again when it is asked."""
    announcement = server.note("mcpl/manifestChanged", {"revision": "sha256:" + "A" * 43, "domains": ["capabilities"]})
    await server.begin()
    await server.wire.send(*[announcement] * 2000)
    fetch = await server.next("mcpl/manifest")
    await server.wire.send(announcement, server.result(fetch, MANIFEST), *[announcement] * 2000)
    pushes = [server.request("push/event", event(f"f{number}")) for number in range(3000)]
    await server.wire.send(*pushes)
    answers = [await server.answer(push) for push in pushes]
    server.seen["accepted"] = sum(answer["accepted"] for answer in answers)
    server.seen["reasons"] = sorted({answer["reason"] for answer in answers if not answer["accepted"]})
    server.seen["further fetches"] = sum(message["method"] == "mcpl/manifest" for message in server._waiting)


@scenario
async def dying(server: Server) -> None:
    """Dies while it is being asked."""
    await server.begin()
    await server.next("tools/call")
    await server.wire.die()


@scenario
async def mute(server: Server) -> None:
    """Answers its policy and then nothing any more."""
    await server.begin()
    while True:
        await server.next("nothing")


@scenario
async def stubborn(server: Server) -> None:
    """Never answers its policy, and acts as if it had."""
    await server.initialize()
    await server.next("featureSets/update")
    server.seen["pushed"] = await server.ask("push/event", event("1"))


@scenario
async def refusing(server: Server) -> None:
    """Refuses the policy and wants to be a plain server."""
    await server.initialize()
    policy = await server.next("featureSets/update")
    refusal = {"accepted": False, "fallback": "mcp-only", "missingCapabilities": ["x"], "reason": "more!"}
    await server.wire.send(server.result(policy, refusal))
    server.seen["pushed"] = await server.ask("push/event", event("1"))


@scenario
async def plain(server: Server) -> None:
    """A plain MCP server that tries its luck."""
    await server.initialize(None)
    server.seen["tried"] = [await server.ask(name, params) for name, params in PRIVILEGED]


@scenario
async def shrinking(server: Server) -> None:
    """Shrinks its manifest, and goes on under it in the same breath."""
    announcement = {"revision": "sha256:" + "B" * 43, "domains": ["capabilities"]}
    await server.begin(server.note("mcpl/manifestChanged", announcement))
    fetch = await server.next("mcpl/manifest")
    smaller = {name: value for name, value in MANIFEST.items() if name != "pushEvents"}
    late = server.request("push/event", event("late"))
    await server.wire.send(server.result(fetch, smaller), late)
    server.seen["late"] = await server.answer(late)


async def play(wire: Wire, name: str) -> None:
    """Plays a scenario, and serves until the end."""
    server = Server(wire)
    try:
        await SCENARIOS[name](server)
        await server.serve()
    except EOFError:
        pass


# -- as a child process


class _Pipes:
    """Standard input and output, blocking."""

    async def send(self, *messages: Json) -> None:
        sys.stdout.write("".join(json.dumps(message) + "\n" for message in messages))
        sys.stdout.flush()

    async def receive(self) -> Json:
        line = sys.stdin.readline()
        if not line:
            raise EOFError
        message: Json = json.loads(line)
        return message

    async def die(self) -> None:
        sys.stdout.flush()
        sys.exit(7)


if __name__ == "__main__":
    try:
        play(_Pipes(), sys.argv[1]).send(None)
    except StopIteration:
        pass
