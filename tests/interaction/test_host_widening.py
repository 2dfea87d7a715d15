"""No sequence of messages of a server ever widens its grant."""

from __future__ import annotations

from typing import Any

import anyio
import anyio.lowlevel
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcpl_core.capabilities import CAPABILITY_PATHS
from mcpl_core.host import HostHandlers, HostPolicy, HostSettings, connect_server
from mcpl_core.protocol import METHODS, InferenceRequestResult, ModelInfo
from tests.host.raw_server import CHANNEL, LIMIT, MANIFEST, RawServer, event, incoming, message

Json = dict[str, Any]
ANNOUNCED = {"revision": "sha256:" + "A" * 43, "domains": ["capabilities"]}

SMALL = {"version": "0.5", "pushEvents": True}
MEMBERS = ("pushEvents", "modelInfo", "inferenceLifecycle", "inferenceRequest", "contextHooks", "channels")
MANIFESTS = st.one_of(
    st.sets(st.sampled_from(MEMBERS)).map(lambda names: {name: MANIFEST[name] for name in names} | {"version": "0.5"}),
    st.just(MANIFEST),
    st.just({"version": 7, "featureSets": [], "pushEvents": True}),
    st.sampled_from([None, [], "x", 7]),
)
RECEIPTS = st.one_of(
    st.just({"accepted": True}),
    st.just({"accepted": True, "effectiveCapabilities": list(CAPABILITY_PATHS), "enabled": ["*"]}),
    st.just({"accepted": True, "mode": "degraded", "unavailableFeatures": [{"featureSet": "x", "effect": "y"}]}),
    st.just({"accepted": False, "fallback": "mcp-only", "missingCapabilities": list(CAPABILITY_PATHS)}),
    st.sampled_from([{}, None, 7, {"accepted": 1}, {"accepted": False}]),
)
PARAMS = st.sampled_from(
    [
        {},
        None,
        event(),
        event("e2", "t.infer", tags=["chat:dm", "mcpl:grant"]),
        incoming(message()),
        {"channels": [CHANNEL]},
        {"added": [CHANNEL], "removed": ["x"], "updated": [CHANNEL]},
        {"featureSet": "t.infer", "messages": [], "stream": True},
        {"effectiveCapabilities": list(CAPABILITY_PATHS), "enabled": ["*"]},
        ANNOUNCED,
        {"requestId": 1},
        {"progressToken": "progress-1", "progress": 5},
    ]
)
NAMES = st.sampled_from([*METHODS, "notifications/resources/list_changed", "x/y"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("request"), NAMES, PARAMS),
        st.tuples(st.just("notify"), NAMES, PARAMS),
        st.tuples(st.just("manifest"), MANIFESTS),
        st.tuples(st.just("change"), MANIFESTS),
        st.tuples(st.just("change"), MANIFESTS),
        st.tuples(st.just("receipt"), RECEIPTS),
        st.tuples(st.just("regrow"), RECEIPTS),
        st.tuples(st.just("refuse"), st.sampled_from([-32601, -32002, 0])),
        st.tuples(st.just("stray"), st.integers(0, 9), RECEIPTS),
        st.tuples(st.just("reduce")),
    ),
    max_size=25,
)


async def quiet() -> None:
    """Gives every task its turns; faster than to wait until all are blocked."""
    for _ in range(30):
        await anyio.lowlevel.checkpoint()


def paths(session: Any) -> set[str]:
    return {path for path in CAPABILITY_PATHS if session.grant.allows(path)}


class Run:
    """One session, one server that says anything, and what may be true at most.

    Attributes:
        ceiling: the paths that the host's own decisions allow at most.
    """

    def __init__(self, allowed: set[str]) -> None:
        self.raw = RawServer()
        self.policy = HostPolicy(HostPolicy.allow(*sorted(allowed)).rules, expand_on_change=True)
        self.ceiling = allowed
        self.reduced = HostPolicy.allow(*sorted(path for path in allowed if "push" not in path))

    async def step(self, session: Any, tasks: Any, step: Any) -> None:
        kind, *arguments = step
        if kind == "regrow":
            # It shrinks, and then wants everything back.
            for part in (
                ("change", SMALL),
                ("receipt", {"accepted": True}),
                ("change", MANIFEST),
                ("receipt", *arguments),
            ):
                await self.step(session, tasks, part)
            return
        before = paths(session)
        proposed: set[str] = set()
        if kind == "request":
            self.raw.send(self.raw.request(*arguments))
        elif kind == "notify":
            self.raw.send(self.raw.note(*arguments))
        elif kind == "stray":
            self.raw.send({"id": arguments[0], "result": arguments[1]})
        elif kind == "reduce":
            self.ceiling = {path for path in self.ceiling if "push" not in path}
            tasks.start_soon(session.set_policy, self.reduced)
        else:
            if kind == "change":
                self.raw.send(self.raw.note("mcpl/manifestChanged", ANNOUNCED))
                await quiet()
                kind = "manifest"
            proposed = await self.answer(kind, arguments[0])
        after = paths(session)
        assert after <= before | proposed, step
        await quiet()
        assert paths(session) <= before | proposed, step
        assert paths(session) <= self.ceiling, step

    async def answer(self, kind: str, value: Any) -> set[str]:
        """Answers a request of the host; what the host itself proposed in it, and the server accepts."""
        name = "mcpl/manifest" if kind == "manifest" else "featureSets/update"
        waiting = await self.raw.waiting(name)
        if not waiting:
            return set()
        request = await self.raw.next(name)
        if kind == "refuse":
            self.raw.refuse(request, value)
            return set()
        self.raw.reply(request, value)
        accepted = isinstance(value, dict) and value.get("accepted") is True and kind == "receipt"
        return set(request["params"]["effectiveCapabilities"]) if accepted else set()


async def play(allowed: set[str], steps: list[Any]) -> None:
    run = Run(allowed)
    handlers = HostHandlers(
        inference=lambda call: InferenceRequestResult(content="x", model="m"), model_info=ModelInfo(id="m")
    )
    numbers = HostSettings(manifest_interval=0.0, changelog_delay=0.0, policy_timeout=60.0)
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run.raw.begin)
            connecting = connect_server(run.raw.transport, policy=run.policy, settings=numbers, handlers=handlers)
            async with connecting as session:
                await quiet()
                assert paths(session) == {path for path in allowed if session.link.authority.advertised >= {path}}
                for step in steps:
                    await run.step(session, tasks, step)
            tasks.cancel_scope.cancel()


@pytest.mark.spec("6.7-11", "5.4-12")
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sets(st.sampled_from(CAPABILITY_PATHS)), STEPS)
def test_whatever_a_server_says_its_grant_does_not_grow(allowed: set[str], steps: list[Any]) -> None:
    for backend in ("asyncio", "trio"):
        anyio.run(play, allowed, steps, backend=backend)


def test_a_policy_that_allows_everything_is_the_ceiling() -> None:
    """The same with all that a server can get, so that the property above has something to lose."""
    steps = [
        ("change", SMALL),
        ("receipt", {"accepted": True}),
        ("change", MANIFEST),
        ("receipt", {"accepted": True}),
        ("reduce",),
        ("receipt", {"accepted": True}),
    ]
    anyio.run(play, set(CAPABILITY_PATHS), steps)
