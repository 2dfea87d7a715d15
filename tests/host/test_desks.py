"""Channels and state that a server tells of."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.capabilities import EXTENSION_CAPABILITIES, VOCABULARY
from mcpl_core.host import DENY_ALL, HostPolicy
from mcpl_core.host.audit import AuditRecord
from tests.host.raw_server import CHANNEL, MANIFEST, embedded

pytestmark = pytest.mark.anyio

POLICY = HostPolicy.allow("tools", "channels.*", channels=["chat:#general", "chat:#random"])
DESCRIPTORS = [{**CHANNEL, "id": f"chat:#{name}"} for name in ("admin", "general", "secret", "random")]


# -- channels


@pytest.mark.spec("14.5-1", "14.5-2", "14.5-5")
@pytest.mark.parametrize(
    ("name", "params"),
    [("channels/register", {"channels": DESCRIPTORS}), ("channels/changed", {"added": DESCRIPTORS})],
)
async def test_descriptors_are_answered_one_by_one(name: str, params: Any) -> None:
    async with embedded(POLICY) as (raw, session):
        answer = await raw.served(name, params)
        assert answer == {
            "results": [
                {"id": "chat:#admin", "accepted": False, "reason": "capability_denied"},
                {"id": "chat:#general", "accepted": True},
                {"id": "chat:#secret", "accepted": False, "reason": "capability_denied"},
                {"id": "chat:#random", "accepted": True},
            ]
        }
        assert [channel.id for channel in session.channels] == ["chat:#general", "chat:#random"]
        listed = await raw.served("channels/list")
        assert [channel["id"] for channel in listed["channels"]] == ["chat:#general", "chat:#random"]


@pytest.mark.spec("14.5-3", "14.5-6")
async def test_a_notification_is_filtered_item_by_item_and_that_is_said() -> None:
    audit: list[AuditRecord] = []
    async with embedded(POLICY, audit=audit) as (raw, session):
        raw.send(raw.note("channels/changed", {"added": DESCRIPTORS}))
        assert [channel.id for channel in session.channels] == ["chat:#general", "chat:#random"]
        raw.send(raw.note("channels/changed", {"removed": ["chat:#random"]}))
        assert [channel.id for channel in session.channels] == ["chat:#general"]
        await raw.settled()
    notes = [record for record in audit if record.operation == "channels/changed" and record.outcome == "diagnostic"]
    assert [note.code for note in notes] == ["channels_filtered"]


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("channels/register", {}),
        ("channels/register", {"channels": 7}),
        ("channels/register", []),
        ("channels/changed", {"added": 7}),
        ("channels/changed", {"removed": "x"}),
        ("channels/changed", {"updated": None}),
    ],
)
async def test_what_is_no_list_of_channels_is_refused(name: str, params: Any) -> None:
    async with embedded(POLICY) as (raw, _):
        assert (await raw.refused(name, params))["code"] == -32602


async def test_a_change_may_be_empty() -> None:
    async with embedded(POLICY) as (raw, _):
        assert await raw.served("channels/changed", {}) == {"results": []}


# -- state

EXTENDED = VOCABULARY.extend(*EXTENSION_CAPABILITIES)
STATEFUL = HostPolicy.allow("tools", "stateUpdate", vocabulary=EXTENDED)
STATE_MANIFEST = {
    **MANIFEST,
    "stateUpdate": True,
    "featureSets": {
        "notes": {"description": "Notes", "uses": ["tools", "stateUpdate"], "rollback": True},
        "plain": {"description": "No state", "uses": ["tools"]},
    },
}
ADD = [{"op": "add", "path": "/notes/-", "value": 1}]


def update(checkpoint: str, parent: Any = None, feature_set: str = "notes", **more: Any) -> dict[str, Any]:
    return {"featureSet": feature_set, "checkpoint": checkpoint, "parent": parent, **more}


async def test_state_is_recorded_and_read_back() -> None:
    async with embedded(STATEFUL, STATE_MANIFEST) as (raw, session):
        initialize = raw.heard[0]["params"]["capabilities"]["experimental"]["mcpl"]
        assert initialize["stateUpdate"] is True
        get = {"featureSet": "notes"}
        assert await raw.served("state/get", get) == {"checkpoint": None, "data": None}
        assert await raw.served("state/update", update("c1", data={"notes": []})) == {"accepted": True}
        assert await raw.served("state/update", update("c2", "c1", patch=ADD)) == {"accepted": True}
        assert await raw.served("state/get", get) == {"checkpoint": "c2", "data": {"notes": [1]}}
        # In their order, also when they come together.
        requests = [raw.request("state/update", update("c3", "c2", patch=ADD)), raw.request("state/get", get)]
        raw.send(*requests)
        assert (await raw.answer(requests[1]))["result"] == {"checkpoint": "c3", "data": {"notes": [1, 1]}}
        assert len(session.events()) == 0


async def test_a_state_of_null_is_one() -> None:
    async with embedded(STATEFUL, STATE_MANIFEST) as (raw, _):
        await raw.served("state/update", update("c1", data=None))
        assert await raw.served("state/get", {"featureSet": "notes"}) == {"checkpoint": "c1", "data": None}


@pytest.mark.parametrize(
    ("params", "reason"),
    [
        (update("c2", "c1", data=1, patch=ADD), "both_forms"),
        (update("c2", "never", data=1), "parent_mismatch"),
        (update("c2", None, data=1), "parent_mismatch"),
        (update("c2", "c1", patch=[{"op": "test", "path": "", "value": 0}]), "patch_failed"),
    ],
)
async def test_a_refused_update_is_a_result_and_changes_nothing(params: Any, reason: str) -> None:
    audit: list[AuditRecord] = []
    async with embedded(STATEFUL, STATE_MANIFEST, audit=audit) as (raw, _):
        await raw.served("state/update", update("c1", data={"n": 1}))
        assert await raw.served("state/update", params) == {"accepted": False, "reason": reason}
        assert await raw.served("state/get", {"featureSet": "notes"}) == {"checkpoint": "c1", "data": {"n": 1}}
    assert ("state/update", reason) in [(record.operation, record.code) for record in audit]


async def test_what_the_server_keeps_is_not_the_hosts_to_tell() -> None:
    async with embedded(STATEFUL, STATE_MANIFEST) as (raw, _):
        await raw.served("state/update", update("opaque"))
        error = await raw.refused("state/get", {"featureSet": "notes"})
        assert (error["code"], error["data"]) == (-32006, {"featureSet": "notes"})


@pytest.mark.parametrize("name", ["state/update", "state/get"])
async def test_the_set_must_be_known_and_use_state(name: str) -> None:
    async with embedded(STATEFUL, STATE_MANIFEST) as (raw, _):
        for feature_set, code in (("never", -32003), ("plain", -32002)):
            params = update("c", feature_set=feature_set)
            assert (await raw.refused(name, params))["code"] == code
        assert (await raw.refused(name, {"checkpoint": "c"}))["code"] == -32602
    without_parent = {"featureSet": "notes", "checkpoint": "c"}
    async with embedded(STATEFUL, STATE_MANIFEST) as (raw, _):
        if name == "state/update":
            assert (await raw.refused(name, without_parent))["code"] == -32602


async def test_the_extension_is_off_unless_it_is_granted() -> None:
    for policy in (DENY_ALL, HostPolicy.allow("tools")):
        async with embedded(policy, STATE_MANIFEST) as (raw, _):
            assert (await raw.refused("state/update", update("c")))["code"] == -32002
