"""Effects that happen once for each key."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpl_core.approvals import ApprovalError, ApprovalStorageError, ClaimKey, Idempotency, Outcome
from mcpl_core.errors import InvalidValueError
from tests.approvals.databases import sqlite_database
from tests.approvals.world import APPROVAL_ID, START, Host, host_at, refused, tool_call

KEY = ClaimKey("alice", "store_value", "key")
DONE = Outcome("committed", {"text": ["stored"]})


class Operation:
    """A call that counts itself."""

    def __init__(self, outcome: Outcome | BaseException = DONE) -> None:
        self.outcome = outcome
        self.count = 0

    async def __call__(self) -> Outcome:
        self.count += 1
        if isinstance(self.outcome, BaseException):
            raise self.outcome
        return self.outcome


async def _once(host: Host, operation: Any, key: ClaimKey = KEY, arguments: dict[str, Any] | None = None) -> Outcome:
    return await host.idempotency.execute_once(key, {"n": 1} if arguments is None else arguments, operation)


@pytest.mark.anyio
async def test_the_second_call_gets_the_first_result(tmp_path: Path) -> None:
    operation = Operation()
    async with host_at(tmp_path) as host:
        assert await _once(host, operation) == DONE
    async with host_at(tmp_path) as host:
        assert await _once(host, operation, arguments={"n": 1.0}) == DONE
        assert operation.count == 1


@pytest.mark.anyio
async def test_other_arguments_are_refused(tmp_path: Path) -> None:
    operation = Operation()
    async with host_at(tmp_path) as host:
        await _once(host, operation)
        with refused("idempotency_key_conflict"):
            await _once(host, operation, arguments={"n": 2})
        assert operation.count == 1


@pytest.mark.anyio
@pytest.mark.parametrize(
    "other",
    [ClaimKey("bob", "store_value", "key"), ClaimKey("alice", "erase", "key"), ClaimKey("alice", "store_value", "k2")],
)
async def test_principals_tools_and_keys_are_apart(tmp_path: Path, other: ClaimKey) -> None:
    operation = Operation()
    async with host_at(tmp_path) as host:
        await _once(host, operation)
        assert await _once(host, operation, other, {"n": 2}) == DONE
        assert operation.count == 2


_CALLS = st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("kl"), st.integers(1, 2)), max_size=12)


@settings(max_examples=20, deadline=None)
@given(_CALLS)
def test_no_principal_sees_what_another_did(calls: list[tuple[str, str, int]]) -> None:
    """Two principals, interleaved, with the same keys: each gets its own results, as if it were alone."""

    async def run(folder: Path) -> None:
        first: dict[tuple[str, str], int] = {}
        async with host_at(folder) as host:
            for principal, key, argument in calls:
                owned = Outcome("committed", f"{principal}'s {argument}")
                try:
                    found = await _once(host, Operation(owned), ClaimKey(principal, "t", key), {"n": argument})
                    assert found.result == f"{principal}'s {argument}"
                    assert first.setdefault((principal, key), argument) == argument
                except ApprovalError as exc:
                    assert exc.code == "idempotency_key_conflict"
                    assert first[principal, key] != argument

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(run, Path(folder))


@pytest.mark.anyio
async def test_two_at_once(tmp_path: Path) -> None:
    inside, go_on = anyio.Event(), anyio.Event()
    results: list[Outcome] = []

    async def slow() -> Outcome:
        inside.set()
        await go_on.wait()
        return DONE

    async with host_at(tmp_path) as host, anyio.create_task_group() as tasks:

        async def first() -> None:
            results.append(await _once(host, slow))

        tasks.start_soon(first)
        await inside.wait()
        with refused("idempotency_in_flight"):
            await _once(host, Operation())
        with refused("idempotency_key_conflict"):
            await _once(host, Operation(), arguments={"n": 2})
        go_on.set()
    assert results == [DONE]


@pytest.mark.anyio
@pytest.mark.parametrize("end", [Outcome("unknown", None, "mcp_timeout"), RuntimeError("broken")])
@pytest.mark.spec("R-approvals-8")
async def test_what_is_not_known_is_not_tried_again(tmp_path: Path, end: Any) -> None:
    async with host_at(tmp_path) as host:
        if isinstance(end, Outcome):
            assert await _once(host, Operation(end)) == end
        else:
            with pytest.raises(RuntimeError):
                await _once(host, Operation(end))
    async with host_at(tmp_path) as host:
        host.clock.now = START * 2
        with refused("idempotency_in_flight"):
            await _once(host, Operation())


@pytest.mark.anyio
async def test_a_caller_that_is_cancelled_leaves_the_claim(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        with anyio.CancelScope() as scope:

            async def hanging() -> Outcome:
                scope.cancel()
                await anyio.sleep_forever()
                raise AssertionError

            await _once(host, hanging)
        with refused("idempotency_in_flight"):
            await _once(host, Operation())


@pytest.mark.anyio
async def test_a_caller_that_is_cancelled_when_the_result_is_there_keeps_it(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        with anyio.CancelScope() as scope:

            async def finishing() -> Outcome:
                scope.cancel()
                return DONE

            await _once(host, finishing)
        later = Operation()
        assert await _once(host, later) == DONE
        assert later.count == 0


class Losing:
    """A store whose connection is lost at some of its transactions, before or after they were committed."""

    def __init__(self, store: Any, lost: dict[int, str]) -> None:
        self._store = store
        self._lost = lost
        self.count = 0

    async def write(self, work: Any) -> Any:
        self.count += 1
        when = self._lost.get(self.count)
        if when == "before":
            raise ApprovalStorageError("on purpose")
        found = await self._store.write(work)
        if when == "after":
            raise ApprovalStorageError("on purpose")
        return found


def _losing(host: Host, lost: dict[int, str]) -> Idempotency:
    return Idempotency(Losing(host.store, lost), host.clock)  # type: ignore[arg-type]


@pytest.mark.anyio
async def test_a_store_that_fails_after_the_key_was_claimed(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        operation = Operation()
        with pytest.raises(ApprovalStorageError):
            await _losing(host, {1: "after"}).execute_once(KEY, {"n": 1}, operation)
        assert operation.count == 0
        assert await _once(host, operation) == DONE


@pytest.mark.anyio
async def test_a_store_that_fails_leaves_the_claim_of_another(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        await _once(host, Operation(Outcome("unknown", None, "mcp_timeout")))
        with pytest.raises(ApprovalStorageError):
            await _losing(host, {1: "before"}).execute_once(KEY, {"n": 1}, Operation())
        with refused("idempotency_in_flight"):
            await _once(host, Operation())


@pytest.mark.anyio
@pytest.mark.parametrize("when", ["before", "after"])
async def test_a_connection_that_was_lost_meanwhile(tmp_path: Path, when: str) -> None:
    async with host_at(tmp_path) as host:
        operation = Operation()
        assert await _losing(host, {2: when}).execute_once(KEY, {"n": 1}, operation) == DONE
        assert await _once(host, operation) == DONE
        assert operation.count == 1


@pytest.mark.anyio
async def test_what_was_never_begun_frees_its_key(tmp_path: Path) -> None:
    refusal = Outcome("not_started", None, "mcp_scope_denied")
    async with host_at(tmp_path) as host:
        assert await _once(host, Operation(refusal)) == refusal
        assert await _once(host, Operation()) == DONE


@pytest.mark.anyio
@pytest.mark.spec("R-approvals-8")
async def test_a_receipt_answers_until_it_expires(tmp_path: Path) -> None:
    operation = Operation()
    async with host_at(tmp_path) as host:
        await _once(host, operation)
        host.clock.now = START + 999
        await _once(host, operation)
        assert operation.count == 1
        assert await host.idempotency.forget_expired() == 0
        host.clock.now = START + 1_000
        assert await _once(host, operation, arguments={"n": 2}) == DONE
        assert operation.count == 2
        host.clock.now = START + 2_000
        assert await host.idempotency.forget_expired() == 1
        assert await host.idempotency.forget_expired() == 0


@pytest.mark.anyio
async def test_reconciling(tmp_path: Path) -> None:
    unknown = Outcome("unknown", None, "mcp_timeout")
    async with host_at(tmp_path) as host:
        with refused("approval_claim_conflict"):
            await host.idempotency.reconcile(KEY, principal_id="bob", result=None)
        await _once(host, Operation(unknown))
        with refused("approval_reconciliation_requires_known_effect"):
            await host.idempotency.reconcile(KEY, principal_id="bob", result=unknown)
        await host.idempotency.reconcile(KEY, principal_id="bob", result=DONE)
        operation = Operation()
        assert await _once(host, operation) == DONE
        assert operation.count == 0
        other = ClaimKey("alice", "store_value", "other")
        await _once(host, Operation(unknown), other)
        await host.idempotency.reconcile(other, principal_id="bob", result=None)
        assert await _once(host, operation, other) == DONE
        assert operation.count == 1


@pytest.mark.anyio
@pytest.mark.parametrize("settled", ["free", "done", "claimed again"])
@pytest.mark.parametrize("late", ["committed", "not_started", "unknown"])
@pytest.mark.spec("R-approvals-7")
async def test_an_outcome_that_comes_when_somebody_has_settled_it(tmp_path: Path, settled: str, late: Any) -> None:
    entered, go_on, done = anyio.Event(), anyio.Event(), anyio.Event()

    async def slow() -> Outcome:
        entered.set()
        await go_on.wait()
        return Outcome(late, "late")

    async with host_at(tmp_path) as host, anyio.create_task_group() as tasks:

        async def first() -> None:
            await _once(host, slow)
            done.set()

        tasks.start_soon(first)
        await entered.wait()
        found = Outcome("committed", "found") if settled == "done" else None
        await host.idempotency.reconcile(KEY, principal_id="bob", result=found)
        if settled == "claimed again":
            await _once(host, Operation(Outcome("unknown", None, "mcp_timeout")))
        go_on.set()
        await done.wait()
        operation = Operation()
        if settled == "claimed again":
            # The later claim is another's, and stays what it is.
            with refused("idempotency_in_flight"):
                await _once(host, operation)
            return
        known = "found" if settled == "done" else "late" if late == "committed" else DONE.result
        assert (await _once(host, operation)).result == known
        assert operation.count == (settled == "free" and late != "committed")


@pytest.mark.anyio
async def test_the_claim_of_an_approval_is_not_its_business(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        lease, record = await host.approved()
        host.server.hangs = True
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(host.dispatch, lease, tool_call())
            await host.server.entered.wait()
            with refused("approval_claim_conflict"):
                await host.idempotency.reconcile(
                    ClaimKey("alice", "store_value", APPROVAL_ID), principal_id="bob", result=None
                )
            tasks.cancel_scope.cancel()


@pytest.mark.anyio
@pytest.mark.parametrize("ttl", [0, -5, True, "1"])
async def test_a_receipt_lasts_some_whole_time(tmp_path: Path, ttl: Any) -> None:
    async with host_at(tmp_path) as host:
        with pytest.raises(InvalidValueError):
            type(host.idempotency)(host.store, host.gateway.clock, ttl_ms=ttl)


@pytest.mark.anyio
@pytest.mark.parametrize("damage", ["UPDATE mcpl_claims SET body = '{'", "PRAGMA user_version = 99"])
async def test_what_cannot_be_recorded_is_no_refusal(tmp_path: Path, damage: str) -> None:
    """A refusal would say that nothing was sent."""
    database = sqlite_database(tmp_path)

    async def damaging() -> Outcome:
        database.execute(damage)
        return DONE

    async with host_at(tmp_path) as host:
        with pytest.raises(ApprovalStorageError) as caught:
            await _once(host, damaging)
        assert isinstance(caught.value.__cause__, ApprovalError)
        with pytest.raises(ApprovalError):
            await _once(host, Operation(AssertionError("it was sent again")))


@pytest.mark.anyio
async def test_what_cannot_be_taken_back_hides_no_failure(tmp_path: Path) -> None:
    async with host_at(tmp_path) as host:
        write, failures = host.store.write, [ApprovalStorageError("lost"), ApprovalError("approval_storage_version")]

        async def failing(work: Any) -> Any:
            raise failures.pop(0)

        host.store.write = failing  # type: ignore[method-assign]
        with pytest.raises(ApprovalStorageError) as caught:
            await _once(host, Operation())
        assert (caught.value.detail, failures) == ("lost", [])
        host.store.write = write  # type: ignore[method-assign]
        assert await _once(host, Operation()) == DONE
