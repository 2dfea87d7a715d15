"""Inferences as a server hears of them: each begins and ends once (SPEC 10.5).

Owns: which notice is passed on (terminals are deduplicated) and when a missing terminal is made up. Pure: time is an
argument. Does not own: timers, and the handlers.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final, NamedTuple

from ..protocol import InferenceLifecycleParams

__all__ = ("DEFAULT_INFERENCE_TIMEOUT", "LifecycleTracker", "Taken")

#: Seconds after which an inference that began and was not heard of again counts as failed.
DEFAULT_INFERENCE_TIMEOUT: Final = 15 * 60.0

#: How many ended inferences are remembered, to recognise a second terminal.
_REMEMBERED: Final = 1024

#: How many inferences may be open; no host has that many.
_MOST_OPEN: Final = 10_000


class Taken(NamedTuple):
    """What became of a notice.

    Attributes:
        passed_on: the application is to hear of it.
        defect: what the host did wrong, to be reported; ``None``: nothing.
    """

    passed_on: bool
    defect: str | None = None


class LifecycleTracker:
    """The open and the ended inferences of one connection.

    Args:
        timeout: seconds an inference may stay open.
    """

    def __init__(self, timeout: float = DEFAULT_INFERENCE_TIMEOUT) -> None:
        self.timeout = timeout
        self._open: OrderedDict[str, tuple[float, InferenceLifecycleParams]] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def take(self, notice: InferenceLifecycleParams, now: float) -> Taken:
        """Takes a notice that came at ``now``, in seconds."""
        id = notice.inference_id
        if id in self._ended:
            return Taken(False, f"inference {id!r} is over already")
        if notice.is_terminal:
            begun = self._open.pop(id, None) is not None
            self._end(id)
            # It tells that the turn is over, also to whom nobody told that it began.
            return Taken(True, None if begun else f"inference {id!r} ended and never began")
        if id in self._open:
            return Taken(False, f"inference {id!r} began already")
        if len(self._open) >= _MOST_OPEN:
            return Taken(False, f"{_MOST_OPEN} inferences are open already")
        self._open[id] = (now + self.timeout, notice)
        return Taken(True)

    def deadline(self) -> float | None:
        """When ``expire`` is due next; ``None`` while nothing is open."""
        return next(iter(self._open.values()))[0] if self._open else None

    def expire(self, now: float) -> list[InferenceLifecycleParams]:
        """Ends what is overdue: a ``failed`` notice for each, in order."""
        overdue = []
        while self._open and (deadline := self.deadline()) is not None and deadline <= now:
            id, (_, began) = self._open.popitem(last=False)
            self._end(id)
            overdue.append(_failed(began))
        return overdue

    def end_all(self) -> list[InferenceLifecycleParams]:
        """The connection ended: a ``failed`` notice for each open inference."""
        notices = [_failed(began) for _, began in self._open.values()]
        for notice in notices:
            self._end(notice.inference_id)
        self._open.clear()
        return notices

    def _end(self, id: str) -> None:
        self._ended[id] = None
        while len(self._ended) > _REMEMBERED:
            self._ended.popitem(last=False)


def _failed(began: InferenceLifecycleParams) -> InferenceLifecycleParams:
    """A terminal of our own making, marked as such."""
    return InferenceLifecycleParams(
        inference_id=began.inference_id,
        conversation_id=began.conversation_id,
        turn_index=began.turn_index,
        phase="failed",
        meta={"mcpl/synthetic": True},
    )
