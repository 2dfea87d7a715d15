"""``mcpl probe`` as a child process, plain and on a pseudo-terminal: what it shows, calls and watches."""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mcpl_core.cli import main
from mcpl_core.testing import read_transcript
from tests.cli.processes import ECHO_SERVER, LIMIT, gone, mcpl, relay_to, running, terminal

#: A server with a bit of everything; it tells of events and messages as soon as it may.
BUSY = """
import itertools, json, os, sys
from mcpl_core.manifest import with_revision

USES = ["tools", "pushEvents", "channels.register", "channels.incoming"]
MANIFEST = with_revision({
    "version": "0.5", "pushEvents": True, "channels": {"register": True, "incoming": True, "publish": True},
    "contextHooks": {"beforeInference": {"inject": {"system": True}}},
    "featureSets": {
        "busy.all": {"description": "Does\\x1b[31m it all", "uses": USES},
        "busy.more": {"description": "Wants more", "uses": ["contextHooks.beforeInference.inject.system"]},
        "busy.broken": {"description": "Wants what is not", "uses": ["nothing.of.this"]},
    },
})
if "--wrong" in sys.argv:
    MANIFEST["revision"] = "sha256:" + "A" * 43
numbers = itertools.count(100)

def say(**message):
    print(json.dumps({"jsonrpc": "2.0"} | message), flush=True)

def talk():
    say(id=next(numbers), method="channels/register", params={"channels": [
        {"id": "chat:1", "type": "chat", "label": "Lobby", "direction": "bidirectional"}]})
    say(id=next(numbers), method="push/event", params={
        "featureSet": "busy.all", "eventId": "e1", "timestamp": "2026-01-01T00:00:00Z", "tags": ["busy:now"],
        "payload": {"content": [{"type": "text", "text": "something \\x1b]0;evil\\x07 happened"}]}})
    say(id=next(numbers), method="channels/incoming", params={"messages": [
        {"channelId": "chat:1", "messageId": "m1", "author": {"id": "u1", "name": "Ada"}, "timestamp":
         "2026-01-01T00:00:00Z", "content": [{"type": "text", "text": "hello there"}]}]})
    say(id=next(numbers), method="inference/request", params={"featureSet": "busy.all", "conversationId": "c",
        "messages": []})

print(os.getpid(), file=sys.stderr, flush=True)
for line in sys.stdin:
    message = json.loads(line)
    id, method = message.get("id"), message.get("method")
    if method == "initialize":
        say(id=id, result={"protocolVersion": "2025-11-25", "serverInfo": {"name": "busy", "version": "2"},
            "instructions": "Be nice", "capabilities": {"tools": {}, "experimental": {"mcpl": MANIFEST}}})
    elif method == "featureSets/update":
        if "--refuse" in sys.argv:
            say(id=id, result={"accepted": False, "fallback": "close", "reason": "more, please"})
        elif "--odd" in sys.argv:
            say(id=id, result={"accepted": "perhaps"})
        else:
            say(id=id, result={"accepted": True, "notes": ["as you wish"]})
            talk()
    elif method == "tools/list":
        tools = [{"name": "good", "description": "Does good\\nand more", "inputSchema": {"type": "object"}},
                 {"name": "bad", "inputSchema": {"type": "object"}}]
        if "--broken" in sys.argv:
            say(id=id, error={"code": -1, "message": "no tools today"})
        else:
            say(id=id, result={"tools": tools})
    elif method == "tools/call":
        token = message["params"].get("_meta", {}).get("progressToken")
        if token is not None:
            say(method="notifications/progress", params={"progressToken": token, "progress": 1, "message": "half way"})
        name = message["params"]["name"]
        if name == "die":
            sys.exit(3)
        if name == "hang":
            continue
        content = [{"type": "text", "text": "done"}, {"type": "image", "data": "", "mimeType": "image/png"}]
        say(id=id, result={"content": content, "structuredContent": {"got": message["params"]["arguments"]},
            "isError": name == "bad"})
    elif method == "channels/list":
        say(id=id, result={"channels": [{"id": "chat:2", "type": "chat", "label": "Attic", "direction": "inbound"}]})
    elif id is not None and method:
        say(id=id, error={"code": -32601, "message": "no"})
"""

PLAIN = """
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    results = {"initialize": {"protocolVersion": "2025-06-18", "serverInfo": {"name": "plain", "version": "1"},
               "capabilities": {"tools": {}}}, "tools/list": {"tools": []}}
    if message.get("method") in results:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": results[message["method"]]}), flush=True)
"""


def busy(*arguments: str) -> list[str]:
    return [sys.executable, "-c", BUSY, *arguments]


def facts(*arguments: str) -> dict[str, Any]:
    done = mcpl("probe", "--json", *arguments)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_what_a_person_wants_to_see() -> None:
    done = mcpl("probe", "--", *busy())
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == "busy 2"
    for part in (
        "MCP 2025-11-25", "mcpl (full peer)", "Be nice", "\u2713 as announced", "receipt       accepted",
        "as you wish", "    channels",
        "  \u2717   incoming  (denied)", "  \u2713   register  (granted)", "  \u2717   publish  (denied)",
        "  \u2717 pushEvents  (denied)", "  \u2713 tools  (granted)",
        "  \u2717 busy.all  capability_denied: pushEvents, channels.incoming",
        "  \u2717 busy.more  capability_denied: contextHooks.beforeInference.inject.system",
        "  \u2717 busy.broken  invalid_uses",
        "tools (2)", "  good  Does good and more", "channels (2)", "chat:1  Lobby  (chat, bidirectional)", "Attic",
    ):  # fmt: skip
        assert part in done.stdout, part
    assert "\x1b" not in done.stdout
    assert "Does\\u001b[31m it all" in done.stdout


def test_the_same_as_json() -> None:
    found = facts("--allow", "pushEvents", "--allow", "channels.*", "--deny", "channels.publish", "--", *busy())
    assert found["server"] == {"name": "busy", "version": "2"}
    assert found["mode"] == "mcpl"
    assert found["manifest"]["matches"] is True
    assert found["manifest"]["computedRevision"] == found["manifest"]["announcedRevision"]
    granted = {row["path"]: row["granted"] for row in found["capabilities"]}
    assert granted == {
        "tools": True,
        "pushEvents": True,
        "channels.register": True,
        "channels.incoming": True,
        "channels.publish": False,
        "contextHooks.beforeInference.inject.system": False,
    }
    sets = {row["name"]: (row["enabled"], row["reason"]) for row in found["featureSets"]}
    assert sets == {
        "busy.all": (True, None),
        "busy.more": (False, "capability_denied"),
        "busy.broken": (False, "invalid_uses"),
    }
    assert [tool["name"] for tool in found["tools"]] == ["good", "bad"]
    assert {channel["id"] for channel in found["channels"]} == {"chat:1", "chat:2"}


def test_everything_is_granted_but_what_must_be_named() -> None:
    granted = {row["path"]: row["granted"] for row in facts("--allow-all", "--", *busy())["capabilities"]}
    assert [path for path, allowed in granted.items() if not allowed] == ["contextHooks.beforeInference.inject.system"]
    named = facts("--allow", "contextHooks.beforeInference.inject.system", "--", *busy())
    assert all(row["granted"] for row in named["capabilities"] if "inject" in row["path"])


def test_a_wrong_revision_is_seen() -> None:
    done = mcpl("probe", "--", *busy("--wrong"))
    assert "\u2717 announced is" in done.stdout
    assert "revision_mismatch" in done.stdout
    assert facts("--", *busy("--wrong"))["manifest"]["matches"] is False


def test_over_a_websocket() -> None:
    with relay_to("--", *busy()) as (endpoint, _):
        assert facts(endpoint)["endpoint"] == endpoint
        assert mcpl("probe", endpoint).stdout.startswith("busy 2\n")


def test_a_plain_server() -> None:
    command = [sys.executable, "-c", PLAIN]
    done = mcpl("probe", "--", *command)
    assert done.returncode == 0
    assert "mcp-only" in done.stdout and "tools (0)" in done.stdout and "capabilities" not in done.stdout
    found = facts("--", *command)
    assert (found["mode"], found["manifest"], found["channels"]) == ("mcp-only", None, [])


def test_a_malformed_receipt() -> None:
    done = mcpl("probe", "--", *busy("--odd"))
    assert "malformed" in done.stdout and "mcp-only" in done.stdout


def test_a_refusal_says_what_to_do() -> None:
    done = mcpl("probe", "--", *busy("--refuse"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "more, please" in done.stderr and "--allow" in done.stderr


def test_what_cannot_be_listed_is_shown_as_such() -> None:
    done = mcpl("probe", "--deny", "channels.register", "--", *busy("--broken"))
    assert done.returncode == 0
    assert "no tools today" in done.stdout
    assert "channels.register is not granted" in done.stdout
    found = facts("--deny", "channels.register", "--", *busy("--broken"))
    assert found["tools"] == {"error": "no tools today"}
    assert found["channels"] == {"error": "channels.register is not granted"}


def test_calling_a_tool() -> None:
    done = mcpl("probe", "--call", "good", '{"a": [1]}', "--", *busy())
    assert done.returncode == 0
    assert "good answered\n  done\n" in done.stdout
    assert "image" in done.stdout and '"got"' in done.stdout
    assert "half way" in done.stderr
    call = facts("--call", "good", '{"a": [1]}', "--", *busy())["call"]
    assert call["structuredContent"] == {"got": {"a": [1]}}
    assert (call["isError"], call["text"]) == (False, "done")


def test_a_tool_that_fails() -> None:
    done = mcpl("probe", "--call", "bad", "{}", "--", *busy())
    assert done.returncode == 1
    assert "bad failed" in done.stdout
    done = mcpl("probe", "--json", "--call", "bad", "{}", "--", *busy())
    assert done.returncode == 1 and json.loads(done.stdout)["call"]["isError"] is True


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--call", "die", "{}"], "exited with status 3"),
        (["--call", "hang", "{}", "--timeout", "3"], "no answer to tools/call within 3 s"),
        (["--call", "good", "{}", "--deny", "tools"], "tools is not granted"),
    ],
)
def test_a_call_that_does_not_come_back(arguments: list[str], part: str) -> None:
    done = mcpl("probe", *arguments, "--", *busy())
    assert done.returncode == 1
    assert part in done.stderr.splitlines()[-1] and "Traceback" not in done.stderr


def test_watching_shows_what_comes() -> None:
    with running("probe", "--watch", "--", *busy()) as probe:
        shown: list[str] = []
        while not any("hello there" in line for line in shown):
            shown.append(probe.out())
        text = "\n".join(shown)
        assert "push  busy.all  something" in text and "[busy:now]" in text
        assert "\x1b" not in text
        assert "chat  Lobby  Ada:  hello there" in text
        assert probe.err_until("watching")
        assert probe.end(signal.SIGINT) == 0
        assert "2 events" in probe.err_until("events")


def test_watching_as_json() -> None:
    with running("probe", "--watch", "--json", "--", *busy()) as probe:
        assert json.loads(probe.out())["server"]["name"] == "busy"
        events: dict[str, Any] = {}
        while not {"push/event", "channels/incoming", "audit"} <= events.keys():
            event = json.loads(probe.out())
            events[event["event"]] = event
        assert events["push/event"]["eventId"] == "e1"
        assert events["channels/incoming"]["author"] == {"id": "u1", "name": "Ada"}
        assert events["channels/incoming"]["channel"]["id"] == "chat:1"
        assert probe.end(signal.SIGTERM) == 0


def test_a_server_that_ends_what_is_watched() -> None:
    with running("probe", "--watch", "--stderr", "--", *busy()) as probe:
        pid = int(probe.err())
        probe.err_until("watching")
        os.kill(pid, signal.SIGKILL)
        assert probe.process.wait(LIMIT) == 1
        assert "killed by signal 9" in probe.err_until("mcpl: ")
    with running(
        "probe",
        "--watch",
        "--",
        sys.executable,
        "-c",
        PLAIN.replace("sys.stdin", "(input() for _ in range(3))"),
    ) as probe:
        assert probe.process.wait(LIMIT) == 0
        assert "the server closed the connection" in probe.err_until("closed")


def test_the_server_ends_with_the_probe() -> None:
    with running("probe", "--stderr", "--", *busy()) as probe:
        pid = int(probe.err())
        assert probe.process.wait(LIMIT) == 0
        assert gone(pid)


@pytest.fixture
def silent() -> Iterator[list[str]]:
    yield [sys.executable, "-c", "import sys; print('up', file=sys.stderr, flush=True); sys.stdin.read()"]


def test_ctrl_c_while_it_connects(silent: list[str]) -> None:
    for watch in ([], ["--watch"]):
        with terminal("probe", *watch, "--stderr", "--", *silent) as screen:
            screen.until("up")
            screen.press_ctrl_c()
            assert screen.end() == 130
        assert "interrupted" in screen.text and "Traceback" not in screen.text
        # The cursor is there again.
        assert screen.text.rfind("\x1b[?25h") >= screen.text.rfind("\x1b[?25l")


def test_on_a_terminal_it_has_colours_and_stops_cleanly() -> None:
    with terminal("probe", "--watch", "--", *busy()) as screen:
        screen.until("hello there")
        screen.press_ctrl_c()
        assert screen.end() == 0
    assert "\x1b[1mbusy 2\x1b[0m" in screen.text
    assert "\x1b[32m" in screen.text and "\x1b[31m" in screen.text
    assert "\x1b]0;evil" not in screen.text
    assert "Traceback" not in screen.text
    assert screen.text.rfind("\x1b[?25h") >= screen.text.rfind("\x1b[?25l")


def test_it_is_recorded(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    assert mcpl("probe", "--record", str(path), "--call", "good", '{"password": "x"}', "--", *busy()).returncode == 0
    methods = [json.loads(entry.message).get("method") for entry in read_transcript(path)]
    assert methods[0] == "initialize" and "tools/call" in methods
    assert '"x"' not in path.read_text()


@pytest.mark.parametrize(
    ("arguments", "status", "part"),
    [
        (["--", "/nonexistent/server"], 1, "name of the program"),
        (["ws://127.0.0.1:1"], 1, "is it running"),
        (["--", "cat"], 1, "initialize"),
        (["--", "false"], 1, "run the command by itself"),
        (["--timeout", "0.3", "--", "sleep", "600"], 1, "--timeout"),
        (["--allow", "nonsense", "--", "cat"], 2, "capability paths"),
        (["--call", "x", "[]", "--", "cat"], 2, "JSON object"),
        (["--call", "x", "{", "--", "cat"], 2, "as JSON"),
        (["--call", "x"], 2, "--call"),
        (["--record", "/nonexistent/t", "--", "cat"], 2, "cannot write"),
        ([], 2, "name an endpoint"),
    ],
)
def test_a_failure_is_one_line(arguments: list[str], status: int, part: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["probe", *arguments]) == status
    captured = capfd.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("mcpl: ") and captured.err.count("\n") == 1
    assert part in captured.err


def test_the_example_server() -> None:
    found = facts("--allow", "pushEvents", "--call", "echo", '{"text": "hi"}', "--", *ECHO_SERVER)
    assert found["call"]["text"] == "hi"
    assert all(row["enabled"] for row in found["featureSets"])
