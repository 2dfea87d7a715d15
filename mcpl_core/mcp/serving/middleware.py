"""The chain that a call passes before and after it runs.

Owns: what a link is and may answer, and that anything but a clear yes is a no. Does not own: calling (``calling``).

A link is an object with ``before(call)``, ``after(call, outcome)`` or both, or a plain function, which is a ``before``.
Nobody can be asked in the middle of an MCP call: a link that wants to ask ends the call, and says so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from ...errors import LocalProtocolError
from .call import ToolCall

__all__ = ("Ask", "Deny", "Failed", "MiddlewareChain", "Run", "nobody_to_ask")

#: Runs a function of the application, sync or async.
Run = Callable[..., Awaitable[Any]]


@dataclass(frozen=True, slots=True)
class Deny:
    """A link's answer: the call does not run.

    Attributes:
        reason: for the caller; may be empty.
    """

    reason: str = ""


@dataclass(frozen=True, slots=True)
class Ask:
    """A link's answer: somebody has to be asked. Served over MCP, the call does not run; after it ran, its result is
    withheld.

    Attributes:
        question: what would be asked. Not told to the caller.
    """

    question: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """The outcome of a call that ran and raised.

    Attributes:
        error: what it raised.
    """

    error: Exception


class MiddlewareChain:
    """The links, in order.

    Args:
        links: see above.

    Raises:
        LocalProtocolError: one of them is no link.
    """

    def __init__(self, links: Sequence[Any] = ()) -> None:
        for link in links:
            if not callable(link) and not hasattr(link, "before") and not hasattr(link, "after"):
                raise LocalProtocolError(f"a {type(link).__name__} is no middleware: it has neither before nor after")
        self._links = tuple(links)

    async def before(self, call: ToolCall, run: Run, report: Callable[[BaseException], object]) -> str | None:
        """Asks each link in order, until one does not let the call pass.

        Returns:
            Why it does not run, for the caller; ``None`` when it may.
        """
        for link in self._links:
            try:
                asked = getattr(link, "before", None)
                if asked is None:
                    if hasattr(link, "after"):
                        continue
                    asked = link
                answer = await run(asked, call)
            except Exception as exc:
                report(exc)
                return f"{call.name} was denied: {_name(link)} failed"
            if answer is not None:
                return _refusal(call, link, answer)
        return None

    async def after(self, call: ToolCall, outcome: Any, run: Run, report: Callable[[BaseException], object]) -> Any:
        """Shows the outcome to each link, the last one first. Only for a call that ran.

        Returns:
            The outcome: the tool's value, what a link put in its place, or ``Failed``; a ``Deny`` when a link withholds
            it, wants to ask somebody or failed.
        """
        for link in reversed(self._links):
            try:
                told = getattr(link, "after", None)
                if told is None:
                    continue
                answer = await run(told, call, outcome)
            except Exception as exc:
                report(exc)
                return Deny(f"the result of {call.name} was withheld: {_name(link)} failed")
            if isinstance(answer, Ask):
                return Deny(nobody_to_ask(f"the result of {call.name}", _name(link), "was withheld"))
            if isinstance(answer, Deny):
                return Deny(_with(f"the result of {call.name} was withheld by {_name(link)}", answer.reason))
            if answer is not None:
                outcome = answer
        return outcome


def _refusal(call: ToolCall, link: Any, answer: Any) -> str:
    if isinstance(answer, Ask):
        return nobody_to_ask(call.name, _name(link))
    if isinstance(answer, Deny):
        return _with(f"{call.name} was denied by {_name(link)}", answer.reason)
    # True, False, a text: nobody can tell what was meant.
    return f"{call.name} was denied: {_name(link)} answered with a {type(answer).__name__}"


def nobody_to_ask(what: str, who: str, fate: str = "did not run") -> str:
    """What the caller is told when somebody would have to be asked."""
    return f"{what} {fate}: {who} wants to ask somebody, and over MCP there is nobody to ask"


def _with(text: str, reason: str) -> str:
    return f"{text}: {reason}" if reason else text


def _name(link: Any) -> str:
    with suppress(Exception):
        for attribute in ("name", "__name__"):
            name = getattr(link, attribute, None)
            if isinstance(name, str):
                return name
    return type(link).__name__
