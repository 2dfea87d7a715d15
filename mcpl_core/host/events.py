"""What reaches the host's application: events of servers, admitted and judged, and the queue that they wait in.

Owns: the event types, and a queue that is bounded for each server, so that one that floods fills its own share. Does
not own: admission (``admission``), when an event wakes somebody (``wake``), and waiting handlers (``delivery``).
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any, Final

import anyio
from msgspec import UNSET

from ..content import ContentBlock, content_text
from ..manifest import Impact, ManifestProblem
from ..protocol import ChangeDomain, ChannelDescriptor, MessageAuthor
from ..treatment import Treatment

__all__ = (
    "DEFAULT_QUEUE_BYTES",
    "DEFAULT_QUEUE_LIMIT",
    "ChannelMessage",
    "EventAnswer",
    "EventQueue",
    "HostEvent",
    "ManifestReceipt",
    "PushEvent",
    "WakeSignal",
)

#: Events of one server that may wait for the application.
DEFAULT_QUEUE_LIMIT: Final = 1024
#: Their size in bytes, as it came over the wire.
DEFAULT_QUEUE_BYTES: Final = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class HostEvent:
    """What all events have.

    Attributes:
        server: the id that the host gave the server.
        tags: after closure (SPEC 16.3). Claims of the server, except on what the host itself makes.
        treatment: the behaviour that was chosen, and the rule that chose it.
        wake: whether the event is a reason to wake the model now. One that is not may lead to a ``WakeSignal`` later.
    """

    server: str
    tags: tuple[str, ...] = ()
    treatment: Treatment | None = None
    wake: bool = True

    @property
    def channel_id(self) -> str | None:
        """The registered channel that it belongs to, if any."""
        return None

    @property
    def text(self) -> str:
        """The text of its content, one block per line."""
        return ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PushEvent(HostEvent):
    """``push/event`` (SPEC 9).

    Attributes:
        feature_set: the declared set that sent it.
        event_id: its id; no second event with it is delivered.
        timestamp: when it happened, as the server says (ISO 8601).
        content: the blocks.
        origin: where it came from, as the server says; ``UNSET`` when it does not.
        meta: the ``_meta`` member of its params, as received; ``UNSET`` when absent.
        hints: changes of tool presence that came with it, as received.
    """

    feature_set: str
    event_id: str
    timestamp: str
    content: list[ContentBlock]
    origin: Any = UNSET
    meta: Any = UNSET
    hints: Any = UNSET

    @property
    def text(self) -> str:
        return content_text(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelMessage(HostEvent):
    """One message of ``channels/incoming`` (SPEC 14.3).

    Attributes:
        channel: the registered channel.
        message_id: its id; no second message with it is delivered for this channel.
        thread_id: ``UNSET`` where there are no threads, ``None`` outside of one.
        author: who wrote it, in the platform's terms.
        timestamp: when it was written (ISO 8601).
        content: the blocks.
        metadata: as the server says; ``UNSET`` when it does not.
    """

    channel: ChannelDescriptor
    message_id: str
    author: MessageAuthor
    timestamp: str
    content: list[ContentBlock]
    thread_id: Any = UNSET
    metadata: Any = UNSET

    @property
    def channel_id(self) -> str | None:
        return self.channel.id

    @property
    def text(self) -> str:
        return content_text(self.content)


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestReceipt(HostEvent):
    """What changed about a server, in the host's own words (SPEC 17.6). Its tags are the host's: ``mcpl:manifest`` and
    one for each kind of impact.

    Attributes:
        revision: the digest of the manifest in force, ``None`` when it has none.
        domains: in which it differs from the one before; empty when only surfaces changed.
        impacts: what follows.
        problems: what is wrong with the manifest.
    """

    revision: str | None
    domains: tuple[ChangeDomain, ...] = ()
    impacts: tuple[Impact, ...] = ()
    problems: tuple[ManifestProblem, ...] = ()

    @property
    def text(self) -> str:
        return "\n".join(f"{impact.impact}: {impact.subject} ({impact.disposition})" for impact in self.impacts)


@dataclass(frozen=True, slots=True, kw_only=True)
class WakeSignal(HostEvent):
    """A debounced or throttled wake is due: events that were delivered without waking are a reason to wake now.

    Attributes:
        channel: their channel, ``None`` for pushed events.
        events: how many there are.
    """

    channel: str | None = None
    events: int = 1

    @property
    def channel_id(self) -> str | None:
        return self.channel


@dataclass(frozen=True, slots=True, kw_only=True)
class EventAnswer:
    """What the server learns of an event (SPEC 9.3, 14.3).

    Attributes:
        accepted: whether the host took it.
        inference_id: the inference that it started.
        conversation_id: where a channel message went.
        reason: why it was not accepted.
    """

    accepted: bool = True
    inference_id: str | None = None
    conversation_id: str | None = None
    reason: str | None = None


class EventQueue:
    """Events in the order of their arrival. An async iterator; several may take from it, each event goes to one.

    Args:
        limit: events of one server that may wait.
        max_bytes: their bytes.

    Attributes:
        refused: how many events found no room, by server.
    """

    def __init__(self, limit: int = DEFAULT_QUEUE_LIMIT, max_bytes: int = DEFAULT_QUEUE_BYTES) -> None:
        self.limit = limit
        self.max_bytes = max_bytes
        self.refused: Counter[str] = Counter()
        self._events: deque[tuple[HostEvent, int]] = deque()
        self._waiting: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()
        self._takers: deque[anyio.Event] = deque()
        self._closed = False

    def __len__(self) -> int:
        return len(self._events)

    def has_room(self, server: str, size: int = 0) -> bool:
        """Whether an event of ``size`` bytes would be taken."""
        if self._closed or self._waiting[server] >= self.limit:
            return False
        return self._bytes[server] == 0 or self._bytes[server] + size <= self.max_bytes

    def put(self, event: HostEvent, size: int = 0, *, own: bool = False) -> bool:
        """Appends an event; false when there is no room. ``own``: the host made it, and has as many places again,
        so that a server which fills its own does not silence what is said about it."""
        room = not self._closed and self._waiting[event.server] < 2 * self.limit
        if not (room if own else self.has_room(event.server, size)):
            self.refused[event.server] += 1
            return False
        self._events.append((event, size))
        self._waiting[event.server] += 1
        self._bytes[event.server] += size
        self._wake_one()
        return True

    def close(self) -> None:
        """Nothing more comes; the iteration ends when what is left was taken."""
        self._closed = True
        while self._takers:
            self._takers.popleft().set()

    def __aiter__(self) -> AsyncIterator[HostEvent]:
        return self

    async def __anext__(self) -> HostEvent:
        while not self._events:
            if self._closed:
                raise StopAsyncIteration
            await self._wait()
        event, size = self._events.popleft()
        self._waiting[event.server] -= 1
        self._bytes[event.server] -= size
        if self._waiting[event.server] == 0:
            del self._waiting[event.server], self._bytes[event.server]
        return event

    async def _wait(self) -> None:
        taker = anyio.Event()
        self._takers.append(taker)
        try:
            await taker.wait()
        except BaseException:
            if taker in self._takers:
                self._takers.remove(taker)
            elif self._events:
                # Woken and cancelled in one turn: the event is the next one's.
                self._wake_one()
            raise

    def _wake_one(self) -> None:
        if self._takers:
            self._takers.popleft().set()
