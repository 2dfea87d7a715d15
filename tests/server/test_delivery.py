"""Sending what the outbox holds for one host."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import anyio
import pytest
from anyio.lowlevel import checkpoint

from mcpl_core import InternalError, LocalProtocolError, Notification, Request, RpcError, method
from mcpl_core.server import HostCalls, Outbox, OutboxStoreError, Settings
from mcpl_core.server.delivery import Delivery
from mcpl_core.server.events import event_params
from tests.server.host_calls import End, ends, quiet

pytestmark = pytest.mark.anyio

QUICK = Settings(first_retry=0.01, longest_retry=0.02, event_timeout=0.05, event_window=3, event_attempts=3)
PATIENT = Settings(event_window=3)


class Setup(NamedTuple):
    end: End
    outbox: Outbox
    delivery: Delivery

    async def put(self, *ids: str, feature_set: str = "a") -> None:
        for id in ids:
            await self.outbox.put(["p"], event_params(feature_set, id, event_id=id))

    async def next(self) -> Request:
        """The next event, past the cancellations of those that were not answered."""
        while True:
            message = await self.end.host.next_message()
            if not isinstance(message, Notification):
                assert message.method == method.PUSH_EVENT
                return message

    async def accept(self, request: Request, **more: Any) -> None:
        await self.end.host.send_response(request.id, {"accepted": True, **more})

    def policy(self, *paths: str, **more: Any) -> None:
        self.end.grant(*paths, **more)
        self.outbox.reassign("p")


@asynccontextmanager
async def delivering(settings: Settings = PATIENT, outbox: Outbox | None = None) -> AsyncIterator[Setup]:
    outbox = outbox if outbox is not None else Outbox()
    async with ends() as end:
        # The sets' uses are of no interest here.
        end.calls.policy._declared = lambda: {
            name: {"description": "x", "uses": ["pushEvents"]} for name in ("a", "b", "c")
        }
        delivery = Delivery(outbox, "p", end.calls, settings, anyio.current_time, end.tasks.start_soon)
        outbox.attach("p", delivery)
        made = Setup(end, outbox, delivery)
        made.policy("pushEvents")
        yield made


async def test_events_go_out_in_order_several_at_a_time() -> None:
    async with delivering() as made:
        await made.put("1", "2", "3", "4", "5")
        requests = [await made.next() for _ in range(3)]
        assert [request.params["eventId"] for request in requests] == ["1", "2", "3"]
        await quiet()
        assert made.end.host.stats.queued == 0
        # One that is not answered holds up no other.
        await made.accept(requests[1])
        assert (await made.next()).params["eventId"] == "4"
        assert made.outbox.waiting("p") == 4


@pytest.mark.parametrize(
    "answer",
    [
        {"accepted": True},
        {"accepted": True, "inferenceId": "i"},
        {"accepted": False, "reason": "duplicate"},
        {"accepted": False},
    ],
)
async def test_an_answer_ends_it_whatever_it_says(answer: Any) -> None:
    async with delivering() as made:
        await made.put("1")
        await made.end.host.send_response((await made.next()).id, answer)
        await quiet()
        assert made.outbox.waiting("p") == 0


@pytest.mark.parametrize(("code", "reported"), [(-32602, True), (-32601, True), (-32001, True), (1234, True)])
async def test_a_refusal_ends_it_and_is_reported(code: int, reported: bool) -> None:
    async with delivering() as made:
        await made.put("1")
        await made.end.host.send_error((await made.next()).id, code, "no")
        await quiet()
        assert made.outbox.waiting("p") == 0
        assert [type(exc) for exc in made.end.reported if isinstance(exc, RpcError) and exc.code == code] != []


async def test_a_result_that_does_not_fit_is_an_answer() -> None:
    async with delivering() as made:
        await made.put("1")
        await made.end.host.send_response((await made.next()).id, {"accepted": "maybe"})
        await quiet()
        assert (made.outbox.waiting("p"), len(made.end.reported)) == (0, 1)


@pytest.mark.spec("9.4-2")
async def test_without_an_answer_it_is_sent_again_under_the_same_id() -> None:
    async with delivering(QUICK) as made:
        await made.put("1")
        first, second, third = [await made.next() for _ in range(3)]
        assert first.params == second.params == third.params
        assert first.id != second.id
        await made.accept(third)
        await quiet()
        assert made.outbox.waiting("p") == 0


async def test_a_host_that_fails_at_it_gets_it_again_and_a_bounded_number_of_times() -> None:
    async with delivering(replace(QUICK, event_timeout=5)) as made:
        await made.put("1", "2")
        seen: list[str] = []
        for _ in range(4):
            request = await made.next()
            seen.append(request.params["eventId"])
            if request.params["eventId"] == "2":
                await made.accept(request)
            else:
                await made.end.host.send_error(request.id, -32603, "bug")
        while made.outbox.waiting("p"):
            await checkpoint()
        # The second one did not wait for the first.
        assert seen == ["1", "2", "1", "1"]
        assert [type(exc) for exc in made.end.reported] == [InternalError]


async def test_a_host_that_puts_it_off_gets_it_again_and_a_bounded_number_of_times() -> None:
    async with delivering(replace(QUICK, event_timeout=5)) as made:
        await made.put("1")
        for _ in range(3):
            request = await made.next()
            await made.end.host.send_response(request.id, {"accepted": False, "reason": "queue_full"})
        await quiet()
        assert made.outbox.waiting("p") == 0
        assert [type(exc) for exc in made.end.reported] == [LocalProtocolError]


async def test_what_the_policy_does_not_allow_waits_and_holds_up_nothing() -> None:
    async with delivering() as made:
        made.policy("pushEvents", disabled=["b"])
        await made.put("1", feature_set="b")
        await made.put("2")
        request = await made.next()
        assert request.params["eventId"] == "2"
        await made.accept(request)
        made.policy("pushEvents")
        assert (await made.next()).params["eventId"] == "1"


async def test_before_the_first_policy_nothing_is_sent() -> None:
    async with delivering() as made:
        made.end.calls.policy.update({"effectiveCapabilities": 3}, "request")
        await made.put("1")
        await quiet()
        assert made.end.host.stats.queued == 0
        made.policy("pushEvents")
        assert (await made.next()).params["eventId"] == "1"


async def test_an_event_that_a_reducing_host_refused_waits_for_another_policy() -> None:
    async with delivering() as made:
        await made.put("1")
        request = await made.next()
        made.policy()
        await made.end.host.send_error(request.id, -32002, "no", {"capability": "pushEvents"})
        await quiet()
        assert made.outbox.waiting("p") == 1
        made.policy("pushEvents")
        again = await made.next()
        assert again.params == request.params
        assert made.end.reported == []


async def test_a_closed_connection_keeps_what_it_had() -> None:
    async with delivering(QUICK) as made:
        await made.put("1")
        await made.next()
        await made.end.host.aclose()
        await quiet()
        made.outbox.detach("p", made.delivery)
        assert made.outbox.waiting("p") == 1


async def test_an_event_that_is_too_large_is_reported_and_given_up() -> None:
    async with delivering() as made:
        made.end.calls.connection._peer.max_message_bytes = 100
        await made.put("1" * 200, "2")
        await quiet()
        assert made.outbox.waiting("p") == 0
        assert len(made.end.reported) == 2


async def test_a_disk_that_fails_later_is_reported() -> None:
    class Store:
        def load(self) -> Any:
            return ()

        def apply(self, changes: Any) -> None:
            if any(change.text is None for change in changes):
                raise OutboxStoreError("full")

        def close(self) -> None:
            """Nothing to release."""

    outbox = Outbox(store=Store())
    async with delivering(outbox=outbox) as made:
        reported = anyio.Event()
        made.end.calls.connection.on_error(lambda exc: reported.set())
        await made.put("1")
        await made.accept(await made.next())
        await reported.wait()
        assert [type(exc) for exc in made.end.reported] == [OutboxStoreError]


async def test_many_events_cost_their_number_and_not_its_square(monkeypatch: pytest.MonkeyPatch) -> None:
    looked_at = 0
    real = Outbox.owed

    def counted(self: Outbox, principal: str, taker: Any) -> Any:
        nonlocal looked_at
        for each in real(self, principal, taker):
            looked_at += 1
            yield each

    monkeypatch.setattr(Outbox, "owed", counted)
    async with delivering() as made:
        await made.put(*map(str, range(200)))
        for _ in range(200):
            await made.accept(await made.next())
        await quiet()
        assert made.outbox.waiting("p") == 0
    assert looked_at < 1000


async def test_a_connection_that_closed_is_tried_no_more_and_its_events_go_to_another(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tried = 0
    real = HostCalls.send_event

    async def counted(self: HostCalls, *args: Any, **more: Any) -> Any:
        nonlocal tried
        tried += 1
        return await real(self, *args, **more)

    class Other:
        def may_take(self, event: Any) -> bool:
            return True

        def wake(self) -> None:
            """It looks by itself."""

    monkeypatch.setattr(HostCalls, "send_event", counted)
    async with delivering(QUICK) as made:
        await made.put(*map(str, range(50)))
        for _ in range(3):
            await made.next()
        await made.end.host.aclose()
        await quiet()
        other = Other()
        made.outbox.attach("p", other)
        assert tried <= 2 * QUICK.event_window
        assert len(list(made.outbox.owed("p", other))) == 50
        await made.put("late")
        await quiet()
        assert tried <= 2 * QUICK.event_window


async def test_the_pause_counts_from_the_failure() -> None:
    async with delivering(replace(QUICK, first_retry=100, longest_retry=100)) as made:
        begun = anyio.current_time()
        await made.put("1")
        await made.next()
        notice = await made.end.host.next_message()
        assert notice.method == method.CANCELLED
        await quiet()
        ((_, attempts),) = made.outbox.owed("p", made.delivery)
        assert attempts.due >= begun + 100 + QUICK.event_timeout


async def test_an_event_that_comes_while_the_last_one_is_put_away_is_sent() -> None:
    async with delivering() as made:
        for number in range(50):
            await made.put(str(number))
            await made.accept(await made.next())
            # At every moment of the end of the task that sent the one before.
            for _ in range(number % 10):
                await checkpoint()
        await quiet()
        assert made.outbox.waiting("p") == 0


async def test_no_task_is_kept_while_there_is_nothing_to_send() -> None:
    async with delivering() as made:
        started: list[Any] = []
        made.delivery._spawn = started.append
        await made.put("1")
        assert len(started) == 1
        made.end.tasks.start_soon(started[0])
        await made.accept(await made.next())
        await quiet()
        assert not made.delivery._working
        await made.put("2")
        assert len(started) == 2
