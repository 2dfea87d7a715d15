"""The queue of requests and notifications that nobody has taken yet, and its limits.

Owns: order, counts and bytes, and which of the two limits is reached. Does not own: what happens then (the
connection pauses reading at the high-water mark and closes at the hard limit), waiting, and I/O.
"""

from __future__ import annotations

from collections import Counter, deque
from typing import NamedTuple

from .errors import QueueOverflowError
from .wire.messages import Notification, Request

__all__ = ("Inbox", "InboxLimits")


class InboxLimits(NamedTuple):
    """How much may wait unread.

    Attributes:
        high_messages, high_bytes: past either, reading stops while we wait for no reply.
        hard_messages, hard_bytes: past either, the connection closes; reached only while we wait for a reply,
            since reading must then go on.
    """

    high_messages: int = 1024
    high_bytes: int = 16 * 1024 * 1024
    hard_messages: int = 65536
    hard_bytes: int = 64 * 1024 * 1024


class Inbox:
    """Unread messages in the order of the wire."""

    __slots__ = ("_messages", "_sizes", "bytes", "limits")

    def __init__(self, limits: InboxLimits) -> None:
        self.limits = limits
        self.bytes = 0
        self._messages: deque[Request | Notification] = deque()
        self._sizes: deque[int] = deque()

    def __len__(self) -> int:
        return len(self._messages)

    def put(self, message: Request | Notification, size: int) -> None:
        """Appends a message of ``size`` bytes."""
        self._messages.append(message)
        self._sizes.append(size)
        self.bytes += size

    def take(self) -> Request | Notification:
        """Removes and returns the oldest message; there must be one."""
        self.bytes -= self._sizes.popleft()
        return self._messages.popleft()

    @property
    def high(self) -> bool:
        """Whether reading should stop."""
        return len(self._messages) >= self.limits.high_messages or self.bytes >= self.limits.high_bytes

    @property
    def low(self) -> bool:
        """Whether reading that stopped may go on: half of the high-water mark, so that it does not flutter."""
        return len(self._messages) <= self.limits.high_messages // 2 and self.bytes <= self.limits.high_bytes // 2

    @property
    def full(self) -> bool:
        """Whether the hard limit is reached."""
        return len(self._messages) >= self.limits.hard_messages or self.bytes >= self.limits.hard_bytes

    def overflow(self) -> QueueOverflowError:
        """The error that says how full it is, and with what."""
        counts = Counter(message.method for message in self._messages)
        method = counts.most_common(1)[0][0] if counts else ""
        return QueueOverflowError(len(self._messages), self.bytes, method)
