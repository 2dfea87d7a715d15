"""Manifests that change while a server is connected."""

from __future__ import annotations

from typing import Any

import anyio
import pytest

from mcpl_core.host import HostPolicy, HostSession, HostSettings, ManifestReceipt
from mcpl_core.host.audit import AuditRecord
from mcpl_core.host.manifests import FetchSchedule
from mcpl_core.manifest import manifest_digest, with_revision
from mcpl_core.treatment import Immediate, TreatmentRule
from tests.host.raw_server import CHANNEL, MANIFEST, RawServer, embedded, event

POLICY = HostPolicy.allow("tools", "pushEvents", "modelInfo", "channels.*")
REVISION = "sha256:" + "A" * 43
ANNOUNCED = {"revision": REVISION, "domains": ["capabilities"]}
#: Fetches at once, tells at once.
PROMPT = HostSettings(manifest_interval=0.0, changelog_delay=0.0)


def without(*members: str, **more: Any) -> dict[str, Any]:
    return {name: value for name, value in MANIFEST.items() if name not in members} | more


def announce(raw: RawServer, times: int = 1) -> None:
    raw.send(*(raw.note("mcpl/manifestChanged", ANNOUNCED) for _ in range(times)))


async def receipt_of(session: HostSession) -> ManifestReceipt:
    got = await anext(session.events())
    assert isinstance(got, ManifestReceipt)
    return got


# -- when to fetch; no waiting

NUMBERS = HostSettings(manifest_interval=10.0, manifest_longest=40.0, manifest_burst=2)


def test_the_first_announcement_is_a_reason_to_fetch_now() -> None:
    schedule = FetchSchedule(NUMBERS, 100.0)
    assert schedule.due() is None
    assert schedule.announce()
    assert schedule.due() == 100.0


@pytest.mark.spec("17.8-3")
def test_fetches_keep_their_distance_and_announcements_between_lead_to_one() -> None:
    schedule = FetchSchedule(NUMBERS, 0.0)
    schedule.announce()
    schedule.begin(1.0)
    schedule.end(news=True)
    assert schedule.due() is None
    schedule.announce()
    schedule.announce()
    assert schedule.due() == 11.0
    schedule.begin(11.0)
    schedule.end(news=True)
    assert schedule.due() is None


@pytest.mark.spec("17.8-4")
def test_announcements_past_the_burst_are_dropped_and_counted() -> None:
    schedule = FetchSchedule(NUMBERS, 0.0)
    assert [schedule.announce() for _ in range(5)] == [True, True, False, False, False]
    assert schedule.dropped == 3
    schedule.begin(0.0)
    assert schedule.announce()


def test_a_server_that_announces_nothing_new_is_asked_less_and_less() -> None:
    schedule = FetchSchedule(NUMBERS, 0.0)
    at, waits = 0.0, []
    for _ in range(4):
        schedule.announce()
        due = schedule.due()
        assert due is not None
        waits.append(due - at)
        at = due
        schedule.begin(at)
        # It announces again as an answer to being asked.
        schedule.announce()
        schedule.end(news=False)
    assert waits == [0.0, 20.0, 40.0, 40.0]
    schedule.begin(at + 40)
    schedule.end(news=True)
    schedule.announce()
    assert schedule.due() == at + 50


def test_a_schedule_needs_no_announcement() -> None:
    schedule = FetchSchedule(HostSettings(manifest_schedule=60.0, manifest_interval=10.0), 5.0)
    assert schedule.due() == 65.0
    schedule.announce()
    assert schedule.due() == 5.0
    schedule.begin(5.0)
    schedule.end(news=True)
    assert schedule.due() == 65.0


# -- what a fetched one does


@pytest.mark.anyio
@pytest.mark.spec("17.3-3", "17.1-7")
async def test_an_announcement_alone_changes_nothing() -> None:
    async with embedded(POLICY, settings=PROMPT) as (raw, session):
        before = session.grant
        announce(raw)
        request = await raw.next("mcpl/manifest")
        assert session.grant == before
        assert session.manifest is not None and session.manifest.manifest == MANIFEST
        raw.reply(request, MANIFEST)
        await raw.settled()
        assert session.grant == before


@pytest.mark.anyio
@pytest.mark.spec("17.5-7", "17.1-8")
async def test_removals_come_first_and_are_then_told() -> None:
    async with embedded(POLICY, settings=PROMPT) as (raw, session):
        announce(raw)
        request = await raw.next("mcpl/manifest")
        push = raw.request("push/event", event())
        # What stands behind the answer stands under the grant that is left.
        raw.send(raw.result(request, without("pushEvents", "channels")), push)
        assert (await raw.answer(push))["error"]["code"] == -32002
        assert session.grant.effective_capabilities == ("modelInfo", "tools")
        policy = await raw.policy()
        assert policy["params"]["effectiveCapabilities"] == ["modelInfo", "tools"]
        receipt = await receipt_of(session)
        assert ("capability-revoked", "applied", "pushEvents") in [
            (impact.impact, impact.disposition, impact.subject) for impact in receipt.impacts
        ]
        assert receipt.domains == ("capabilities",)
        assert receipt.revision == manifest_digest(without("pushEvents", "channels"))


@pytest.mark.anyio
async def test_additions_wait_for_a_decision() -> None:
    async with embedded(POLICY, without("pushEvents"), settings=PROMPT) as (raw, session):
        announce(raw)
        raw.reply(await raw.next("mcpl/manifest"), MANIFEST)
        receipt = await receipt_of(session)
        assert ("capability-expansion-pending", "decision-needed", "pushEvents") in [
            (impact.impact, impact.disposition, impact.subject) for impact in receipt.impacts
        ]
        assert (await raw.refused("push/event", event()))["code"] == -32002
        assert await raw.waiting("featureSets/update") == []
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.renegotiate)
            request = await raw.next("featureSets/update")
            assert "pushEvents" in request["params"]["effectiveCapabilities"]
            assert (await raw.refused("push/event", event()))["code"] == -32002
            raw.reply(request, {"accepted": True})
        assert await raw.served("push/event", event()) == {"accepted": True}


@pytest.mark.anyio
async def test_a_partly_invalid_manifest_still_takes_away() -> None:
    async with embedded(POLICY, settings=PROMPT) as (raw, session):
        announce(raw)
        broken = without(
            "pushEvents", featureSets={"x": 7, "t.tools": MANIFEST["featureSets"]["t.tools"]}, channels="?"
        )
        raw.reply(await raw.next("mcpl/manifest"), broken)
        assert session.grant.effective_capabilities == ("modelInfo", "tools")
        await raw.policy()
        receipt = await receipt_of(session)
        assert {"feature_set_type", "capability_type"} <= {problem.code for problem in receipt.problems}


@pytest.mark.anyio
@pytest.mark.spec("17.5-4", "17.5-5")
async def test_an_unreadable_manifest_teaches_nothing_once_and_costs_the_privileges_in_the_end() -> None:
    audit: list[AuditRecord] = []
    settings = HostSettings(manifest_interval=0.0, changelog_delay=0.0, manifest_failures=3)
    async with embedded(POLICY, settings=settings, audit=audit) as (raw, session):
        before = session.grant
        for _ in range(2):
            announce(raw)
            raw.reply(await raw.next("mcpl/manifest"), ["no", "object"])
            await raw.settled()
            assert (session.mode, session.grant) == ("mcpl", before)
        # One that can be read starts the count anew.
        announce(raw)
        raw.reply(await raw.next("mcpl/manifest"), MANIFEST)
        for _ in range(3):
            assert session.mode == "mcpl"
            announce(raw)
            raw.reply(await raw.next("mcpl/manifest"), 7)
            await anyio.wait_all_tasks_blocked()
        assert (session.mode, session.grant.effective_capabilities) == ("mcp-only", ())
        policy = await raw.policy()
        assert policy["params"]["effectiveCapabilities"] == []
        assert (await raw.refused("push/event", event()))["code"] == -32002
        receipt = await receipt_of(session)
        assert {impact.impact for impact in receipt.impacts} == {"capability-revoked"}
    assert [record.code for record in audit if record.code == "manifest_unreadable"] == ["manifest_unreadable"] * 5
    assert "mcpl_suspended" in [record.code for record in audit]


@pytest.mark.anyio
async def test_a_server_that_does_not_hear_of_its_suspension_is_suspended_all_the_same() -> None:
    audit: list[AuditRecord] = []
    settings = HostSettings(manifest_interval=0.0, changelog_delay=0.0, manifest_failures=1)
    async with embedded(POLICY, settings=settings, audit=audit) as (raw, session):
        announce(raw)
        raw.transport.feed(f'{{"jsonrpc": "2.0", "id": {(await raw.next("mcpl/manifest"))["id"]}, "result": [1e999]}}')
        raw.refuse(await raw.next("featureSets/update"), -32603)
        await receipt_of(session)
        await anyio.wait_all_tasks_blocked()
        assert session.mode == "mcp-only"
    assert ("featureSets/update", "failure") in [(record.operation, record.outcome) for record in audit]


@pytest.mark.anyio
async def test_a_failed_fetch_is_no_unreadable_manifest() -> None:
    settings = HostSettings(manifest_interval=0.0, manifest_failures=1)
    async with embedded(POLICY, settings=settings) as (raw, session):
        announce(raw)
        raw.refuse(await raw.next("mcpl/manifest"), -32603)
        await raw.settled()
        assert session.mode == "mcpl"
        announce(raw)
        await raw.next("mcpl/manifest")


@pytest.mark.anyio
@pytest.mark.spec("17.2-19")
async def test_a_revision_that_does_not_fit_is_a_remark() -> None:
    audit: list[AuditRecord] = []
    async with embedded(POLICY, settings=PROMPT, audit=audit) as (raw, session):
        announce(raw)
        raw.reply(await raw.next("mcpl/manifest"), without("modelInfo", revision=REVISION))
        await raw.policy()
        await receipt_of(session)
        assert "modelInfo" not in session.grant.effective_capabilities
    assert "revision_mismatch" in [record.code for record in audit]


@pytest.mark.anyio
@pytest.mark.spec("17.5-11")
async def test_one_change_makes_one_receipt_and_no_change_makes_none() -> None:
    async with embedded(POLICY, settings=PROMPT) as (raw, session):
        for manifest in (MANIFEST, with_revision(MANIFEST), without("modelInfo", "pushEvents", featureSets={})):
            announce(raw)
            raw.reply(await raw.next("mcpl/manifest"), manifest)
            await anyio.wait_all_tasks_blocked()
        await raw.policy()
        await anyio.wait_all_tasks_blocked()
        assert len(session.events()) == 1


@pytest.mark.anyio
async def test_an_accepted_ontology_does_not_survive_its_change() -> None:
    ontology = {"tags": {"a:urgent": {"implies": ["chat:mention"]}}}
    declared = {"description": "Pushes", "uses": ["pushEvents"]}
    tagged = without(featureSets={"t.push": {**declared, "tagOntology": ontology}})
    policy = POLICY.treating([TreatmentRule(Immediate(), tags_any=("a:urgent",))])
    async with embedded(policy, tagged, settings=PROMPT) as (raw, session):
        found = session.ontology("t.push")
        assert found is not None
        session.accept_ontology("t.push", found[1], accepted_by="me")
        announce(raw)
        other: dict[str, Any] = {"tags": {"a:calm": {}}}
        raw.reply(await raw.next("mcpl/manifest"), without(featureSets={"t.push": {**declared, "tagOntology": other}}))
        receipt = await receipt_of(session)
        assert [(impact.impact, impact.subject) for impact in receipt.impacts] == [
            ("ontology-acceptance-invalidated", "t.push"),
            ("ontology-reference-undeclared", "a:urgent"),
        ]
        await raw.served("push/event", event(tags=["a:urgent"]))
        assert (await anext(session.events())).tags == ("a:urgent",)


# -- announcements


@pytest.mark.anyio
@pytest.mark.spec("17.8-2", "17.8-3", "17.8-4")
async def test_a_flood_of_announcements_is_one_fetch_and_one_remark() -> None:
    audit: list[AuditRecord] = []
    settings = HostSettings(manifest_interval=3600.0, changelog_delay=3600.0)
    async with embedded(POLICY, settings=settings, audit=audit) as (raw, _):
        announce(raw, 1000)
        raw.reply(await raw.next("mcpl/manifest"), MANIFEST)
        announce(raw, 1000)
        await raw.settled()
        await anyio.wait_all_tasks_blocked()
        assert await raw.waiting("mcpl/manifest") == []
    assert [record.code for record in audit if record.code == "manifest_flood"] == ["manifest_flood"] * 2


@pytest.mark.anyio
async def test_an_announcement_as_an_answer_to_being_asked_does_not_go_round() -> None:
    settings = HostSettings(manifest_interval=3600.0, changelog_delay=3600.0)
    async with embedded(POLICY, settings=settings) as (raw, _):
        announce(raw)
        request = await raw.next("mcpl/manifest")
        raw.send(raw.note("mcpl/manifestChanged", ANNOUNCED), raw.result(request, MANIFEST))
        announce(raw)
        await raw.settled()
        await anyio.wait_all_tasks_blocked()
        assert await raw.waiting("mcpl/manifest") == []


@pytest.mark.anyio
@pytest.mark.parametrize(
    "params",
    [{}, {"revision": "1.2.3", "domains": ["capabilities"]}, {**ANNOUNCED, "domains": []}, {**ANNOUNCED, "added": []}],
)
async def test_an_announcement_out_of_form_is_a_remark(params: Any) -> None:
    audit: list[AuditRecord] = []
    async with embedded(POLICY, settings=PROMPT, audit=audit) as (raw, _):
        raw.send(raw.note("mcpl/manifestChanged", params))
        await anyio.wait_all_tasks_blocked()
        assert await raw.waiting("mcpl/manifest") == []
    assert ("mcpl/manifestChanged", "invalid_params") in [(record.operation, record.code) for record in audit]


@pytest.mark.anyio
@pytest.mark.spec("17.10-2")
async def test_announcing_without_serving_is_a_remark_and_is_asked_once() -> None:
    audit: list[AuditRecord] = []
    async with embedded(POLICY, settings=PROMPT, audit=audit) as (raw, session):
        announce(raw)
        raw.refuse(await raw.next("mcpl/manifest"), -32601)
        await anyio.wait_all_tasks_blocked()
        announce(raw)
        await anyio.wait_all_tasks_blocked()
        assert await raw.waiting("mcpl/manifest") == []
        assert session.mode == "mcpl"
    assert "manifest_not_served" in [record.code for record in audit]


@pytest.mark.anyio
async def test_a_plain_server_has_no_manifest_to_fetch() -> None:
    async with embedded(POLICY, None, settings=PROMPT) as (raw, _):
        announce(raw)
        await anyio.wait_all_tasks_blocked()
        assert await raw.waiting("mcpl/manifest") == []


@pytest.mark.anyio
async def test_a_host_may_fetch_when_it_likes_and_by_a_schedule() -> None:
    settings = HostSettings(manifest_interval=0.0, manifest_schedule=0.01, changelog_delay=0.0)
    async with embedded(POLICY, settings=settings) as (raw, session):
        raw.reply(await raw.next("mcpl/manifest"), without("modelInfo"))
        await raw.policy()
        assert "modelInfo" not in session.grant.effective_capabilities
    async with embedded(POLICY) as (raw, session):
        read: list[Any] = []

        async def fetch() -> None:
            read.append(await session.fetch_manifest())

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fetch)
            raw.reply(await raw.next("mcpl/manifest"), without("modelInfo"))
            await raw.policy()
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(fetch)
            raw.reply(await raw.next("mcpl/manifest"), 7)
        assert [reading is None for reading in read] == [False, True]


# -- what is told along


@pytest.mark.anyio
@pytest.mark.spec("17.7-2")
async def test_other_changes_are_told_in_the_same_place_and_together() -> None:
    settings = HostSettings(manifest_interval=0.0, changelog_delay=0.05)
    async with embedded(POLICY, settings=settings) as (raw, session):
        raw.send(
            raw.note("notifications/tools/list_changed"),
            raw.note("notifications/resources/list_changed"),
            raw.note("notifications/prompts/list_changed"),
            raw.note("notifications/tools/list_changed"),
        )
        await raw.served("channels/register", {"channels": [CHANNEL]})
        receipt = await receipt_of(session)
        assert [(impact.impact, impact.disposition, impact.subject) for impact in receipt.impacts] == [
            ("surface-changed", "informational", name) for name in ("channels", "prompts", "resources", "tools")
        ]
        assert receipt.domains == ()


@pytest.mark.anyio
async def test_they_ride_along_with_a_manifest() -> None:
    settings = HostSettings(manifest_interval=0.0, changelog_delay=3600.0)
    async with embedded(POLICY, settings=settings) as (raw, session):
        raw.send(raw.note("notifications/tools/list_changed"))
        announce(raw)
        raw.reply(await raw.next("mcpl/manifest"), without("modelInfo"))
        await raw.policy()
        kinds = [impact.impact for impact in (await receipt_of(session)).impacts]
        assert kinds == ["capability-revoked", "surface-changed"]


@pytest.mark.anyio
@pytest.mark.spec("17.6-5")
@pytest.mark.parametrize(("tag", "wakes"), [(None, False), ("mcpl:capability-revoked", True), ("mcpl:other", False)])
async def test_whether_a_receipt_wakes_is_for_the_consumers_rules(tag: str | None, wakes: bool) -> None:
    rules = [] if tag is None else [TreatmentRule(Immediate(), tags_any=(tag,))]
    async with embedded(POLICY.treating(rules), settings=PROMPT) as (raw, session):
        announce(raw)
        raw.reply(await raw.next("mcpl/manifest"), without("modelInfo"))
        await raw.policy()
        receipt = await receipt_of(session)
        assert (receipt.tags, receipt.wake) == (("mcpl:manifest", "mcpl:capability-revoked"), wakes)


@pytest.mark.anyio
@pytest.mark.spec("17.5-7")
async def test_a_handler_that_takes_its_time_holds_up_no_removal() -> None:
    told: list[Any] = []

    async def handler(event: Any) -> None:
        told.append(event)
        if len(told) == 1:
            await first.wait()

    first = anyio.Event()
    async with embedded(POLICY, settings=PROMPT, on_event=handler) as (raw, session):
        for name in ("modelInfo", "pushEvents"):
            announce(raw)
            raw.reply(await raw.next("mcpl/manifest"), without("modelInfo", name))
            await raw.policy()
        await raw.settled()
        assert not session.grant.allows("pushEvents")
        assert len(told) == 1
        first.set()
        await anyio.wait_all_tasks_blocked()
        # One after the other, in the order of the changes.
        assert [[impact.subject for impact in event.impacts][0] for event in told] == ["modelInfo", "pushEvents"]


@pytest.mark.anyio
async def test_receipts_that_wait_for_a_handler_are_bounded() -> None:
    told: list[Any] = []
    audit: list[AuditRecord] = []

    async def handler(event: Any) -> None:
        told.append(event)
        await anyio.sleep_forever()

    settings = HostSettings(manifest_interval=0.0, changelog_delay=0.0, queue_limit=1)
    async with embedded(POLICY, settings=settings, on_event=handler, audit=audit) as (raw, _):
        for names in (("modelInfo",), ("modelInfo", "pushEvents"), ("modelInfo", "pushEvents", "channels")):
            announce(raw)
            raw.reply(await raw.next("mcpl/manifest"), without(*names))
            await raw.policy()
            await anyio.wait_all_tasks_blocked()
        assert len(told) == 1
        assert [each.code for each in audit if each.operation == "manifest" and each.outcome == "failure"] == [
            "queue_full"
        ]
