"""The requests of one session whose time runs.

Owns: what comes of progress, which may start a timeout anew, and the pause of all while a person is being asked. Does
not own: the arithmetic of one budget (``budgets``), sending, and what a progress notification looks like elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any, TypeAlias

import anyio

from .budgets import TimeBudget

__all__ = ("ProgressHandler", "Waiting", "WaitingRequests")

ProgressHandler: TypeAlias = Callable[[dict[str, Any]], None]


class Waiting:
    """A request whose time runs.

    Attributes:
        began: when, in seconds of the event loop's clock.
        budget: its time.
        scope: cancels it when that is over.
        handler: takes its progress.
        token: by which progress names it; ``None`` when nobody wants any.
        last: the greatest progress so far.
    """

    __slots__ = ("began", "budget", "handler", "last", "scope", "token")

    def __init__(self, began: float, budget: TimeBudget, handler: ProgressHandler | None, token: str | None) -> None:
        self.began = began
        self.budget = budget
        self.scope = anyio.CancelScope(deadline=budget.deadline)
        self.handler = handler
        self.token = token
        self.last = float("-inf")

    def with_token(self, params: dict[str, Any] | None) -> dict[str, Any] | None:
        """The params as the server gets them: with the token in ``_meta``, when there is one."""
        if self.token is None:
            return params
        given = (params or {}).get("_meta")
        meta = {**(given if isinstance(given, dict) else {}), "progressToken": self.token}
        return {**(params or {}), "_meta": meta}


class WaitingRequests:
    """All of them."""

    def __init__(self) -> None:
        self.requests: set[Waiting] = set()
        self.tokens: dict[str, Waiting] = {}
        self._numbers = count(1)
        #: Requests of the server behind which a person is being asked now.
        self._asked = 0

    def begin(
        self,
        timeout: float | None,
        max_total: float | None,
        reset_on_progress: bool,
        on_progress: ProgressHandler | None,
    ) -> Waiting:
        """The time of a request begins to run; ``end`` follows. The arguments are those of ``RawSession.request``."""
        began = anyio.current_time()
        budget = TimeBudget(began, timeout, max_total, reset_on_progress)
        if self._asked:
            budget.pause(began)
        number = next(self._numbers)
        token = f"progress-{number}" if on_progress is not None or reset_on_progress else None
        waiting = Waiting(began, budget, on_progress, token)
        self.requests.add(waiting)
        if token is not None:
            self.tokens[token] = waiting
        return waiting

    def answered(self, waiting: Waiting) -> None:
        """Its answer is there: nothing that comes is progress of it."""
        if waiting.token is not None:
            self.tokens.pop(waiting.token, None)

    def end(self, waiting: Waiting) -> None:
        """Its time does not run any more."""
        self.requests.discard(waiting)
        self.answered(waiting)

    def progressed(self, token: Any, progress: Any) -> ProgressHandler | None:
        """Takes a progress; what is of no request, no number, or does not grow gives nothing. Returns who is to be
        told."""
        waiting = self.tokens.get(token) if isinstance(token, str) else None
        if waiting is None or isinstance(progress, bool) or not isinstance(progress, int | float):
            return None
        if not progress > waiting.last:
            return None
        waiting.last = progress
        waiting.budget.progress(anyio.current_time())
        waiting.scope.deadline = waiting.budget.deadline
        return waiting.handler

    def ask(self, change: int) -> None:
        """A person begins to be asked (1), or is no longer (-1). Meanwhile no request runs out of time."""
        now, before = anyio.current_time(), self._asked
        self._asked += change
        if bool(before) == bool(self._asked):
            return
        for waiting in self.requests:
            if self._asked:
                waiting.budget.pause(now)
            else:
                waiting.budget.resume(now)
            waiting.scope.deadline = waiting.budget.deadline
