"""The sans-I/O JSON-RPC peer: both sides of a connection look the same to it (JSON-RPC 2.0).

Owns: our request ids, who waits for which answer, which of the peer's requests are still unanswered, and the
states of closing, as a table. Texts go in (``receive``) and events come out; calls go in (``request``,
``respond``, ...) and texts come out. Does not own: bytes on a wire, waiting, time, and what a method means,
except ``notifications/cancelled``, which takes an answer back (MCP).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Any, Generic, TypeVar, final

import msgspec
from msgspec import UNSET, Raw

from ..errors import (
    ERR_INVALID_REQUEST,
    InternalError,
    InvalidParams,
    LocalProtocolError,
    MalformedMessageError,
    MessageTooLargeError,
    RpcError,
)
from .framing import DEFAULT_MAX_MESSAGE_BYTES
from .messages import (
    DEFAULT_MAX_DEPTH,
    Failure,
    Id,
    Malformed,
    Message,
    Notification,
    OutNotification,
    OutRequest,
    Request,
    Success,
    decode_message,
    encode_failure,
    encode_notification,
    encode_response,
    given,
    read_id,
)
from .together import decode_messages
from .values import encode_value

__all__ = (
    "CANCELLED",
    "CLOSED",
    "OPEN",
    "TRANSITIONS",
    "Answer",
    "Event",
    "Peer",
    "PeerState",
    "Problem",
    "Refusal",
    "Stray",
    "Trigger",
)

W = TypeVar("W")


class PeerState(Enum):
    """Where a connection is between its beginning and its end."""

    OPEN = "open"
    #: We ended our output on purpose; the input goes on.
    WRITE_ENDED = "write-ended"
    #: The input ended; requests already accepted are still being answered.
    DRAINING = "draining"
    CLOSED = "closed"


class Trigger(Enum):
    """What moves a connection to another state."""

    SEND_EOF = "send-eof"
    INPUT_ENDED = "input-ended"
    #: As ``INPUT_ENDED``, where somebody is still answering accepted requests.
    INPUT_ENDED_SERVING = "input-ended-serving"
    DRAINED = "drained"
    INPUT_FAILED = "input-failed"
    OUTPUT_FAILED = "output-failed"
    CLOSE = "close"


#: The members by name: looking one up costs as much as a call.
OPEN, _WRITE_ENDED, _DRAINING, CLOSED = PeerState
#: Where messages may be sent.
_SENDING = (OPEN, _DRAINING)

#: All transitions there are. A pair that is missing here changes nothing.
TRANSITIONS: dict[tuple[PeerState, Trigger], PeerState] = {
    (OPEN, Trigger.SEND_EOF): _WRITE_ENDED,
    (OPEN, Trigger.INPUT_ENDED): CLOSED,
    (OPEN, Trigger.INPUT_ENDED_SERVING): _DRAINING,
    (OPEN, Trigger.INPUT_FAILED): CLOSED,
    (OPEN, Trigger.OUTPUT_FAILED): CLOSED,
    (OPEN, Trigger.CLOSE): CLOSED,
    (_WRITE_ENDED, Trigger.INPUT_ENDED): CLOSED,
    (_WRITE_ENDED, Trigger.INPUT_ENDED_SERVING): CLOSED,
    (_WRITE_ENDED, Trigger.INPUT_FAILED): CLOSED,
    (_WRITE_ENDED, Trigger.CLOSE): CLOSED,
    (_DRAINING, Trigger.DRAINED): CLOSED,
    (_DRAINING, Trigger.SEND_EOF): CLOSED,
    (_DRAINING, Trigger.INPUT_FAILED): CLOSED,
    (_DRAINING, Trigger.OUTPUT_FAILED): CLOSED,
    (_DRAINING, Trigger.CLOSE): CLOSED,
}


# Not `gc=False`: what waits may hold an error whose traceback holds this.
@final
class Answer(msgspec.Struct, Generic[W]):
    """A result came for a request of ours; ``waiter`` is what ``request`` was given."""

    waiter: W
    result: Raw


@final
class Refusal(msgspec.Struct, Generic[W]):
    """An error came for a request of ours."""

    waiter: W
    error: RpcError


@final
class Stray(msgspec.Struct):
    """A response that nobody waits for: unknown, late, or sent twice."""

    id: Id


@final
class Problem(msgspec.Struct):
    """Something to report that is no message; the connection goes on.

    Attributes:
        error: a ``MalformedMessageError``, or the ``RpcError`` of a response with id null.
        reply: the text to answer with, or ``None``.
    """

    error: MalformedMessageError | RpcError
    reply: bytes | None = None


Event = Request | Notification | Answer[W] | Refusal[W] | Stray | Problem

#: The notification that takes a request back (MCP).
CANCELLED = "notifications/cancelled"
#: Marks an unanswered request that its sender took back; its answer is not sent.
_TAKEN_BACK = object()
#: From so many unanswered requests on, integers beyond 64 bits are no ids. Anybody can find any number of them
#: whose hashes are equal (they are the remainders modulo 2^61 - 1), and a dictionary of those is a list.
_CROWD = 1024


class Peer(Generic[W]):
    """One end of a JSON-RPC connection.

    Args:
        max_message_bytes: the longest outgoing message, in bytes.
        max_depth: the deepest nesting of an incoming message.
    """

    __slots__ = ("_in_flight", "_last_id", "max_depth", "max_message_bytes", "pending", "state")

    def __init__(
        self,
        *,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        max_depth: int = DEFAULT_MAX_DEPTH,
    ) -> None:
        self.max_message_bytes = max_message_bytes
        self.max_depth = max_depth
        self.state = PeerState.OPEN
        #: Our unanswered requests: id -> what ``request`` was given.
        self.pending: dict[Id, W] = {}
        self._in_flight: dict[Id, object] = {}
        self._last_id = 0

    # -- state

    def move(self, trigger: Trigger) -> bool:
        """Follows the table; true when the state changed."""
        state = TRANSITIONS.get((self.state, trigger))
        if state is None:
            return False
        self.state = state
        return True

    @property
    def can_send(self) -> bool:
        """Whether messages may still be sent."""
        return self.state in _SENDING

    @property
    def unanswered(self) -> list[Id]:
        """The peer's requests that are neither answered nor taken back."""
        return [id for id, state in self._in_flight.items() if state is not _TAKEN_BACK]

    # -- out

    def request(self, method: str, params: Any, waiter: W) -> tuple[int, bytes]:
        """A request of ours: its id and its text. Ids are 1, 2, 3, ...

        Raises:
            UnencodableError: ``params`` have no JSON form.
            MessageTooLargeError: the text is over the limit.
        """
        id = self._last_id + 1
        # As `encode_request`, with a call less; below likewise.
        text = encode_value(OutRequest(id, method, params if type(params) is not Raw else given(params)))
        if len(text) > self.max_message_bytes:
            raise MessageTooLargeError(len(text), self.max_message_bytes)
        self._last_id = id
        self.pending[id] = waiter
        return id, text

    def notify(self, method: str, params: Any) -> bytes:
        """The text of a notification.

        Raises:
            UnencodableError: ``params`` have no JSON form.
            MessageTooLargeError: the text is over the limit.
        """
        text = encode_value(OutNotification(method, params if type(params) is not Raw else given(params)))
        if len(text) > self.max_message_bytes:
            raise MessageTooLargeError(len(text), self.max_message_bytes)
        return text

    def respond(self, id: Id, result: Any) -> bytes | None:
        """The text that answers the peer's request ``id``; ``None`` when the peer took the request back, and when
        nothing can be sent any more.

        Raises:
            LocalProtocolError: no request with this id is waiting (answered already, or never asked).
            UnencodableError: ``result`` has no JSON form; the request still waits.
            MessageTooLargeError: the text is over the limit; the request still waits.
        """
        if self.state not in _SENDING:
            return None
        text = encode_response(id, result) if self.wants(id) else None
        if text is not None and len(text) > self.max_message_bytes:
            raise MessageTooLargeError(len(text), self.max_message_bytes)
        del self._in_flight[id]
        return text

    def refuse(self, id: Id, code: int, message: str, data: Any = None) -> bytes | None:
        """As ``respond``, with an error.

        Raises:
            LocalProtocolError: no request with this id is waiting.
            UnencodableError: ``data`` has no JSON form; the request still waits.
            MessageTooLargeError: the text is over the limit; the request still waits.
        """
        if self.state not in _SENDING:
            return None
        text = encode_failure(id, code, message, data) if self.wants(id) else None
        if text is not None and len(text) > self.max_message_bytes:
            raise MessageTooLargeError(len(text), self.max_message_bytes)
        del self._in_flight[id]
        return text

    def forget(self, id: Id, reason: str) -> bytes | None:
        """Gives up on a request of ours: the notice for the peer, ``None`` when it was answered already."""
        if id not in self.pending:
            return None
        del self.pending[id]
        return encode_notification(CANCELLED, {"requestId": id, "reason": reason})

    def wants(self, id: Id) -> bool:
        """Whether the peer's request ``id`` still wants an answer: false when the peer took it back.

        Raises:
            LocalProtocolError: no request with this id is waiting.
        """
        wanted = self.waits(id)
        if wanted is None:
            raise LocalProtocolError(f"no request with id {id!r:.100} is waiting for an answer")
        return wanted

    def waits(self, id: Id) -> bool | None:
        """As ``wants``; ``None`` when no request with this id is waiting."""
        # ``True`` and ``1.0`` are found where ``1`` is, and would be written as themselves.
        state = self._in_flight.get(id) if type(id) is int or type(id) is str else None
        return None if state is None else state is not _TAKEN_BACK

    def room(self, id: Id) -> int:
        """How many bytes the text of a result for the peer's request ``id`` may have; 0 when it can have no answer."""
        if self.state not in _SENDING or not self.waits(id):
            return 0
        return max(self.max_message_bytes - len(encode_response(id, 0)) + 1, 0)

    # -- in

    def receive(self, text: bytes) -> Event[W]:
        """What one incoming text means. Never raises."""
        return self.accept(decode_message(text, max_depth=self.max_depth), text)

    def read(self, texts: Sequence[bytes]) -> Iterable[Message]:
        """The messages that texts are, at least one, each of which is then to be given to ``accept``. Never raises."""
        return decode_messages(texts, max_depth=self.max_depth)

    def accept(self, message: Message, text: bytes) -> Event[W]:
        """What an incoming message means; ``text`` is what it was read from."""
        # By exact type: that an object is not of a struct's type takes `isinstance` three times as long to find out.
        if type(message) is Notification:
            if message.method == CANCELLED:
                self._take_back(message)
            return message
        if type(message) is Request:
            return self._on_request(message, text)
        if type(message) is Malformed:
            return self._on_malformed(message)
        id = message.id
        if id is None:
            assert type(message) is Failure
            return Problem(message.error)
        if id not in self.pending:
            return Stray(id)
        waiter = self.pending.pop(id)
        return Answer(waiter, message.result) if type(message) is Success else Refusal(waiter, message.error)

    def _on_request(self, message: Request, text: bytes) -> Event[W]:
        id = message.id
        in_flight = self._in_flight
        if id in in_flight:
            # Also when it was taken back: whoever still works on the first would answer the second.
            return self._decline(MalformedMessageError("duplicate-id", "this id is still being answered", text), id)
        if len(in_flight) >= _CROWD and type(id) is int and id.bit_length() > 64:
            return self._decline(MalformedMessageError("invalid-id", "the id is beyond 64 bits", text), id)
        # An answer repeats the id, at worst with escapes of three times its size.
        if 3 * len(text) > self.max_message_bytes and not self._can_answer(id):
            return self._decline(MalformedMessageError("invalid-id", "the id is too long to be answered", text), None)
        in_flight[id] = message.method
        return message

    def _on_malformed(self, message: Malformed) -> Event[W]:
        error, answers = message.error, message.answers
        if answers is not UNSET and answers in self.pending:
            waiter = self.pending.pop(answers)
            return Refusal(waiter, InternalError(message=f"the peer's answer cannot be used: {error.detail}"))
        return Problem(error) if message.reply_id is UNSET else self._decline(error, message.reply_id)

    def _decline(self, error: MalformedMessageError, id: Id | None) -> Problem:
        """The one answer to what is no valid request. It is an error, so nobody answers it in turn."""
        reply = self._invalid_request(id, error.detail)
        if len(reply) > self.max_message_bytes:
            reply = self._invalid_request(None, error.detail)
        return Problem(error, reply if len(reply) <= self.max_message_bytes else None)

    def _can_answer(self, id: Id) -> bool:
        limit = self.max_message_bytes
        # Under a limit that allows no answer at all, the id is not to blame.
        return len(self._invalid_request(id, "")) <= limit or len(self._invalid_request(None, "")) > limit

    @staticmethod
    def _invalid_request(id: Id | None, detail: str) -> bytes:
        return encode_failure(id, ERR_INVALID_REQUEST, f"Invalid Request: {detail}")

    def _take_back(self, message: Notification) -> None:
        try:
            params = message.params
        except InvalidParams:
            return
        id = read_id(params.get("requestId")) if isinstance(params, dict) else None
        # An initialize request cannot be taken back (MCP 2025-11-25, cancellation).
        if id is not None and self._in_flight.get(id, "initialize") != "initialize":
            self._in_flight[id] = _TAKEN_BACK
