"""The time that one request may take.

Owns: when it is over: a timeout that progress can start anew, a cap on the whole, and the pause while a person is being
asked. Does not own: clocks and timers; time is an argument, in seconds of any one clock.
"""

from __future__ import annotations

import math
from typing import Any

from ..errors import InvalidValueError

__all__ = ("TimeBudget", "checked_seconds")


def checked_seconds(name: str, value: Any) -> float | None:
    """A number of seconds as it is, ``None`` too: without end.

    Args:
        name: what it is called where it is wrong.
        value: what a caller gave.

    Raises:
        InvalidValueError: it is no number, or none that is a time (negative, NaN); ``code`` is the name.
    """
    if value is None or (isinstance(value, int | float) and not isinstance(value, bool) and value >= 0):
        return value
    raise InvalidValueError(name, "a number of seconds is needed, or None", f"$.{name}")


class TimeBudget:
    """The time of one request.

    Args:
        now: when it begins.
        timeout: seconds to wait; ``None``: without end.
        max_total: seconds to wait in all, however much progress there is; ``None``: without end.
        reset_on_progress: whether progress starts ``timeout`` anew.

    Raises:
        InvalidValueError: a number of seconds is none.
    """

    __slots__ = ("_cap", "_due", "_paused_at", "_pauses", "_resets", "_timeout")

    def __init__(
        self, now: float, timeout: float | None, max_total: float | None = None, reset_on_progress: bool = False
    ) -> None:
        checked_seconds("timeout", timeout)
        checked_seconds("max_total", max_total)
        self._timeout = math.inf if timeout is None else timeout
        self._resets = reset_on_progress
        self._cap = math.inf if max_total is None else now + max_total
        self._due = now + self._timeout
        self._paused_at = 0.0
        self._pauses = 0

    @property
    def deadline(self) -> float:
        """When it is over; infinity while it is paused, and when there is no end."""
        return math.inf if self._pauses else min(self._due, self._cap)

    def progress(self, now: float) -> None:
        """Progress came. It shortens nothing."""
        if self._resets:
            at = self._paused_at if self._pauses else now
            self._due = max(self._due, at + self._timeout)

    def pause(self, now: float) -> None:
        """A person is being asked; further pauses may be inside this one."""
        if not self._pauses:
            self._paused_at = now
        self._pauses += 1

    def resume(self, now: float) -> None:
        """The person answered, or will not; what was left before is left now."""
        self._pauses -= 1
        if not self._pauses:
            waited = now - self._paused_at
            self._due += waited
            self._cap += waited
