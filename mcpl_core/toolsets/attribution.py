"""Which call an event belongs to (SPEC_NOTES R-toolsets-4).

Owns: the record of a call that is being handled, and how the handler's own tasks find it: a context variable, which
tasks and worker threads inherit. Does not own: what becomes of the events (``events``), and when a call is answered
(``calling``).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Generic, TypeVar

from .wire import Key

__all__ = ("CallRecord", "current_call", "recorded", "running_call")

L = TypeVar("L")
E = TypeVar("E")


class CallRecord(Generic[L, E]):
    """One call of a host.

    Args:
        principal: whose call it is.
        link: the connection that it came on.

    Attributes:
        events: what was raised while it is handled, in order.
        touched: what it changed, and whether that is over with the call.
        answered: its answer was made; what is raised from now on is not its own.
    """

    __slots__ = ("answered", "events", "link", "principal", "touched")

    def __init__(self, principal: str, link: L) -> None:
        self.principal = principal
        self.link = link
        self.events: list[E] = []
        self.touched: dict[Key, bool] = {}
        self.answered = False


_current: ContextVar[CallRecord[object, object] | None] = ContextVar("mcpl_toolset_call", default=None)


def running_call() -> CallRecord[object, object] | None:
    """The call that runs here, whosever it is, answered or not."""
    return _current.get()


def current_call(principal: str) -> CallRecord[object, object] | None:
    """The call of this principal that runs here and is not answered yet, if there is one."""
    record = _current.get()
    return record if record is not None and record.principal == principal and not record.answered else None


@contextmanager
def recorded(record: CallRecord[L, E]) -> Iterator[CallRecord[L, E]]:
    """The block, and every task that begins in it, is the handling of this call."""
    token = _current.set(record)  # type: ignore[arg-type] # what it holds is its maker's affair
    try:
        yield record
    finally:
        _current.reset(token)
