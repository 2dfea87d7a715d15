"""What instances say of themselves, in time and out of time."""

from __future__ import annotations

import asyncio
from typing import Any

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest

from mcpl_core import LocalProtocolError
from mcpl_core.content import content_text
from mcpl_core.toolsets.asking import Questions, may_wait
from mcpl_core.toolsets.principal import OpenInstance
from tests.toolsets.toolset_kit import counter_toolset

pytestmark = pytest.mark.anyio

FACTS = counter_toolset()
QUESTIONS = ("title", "visible", "content", "dump")


class Body:
    """Does ``what`` when it is asked."""

    def __init__(self, what: Any) -> None:
        self.title = self.visible = self.content = self.dump = what


async def ask(questions: Questions, name: str, body: Any) -> Any:
    match name:
        case "title":
            return await questions.title(FACTS, body)
        case "visible":
            return await questions.visible("game", FACTS, body)
        case "content":
            return await questions.content(body)
        case _:
            return await questions.dump("game", body)


async def hangs() -> None:
    await anyio.sleep_forever()


async def exits() -> None:
    raise SystemExit


def exits_at_once() -> None:
    raise SystemExit


def ends_a_generator() -> None:
    raise GeneratorExit


def gives_what_hangs() -> Any:
    return hangs()


async def gives_another_type() -> Any:
    return object()


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("function", [hangs, gives_what_hangs, exits, exits_at_once, ends_a_generator])
async def test_whatever_a_function_does_others_go_on(name: str, function: Any) -> None:
    reported: list[BaseException] = []
    questions = Questions(reported.append, 0.01)
    with anyio.fail_after(5):
        if name == "content":
            assert await ask(questions, name, Body(function)) == []
        else:
            with pytest.raises((RuntimeError, LocalProtocolError)) as caught:
                await ask(questions, name, Body(function))
            reported.append(caught.value)
    assert len(reported) == 1


@pytest.mark.parametrize("name", ["visible", "content", "dump"])
async def test_answers_that_are_none(name: str) -> None:
    reported: list[BaseException] = []
    questions = Questions(reported.append, 5)
    try:
        assert await ask(questions, name, Body(gives_another_type)) == []
    except LocalProtocolError as exc:
        reported.append(exc)
    assert len(reported) == 1


@pytest.mark.parametrize("name", QUESTIONS)
async def test_who_asks_can_still_be_cancelled(name: str) -> None:
    questions = Questions(lambda exc: None, 60)
    with anyio.fail_after(5), anyio.move_on_after(0) as scope:
        await ask(questions, name, Body(hangs))
    assert scope.cancelled_caught


async def test_a_task_that_was_cancelled_is_not_the_end_of_who_waits_for_it() -> None:
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        pytest.skip("of asyncio alone")
    task = loop.create_task(anyio.sleep_forever())
    task.cancel()

    async def waits() -> Any:
        return await task

    with pytest.raises(RuntimeError):
        await ask(Questions(lambda exc: None, 5), "visible", Body(waits))


async def test_contents_are_asked_side_by_side() -> None:
    meeting = [anyio.Event(), anyio.Event()]

    class Met:
        def __init__(self, number: int) -> None:
            self.number = number

        async def content(self) -> str:
            meeting[self.number].set()
            await meeting[1 - self.number].wait()
            return str(self.number)

    opened = [OpenInstance(("game", str(number)), Met(number), "t", 0) for number in range(2)]
    with anyio.fail_after(5):
        found = await Questions(lambda exc: None, 5).contents(opened)
    assert [content_text(found[each]) for each in opened] == ["0", "1"]


def test_what_may_wait_is_not_asked_at_once() -> None:
    class Raises:
        @property
        def title(self) -> str:
            raise ValueError

    assert not may_wait(Raises())
    assert not may_wait(Body(lambda: []))
    assert may_wait(Body(hangs))


async def test_what_is_said_inside_of_a_question_is_not_heard_and_told_once() -> None:
    reported: list[BaseException] = []
    questions = Questions(reported.append, 5)
    heard: list[bool] = []
    go_on = anyio.Event()

    async def later() -> None:
        await go_on.wait()
        heard.append(questions.unheard("game"))

    async with anyio.create_task_group() as tasks:

        def visible() -> list[str]:
            heard.append(questions.unheard("game"))
            heard.append(questions.unheard("game"))
            tasks.start_soon(later)
            return []

        assert not questions.unheard("game")
        await questions.visible("game", FACTS, Body(visible))
        assert (heard, [type(each) for each in reported]) == ([True, True], [LocalProtocolError])
        # Nor is the function at work any more, in a task that it began.
        go_on.set()
    assert not questions.unheard("game")
    assert heard == [True, True, False]
    assert len(reported) == 1


@pytest.mark.parametrize("name", ["visible", "title", "dump", "content"])
async def test_only_content_may_change_something(name: str) -> None:
    reported: list[BaseException] = []
    questions = Questions(reported.append, 5)
    said: list[bool] = []

    async def function() -> Any:
        await anyio.to_thread.run_sync(
            lambda: anyio.from_thread.run_sync(lambda: said.append(questions.unheard("game")))
        )
        return [] if name == "visible" else "x"

    await ask(questions, name, Body(function))
    assert said == [name != "content"]
    assert len(reported) == (name != "content")


async def test_what_other_tasks_say_meanwhile_is_heard() -> None:
    questions = Questions(lambda exc: None, 5)
    asked, answer = anyio.Event(), anyio.Event()

    async def visible() -> list[str]:
        asked.set()
        await answer.wait()
        return []

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(questions.visible, "game", FACTS, Body(visible))
        await asked.wait()
        assert not questions.unheard("game")
        answer.set()
