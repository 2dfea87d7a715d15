"""Authority is asked on arrival."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core import METHODS, CapabilityDenied, InvalidRequest, Notification, Request, RpcError
from mcpl_core.server.routing import GatedRouter


def test_a_message_that_may_not_come_now_is_refused_in_place_of_its_handler() -> None:
    denied: dict[str, RpcError] = {}
    router = GatedRouter(METHODS, denied.get)
    waiting, inline = (lambda message: "waiting"), (lambda message: "inline")
    call, ping = Request(1, "tools/call"), Request(1, "ping")
    router.add_gated("tools/call", waiting)
    router.add("ping", inline, inline=True)
    assert router.inline.get("tools/call") is None
    denied["tools/call"] = denied["ping"] = CapabilityDenied()
    refusal = router.inline.get("tools/call")
    assert refusal is not None
    with pytest.raises(CapabilityDenied):
        refusal(None)
    # A handler that is called on arrival asks by itself.
    handler = router.inline.get("ping")
    assert handler is not None
    assert handler(ping) == "inline"
    denied.clear()
    assert router.inline.get("tools/call") is None
    route = router.find("tools/call")
    assert route is not None
    assert (route.handler(call), route.ordered) == ("waiting", False)


@pytest.mark.parametrize(
    ("name", "request_is_fine", "notification_is_fine"),
    [
        ("tools/call", True, False),
        ("initialize", True, False),
        ("inference/lifecycle", False, True),
        ("channels/publish", True, True),
        ("x/own", True, True),
    ],
)
def test_a_message_has_the_form_of_its_method(name: str, request_is_fine: bool, notification_is_fine: bool) -> None:
    router = GatedRouter(METHODS, lambda name: None)
    router.add(name, lambda message: "handled")
    route = router.find(name)
    assert route is not None
    for message, fine in ((Request(1, name), request_is_fine), (Notification(name), notification_is_fine)):
        if fine:
            assert route.handler(message) == "handled"
        else:
            with pytest.raises(InvalidRequest):
                route.handler(message)


def test_a_method_without_a_handler_is_not_asked_about() -> None:
    def asked(name: str) -> RpcError | None:
        raise AssertionError(name)

    router = GatedRouter(METHODS, asked)
    assert router.inline.get("tools/call") is None
    assert router.find("tools/call") is None


@pytest.mark.parametrize(("given", "ordered"), [(None, True), (False, False), (True, True)])
def test_the_order_is_that_of_the_table_unless_given(given: Any, ordered: bool) -> None:
    router = GatedRouter(METHODS, lambda name: None)
    router.add_gated("channels/open", lambda message: None, ordered=given)
    route = router.find("channels/open")
    assert route is not None
    assert route.ordered is ordered
