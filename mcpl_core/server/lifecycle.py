"""Inferences as a server hears of them: each begins and ends once (SPEC 10.5).

Owns: which notice is passed on (terminals are deduplicated) and when a missing terminal is made up. Pure: time is an
argument. Does not own: timers, and the handlers.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from ..protocol import InferenceLifecycleParams

__all__ = ("DEFAULT_INFERENCE_TIMEOUT", "LifecycleTracker")

#: Seconds after which an inference that began and was not heard of again counts as failed.
DEFAULT_INFERENCE_TIMEOUT: Final = 15 * 60.0

#: How many ended inferences are remembered, to recognise a second terminal.
_REMEMBERED: Final = 1024


class LifecycleTracker:
    """The open and the ended inferences of one connection.

    Args:
        timeout: seconds an inference may stay open.
    """

    def __init__(self, timeout: float = DEFAULT_INFERENCE_TIMEOUT) -> None:
        self.timeout = timeout
        self._open: OrderedDict[str, tuple[float, InferenceLifecycleParams]] = OrderedDict()
        self._ended: OrderedDict[str, None] = OrderedDict()

    def take(self, notice: InferenceLifecycleParams, now: float) -> str | None:
        """Takes a notice; ``None`` when it is to be passed on, else why not (a defect of the host, to be reported)."""
        id = notice.inference_id
        if id in self._ended:
            return f"inference {id!r} is over already"
        if notice.is_terminal:
            # A terminal without its beginning still tells that the turn is over.
            self._open.pop(id, None)
            self._end(id)
            return None
        if id in self._open:
            return f"inference {id!r} began already"
        self._open[id] = (now + self.timeout, notice)
        return None

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
