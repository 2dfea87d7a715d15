"""Events on their way to hosts: kept until a host answered them (SPEC 9.4).

Owns: which events wait for which principal, which connections are at them, the bound, and that an event is on the disk
before anybody is told that it is kept. Does not own: sending and waiting (``delivery``), the order of writes to the
disk (``journal``), the file (``store``), and the grant.

An event is made once, with one ``eventId`` for all its attempts. It goes to every connection of its principal that may
take it when it is pushed; it is done when one of them answered and none of the others is still at it. One that nobody
could take waits for the first connection that may.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

import anyio
from anyio.lowlevel import checkpoint

from ..errors import InvalidValueError
from ..protocol import PushEventParams, decode_typed
from ..wire.values import encode_value
from .journal import Change, Journal, OutboxStore

__all__ = ("DEFAULT_OUTBOX_LIMIT", "Attempts", "Outbox", "Taker", "retry_delay")

_logger = logging.getLogger("mcpl_core")

#: Events kept for one principal; beyond it the oldest is dropped.
DEFAULT_OUTBOX_LIMIT = 1000


class Taker(Protocol):
    """One connection of a principal, as the outbox sees it. Compared by identity."""

    def may_take(self, event: PushEventParams) -> bool:
        """Whether the event may be sent to this host now."""

    def wake(self) -> None:
        """There may be something to send."""


@dataclass(slots=True)
class Attempts:
    """One connection's attempts at one event.

    Attributes:
        count: how many there were.
        due: when the next may begin, in seconds on the connection's clock.
        under_way: one was sent and is not answered.
    """

    count: int = 0
    due: float = 0.0
    under_way: bool = False


@dataclass(slots=True)
class _Entry:
    """An event for one principal."""

    event: PushEventParams
    takers: dict[Taker, Attempts] = field(default_factory=dict)
    answered: bool = False


class Outbox:
    """Events by principal.

    Args:
        limit: events kept for one principal.
        store: where they outlive the process; left out, they do not.

    Attributes:
        dropped: events that were given up for newer ones.
    """

    def __init__(self, limit: int = DEFAULT_OUTBOX_LIMIT, store: OutboxStore | None = None) -> None:
        if limit < 1:
            raise InvalidValueError("limit", "at least one event must be kept")
        self.limit = limit
        self.dropped = 0
        self._journal = Journal(store) if store is not None else None
        self._entries: dict[str, OrderedDict[str, _Entry]] = {}
        self._takers: dict[str, dict[Taker, None]] = {}
        self._known: dict[str, None] = {}
        for principal, event_id, text in store.load() if store is not None else ():
            self._load(principal, event_id, text)

    def _load(self, principal: str, event_id: str, text: bytes) -> None:
        try:
            event = decode_typed(text, PushEventParams)
        except InvalidValueError as exc:
            _logger.warning("outbox: event %s cannot be read and is dropped: %s", event_id, exc)
            self._note(principal, event_id)
        else:
            self._entries.setdefault(principal, OrderedDict())[event_id] = _Entry(event)

    # -- in

    async def put(self, principals: Iterable[str], event: PushEventParams) -> None:
        """Keeps an event for each of the principals; it is on the disk, where there is one, when this returns. An
        event whose id waits already is the same event.

        Raises:
            UnencodableError: it has no JSON form.
            OutboxStoreError: the disk failed; the event is not kept.
        """
        new = [name for name in dict.fromkeys(principals) if event.event_id not in self._of(name)]
        text = encode_value(event)
        # Cancellation is noticed before; from here on it is done or not, and nothing in between.
        await checkpoint()
        with anyio.CancelScope(shield=True):
            if self._journal is not None:
                await self._journal.write([Change(name, event.event_id, text) for name in new])
            for name in new:
                self._enter(name, event)

    def _enter(self, principal: str, event: PushEventParams) -> None:
        entries = self._entries.setdefault(principal, OrderedDict())
        entry = entries.setdefault(event.event_id, _Entry(event))
        for taker in self._takers.get(principal, ()):
            if taker not in entry.takers and taker.may_take(event):
                entry.takers[taker] = Attempts()
                taker.wake()
        while len(entries) > self.limit:
            oldest = next(iter(entries))
            self.dropped += 1
            _logger.warning("outbox: %d events wait for %s; %s is dropped", self.limit, principal, oldest)
            self._remove(principal, oldest)

    # -- connections

    def attach(self, principal: str, taker: Taker) -> None:
        """A connection of this principal begins."""
        self._known[principal] = None
        self._takers.setdefault(principal, {})[taker] = None
        self.reassign(principal)

    def detach(self, principal: str, taker: Taker) -> None:
        """It ended: what it was at is done if another one answered it, else it waits for the next."""
        takers = self._takers.get(principal, {})
        if takers.pop(taker, self) is self:
            return
        if not takers:
            del self._takers[principal]
        for event_id, entry in list(self._of(principal).items()):
            self._give_back(principal, event_id, entry, taker)
        self.reassign(principal)

    def reassign(self, principal: str) -> None:
        """What the connections of this principal may take changed: events that they may not take any more go back,
        and those that nobody is at go to the first that may take them."""
        takers = self._takers.get(principal, {})
        for event_id, entry in list(self._of(principal).items()):
            for taker, attempts in list(entry.takers.items()):
                if not attempts.under_way and not taker.may_take(entry.event):
                    self._give_back(principal, event_id, entry, taker)
            if not entry.takers and not entry.answered:
                taken = next((taker for taker in takers if taker.may_take(entry.event)), None)
                if taken is not None:
                    entry.takers[taken] = Attempts()
                    taken.wake()

    def _give_back(self, principal: str, event_id: str, entry: _Entry, taker: Taker) -> None:
        entry.takers.pop(taker, None)
        if entry.answered and not entry.takers:
            self._remove(principal, event_id)

    def owed(self, principal: str, taker: Taker) -> Iterator[tuple[PushEventParams, Attempts]]:
        """The events that a connection is to send, oldest first, without those that are under way."""
        for entry in self._of(principal).values():
            attempts = entry.takers.get(taker)
            if attempts is not None and not attempts.under_way:
                yield entry.event, attempts

    def settle(self, principal: str, taker: Taker, event_id: str) -> None:
        """The host answered the event on this connection, with whatever answer."""
        entry = self._of(principal).get(event_id)
        if entry is not None:
            entry.answered = True
            self._give_back(principal, event_id, entry, taker)

    # -- out

    @property
    def principals(self) -> tuple[str, ...]:
        """Who had a connection since this outbox was made, or has events waiting."""
        return tuple(dict.fromkeys((*self._known, *self._entries)))

    def waiting(self, principal: str) -> int:
        """How many events wait for a principal."""
        return len(self._of(principal))

    def forget(self, principal: str) -> None:
        """Drops all events of a principal, who is not known any more unless connected."""
        if principal not in self._takers:
            self._known.pop(principal, None)
        for event_id in list(self._of(principal)):
            self._remove(principal, event_id)

    async def flush(self) -> None:
        """Returns when the disk knows which events are done.

        Raises:
            OutboxStoreError: the disk failed.
        """
        if self._journal is not None:
            await self._journal.flush()

    def close(self) -> None:
        """Writes what is left to write and releases the store; the outbox keeps nothing any more.

        Raises:
            OutboxStoreError: the disk failed.
        """
        if self._journal is not None:
            self._journal.close()

    def _of(self, principal: str) -> OrderedDict[str, _Entry]:
        return self._entries.get(principal) or OrderedDict()

    def _remove(self, principal: str, event_id: str) -> None:
        entries = self._entries[principal]
        del entries[event_id]
        if not entries:
            del self._entries[principal]
        self._note(principal, event_id)

    def _note(self, principal: str, event_id: str) -> None:
        if self._journal is not None:
            self._journal.note(Change(principal, event_id, None))


def retry_delay(attempt: int, first: float, longest: float) -> float:
    """Seconds to wait before attempt number ``attempt`` + 1, counted from 1: doubled each time, up to ``longest``."""
    return float(min(longest, first * 2 ** min(attempt - 1, 30)))
