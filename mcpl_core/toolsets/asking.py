"""What an instance says of itself: its title, what is visible, its content, and how it is made again.

Owns: asking these functions of the application in the event loop, for so long and no longer, since others wait for
what they say; what is made of the answers; and knowing what runs inside of such a function. Does not own: what comes of
it (``instances``).

A function that is asked because something changed, and says that something changed, would be asked without end. So what
``title``, ``visible()`` and ``dump()`` say of changes while they run is not heard, whatever instance it is about; what
other tasks say meanwhile is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextvars import ContextVar
from inspect import getattr_static, isawaitable, iscoroutinefunction
from typing import Any

import anyio

from ..content import ContentBlock
from ..errors import LocalProtocolError
from ..server.blocks import message_content
from ..server.calling import contained
from .declaration import Toolset
from .principal import OpenInstance

__all__ = ("Questions", "may_wait")


class _Asking:
    """One question. ``over``: it was answered; tasks that the function began may still run."""

    __slots__ = ("over",)

    def __init__(self) -> None:
        self.over = False


_asking: ContextVar[_Asking | None] = ContextVar("mcpl_toolset_asking", default=None)


class Questions:
    """Asks instances.

    Args:
        report: what goes wrong and has no other consequence.
        grace: seconds that an answer may take.
    """

    def __init__(self, report: Callable[[BaseException], object], grace: float) -> None:
        self._report = report
        self._grace = grace
        #: The toolsets that were told of once.
        self._mistaken: set[str] = set()

    def unheard(self, toolset: str) -> bool:
        """Whether a change of an instance of this toolset, said here and now, is not to be heard. The first is
        reported as the mistake that it is."""
        asking = _asking.get()
        if asking is None or asking.over:
            return False
        if toolset not in self._mistaken:
            self._mistaken.add(toolset)
            self._report(LocalProtocolError(f"{toolset}: title, visible() and dump() change nothing: not heard"))
        return True

    async def title(self, facts: Toolset, body: Any) -> str:
        """What it is called.

        Raises:
            Exception: what the function raises, or that it took too long.
        """
        title = getattr(body, "title", None)
        if callable(title):
            title = await self._settled(title)
        return facts.title if title is None else str(title)

    async def visible(self, name: str, facts: Toolset, body: Any) -> tuple[str, ...]:
        """The names of the tools that can be called now, in their order; those of no tool are reported.

        Raises:
            Exception: as ``title``, or that these are no names.
        """
        function = getattr(body, "visible", None)
        if function is None:
            return facts.names
        shown = await self._settled(function)
        if isinstance(shown, str) or not isinstance(shown, Iterable):
            raise LocalProtocolError(f"{name}: visible() returns the names of tools")
        shown = list(shown)
        strangers = [each for each in shown if each not in facts.names]
        if strangers:
            self._report(LocalProtocolError(f"{name}: visible() names what is no tool of it: {strangers[:5]}"))
        return tuple(each for each in facts.names if each in shown)

    async def content(self, body: Any) -> list[ContentBlock]:
        """How it stands, for the model; nothing when it cannot say."""
        try:
            function = getattr(body, "content", None)
            content = None if function is None else await self._asked(function)
            return [] if content is None else message_content(content)
        except Exception as exc:
            self._report(exc)
            return []

    async def contents(self, opened: Iterable[OpenInstance]) -> dict[OpenInstance, list[ContentBlock]]:
        """As ``content``, of many, side by side."""
        found: dict[OpenInstance, list[ContentBlock]] = {}

        async def read(each: OpenInstance) -> None:
            found[each] = await self.content(each.body)

        async with anyio.create_task_group() as tasks:
            for each in opened:
                tasks.start_soon(read, each)
        return found

    async def dump(self, name: str, body: Any) -> str:
        """The text from which it is made again.

        Raises:
            Exception: as ``title``, or that it is no text.
        """
        text = await self._settled(body.dump)
        if not isinstance(text, str):
            raise LocalProtocolError(f"{name}: dump() returns a text")
        return text

    async def _settled(self, function: Callable[[], Any]) -> Any:
        asking = _Asking()
        token = _asking.set(asking)
        try:
            return await self._asked(function)
        finally:
            asking.over = True
            _asking.reset(token)

    async def _asked(self, function: Callable[[], Any]) -> Any:
        with contained():
            value = _said(function)
            if not isawaitable(value):
                return value
            with anyio.move_on_after(self._grace):
                return await value
        raise LocalProtocolError(f"{getattr(function, '__qualname__', function)!s:.80} took too long")


def may_wait(body: Any) -> bool:
    """Whether it is known that asking for title and visible tools may wait."""
    return any(iscoroutinefunction(getattr_static(body, name, None)) for name in ("title", "visible"))


def _said(function: Callable[[], Any]) -> Any:
    try:
        return function()
    except GeneratorExit as exc:
        # It would close the coroutine that asks.
        raise RuntimeError("a function of the application raised GeneratorExit") from exc
