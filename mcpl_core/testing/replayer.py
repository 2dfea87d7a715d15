"""Playing one side of a transcript against a live peer.

Owns: the order of playing, the ids of the live peer, and the report. Does not own: the comparison (``comparing``), and
what carries the messages.

The transcript is played in its own order: before one of our messages goes out, everything that the recorded peer had
said by then must have come from the live one. That asks for nothing that the live peer cannot give: what passed before
our message was sent without knowing it. Among themselves the peer's messages may come in any order.

Our requests carry the ids of the transcript, so answers are found by id. The live peer's requests carry its own ids:
they are found by method, the one that is equal to the recorded one if there is one, and our recorded answers go out
under the live id; so does ``requestId`` in our params. A request that is nowhere in the transcript is answered with
-32601, so that the live peer is not kept waiting.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import anyio
from msgspec import UNSET

from ..errors import ERR_METHOD_NOT_FOUND, ConnectionClosedError, InvalidValueError
from ..transports.base import Transport
from ..wire.values import encode_value
from .comparing import Ignored, ParsedMessage, id_key, member_differences, with_member
from .raw import RawPeer
from .transcripts import Entry, Role, Way

__all__ = ("DEFAULT_PATIENCE", "Difference", "DifferenceKind", "ReplayReport", "Replayer")

#: Seconds without a word from the live peer, after which what is expected of it counts as missing.
DEFAULT_PATIENCE = 5.0

DifferenceKind: TypeAlias = Literal["changed", "missing", "extra", "not-sent"]

_SENDS: dict[Role, Way] = {"host": "to-server", "server": "to-host"}


@dataclass(frozen=True, slots=True)
class Difference:
    """One way in which the live peer did not do what the recorded one did.

    Attributes:
        kind: ``changed``: a member has another value; ``missing``: a message did not come; ``extra``: one came that the
            transcript does not have; ``not-sent``: ours, an answer to a request that did not come, or too late.
        message: what message it is about, for people.
        entry: the index of the entry; ``None`` for ``extra``.
        path: where in the message, ``$`` for the whole.
        recorded, live: the two values; ``UNSET`` where there is none.
    """

    kind: DifferenceKind
    message: str
    entry: int | None = None
    path: str = "$"
    recorded: Any = UNSET
    live: Any = UNSET

    def __str__(self) -> str:
        where = "" if self.entry is None else f" (entry {self.entry + 1})"
        if self.kind != "changed":
            return f"{self.kind}: {self.message}{where}"
        return f"changed: {self.message}{where} at {self.path}: {_shown(self.recorded)} became {_shown(self.live)}"


@dataclass(frozen=True, slots=True)
class ReplayReport:
    """What came of a replay.

    Attributes:
        sent: our messages that went out.
        matched: the peer's messages that came, with or without differences.
        differences: in the order in which they were found.
        redacted: our messages that went out with something taken out of them.
        error: what the connection failed with before the end, if it did.
    """

    sent: int
    matched: int
    differences: tuple[Difference, ...]
    redacted: int = 0
    error: BaseException | None = None

    @property
    def same(self) -> bool:
        """Whether the live peer did what the recorded one did."""
        return not self.differences and self.error is None

    def __str__(self) -> str:
        lines = [f"{self.sent} sent, {self.matched} matched, {len(self.differences)} differences"]
        lines += map(str, self.differences)
        if self.error is not None:
            lines.append(f"the connection failed: {self.error}")
        return "\n".join(lines)


class Replayer:
    """Plays one side of a transcript.

    Args:
        entries: of one connection, in order.
        role: the side to play; the live peer is the other one.
        ignore: what may differ: names of members, or paths (``$.params.*.at``), see ``Ignored``.
        patience: seconds without a word from the live peer, after which what is expected counts as missing.
        on_entry: called with each entry, its index and the differences found in it, as soon as it is settled.
    """

    def __init__(
        self,
        entries: Iterable[Entry],
        *,
        role: Role = "host",
        ignore: Iterable[str] = (),
        patience: float = DEFAULT_PATIENCE,
        on_entry: Callable[[int, Entry, tuple[Difference, ...]], object] | None = None,
    ) -> None:
        self.entries = tuple(entries)
        self.role = role
        self.patience = patience
        self._ignored = Ignored.parse(ignore)
        self._on_entry = on_entry

    async def run(self, transport: Transport) -> ReplayReport:
        """Plays against what is at the other end of ``transport``, which is closed afterwards.

        Raises:
            TransportError: there is nobody.
        """
        async with RawPeer(transport) as peer:
            play = _Play(self, peer)
            await play.all()
        return play.report()

    def _settled(self, index: int, entry: Entry, found: tuple[Difference, ...]) -> None:
        if self._on_entry is not None:
            self._on_entry(index, entry, found)


class _Play:
    """One run of a replayer."""

    def __init__(self, replayer: Replayer, peer: RawPeer) -> None:
        self._replayer = replayer
        self._peer = peer
        self._ours = _SENDS[replayer.role]
        self._parsed = [ParsedMessage.parse(entry.message) for entry in replayer.entries]
        #: Entries that the live peer has not settled yet, by their key.
        self._expected: defaultdict[tuple[Any, ...], list[int]] = defaultdict(list)
        #: How many of our messages stand before each entry: what has none between may come in any order.
        self._phases = [0]
        for index, entry in enumerate(replayer.entries):
            self._phases.append(self._phases[-1] + (entry.direction == self._ours))
            if entry.direction != self._ours:
                self._expected[self._parsed[index].key].append(index)
        self._waiting: list[ParsedMessage] = []
        #: Recorded id of a request of the peer -> its live id.
        self._ids: dict[tuple[str, Any], Any] = {}
        #: Recorded ids of the peer's requests that did not come.
        self._unasked: set[tuple[str, Any]] = set()
        self._deadline = 0.0
        self._closed = False
        self._error: BaseException | None = None
        self._sent = self._matched = self._redacted = 0
        self._differences: list[Difference] = []

    def report(self) -> ReplayReport:
        return ReplayReport(self._sent, self._matched, tuple(self._differences), self._redacted, self._error)

    async def all(self) -> None:
        self._be_patient()
        for index, entry in enumerate(self._replayer.entries):
            before = len(self._differences)
            if entry.direction == self._ours:
                await self._say(index, entry)
            else:
                await self._hear(index, entry)
            self._replayer._settled(index, entry, tuple(self._differences[before:]))
        if not self._closed:
            await self._peer.send_eof()
            self._be_patient()
            while await self._take():
                pass
            # Whatever it ended with, it was asked to.
            self._error = None

    def _be_patient(self) -> None:
        self._deadline = anyio.current_time() + self._replayer.patience

    # -- our side

    async def _say(self, index: int, entry: Entry) -> None:
        message = self._parsed[index]
        text = None if self._closed else self._with_live_ids(message)
        if text is None:
            self._differ("not-sent", message, index, recorded=message.value)
            return
        with anyio.move_on_after(self._replayer.patience):  # it is written at once; what follows shows what came of it
            await self._peer.send(text)
        self._sent += 1
        self._redacted += bool(entry.redacted)
        self._be_patient()

    def _with_live_ids(self, message: ParsedMessage) -> bytes | None:
        """The text to send; ``None`` for an answer to a request that did not come."""
        text = message.text
        if message.kind == "response":
            if id_key(message.id) in self._unasked:
                return None
            return self._with_live_id(text, ("id",), message.id)
        about = _request_id(message.value)
        return text if about is None else self._with_live_id(text, ("params", "requestId"), about)

    def _with_live_id(self, text: bytes, path: tuple[str, ...], recorded: Any) -> bytes:
        live = self._ids.get(id_key(recorded), recorded)
        if live == recorded:
            return text
        try:
            return with_member(text, path, encode_value(live))
        except InvalidValueError:
            return text

    # -- the peer's side

    async def _hear(self, index: int, entry: Entry) -> None:
        recorded = self._parsed[index]
        live = self._counterpart(index)
        while live is None and await self._take():
            live = self._counterpart(index)
        live = live or self._counterpart(index, all_came=True)
        self._expected[recorded.key].remove(index)
        if live is None:
            if recorded.kind == "request":
                self._unasked.add(id_key(recorded.id))
            self._differ("missing", recorded, index, recorded=recorded.value)
            return
        self._waiting.remove(live)
        self._matched += 1
        if recorded.kind == "request":
            self._ids[id_key(recorded.id)] = live.id
        for path, before, after in self._differences_to(index, live):
            self._differ("changed", recorded, index, path, before, after)

    def _counterpart(self, index: int, *, all_came: bool = False) -> ParsedMessage | None:
        """The live message that belongs to entry ``index``, if it is there: one that is equal, else, when no equal one
        can be on its way any more, one that is equal to no other entry."""
        key = self._parsed[index].key
        candidates = [live for live in self._waiting if live.key == key]
        for live in candidates:
            if not self._differences_to(index, live):
                return live
        rivals = [other for other in self._expected[key] if other != index]
        if all_came or len(candidates) > sum(self._phases[other] == self._phases[index] for other in rivals):
            for live in candidates:
                if all(self._differences_to(other, live) for other in rivals):
                    return live
        return None

    def _differences_to(self, index: int, live: ParsedMessage) -> list[tuple[str, Any, Any]]:
        recorded = self._parsed[index]
        if recorded.value is UNSET or live.value is UNSET:
            return [] if recorded.text == live.text else [("$", recorded.text, live.text)]
        but = [*self._replayer.entries[index].redacted, "$.id"]
        before, after = _request_id(recorded.value), _request_id(live.value)
        if before is not None and self._ids.get(id_key(before)) == after:
            # Both speak of one request, which has another id here than there.
            but.append("$.params.requestId")
        return member_differences(recorded.value, live.value, self._replayer._ignored, but)

    async def _take(self) -> bool:
        """Takes the live peer's next message. False when none comes in time."""
        if self._closed or anyio.current_time() > self._deadline:
            return False
        with anyio.CancelScope(deadline=self._deadline):
            try:
                text = await self._peer.receive()
            except ConnectionClosedError as exc:
                self._closed = True
                self._error = exc.reason
            else:
                await self._sort(ParsedMessage.parse(text))
                return True
        return False

    async def _sort(self, live: ParsedMessage) -> None:
        waiting = sum(other.key == live.key for other in self._waiting)
        if waiting < len(self._expected[live.key]):
            self._waiting.append(live)
            self._be_patient()
            return
        # Extra messages do not make us wait longer: a peer may send some for ever.
        self._differ("extra", live, None, live=live.value)
        if live.kind == "request":
            error = {"code": ERR_METHOD_NOT_FOUND, "message": "the transcript has no such request"}
            await self._peer.send({"jsonrpc": "2.0", "id": live.id, "error": error})

    def _differ(
        self,
        kind: DifferenceKind,
        message: ParsedMessage,
        entry: int | None,
        path: str = "$",
        recorded: Any = UNSET,
        live: Any = UNSET,
    ) -> None:
        self._differences.append(Difference(kind, message.title, entry, path, recorded, live))


def _request_id(message: Any) -> Any:
    params = message.get("params") if isinstance(message, dict) else None
    return params.get("requestId") if isinstance(params, dict) else None


def _shown(value: Any, width: int = 80) -> str:
    if value is UNSET:
        return "nothing"
    text = repr(value) if isinstance(value, bytes) else encode_value(value).decode()
    return text if len(text) <= width else text[: width - 1] + "\u2026"
