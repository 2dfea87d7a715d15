"""What every connection takes, and what it counts.

Owns: the options of the constructors, what may stand in them, and the counters. Does not own: the options of single
transports.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypedDict

from .errors import InvalidValueError
from .inbox import InboxLimits

__all__ = ("DEFAULT_REQUEST_TIMEOUT", "ConnectionOptions", "ConnectionStats", "check_options")

#: Seconds that a request waits for its answer unless it says otherwise.
DEFAULT_REQUEST_TIMEOUT = 30.0


class ConnectionOptions(TypedDict, total=False):
    """What every constructor of a connection takes.

    Attributes:
        request_timeout: seconds a request waits unless it says otherwise, and at most a sixty-fourth of it longer;
            ``None``: without end.
        max_message_bytes: the longest message in either direction, in bytes.
        max_depth: the deepest nesting of an incoming message.
        limits: how much may wait unread.
        discard_unread: past the hard limit drop and count notifications instead of closing.
    """

    request_timeout: float | None
    max_message_bytes: int
    max_depth: int
    limits: InboxLimits
    discard_unread: bool


def check_options(options: Mapping[str, Any]) -> None:
    """Refuses what is none of ``ConnectionOptions`` before anything runs: a misspelt name would change nothing, and a
    value of another type would fail where nobody could tell why.

    Raises:
        TypeError: there is no such option, or its value is of another type.
        InvalidValueError: the value is out of range; ``code`` is the option's name.
    """
    for name, value in options.items():
        kinds, in_range, meaning = _OPTIONS.get(name, ((), _anything, ""))
        if not kinds:
            raise TypeError(f"there is no option {name!r}; there are {', '.join(_OPTIONS)}")
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            raise TypeError(f"{name} is {meaning}, not {value!r}")
        if not in_range(value):
            raise InvalidValueError(name, f"it is {meaning}, not {value!r}")


def _anything(value: object) -> bool:
    return True


def _positive(value: int) -> bool:
    return value > 0


def _is_time(value: float) -> bool:
    try:
        return not math.isnan(value)
    except OverflowError:  # an integer that no clock can be added to
        return False


#: Of each option: the types, the range, and both in words.
_OPTIONS: dict[str, tuple[tuple[type, ...], Callable[[Any], bool], str]] = {
    "request_timeout": (
        (int, float, type(None)),
        lambda value: value is None or _is_time(value),
        "a number of seconds or None",
    ),
    "max_message_bytes": ((int,), _positive, "a number of bytes above zero"),
    "max_depth": ((int,), _positive, "a number of levels above zero"),
    "limits": (
        (InboxLimits,),
        lambda value: all(isinstance(limit, int) for limit in value),
        "an InboxLimits of whole numbers",
    ),
    "discard_unread": ((bool,), _anything, "true or false"),
}


@dataclass(frozen=True, slots=True)
class ConnectionStats:
    """Counters of one connection, as of one moment.

    Attributes:
        sent, received: messages handed to and taken from the transport.
        malformed: incoming texts that were no message.
        stray: responses that nobody waited for.
        discarded: notifications dropped because of ``discard_unread``.
        pending: our requests without an answer.
        unanswered: the peer's requests without an answer.
        queued, queued_bytes: messages that nobody took yet.
    """

    sent: int
    received: int
    malformed: int
    stray: int
    discarded: int
    pending: int
    unanswered: int
    queued: int
    queued_bytes: int
