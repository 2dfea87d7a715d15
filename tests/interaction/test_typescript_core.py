"""The TypeScript core as a peer, over pipes, in both roles.

Skipped unless ``MCPL_TS_CORE`` names the built ``index.js`` of the TypeScript core and there is a ``node``.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core import ConnectionTimeoutError, McplConnection, MethodNotFound, Request, RpcError, is_manifest_revision

PEER = Path(__file__).with_name("ts_peer.mjs")
README = Path(__file__).parent.parent.parent / "README.md"
NODE = shutil.which("node")

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not os.environ.get("MCPL_TS_CORE") or NODE is None, reason="MCPL_TS_CORE names no build"),
]


@pytest.fixture
async def conn(anyio_backend: Any) -> AsyncIterator[McplConnection]:
    assert NODE is not None
    command = [NODE, str(PEER), "serve"]
    with anyio.fail_after(30):
        async with McplConnection.spawn(command, env={"MCPL_TS_CORE": os.environ["MCPL_TS_CORE"]}) as connection:
            yield connection


async def test_requests_and_answers_both_ways(conn: McplConnection) -> None:
    async def answer() -> None:
        async for message in conn:
            if isinstance(message, Request):
                await conn.send_response(message.id, {"got": message.params})

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(answer)
        assert await conn.send_request("ask", {"n": 1}) == {"got": {"n": 1}}
        async with anyio.create_task_group() as many:
            for number in range(100):
                many.start_soon(_echo, conn, number)
        tasks.cancel_scope.cancel()


async def _echo(conn: McplConnection, number: int) -> None:
    assert await conn.send_request("echo", {"n": number}) == {"n": number}


@pytest.mark.parametrize(
    "value", ["\u2028\u2029\x85", "\ud800", "\U0001f600", {"a": [1.5, -0.0, 1e300, None, True]}, "x" * (1 << 20)]
)
async def test_values_come_back_as_they_went(conn: McplConnection, value: Any) -> None:
    assert await conn.send_request("echo", {"value": value}) == {"value": value}


async def test_notifications_arrive_in_order(conn: McplConnection) -> None:
    for number in range(1000):
        await conn.send_notification("note", {"n": number})
    assert await conn.send_request("heard") == [{"n": number} for number in range(1000)]


async def test_errors_have_their_class_and_data(conn: McplConnection) -> None:
    with pytest.raises(MethodNotFound) as caught:
        await conn.send_request("no/such")
    # Older builds of the core send no data.
    assert caught.value.data in (None, {"method": "no/such"})


async def test_an_answer_with_neither_result_nor_error_fails_its_request(conn: McplConnection) -> None:
    # The core writes no result member for undefined.
    with pytest.raises(RpcError) as caught:
        await conn.send_request("fail")
    assert not isinstance(caught.value, ConnectionTimeoutError)
    assert await conn.send_request("echo", {"still": "here"}) == {"still": "here"}


def test_the_typescript_core_as_host_of_the_readme_server(tmp_path: Path) -> None:
    assert NODE is not None
    blocks = dict(re.findall(r"```python\n# (\w+\.py)\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL))
    (tmp_path / "server.py").write_text(blocks["memory_server.py"], encoding="utf-8")
    run = subprocess.run(
        [NODE, str(PEER), "host", sys.executable, "server.py"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert run.returncode == 0, run.stderr
    seen = json.loads(run.stdout)
    assert is_manifest_revision(seen.pop("revision"))
    (event,) = seen.pop("events")
    assert event["payload"]["content"] == [{"type": "text", "text": "remembered: l\u2028ine"}]
    assert seen == {
        "server": "memory",
        "early": -32002,
        "receipt": {
            "accepted": True,
            "mode": "degraded",
            "unavailableFeatures": [
                {
                    "featureSet": "memory.recall",
                    "missingCapabilities": ["contextHooks.beforeInference.inject.beforeUser"],
                    "effect": "disabled",
                }
            ],
        },
        "tools": ["remember"],
        "result": {"content": [{"type": "text", "text": "kept"}]},
        "unknown": -32601,
        "status": 0,
    }
