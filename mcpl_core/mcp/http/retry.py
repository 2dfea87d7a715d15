"""When a throttled request is sent again, and when not any more.

Owns: reading ``Retry-After`` (RFC 9110 section 10.2.3), the waits between attempts, and the one budget of a series of
attempts. Does not own: clocks, chance and sleeping, which are arguments, and who may repeat what (``mcp.replay``).

A series belongs to one call: whoever repeats anything for that call counts in it, so that retriers inside one another
share one count, one total of waiting and one deadline.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Any, Literal

from ...errors import InvalidValueError

__all__ = ("Jitter", "RetryKind", "RetryReport", "RetrySeries", "RetrySettings", "parse_retry_after")

#: ``equal``: half of the delay and up to as much again by chance; ``full``: anything up to the delay; ``none``.
Jitter = Literal["equal", "full", "none"]

#: No setting is more: an int may be too large for a float.
_MOST = sys.float_info.max

#: Why there is another attempt: HTTP 429, a failure without an answer, or the policy of a caller's own carrier.
RetryKind = Literal["throttle", "network", "adapter"]


@dataclass(frozen=True, slots=True)
class RetryReport:
    """Another attempt is about to be made. Holds no path, no query, no header.

    Attributes:
        kind: why.
        attempt: the number of the attempt that failed, from 1.
        max_attempts: how many there may be.
        wait: seconds until the next.
        retry_after: seconds that the server asked for; ``None``: it named none.
        origin: scheme, host and port.
    """

    kind: RetryKind
    attempt: int
    max_attempts: int
    wait: float
    retry_after: float | None
    origin: str


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """How often and how long. All times are in seconds.

    Attributes:
        max_attempts: attempts in all, at least 1.
        max_wait: waiting in all. A server that asks for more than what is left of it is not waited for at all.
        base_delay: the delay before the second attempt, where the server names none.
        multiplier: by which the delay grows from attempt to attempt.
        jitter: one of ``Jitter``.
        max_delay: the most that such a delay may be; ``None``: as ``max_wait`` allows.
        max_elapsed: time from the first attempt after which no other is begun; ``None``: without end.
        on_retry: called before each wait; what it raises ends the request.

    Raises:
        InvalidValueError: a value is outside its range; ``code`` is its name.
    """

    max_attempts: int = 3
    max_wait: float = 10.0
    base_delay: float = 0.2
    multiplier: float = 2.0
    jitter: Jitter = "equal"
    max_delay: float | None = None
    max_elapsed: float | None = None
    on_retry: Callable[[RetryReport], object] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.max_attempts, bool) or not isinstance(self.max_attempts, int) or self.max_attempts < 1:
            raise InvalidValueError("max_attempts", "a whole number from 1 is needed", "$.max_attempts")
        for name, least in (
            ("max_wait", 0),
            ("base_delay", 0),
            ("multiplier", 1),
            ("max_delay", 0),
            ("max_elapsed", 0),
        ):
            value = getattr(self, name)
            if value is None and name in ("max_delay", "max_elapsed"):
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= _MOST:
                raise InvalidValueError(name, f"a number from {least} is needed", f"$.{name}")
        if self.jitter not in ("equal", "full", "none"):
            raise InvalidValueError("jitter", "jitter is equal, full or none", "$.jitter")
        if self.on_retry is not None and not callable(self.on_retry):
            raise InvalidValueError("on_retry", "a function is needed", "$.on_retry")

    @classmethod
    def read(cls, value: RetrySettings | Mapping[str, Any] | bool) -> RetrySettings | None:
        """The settings for what a caller gave: ``True`` the defaults, ``False`` none.

        Raises:
            InvalidValueError: a name is unknown (``unknown_member``) or a value outside its range.
        """
        if isinstance(value, RetrySettings):
            return value
        if isinstance(value, bool):
            return cls() if value else None
        if not isinstance(value, Mapping):
            raise InvalidValueError("retry", "settings or a truth value are needed")
        unknown = set(value) - {each.name for each in fields(cls)}
        if unknown:
            raise InvalidValueError("unknown_member", f"{sorted(map(str, unknown))} are not known")
        return cls(**value)


class RetrySeries:
    """The attempts of one call.

    Args:
        settings: see ``RetrySettings``.
        started: when the first attempt begins, on the caller's clock, in seconds.

    Attributes:
        attempts: begun so far.
        waited: seconds waited so far.
    """

    __slots__ = ("attempts", "settings", "started", "waited")

    def __init__(self, settings: RetrySettings, started: float) -> None:
        self.settings = settings
        self.started = started
        self.attempts = 0
        self.waited = 0.0

    def begin(self) -> int:
        """Counts an attempt that begins now; returns its number."""
        self.attempts += 1
        return self.attempts

    def next_wait(self, now: float, chance: float, retry_after: float | None = None) -> float | None:
        """Seconds to wait before another attempt, or ``None`` when there is none. The wait counts as waited.

        Args:
            now: on the same clock as ``started``.
            chance: a random number, at least 0 and below 1.
            retry_after: seconds that the server asked for.
        """
        settings = self.settings
        if self.attempts >= settings.max_attempts:
            return None
        wait = retry_after if retry_after is not None else self._delay(chance)
        if self.waited + wait > settings.max_wait:
            return None
        if settings.max_elapsed is not None and now - self.started + wait > settings.max_elapsed:
            return None
        self.waited += wait
        return wait

    def report(self, kind: RetryKind, wait: float, retry_after: float | None, origin: str) -> None:
        """Tells whoever wants to know that another attempt is about to be made."""
        if self.settings.on_retry is not None:
            attempts, most = self.attempts, self.settings.max_attempts
            self.settings.on_retry(RetryReport(kind, attempts, most, wait, retry_after, origin))

    def _delay(self, chance: float) -> float:
        settings = self.settings
        try:
            delay = settings.base_delay * settings.multiplier ** max(self.attempts - 1, 0)
        except OverflowError:
            delay = math.inf
        delay = min(delay, settings.max_wait if settings.max_delay is None else settings.max_delay)
        if settings.jitter == "equal":
            return delay / 2 + chance * delay / 2
        return chance * delay if settings.jitter == "full" else delay


def parse_retry_after(value: str | None, now: float) -> float | None:
    """Seconds that a ``Retry-After`` asks for, in both its forms; ``None`` when it is absent or neither.

    Args:
        value: the header's value.
        now: the time of day, in seconds since 1970; for the form with a date.
    """
    text = (value or "").strip()
    if text.isascii() and text.isdigit():
        # More digits than a century of seconds has are as good as never.
        return float(text) if len(text) <= 10 else math.inf
    try:
        when = parsedate_to_datetime(text)
        if when.tzinfo is None:
            # The oldest of the three forms of a date names no zone; all of them are in UTC.
            when = when.replace(tzinfo=UTC)
        return max(when.timestamp() - now, 0.0)
    except (TypeError, ValueError, IndexError, OverflowError):
        return None
