"""Trace context in ``_meta``."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.mcp.tracing import TRACE_MEMBERS, trace_members

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
WHOLE = {"traceparent": PARENT, "tracestate": "a=1", "baggage": "user=1"}


def test_the_names_are_those_that_mcp_reserves() -> None:
    assert TRACE_MEMBERS == ("traceparent", "tracestate", "baggage")
    assert trace_members({**WHOLE, "x": "y"}) == WHOLE


@pytest.mark.parametrize("context", [None, {}, [], "00-x", 7])
def test_without_a_context_there_is_nothing(context: Any) -> None:
    assert trace_members(context) == {}


@pytest.mark.parametrize(
    "parent",
    [
        None, 7, "", "00-x", PARENT.upper(), "ff" + PARENT[2:], PARENT[:-1],
        f"00-{'0' * 32}-b7ad6b7169203331-01", f"00-0af7651916cd43dd8448eb211c80319c-{'0' * 16}-01", PARENT + "\n",
    ],
)  # fmt: skip
def test_a_state_needs_its_parent_and_baggage_does_not(parent: Any) -> None:
    assert trace_members({**WHOLE, "traceparent": parent}) == {"baggage": "user=1"}


@pytest.mark.parametrize("bad", ["x\r\ny", "\u00e9", "", "a" * 9000, 7])
def test_what_is_no_header_value_is_left_out(bad: Any) -> None:
    assert trace_members({**WHOLE, "tracestate": bad, "baggage": bad}) == {"traceparent": PARENT}


def test_later_versions_of_the_parent_may_be_longer() -> None:
    later = f"01{PARENT[2:]}-more"
    assert trace_members({"traceparent": later}) == {"traceparent": later}
