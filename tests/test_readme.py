"""The programs in the README run as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from mcpl_core.mcp import StdioTransport, mcp_client
from tests.server.raw_host import spawned

README = Path(__file__).parent.parent / "README.md"
PROGRAMS = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name, text in PROGRAMS.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def _run(folder: Path, name: str) -> list[str]:
    run = subprocess.run([sys.executable, "-W", "error", name], cwd=folder, capture_output=True, text=True, timeout=60)
    assert run.returncode == 0, run.stderr
    assert run.stderr == ""
    return run.stdout.splitlines()


def test_the_programs_are_found_and_short() -> None:
    assert sorted(PROGRAMS) == [
        "authority.py",
        "bare.py",
        "host.py",
        "live.py",
        "mcp_both_ways.py",
        "memory_server.py",
        "tapped_relay.py",
        "timer_server.py",
        "toolset_host.py",
    ]
    lines = {name: len([line for line in text.splitlines() if line.strip()]) for name, text in PROGRAMS.items()}
    assert lines["authority.py"] <= 25
    assert lines["host.py"] <= 25
    assert lines["live.py"] <= 25
    assert lines["memory_server.py"] <= 25
    assert lines["tapped_relay.py"] <= 25
    assert lines["bare.py"] <= 25
    assert lines["mcp_both_ways.py"] <= 25
    assert lines["timer_server.py"] <= 25
    assert lines["toolset_host.py"] <= 30


def test_the_host_talks_to_the_server(folder: Path) -> None:
    assert _run(folder, "host.py") == [
        "mcpl ['pushEvents', 'tools']",
        "kept",
        "memory ('memory:new',) remembered: hello",
    ]


@pytest.mark.anyio
async def test_a_plain_mcp_host_sees_a_plain_mcp_server(folder: Path) -> None:
    async with mcp_client(
        "memory", transport=StdioTransport([sys.executable, str(folder / "memory_server.py")])
    ) as memory:
        assert await memory.call("remember", {"text": "hello"}) == "kept"


def test_the_connection_alone_talks_to_the_server(folder: Path) -> None:
    assert _run(folder, "bare.py") == ["memory", "remembered: hi"]


def test_channels_inferences_and_state(folder: Path) -> None:
    assert _run(folder, "live.py") == ["['1 glad', '2 glad']", "room heard thank you"]


def test_a_relay_shows_what_passes(folder: Path) -> None:
    assert _run(folder, "tapped_relay.py") == [
        "sent initialize",
        "received an answer",
        "sent notifications/initialized",
        "sent featureSets/update",
        "received an answer",
        "mcpl",
    ]


def test_tools_are_served_and_called_as_plain_mcp(folder: Path) -> None:
    pytest.importorskip("mcp")
    assert _run(folder, "mcp_both_ways.py") == ["['search']", '["0: owls","1: owls"]']


def test_a_read_is_called_under_authority(folder: Path) -> None:
    assert _run(folder, "authority.py") == [
        'alice None {"text":["[\\"a page about owls\\"]"],"structured":{"result":["a page about owls"]}}',
        'mallory mcp_scope_denied {"text":[],"structured":null}',
    ]


def test_a_host_follows_what_is_visible(folder: Path) -> None:
    assert _run(folder, "toolset_host.py") == ["[] ['house__open_it']", "[] ['house__close_it']"]


@pytest.mark.anyio
async def test_the_timer_tells_when_it_is_over(folder: Path) -> None:
    async with spawned(str(folder / "timer_server.py")) as (host, _):
        await host.begin("tools", "pushEvents")
        await host.result("toolsets/open", {"toolset": "timer"})
        opened = await host.result("toolsets/open", {"toolset": "timer", "options": {"seconds": 0}})
        assert (opened["instance"], opened["title"]) == ("timer-2", "0 seconds")
        event = await host.next("push/event")
        assert (event["params"]["tags"], event["params"]["origin"]["instance"]) == (["timer:over"], "timer-2")
        await host.reply(event, {"accepted": True})
        assert (await host.tool("stop"))["content"][0]["text"] == "stopped"
        statement = await host.result("toolsets/list", {})
        assert [record["instance"] for record in statement["ended"]] == ["timer-2", "timer-1"]
