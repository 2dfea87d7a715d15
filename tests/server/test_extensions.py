"""Calls of the state and branches extensions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from mcpl_core import METHODS, CapabilityDenied, LocalProtocolError, UnknownFeatureSet, method
from mcpl_core.server import HostCalls
from mcpl_core.server.extensions import ExtensionCalls
from tests.server.host_calls import ends, quiet

pytestmark = pytest.mark.anyio
Call = Callable[[HostCalls], Awaitable[Any]]

CALLS: list[tuple[Call, str, str, Any, Any]] = [
    (
        lambda c: c.state_update("a", "c2", "c1", data=None),
        method.STATE_UPDATE,
        "stateUpdate",
        {"featureSet": "a", "checkpoint": "c2", "parent": "c1", "data": None},
        {"accepted": True},
    ),
    (
        lambda c: c.state_update("a", "c2", None, patch=[]),
        method.STATE_UPDATE,
        "stateUpdate",
        {"featureSet": "a", "checkpoint": "c2", "parent": None, "patch": []},
        {"accepted": False, "reason": "no"},
    ),
    (lambda c: c.state_get("a"), method.STATE_GET, "stateUpdate", {"featureSet": "a"}, {"checkpoint": None}),
    (
        lambda c: c.list_branches("a"),
        method.BRANCHES_LIST,
        "branches.list",
        {"featureSet": "a"},
        {"branches": []},
    ),
    (
        lambda c: c.current_branch("a"),
        method.BRANCHES_CURRENT,
        "branches.list",
        {"featureSet": "a"},
        {"name": "main", "head": 3},
    ),
    (
        lambda c: c.create_branch("a", "new", from_branch="main", at_checkpoint="c1"),
        method.BRANCHES_CREATE,
        "branches.create",
        {"featureSet": "a", "name": "new", "from": "main", "atCheckpoint": "c1"},
        {"accepted": True, "name": "new-1"},
    ),
    (
        lambda c: c.switch_branch("a", "new"),
        method.BRANCHES_SWITCH,
        "branches.switch",
        {"featureSet": "a", "name": "new"},
        {"accepted": True},
    ),
    (
        lambda c: c.delete_branch("a", "new"),
        method.BRANCHES_DELETE,
        "branches.delete",
        {"featureSet": "a", "name": "new"},
        {"accepted": False, "reason": "no"},
    ),
]
PATHS = ("stateUpdate", "branches.list", "branches.create", "branches.switch", "branches.delete")


@pytest.mark.parametrize(("call", "name", "path", "params", "result"), CALLS, ids=[call[1] for call in CALLS])
async def test_a_call_is_checked_sent_and_read(call: Call, name: str, path: str, params: Any, result: Any) -> None:
    found: list[Any] = []

    async def run() -> None:
        found.append(await call(end.calls))

    async with ends() as end:
        # The set that the call names must be on, so it must be granted all that it uses.
        end.calls.policy._declared = lambda: {"a": {"description": "x", "uses": [path]}}
        end.grant(*(other for other in PATHS if other != path))
        with pytest.raises(CapabilityDenied) as caught:
            await call(end.calls)
        assert caught.value.data["capability"] == path
        end.grant(path)
        end.tasks.start_soon(run)
        request = await end.next(name)
        assert request.params == params
        await end.host.send_response(request.id, result)
        await quiet()
        assert isinstance(found[0], METHODS[name].result)


async def test_a_set_that_is_not_declared_is_unknown() -> None:
    async with ends(*PATHS) as end:
        with pytest.raises(UnknownFeatureSet):
            await end.calls.list_branches("none")


@pytest.mark.spec("R-state-1")
async def test_a_state_carries_data_or_a_patch() -> None:
    async with ends(*PATHS) as end:
        with pytest.raises(LocalProtocolError):
            await end.calls.state_update("a", "c", None, data={}, patch=[])
        assert end.calls.connection.stats.sent == 0


async def test_somebody_must_make_the_calls() -> None:
    with pytest.raises(NotImplementedError):
        await ExtensionCalls().call("x")
