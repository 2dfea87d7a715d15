"""One call, as its tool sees it."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.errors import InvalidValueError
from mcpl_core.mcp.serving import TIME_META, McpUnsupportedError, Peer, ServedTool, ToolCall

pytestmark = pytest.mark.anyio

TOOL = ServedTool("t", lambda arguments, call: None)


def call(meta: dict[str, Any], sent: list[Any]) -> ToolCall:
    async def notify(method: str, params: dict[str, Any]) -> None:
        sent.append((method, params))

    return ToolCall(TOOL, meta=meta, _notify=notify)


def test_the_time_is_that_of_the_request_or_none() -> None:
    assert ToolCall(TOOL, meta={TIME_META: "2026-08-01T12:00:00Z"}).time == "2026-08-01T12:00:00Z"
    assert ToolCall(TOOL).time is None
    assert TIME_META == "mcpl/time"


async def test_progress_goes_to_who_asked_and_grows() -> None:
    sent: list[Any] = []
    one = call({"progressToken": 7}, sent)
    await one.report_progress(1, 4, "first")
    await one.report_progress(1)
    await one.report_progress(0.5)
    await one.report_progress(2)
    assert sent == [
        ("notifications/progress", {"progressToken": 7, "progress": 1, "total": 4, "message": "first"}),
        ("notifications/progress", {"progressToken": 7, "progress": 2}),
    ]


@pytest.mark.parametrize("token", [None, True, 1.5, {}])
async def test_nobody_who_did_not_ask_is_told_of_progress(token: Any) -> None:
    sent: list[Any] = []
    await call({"progressToken": token}, sent).report_progress(1)
    await call({}, sent).report_progress(1)
    assert sent == []


async def test_after_its_end_a_call_has_no_progress() -> None:
    sent: list[Any] = []
    one = call({"progressToken": "p"}, sent)
    one._ended = True
    await one.report_progress(1)
    assert sent == []


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ((float("nan"),), "progress"),
        ((float("inf"),), "progress"),
        (("half",), "progress"),
        ((True,), "progress"),
        ((1, float("-inf")), "total"),
        ((1, "all"), "total"),
        ((1, None, b"text"), "message"),
    ],
)
async def test_progress_that_nobody_could_read_is_refused(given: Any, code: str) -> None:
    sent: list[Any] = []
    for meta in ({"progressToken": 1}, {}):
        with pytest.raises(InvalidValueError) as refused:
            await call(meta, sent).report_progress(*given)
        assert refused.value.code == code
    assert sent == []


async def test_functions_run_also_without_a_server() -> None:
    async def double(value: int) -> int:
        return 2 * value

    one = ToolCall(TOOL)
    assert await one.run(double, 4) == 8
    assert await one.run(len, "abc") == 3
    await ToolCall(TOOL, meta={"progressToken": 1}).report_progress(1)


@pytest.mark.parametrize("scope", ["run", "session", "conversation", ""])
@pytest.mark.spec("R-mcpserve-13")
def test_a_cleanup_for_longer_than_the_call_is_refused_by_name(scope: str) -> None:
    with pytest.raises(McpUnsupportedError) as refused:
        ToolCall(TOOL).on_cleanup(lambda: None, scope=scope)
    assert refused.value.code == "cleanup-scope"
    assert repr(scope) in refused.value.detail


def test_secrets_are_in_no_repr() -> None:
    peer = Peer("ann", headers={"authorization": "Bearer CANARY"})
    assert "CANARY" not in repr(ToolCall(TOOL, peer=peer, credentials={"mail": "CANARY"}))
