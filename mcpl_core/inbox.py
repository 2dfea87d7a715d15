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


class Inbox(deque[tuple[Request | Notification, int]]):
    """Unread messages in the order of the wire, each with its size in bytes. Whoever uses it keeps to ``put`` and
    ``take``; it is a ``deque`` so that asking whether it is empty, which happens for each message, is no call."""

    __slots__ = ("bytes", "limits")

    def __init__(self, limits: InboxLimits) -> None:
        super().__init__()
        self.limits = limits
        self.bytes = 0

    def put(self, message: Request | Notification, size: int) -> bool:
        """Appends a message of ``size`` bytes; false, and nothing happens, when the hard limit is reached."""
        limits = self.limits
        if len(self) >= limits.hard_messages or self.bytes >= limits.hard_bytes:
            return False
        self.append((message, size))
        self.bytes += size
        return True

    def take(self) -> Request | Notification:
        """Removes and returns the oldest message; there must be one."""
        message, size = self.popleft()
        self.bytes -= size
        return message

    @property
    def high(self) -> bool:
        """Whether reading should stop."""
        return len(self) >= self.limits.high_messages or self.bytes >= self.limits.high_bytes

    @property
    def low(self) -> bool:
        """Whether reading that stopped may go on: half of the high-water mark, so that it does not flutter."""
        return len(self) <= self.limits.high_messages // 2 and self.bytes <= self.limits.high_bytes // 2

    def overflow(self) -> QueueOverflowError:
        """The error that says how full it is, and with what."""
        counts = Counter(message.method for message, _ in self)
        method = counts.most_common(1)[0][0] if counts else ""
        return QueueOverflowError(len(self), self.bytes, method)
