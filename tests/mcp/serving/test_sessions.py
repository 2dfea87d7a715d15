"""Sessions and tenants: who cannot be told apart is served nothing."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.errors import InvalidRequest
from mcpl_core.mcp.serving import Peer, ToolCall
from mcpl_core.mcp.serving.sessions import UNRESOLVED, Session, SessionRegistry

pytestmark = pytest.mark.anyio


def test_sessions_are_registered_found_listed_and_forgotten() -> None:
    registry = SessionRegistry()
    assert registry.list() == ()
    assert registry.register("a", "runtime a", tenant_id="acme") == Session("a", "runtime a", "acme")
    registry.register("b", "runtime b")
    registry.register("a", "runtime c")
    assert registry.get("a") == Session("a", "runtime c")
    assert [session.id for session in registry.list()] == ["b", "a"]
    assert registry.unregister("a") is True
    assert registry.unregister("a") is False
    assert registry.get("a") is None


def test_callers_are_told_apart_with_a_resolver_or_with_sessions() -> None:
    assert SessionRegistry().tells_apart is False
    registry = SessionRegistry()
    registry.register("a", 1)
    assert registry.tells_apart is True
    assert SessionRegistry(lambda peer: None).tells_apart is True


async def test_an_id_comes_before_a_tenant_and_the_last_of_a_tenant_counts() -> None:
    registry = SessionRegistry(lambda peer: peer.principal)
    registry.register("a", 1, tenant_id="acme")
    registry.register("b", 2, tenant_id="acme")
    registry.register("c", 3, tenant_id="a")
    assert (await registry.resolve(Peer("acme"), ToolCall(None).run)).runtime == 2
    assert (await registry.resolve(Peer("a"), ToolCall(None).run)).runtime == 1


async def test_a_resolver_may_take_its_time() -> None:
    async def resolver(peer: Peer) -> str:
        return str(peer.principal)

    registry = SessionRegistry(resolver)
    registry.register("a", 1)
    assert (await registry.resolve(Peer("a"), ToolCall(None).run)).runtime == 1


@pytest.mark.parametrize("resolver", [None, lambda peer: None, lambda peer: "nobody", lambda peer: 7])
@pytest.mark.spec("R-mcpserve-11")
async def test_unresolved_is_an_error(resolver: Any) -> None:
    registry = SessionRegistry(resolver)
    registry.register("a", 1)
    with pytest.raises(InvalidRequest) as refused:
        await registry.resolve(Peer(), ToolCall(None).run)
    assert refused.value.data == {"reason": UNRESOLVED}
