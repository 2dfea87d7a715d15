"""A server without the manifest's two methods: its manifest is fixed, and everything else is as it was (SPEC 17.10)."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpl_core import McplConnection, Request, Router, degradation_receipt, grant_from_update
from tests.server.raw_host import Lines, RawHost, memory_byte_streams

pytestmark = pytest.mark.anyio

SETS = {"bare.tools": {"description": "Tools", "uses": ["tools"]}}


def bare() -> Router:
    """On the connection alone."""

    def initialize(request: Request) -> dict[str, Any]:
        manifest = {"version": "0.5", "featureSets": SETS}
        return {
            "protocolVersion": request.params["protocolVersion"],
            "capabilities": {"tools": {}, "experimental": {"mcpl": manifest}},
            "serverInfo": {"name": "bare", "version": "1"},
        }

    def update(request: Request) -> dict[str, Any]:
        return degradation_receipt(SETS, grant_from_update(None, request.params, "request").state).to_wire()

    router = Router({"ping": lambda request: {}, "tools/list": lambda request: {"tools": []}})
    router.add("initialize", initialize, inline=True)
    router.add("notifications/initialized", lambda message: None, inline=True)
    router.add("featureSets/update", update, inline=True)
    return router


@pytest.mark.spec("17.4-2", "17.10-1", "6.6-7")
async def test_a_server_without_the_manifest_method_says_so_and_works() -> None:
    ours, theirs = memory_byte_streams()
    with anyio.fail_after(5):
        async with ours, theirs, McplConnection.from_streams(theirs) as connection, anyio.create_task_group() as tasks:
            tasks.start_soon(connection.serve, bare())
            host = RawHost(Lines(ours))
            assert "revision" not in (await host.initialize())["capabilities"]["experimental"]["mcpl"]
            assert (await host.error("mcpl/manifest"))["code"] == -32601
            assert await host.grant("tools") == {"accepted": True}
            assert await host.result("tools/list") == {"tools": []}
            tasks.cancel_scope.cancel()
