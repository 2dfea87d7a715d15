"""Telling one host what changed."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import pytest

from mcpl_core import McplConnection, Notification, method
from mcpl_core.manifest import Announcement
from mcpl_core.protocol import ChangeDomain, ManifestChangedParams
from mcpl_core.server.announcing import Announcer
from mcpl_core.wire.values import decode_value
from tests.server.host_calls import ends, quiet

pytestmark = pytest.mark.anyio


@asynccontextmanager
async def announcing() -> AsyncIterator[tuple[Announcer, McplConnection, list[Any]]]:
    async with ends() as end:
        spawned: list[Any] = []

        def spawn(function: Any) -> None:
            spawned.append(function)
            end.tasks.start_soon(function)

        yield Announcer(end.calls.connection, spawn), end.host, spawned


def changed(revision: str, *domains: ChangeDomain) -> Announcement[Any]:
    return Announcement(None, revision, domains)


async def heard(host: McplConnection) -> list[tuple[str, Any]]:
    await quiet()
    found = []
    while host.stats.queued:
        message = await host.next_message()
        assert isinstance(message, Notification)
        found.append((message.method, message.params))
    return found


@pytest.mark.spec("17.3-5", "17.7-1")
async def test_a_change_is_told_as_it_is() -> None:
    async with announcing() as (announcer, host, _):
        announcer.open()
        announcer.manifest_changed(changed("r1", "featureSets"))
        announcer.tools_changed()
        assert await heard(host) == [
            (method.MCPL_MANIFEST_CHANGED, {"revision": "r1", "domains": ["featureSets"]}),
            (method.TOOLS_LIST_CHANGED, None),
        ]


async def test_nothing_is_told_before_the_handshake_is_complete() -> None:
    async with announcing() as (announcer, host, spawned):
        announcer.manifest_changed(changed("r1", "featureSets"))
        announcer.tools_changed()
        assert await heard(host) == []
        assert spawned == []
        announcer.open()
        assert len(await heard(host)) == 2
        announcer.open()
        assert await heard(host) == []


async def test_rapid_changes_become_one() -> None:
    async with announcing() as (announcer, host, spawned):
        announcer.open()
        announcer.manifest_changed(changed("r1", "tagOntology"))
        announcer.manifest_changed(changed("r2", "capabilities"))
        announcer.manifest_changed(changed("r3", "tagOntology"))
        announcer.tools_changed()
        announcer.tools_changed()
        assert await heard(host) == [
            (method.MCPL_MANIFEST_CHANGED, {"revision": "r3", "domains": ["capabilities", "tagOntology"]}),
            (method.TOOLS_LIST_CHANGED, None),
        ]
        assert len(spawned) == 1


async def test_a_later_change_is_told_again() -> None:
    async with announcing() as (announcer, host, _):
        announcer.open()
        for revision in ("r1", "r2"):
            announcer.manifest_changed(changed(revision, "featureSets"))
            ((_, params),) = await heard(host)
            assert params["revision"] == revision


async def test_an_announcement_is_what_the_schema_says() -> None:
    async with announcing() as (announcer, host, _):
        announcer.open()
        announcer.manifest_changed(changed("sha256:" + "A" * 43, "featureSets"))
        await quiet()
        message = await host.next_message()
        decode_value(message.raw_params, ManifestChangedParams)


async def test_a_host_that_cannot_be_told_is_reported() -> None:
    async with ends() as end:
        end.calls.connection._peer.max_message_bytes = 10
        announcer = Announcer(end.calls.connection, end.tasks.start_soon)
        announcer.open()
        announcer.tools_changed()
        await quiet()
        assert len(end.reported) == 1


async def test_a_host_that_does_not_read_costs_one_task() -> None:
    async with announcing() as (announcer, host, spawned):
        announcer.open()
        stuck = anyio.Event()

        async def send(*args: Any) -> None:
            await stuck.wait()

        announcer._connection.send_notification = send  # type: ignore[method-assign, assignment]
        for number in range(100):
            announcer.manifest_changed(changed(str(number), "featureSets"))
            await quiet()
        assert len(spawned) == 1
