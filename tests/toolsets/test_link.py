"""One connection of a principal."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from mcpl_core import McplConnection
from mcpl_core.server import Context, HostCalls, ServerPolicy
from mcpl_core.toolsets.link import FeatureSetNames, Link
from mcpl_core.toolsets.principal import Principal

pytestmark = pytest.mark.anyio

DECLARED = {
    "s.tools": {"description": "", "uses": ["tools"]},
    "s.events": {"description": "", "uses": ["pushEvents"]},
}


def grant(policy: ServerPolicy, *paths: str, **more: Any) -> None:
    policy.update({"effectiveCapabilities": list(paths), **more}, "request")


@asynccontextmanager
async def linked(mcpl: bool = True, **advertised: Any) -> AsyncIterator[tuple[Link, ServerPolicy]]:
    connection, other = McplConnection.memory_pair()
    async with connection, other:
        policy = ServerPolicy(lambda: DECLARED)
        link = Link(Principal("p", [], 1, 256), connection, FeatureSetNames("s"))
        assert (link.mcpl, link.view, link.may_take_events(), link.may_hint()) == (False, None, False, None)
        context = Context(
            HostCalls(connection, policy),
            principal="p",
            host={},
            protocol_version="1",
            mcpl=mcpl,
            advertised=advertised,
            session_state={},
        )
        link.see(context)
        assert link.calls is context
        yield link, policy


@pytest.mark.spec("R-toolsets-2")
async def test_hints_are_for_a_host_that_understands_them_once_it_has_a_list() -> None:
    async with linked(toolsets=True) as (link, policy):
        assert link.view is not None
        grant(policy, "tools")
        assert link.may_hint() is None
        link.view.base()
        assert link.may_hint() is link.view
        grant(policy, "tools", disabled=["s.tools"])
        assert link.may_hint() is None
        grant(policy)
        assert link.may_hint() is None


async def test_events_are_for_a_host_that_grants_them() -> None:
    async with linked() as (link, policy):
        assert link.view is None
        assert not link.may_take_events()
        grant(policy, "pushEvents")
        assert link.may_take_events()
        grant(policy, "pushEvents", disabled=["s.events"])
        assert not link.may_take_events()
        grant(policy, "pushEvents")
        link.end()
        assert not link.may_take_events()


async def test_a_host_that_is_served_as_plain_is_one() -> None:
    async with linked(toolsets=True) as (link, policy):
        policy.refused = True
        assert (link.mcpl, link.view) == (False, None)
    async with linked(mcpl=False, toolsets=True) as (link, policy):
        assert (link.mcpl, link.view) == (False, None)


async def test_the_end_leaves_nothing_behind() -> None:
    async with linked(toolsets=True) as (link, _):
        assert link.view is not None
        link.view.base()
        link.end()
        link.principal.presence.set(("lamp", None), ["on"])
        assert not link.news.is_set()
        assert link.gone


async def test_what_is_being_opened() -> None:
    async with linked() as (link, _):
        link.opening = [("game", "own"), ("lamp", None)]
        asked = [("game", None), ("game", "own"), ("game", "other"), ("lamp", None), ("none", None)]
        assert [link.is_opening(*each) for each in asked] == [True, True, False, True, False]
