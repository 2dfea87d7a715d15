"""The chain: in order before, in reverse after, and anything but a clear yes is a no."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.errors import LocalProtocolError
from mcpl_core.mcp.serving import Ask, Deny, Failed, ServedTool, ToolCall
from mcpl_core.mcp.serving.middleware import MiddlewareChain

pytestmark = pytest.mark.anyio

TOOL = ServedTool("t", lambda arguments, call: None)


class Link:
    def __init__(self, name: str, log: list[str], before: Any = None, after: Any = None) -> None:
        self.name = name
        self.log = log
        self.answers = before, after

    def before(self, call: ToolCall) -> Any:
        self.log.append(f"before {self.name}")
        return _given(self.answers[0])

    async def after(self, call: ToolCall, outcome: Any) -> Any:
        self.log.append(f"after {self.name} {outcome}")
        return _given(self.answers[1])


def _given(answer: Any) -> Any:
    if isinstance(answer, Exception):
        raise answer
    return answer


async def before(*links: Any) -> str | None:
    return await MiddlewareChain(links).before(ToolCall(TOOL), ToolCall(TOOL).run, lambda error: None)


async def after(outcome: Any, *links: Any) -> Any:
    return await MiddlewareChain(links).after(ToolCall(TOOL), outcome, ToolCall(TOOL).run, lambda error: None)


async def test_each_link_is_asked_in_order_and_told_in_reverse() -> None:
    log: list[str] = []
    links = [Link(name, log) for name in "abc"]
    assert await before(*links) is None
    assert await after("done", *links) == "done"
    assert log == ["before a", "before b", "before c", "after c done", "after b done", "after a done"]


async def test_a_denial_ends_the_chain_and_says_who_and_why() -> None:
    log: list[str] = []
    refusal = await before(Link("a", log), Link("b", log, Deny("too late")), Link("c", log))
    assert log == ["before a", "before b"]
    assert refusal == "t was denied by b: too late"
    assert await before(Link("b", log, Deny())) == "t was denied by b"


@pytest.mark.spec("R-mcpserve-9")
async def test_a_link_that_wants_to_ask_ends_the_call_and_is_named() -> None:
    refusal = await before(Link("approvals", [], Ask("delete everything? CANARY")))
    assert refusal is not None
    assert "approvals" in refusal
    assert "CANARY" not in refusal


@pytest.mark.spec("R-mcpserve-9")
async def test_a_link_that_fails_denies() -> None:
    reports: list[BaseException] = []
    error = ValueError("CANARY")
    chain = MiddlewareChain([Link("a", [], error)])
    refusal = await chain.before(ToolCall(TOOL), ToolCall(TOOL).run, reports.append)
    assert refusal == "t was denied: a failed"
    assert reports == [error]


@pytest.mark.parametrize("answer", [True, False, "yes", 0])
@pytest.mark.spec("R-mcpserve-9")
async def test_an_answer_that_nobody_understands_denies(answer: Any) -> None:
    assert await before(Link("a", [], answer)) == f"t was denied: a answered with a {type(answer).__name__}"


async def test_a_function_is_asked_before_and_an_object_may_have_one_side_only() -> None:
    def guard(call: ToolCall) -> Any:
        return Deny("no")

    class OnlyAfter:
        def after(self, call: ToolCall, outcome: Any) -> Any:
            return f"{outcome}!"

        def __call__(self, call: ToolCall) -> Any:
            raise AssertionError("it has an after, and no before")

    class OnlyBefore:
        def before(self, call: ToolCall) -> Any:
            return None

    assert await before(guard) == "t was denied by guard: no"
    assert await before(OnlyAfter(), OnlyBefore()) is None
    assert await after("done", OnlyBefore(), OnlyAfter(), guard) == "done!"
    assert await before(type("Nameless", (), {"before": lambda self, call: Deny()})()) == "t was denied by Nameless"


async def test_after_may_replace_or_withhold_the_outcome() -> None:
    failed = Failed(ValueError("no luck"))
    assert await after("a", Link("x", [], after="b")) == "b"
    assert await after(failed, Link("x", [], after="b")) == "b"
    assert await after(failed, Link("x", [])) is failed
    withheld = await after("a", Link("y", []), Link("x", [], after=Deny("secret")))
    assert withheld == Deny("the result of t was withheld by x: secret")
    assert await after("a", Link("x", [], after=ValueError())) == Deny("the result of t was withheld: x failed")


async def test_a_link_whose_attributes_raise_denies_under_the_name_of_its_class() -> None:
    class Broken:
        def __init__(self, attribute: str) -> None:
            self.attribute = attribute

        def __getattr__(self, name: str) -> Any:
            if name in (self.attribute, "name"):
                raise ValueError("CANARY")
            raise AttributeError(name)

        def __call__(self, call: ToolCall) -> Any:
            return Deny("closed")

    assert await before(Broken("before")) == "t was denied: Broken failed"
    assert await before(Broken("name")) == "t was denied by Broken: closed"
    assert await after("x", Broken("after")) == Deny("the result of t was withheld: Broken failed")


@pytest.mark.spec("R-mcpserve-9")
async def test_a_link_that_wants_to_ask_afterwards_withholds() -> None:
    withheld = await after("x", Link("approvals", [], after=Ask("CANARY")))
    assert isinstance(withheld, Deny)
    assert "approvals" in withheld.reason
    assert "CANARY" not in withheld.reason


def test_what_is_no_link_is_refused_at_once() -> None:
    with pytest.raises(LocalProtocolError):
        MiddlewareChain([object()])
