"""What a scope check is given, and how its verdict is read."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from mcpl_core.catalog.permits import dispatch_write, mint_permit
from mcpl_core.catalog.scopes import CallContext, scope_allows
from mcpl_core.errors import InvalidValueError
from tests.catalog.kit import CALLER, CANARY, ScriptedPeer, read, write

pytestmark = pytest.mark.anyio


@pytest.mark.spec("R-catalog-3")
@pytest.mark.parametrize(
    ("verdict", "allowed"),
    [
        (None, True),
        (True, True),
        (False, False),
        ("", False),
        ("  ", False),
        ("no", False),
        (0, False),
        (1, False),
        (1.0, False),
        ([], False),
        (object(), False),
    ],
)
async def test_two_verdicts_allow(verdict: Any, allowed: bool) -> None:
    async def later(context: CallContext, arguments: dict[str, Any]) -> Any:
        return verdict

    assert await scope_allows(lambda context, arguments: verdict, CALLER, {}) is allowed
    assert await scope_allows(later, CALLER, {}) is allowed


async def test_a_check_that_raises_denies_and_its_text_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    def broken(context: CallContext, arguments: dict[str, Any]) -> None:
        raise RuntimeError(CANARY)

    with caplog.at_level(logging.DEBUG):
        assert not await scope_allows(broken, CALLER, {})
    assert "RuntimeError" in caplog.text
    assert CANARY not in caplog.text


async def test_the_check_sees_who_calls_and_what() -> None:
    seen: list[Any] = []
    context = CallContext(principal="alice", run_id="r", agent_id="a", lease_owner="w", lease_epoch=2)
    await scope_allows(lambda *given: seen.append(given), context, {"q": 1})
    assert seen == [(context, {"q": 1})]
    assert (context.root_run_id, context.lease_epoch) == ("r", 2)
    assert CallContext(principal="a", run_id="r", root_run_id="top").root_run_id == "top"


@pytest.mark.parametrize("principal", ["", "  ", None, 7])
async def test_there_is_no_caller_without_a_name(principal: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        CallContext(principal=principal)
    assert caught.value.code == "principal"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("run_id", 7),
        ("run_id", None),
        ("root_run_id", 7),
        ("agent_id", 7),
        ("lease_owner", b"w"),
        ("lease_epoch", "3"),
        ("lease_epoch", True),
        ("lease_epoch", 3.0),
    ],
)
async def test_the_other_members_are_what_they_must_be(name: str, value: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        CallContext(**{"principal": "a", name: value})
    assert caught.value.code == name


async def test_a_call_without_a_caller_is_none() -> None:
    """Also where no scope check would ask."""
    anybody: Any = None
    peer = ScriptedPeer()
    _, registration = await read(peer)
    _, written = await write(peer)
    permit = mint_permit(written, {"q": "x"}, "claim")
    for call in (registration.call({"q": "x"}, anybody), dispatch_write(permit, written, {"q": "x"}, anybody)):
        with pytest.raises(InvalidValueError) as caught:
            await call
        assert caught.value.code == "context"
    assert peer.calls == []
    assert (await dispatch_write(permit, written, {"q": "x"}, CALLER)).effect == "committed"
