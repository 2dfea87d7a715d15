"""The examples run, and do what their first lines say."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import anyio
import pytest
from anyio.streams.buffered import BufferedByteReceiveStream

from mcpl_core import McplConnection
from mcpl_core.cli import main
from tests.server.raw_host import Lines, hosted, spawned

pytestmark = pytest.mark.anyio

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
HOOK = "contextHooks.beforeInference."
TURN = {"inferenceId": "i", "conversationId": "c", "turnIndex": 0, "model": {"id": "m"}}


def path(name: str) -> str:
    return str(EXAMPLES / name)


def load(name: str) -> ModuleType:
    """A fresh copy of an example, without what stands under its main guard."""
    spec = importlib.util.spec_from_file_location(name, path(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


# -- memory_server.py


async def test_the_memory_remembers_recalls_and_tells() -> None:
    async with spawned(path("memory_server.py")) as (host, _):
        await host.begin("tools", "pushEvents", HOOK + "observe", HOOK + "inject.beforeUser")
        call = host.request(
            "tools/call", {"name": "remember", "arguments": {"text": "the bread is baked", "importance": 5}}
        )
        await host.send(call)
        assert (await host.answer(call["id"]))["result"] == {"content": [{"type": "text", "text": "kept"}]}
        event = await host.next("push/event")
        assert event["params"]["tags"] == ["memory:new"]
        assert event["params"]["payload"]["content"] == [{"type": "text", "text": "remembered: the bread is baked"}]
        await host.reply(event, {"accepted": True})
        found = await host.tool("search", {"word": "Bread"})
        assert found["structuredContent"] == {"result": ["the bread is baked"]}

        turn = await host.result("context/beforeInference", {**TURN, "userMessage": "Where is the bread"})
        assert turn["featureSet"] == "memory.recall"
        (injection,) = turn["contextInjections"]
        assert (injection["position"], injection["namespace"]) == ("beforeUser", "memory")
        assert "the bread is baked" in injection["content"][0]["text"]
        for message in (None, "hello there"):
            turn = await host.result("context/beforeInference", {**TURN, "userMessage": message})
            assert turn["contextInjections"] == []


async def test_the_memory_is_a_plain_mcp_server_too() -> None:
    async with spawned(path("memory_server.py")) as (host, _):
        await host.initialize(mcpl=False)
        assert (await host.tool("remember", {"text": "a", "importance": 5}))["content"][0]["text"] == "kept"
        assert [tool["name"] for tool in (await host.result("tools/list"))["tools"]] == ["remember", "search"]
        await host.settled()
        assert list(host.heard) == []


async def test_the_memory_keeps_its_principals_apart() -> None:
    memory: Any = load("memory_server")
    async with hosted(memory.server, principal="alice") as alice, hosted(memory.server, principal="bob") as bob:
        for host in (alice, bob):
            await host.begin("tools")
        await alice.tool("remember", {"text": "a secret"})
        assert (await bob.tool("search", {"word": "secret"}))["structuredContent"] == {"result": []}
        assert (await alice.tool("search", {"word": "secret"}))["structuredContent"] == {"result": ["a secret"]}


async def test_the_memory_serves_many_hosts_over_websockets() -> None:
    memory: Any = load("memory_server")
    with anyio.fail_after(10):
        async with anyio.create_task_group() as tasks:
            where = await tasks.start(
                lambda task_status: memory.server.listen("ws://127.0.0.1:0", task_status=task_status)
            )
            for _ in range(2):
                async with McplConnection.connect(where) as connection:
                    hello = {
                        "protocolVersion": "2025-11-25",
                        "capabilities": {},
                        "clientInfo": {"name": "h", "version": "1"},
                    }
                    assert (await connection.send_request("initialize", hello))["serverInfo"]["name"] == "memory"
                    result = await connection.send_request("tools/call", {"name": "search", "arguments": {"word": "x"}})
                    assert result["structuredContent"] == {"result": []}
            tasks.cancel_scope.cancel()


# -- chat_bridge.py


async def test_the_bridge_carries_what_is_said_both_ways() -> None:
    async with spawned(path("chat_bridge.py"), "0", stderr=subprocess.PIPE) as (host, process):
        assert process.stderr is not None
        said = (await BufferedByteReceiveStream(process.stderr).receive_until(b"\n", 1000)).decode()
        port = int(said.rsplit(" ", 1)[1])
        await host.begin("channels.register", "channels.incoming", "channels.publish")
        register = await host.next("channels/register")
        (channel,) = register["params"]["channels"]
        assert channel == {"id": "chat:room", "type": "chat", "label": "The room", "direction": "bidirectional"}
        await host.reply(register, {"results": [{"id": "chat:room", "accepted": True}]})

        alice = Lines(await anyio.connect_tcp("127.0.0.1", port))
        bob = Lines(await anyio.connect_tcp("127.0.0.1", port))
        await alice.send_text("Alice")
        for text, tag in (("hello", "chat:ambient"), ("@agent are you there", "chat:mention")):
            await alice.send_text(text)
            incoming = await host.next("channels/incoming")
            (message,) = incoming["params"]["messages"]
            assert (message["author"]["name"], message["content"]) == ("Alice", [{"type": "text", "text": text}])
            assert tag in message["tags"]
            results = [{"messageId": message["messageId"], "accepted": True}]
            await host.reply(incoming, {"results": results})

        await bob.send_text("Bob")
        published = await host.result("channels/publish", {"channelId": "chat:room", "content": "I am"})
        assert published["delivered"] is True
        assert await alice.receive_text() == "agent: I am"
        assert (await host.result("channels/publish", {"channelId": "x", "content": "I am"}))["delivered"] is False

        # What the host refuses or fails at costs nothing of what comes behind.
        await alice.send_text("one")
        await host.refuse(await host.next("channels/incoming"), -32603)
        await alice.send_text("two")
        incoming = await host.next("channels/incoming")
        assert incoming["params"]["messages"][0]["content"][0]["text"] == "two"
        await host.reply(incoming, {"results": []})

        # Without the grant what is said stays in the room.
        await host.grant("channels.publish")
        await alice.send_text("secret")
        await host.result("channels/publish", {"channelId": "chat:room", "content": "bye"})
        assert await alice.receive_text() == "agent: bye"
        await host.settled()
        assert list(host.heard) == []

        # Two at once, and somebody who left.
        await alice.aclose()
        calls = [host.request("channels/publish", {"channelId": "chat:room", "content": "x" * 9}) for _ in range(5)]
        await host.send(*calls)
        for call in calls:
            assert (await host.answer(call["id"]))["result"]["delivered"] is True
        await bob.aclose()
        assert isinstance(host.wire, Lines)
        await host.wire.send_eof()
        assert await process.wait() == 0


# -- echo_server.py


async def test_the_echo_server_says_it_again() -> None:
    async with spawned(path("echo_server.py")) as (host, _):
        await host.begin("tools")
        assert (await host.tool("echo", {"text": "a"}))["content"][0]["text"] == "a"


# -- read_only_host.py


def test_the_read_only_host_searches_and_nothing_else(tmp_path: Path) -> None:
    command = [sys.executable, "-W", "error", path("read_only_host.py"), str(tmp_path / "memory.pin")]
    runs = [subprocess.run(command, capture_output=True, text=True, timeout=60) for _ in range(2)]
    first, second = (run.stdout.splitlines() for run in runs)
    assert [run.returncode for run in runs] == [0, 0], runs
    assert first == second
    assert [line.split()[:2] for line in first[1:]] == [
        ["alice", "ok"],
        ["alice", "mcp_invalid_arguments"],
        ["mallory", "mcp_scope_denied"],
    ]
    pinned = tmp_path / "memory.pin"
    pinned.write_text(pinned.read_text().replace("Find the thoughts", "Find all thoughts"))
    refused = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert (refused.returncode, refused.stderr.strip()) == (1, "mcp_pin_invalid")
    assert len(refused.stdout.splitlines()) == 1


# -- approved_writes.py


def test_a_note_is_written_once_somebody_approved_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def start() -> list[str]:
        anyio.run(load("approved_writes").main, tmp_path)
        return capsys.readouterr().out.split()

    notes = tmp_path / "notes.txt"
    waits, *decision = start()
    assert waits == "waits:"
    assert start()[1:] == decision
    assert not notes.exists()
    store = str(tmp_path / "approvals.db")
    assert main(["approvals", "decide", "--store", store, *decision, "--principal", "bob", "--key", "k"]) == 0
    capsys.readouterr()
    assert [start(), start()] == [["done:", "committed"]] * 2
    assert notes.read_text(encoding="utf-8") == "buy bread\n"


def test_the_notes_need_a_folder(tmp_path: Path) -> None:
    for arguments in ([], [str(tmp_path / "none")]):
        run = subprocess.run([sys.executable, path("approved_writes.py"), *arguments], capture_output=True, text=True)
        assert (run.returncode, run.stderr.count("\n"), "FOLDER" in run.stderr) == (1, 1, True)
