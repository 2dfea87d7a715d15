"""What every connection takes, and what it counts.

Owns: the options of the constructors with their defaults, and the counters. Does not own: the options of single
transports.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict

from .inbox import InboxLimits

__all__ = ("DEFAULT_REQUEST_TIMEOUT", "ConnectionOptions", "ConnectionStats")

#: Seconds that a request waits for its answer unless it says otherwise.
DEFAULT_REQUEST_TIMEOUT = 30.0


class ConnectionOptions(TypedDict, total=False):
    """What every constructor of a connection takes.

    Attributes:
        request_timeout: seconds a request waits unless it says otherwise; ``None``: without end.
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
