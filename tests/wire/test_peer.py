"""The peer: who is a message for, what is answered and how often, and the states of closing."""

from __future__ import annotations

from collections import deque
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from mcpl_core.errors import (
    CapabilityDenied,
    InternalError,
    LocalProtocolError,
    MalformedMessageError,
    MessageTooLargeError,
    RpcError,
    UnencodableError,
)
from mcpl_core.wire.framing import LineDecoder, encode_line
from mcpl_core.wire.messages import (
    Notification,
    Request,
    encode_failure,
    encode_notification,
    encode_request,
    encode_response,
)
from mcpl_core.wire.peer import (
    TRANSITIONS,
    Answer,
    Event,
    Peer,
    PeerState,
    Problem,
    Refusal,
    Stray,
    Trigger,
)
from mcpl_core.wire.values import decode_value, dump_ascii
from tests.wire.replay import receive_all, summary
from tests.wire.test_messages import FRAGMENTS, MALFORMED, MEMBERS, text

REQUEST = text('"id":1', '"method":"m"')


def cancelled(id: str) -> bytes:
    return text('"method":"notifications/cancelled"', f'"params":{{"requestId":{id},"reason":"r"}}')


def asked(peer: Peer[Any], *texts: bytes) -> Peer[Any]:
    """The peer, after these requests came."""
    for line in texts:
        assert isinstance(peer.receive(line), Request)
    return peer


def problem(event: Event[Any]) -> tuple[Any, ...]:
    assert isinstance(event, Problem)
    return summary(event)[1:]


# -- requests of ours


@pytest.mark.spec("4.1-1")
def test_our_ids_count_from_one() -> None:
    peer: Peer[str] = Peer()
    assert peer.request("a", UNSET, "first") == (1, encode_request(1, "a"))
    assert peer.request("b", {"x": 1}, "second") == (2, encode_request(2, "b", {"x": 1}))
    assert peer.pending == {1: "first", 2: "second"}


def test_params_that_were_absent_are_passed_on_as_absent() -> None:
    peer: Peer[str] = Peer()
    assert peer.request("a", Raw(b""), "w") == (1, encode_request(1, "a"))
    assert peer.request("a", Raw(b"[1]"), "w") == (2, encode_request(2, "a", [1]))
    assert peer.notify("a", Raw(b"")) == encode_notification("a")
    assert peer.notify("a", Raw(b"{}")) == encode_notification("a", {})


@pytest.mark.spec("4.1-1", "R-wire-3", "R-wire-4")
def test_answers_find_their_requests_in_any_order() -> None:
    peer: Peer[str] = Peer()
    for waiter in ("a", "b", "c", "d"):
        peer.request("m", UNSET, waiter)
    lines = [
        encode_response(3, {"x": 1}),
        encode_response("1", 0),
        text('"id":1.0', '"result":null'),
        encode_failure(2, -32002, "denied", {"capability": "tools"}),
        encode_response(1, 0),
        encode_response(5, 0),
        encode_failure(2, 1, "again"),
        encode_response(True, 0),
    ]
    assert receive_all(peer, lines) == [
        ("answer", "c", b'{"x":1}'),
        ("stray", "1"),
        ("answer", "a", b"null"),
        ("refusal", "b", -32002, "denied", {"capability": "tools"}),
        ("stray", 1),
        ("stray", 5),
        ("stray", 2),
        ("problem", "invalid-response", UNSET),
    ]
    assert peer.pending == {4: "d"}


@pytest.mark.spec("6.6-2")
def test_a_refusal_has_the_class_of_its_code() -> None:
    peer: Peer[None] = Peer()
    peer.request("m", UNSET, None)
    event = peer.receive(encode_failure(1, -32002, "denied", {"capability": "tools"}))
    assert isinstance(event, Refusal) and type(event.error) is CapabilityDenied
    assert (event.error.code, event.error.message, event.error.data) == (-32002, "denied", {"capability": "tools"})


@pytest.mark.parametrize("bad", [object(), float("nan")])
def test_a_request_that_cannot_be_written_leaves_no_trace(bad: Any) -> None:
    peer: Peer[str] = Peer()
    with pytest.raises(UnencodableError):
        peer.request("m", bad, "w")
    with pytest.raises(UnencodableError):
        peer.notify("m", bad)
    assert peer.pending == {}
    assert peer.request("m", UNSET, "w")[0] == 1


@pytest.mark.spec("R-wire-11")
def test_what_is_over_the_limit_is_not_written() -> None:
    exact = encode_request(1, "m", ["x" * 50])
    assert Peer[None](max_message_bytes=len(exact)).request("m", ["x" * 50], None)[1] == exact
    peer: Peer[None] = Peer(max_message_bytes=len(exact) - 1)
    with pytest.raises(MessageTooLargeError) as caught:
        peer.request("m", ["x" * 50], None)
    assert (caught.value.size, caught.value.limit) == (len(exact), len(exact) - 1)
    with pytest.raises(MessageTooLargeError):
        peer.notify("m", ["x" * 80])
    with pytest.raises(MessageTooLargeError):
        peer.notify("m", ["x" * 60])
    assert peer.pending == {}


def test_a_request_that_was_given_up() -> None:
    peer: Peer[None] = Peer()
    peer.request("m", UNSET, None)
    notice = peer.forget(1, "timeout")
    assert notice is not None
    assert decode_value(notice) == {
        "jsonrpc": "2.0",
        "method": "notifications/cancelled",
        "params": {"requestId": 1, "reason": "timeout"},
    }
    assert peer.forget(1, "timeout") is None
    assert peer.pending == {}
    assert summary(peer.receive(encode_response(1, 0))) == ("stray", 1)


@pytest.mark.spec("R-wire-14")
@pytest.mark.parametrize(
    "answer", [text('"id":1'), text('"id":1', '"error":null'), text('"id":1', '"result":' + "[" * 300 + "]" * 300)]
)
def test_a_broken_answer_fails_its_request(answer: bytes) -> None:
    peer: Peer[str] = Peer()
    peer.request("m", UNSET, "w")
    event = peer.receive(answer)
    assert isinstance(event, Refusal)
    assert event.waiter == "w" and type(event.error) is InternalError and event.error.message
    assert peer.pending == {}
    assert not isinstance(peer.receive(answer), Refusal)


@pytest.mark.spec("R-wire-4")
def test_an_error_without_a_request_is_reported() -> None:
    peer: Peer[str] = Peer()
    peer.request("m", UNSET, "w")
    event = peer.receive(text('"id":null', '"error":{"code":-32700,"message":"Parse error"}'))
    assert isinstance(event, Problem) and isinstance(event.error, RpcError)
    assert (event.error.code, event.error.message, event.reply) == (-32700, "Parse error", None)
    assert peer.pending == {1: "w"}


# -- requests of the peer


@pytest.mark.spec("4.1-1", "6.6-6")
def test_each_request_is_answered_once() -> None:
    peer = asked(Peer(), REQUEST, text('"id":"1"', '"method":"m"'), text('"id":2.0', '"method":"m"'))
    assert peer.unanswered == [1, "1", 2]
    assert peer.respond("1", {"a": None}) == encode_response("1", {"a": None})
    assert peer.respond(2, 0) == encode_response(2, 0)
    assert peer.refuse(1, -32601, "no such method") == encode_failure(1, -32601, "no such method")
    assert peer.unanswered == []
    for again in (1, "1", 2):
        with pytest.raises(LocalProtocolError):
            peer.respond(again, 0)
        with pytest.raises(LocalProtocolError):
            peer.refuse(again, 1, "m")


@pytest.mark.parametrize("id", [True, 1.0, "1", 2, None, [1], object()])
def test_nobody_asked_with_this_id(id: Any) -> None:
    peer = asked(Peer(), REQUEST)
    for call in (lambda: peer.respond(id, 0), lambda: peer.refuse(id, 1, "m"), lambda: peer.wants(id)):
        with pytest.raises(LocalProtocolError):
            call()
    assert peer.unanswered == [1]


def test_the_same_id_in_both_directions() -> None:
    peer: Peer[str] = Peer()
    peer.request("m", UNSET, "w")
    asked(peer, REQUEST)
    assert peer.respond(1, "ours") == encode_response(1, "ours")
    assert summary(peer.receive(encode_response(1, "theirs"))) == ("answer", "w", b'"theirs"')


def test_an_answer_that_cannot_be_written_leaves_the_request_open() -> None:
    peer = asked(Peer(max_message_bytes=200), REQUEST)
    with pytest.raises(UnencodableError):
        peer.respond(1, object())
    with pytest.raises(UnencodableError):
        peer.refuse(1, 1, "m", float("inf"))
    with pytest.raises(MessageTooLargeError):
        peer.respond(1, "x" * 200)
    with pytest.raises(MessageTooLargeError):
        peer.refuse(1, 1, "x" * 200)
    assert peer.unanswered == [1]
    assert peer.refuse(1, -32603, "Internal error") is not None


@pytest.mark.spec("R-wire-5", "6.6-6")
def test_two_open_requests_with_one_id() -> None:
    peer = asked(Peer(), REQUEST)
    for same in (REQUEST, text('"id":1.0', '"method":"other"')):
        assert problem(peer.receive(same)) == ("duplicate-id", 1)
    assert peer.respond(1, "first") == encode_response(1, "first")
    asked(peer, REQUEST)


def test_the_report_of_a_second_request_holds_no_message() -> None:
    long = text('"id":1', '"method":"m"', '"params":["%s"]' % ("x" * 100_000))
    event = asked(Peer(), long).receive(long)
    assert isinstance(event, Problem) and isinstance(event.error, MalformedMessageError)
    assert event.error.args == (event.error.kind, event.error.detail, long[:200])


# -- taking back


@pytest.mark.spec("R-wire-6")
@pytest.mark.parametrize(
    ("id", "by"), [("1", "1"), ("1", "1.0"), ('"a"', '"a"'), ('"\\ud800"', '"\\uD800"'), ("1e1", "10")]
)
def test_a_cancelled_request_gets_no_answer(id: str, by: str) -> None:
    peer = asked(Peer(), text(f'"id":{id}', '"method":"m"'))
    (key,) = peer.unanswered
    assert peer.wants(key)
    assert isinstance(peer.receive(cancelled(by)), Notification)
    assert not peer.wants(key)
    assert peer.unanswered == []
    assert peer.respond(key, object()) is None
    with pytest.raises(LocalProtocolError):
        peer.respond(key, 0)


def test_a_cancelled_request_gets_no_error_either() -> None:
    peer = asked(Peer(), REQUEST)
    peer.receive(cancelled("1"))
    peer.receive(cancelled("1"))
    assert peer.refuse(1, 1, "m", object()) is None


@pytest.mark.parametrize(
    "notice",
    [
        cancelled('"1"'),
        cancelled("2"),
        cancelled("true"),
        cancelled("null"),
        cancelled("[1]"),
        cancelled("1e400"),
        text('"method":"notifications/cancelled"'),
        text('"method":"notifications/cancelled"', '"params":[1]'),
        text('"method":"notifications/cancelled"', '"params":1'),
        text('"method":"notifications/cancelled"', '"params":{"id":1}'),
        text('"method":"notifications/Cancelled"', '"params":{"requestId":1}'),
        text('"id":5', '"method":"notifications/cancelled"', '"params":{"requestId":1}'),
    ],
)
def test_notices_that_cancel_nothing(notice: bytes) -> None:
    peer = asked(Peer(), REQUEST)
    assert isinstance(peer.receive(notice), Notification | Request)
    assert peer.wants(1)


@pytest.mark.parametrize("id", ["1", '"a"', '"\\ud800"', "1e1"])
def test_the_room_for_a_result_is_exact(id: str) -> None:
    peer = asked(Peer(max_message_bytes=100), text(f'"id":{id}', '"method":"m"'))
    (key,) = peer.unanswered
    room = peer.room(key)
    with pytest.raises(MessageTooLargeError):
        peer.respond(key, "x" * (room - 1))
    answer = peer.respond(key, "x" * (room - 2))
    assert answer is not None
    assert len(answer) == 100
    assert peer.room(key) == 0


def test_there_is_no_room_for_what_is_not_wanted_or_cannot_be_sent() -> None:
    peer = asked(Peer(), REQUEST)
    assert peer.room(2) == 0
    assert peer.room(1) > 0
    peer.receive(cancelled("1"))
    assert peer.room(1) == 0
    closed = asked(Peer(), REQUEST)
    closed.move(Trigger.CLOSE)
    assert closed.room(1) == 0


def test_initialize_cannot_be_cancelled() -> None:
    peer = asked(Peer(), text('"id":1', '"method":"initialize"'))
    peer.receive(cancelled("1"))
    assert peer.wants(1)


@pytest.mark.parametrize("trigger", [Trigger.SEND_EOF, Trigger.CLOSE])
def test_when_nothing_can_be_sent_an_answer_has_no_text(trigger: Trigger) -> None:
    peer = asked(Peer(), b'{"jsonrpc":"2.0","id":1,"method":"m"}')
    peer.move(trigger)
    assert (peer.respond(1, 1), peer.refuse(1, -1, "no"), peer.respond("never asked", 1)) == (None, None, None)


def test_after_its_answer_a_request_cannot_be_cancelled() -> None:
    peer = asked(Peer(), REQUEST)
    peer.respond(1, 0)
    peer.receive(cancelled("1"))
    assert asked(peer, REQUEST).wants(1)


@pytest.mark.spec("R-wire-5")
def test_the_id_of_a_cancelled_request_is_free_when_its_handler_is_done() -> None:
    peer = asked(Peer(), REQUEST)
    peer.receive(cancelled("1"))
    # The answer to the first would be taken for an answer to the second.
    assert problem(peer.receive(REQUEST)) == ("duplicate-id", 1)
    assert peer.respond(1, "first") is None
    assert asked(peer, REQUEST).respond(1, "second") == encode_response(1, "second")


# -- what is no message


@pytest.mark.spec("4.1-2", "R-wire-2", "R-wire-7", "R-wire-13")
@pytest.mark.parametrize(("given", "kind", "reply_id"), MALFORMED, ids=lambda value: str(value)[:60])
def test_who_is_answered(given: bytes, kind: str, reply_id: Any) -> None:
    peer: Peer[None] = Peer()
    assert problem(peer.receive(given)) == (kind, reply_id)
    assert peer.unanswered == []


def test_what_an_answer_to_no_message_says() -> None:
    event = Peer[None]().receive(text('"id":7', '"method":null'))
    assert isinstance(event, Problem) and event.reply is not None
    reply = decode_value(event.reply)
    assert reply["id"] == 7 and reply["error"]["code"] == -32600 and reply["error"]["message"]


# -- ids that cannot be kept or repeated


@pytest.mark.spec("R-wire-3")
def test_large_integers_are_ids_like_others() -> None:
    peer = asked(Peer(), text('"id":1' + "0" * 40, '"method":"m"'))
    assert peer.respond(10**40, 0) == encode_response(10**40, 0)


def test_large_integers_are_no_ids_in_a_crowd() -> None:
    """They can be chosen so that all have one hash, and a dictionary of those takes quadratic time."""
    prime = 2**61 - 1
    ids = [2**70 * prime + number * prime for number in range(3000)]
    assert {hash(id) for id in ids} == {0}
    peer: Peer[None] = Peer()
    events = [summary(peer.receive(encode_request(id, "m"))) for id in ids]
    assert [event[0] for event in events] == ["request"] * 1024 + ["problem"] * 1976
    assert events[-1] == ("problem", "invalid-id", ids[-1])
    asked(peer, REQUEST, encode_request(2**64 - 1, "m"), encode_request("a", "m"))
    peer.respond(ids[0], 0)


@pytest.mark.parametrize(
    "char, times", [("x", 440), ("é", 220), ("\u2028", 80), ("\ud800", 74), ("\x01", 74), ('"', 220)]
)
def test_an_id_that_no_answer_can_carry(char: str, times: int) -> None:
    given = encode_request(char * times, "m").replace(b"\\u2028", "\u2028".encode())
    peer: Peer[None] = Peer(max_message_bytes=500)
    assert len(given) <= 500
    assert problem(peer.receive(given)) == ("invalid-id", None)
    assert peer.unanswered == []
    # The same in something that is no request.
    assert problem(peer.receive(given.replace(b'"2.0"', b'"1.0"'))) == ("invalid-request", None)


def test_an_id_that_grows_when_it_is_written() -> None:
    """Beside a lone surrogate every character above ASCII becomes an escape."""
    given = text('"id":"\\ud800' + "é" * 80 + '"', '"method":"m"')
    assert len(given) < 250
    assert problem(Peer[None](max_message_bytes=500).receive(given)) == ("invalid-id", None)


def test_an_answer_may_be_as_long_as_the_limit() -> None:
    shortest = len(encode_failure("x" * 200, -32600, "Invalid Request: "))
    given = encode_request("x" * 200, "m")
    asked(Peer(max_message_bytes=shortest), given)
    assert problem(Peer[None](max_message_bytes=shortest - 1).receive(given)) == ("invalid-id", None)
    for room, reply_id in ((0, "x" * 200), (-1, None)):
        invalid = encode_request("x" * 200, "m").replace(b'"2.0"', b'"1.0"')
        event = Peer[None]().receive(invalid)
        assert isinstance(event, Problem) and event.reply is not None
        peer: Peer[None] = Peer(max_message_bytes=len(event.reply) + room)
        assert problem(peer.receive(invalid)) == ("invalid-request", reply_id)


@given(st.text(max_size=60), st.integers(0, 400))
def test_every_request_that_is_delivered_can_be_answered(id: str, limit: int) -> None:
    peer: Peer[None] = Peer(max_message_bytes=limit)
    event = peer.receive(encode_request(id, "m"))
    if isinstance(event, Request) and limit > 100:
        answer = peer.refuse(event.id, -32603, "Internal error")
        assert answer is not None and len(answer) <= limit
    elif isinstance(event, Problem) and event.reply is not None:
        assert len(event.reply) <= limit


def test_a_limit_that_allows_no_answer() -> None:
    peer: Peer[None] = Peer(max_message_bytes=50)
    event = peer.receive(text('"id":1', '"method":7'))
    assert isinstance(event, Problem) and event.reply is None
    asked(peer, REQUEST)


# -- states

MOVES = [
    # state, trigger, state afterwards
    ("open", "send-eof", "write-ended"),
    ("open", "input-ended", "closed"),
    ("open", "input-ended-serving", "draining"),
    ("open", "drained", "open"),
    ("open", "input-failed", "closed"),
    ("open", "output-failed", "closed"),
    ("open", "close", "closed"),
    ("write-ended", "send-eof", "write-ended"),
    ("write-ended", "input-ended", "closed"),
    ("write-ended", "input-ended-serving", "closed"),
    ("write-ended", "drained", "write-ended"),
    ("write-ended", "input-failed", "closed"),
    ("write-ended", "output-failed", "write-ended"),
    ("write-ended", "close", "closed"),
    ("draining", "send-eof", "closed"),
    ("draining", "input-ended", "draining"),
    ("draining", "input-ended-serving", "draining"),
    ("draining", "drained", "closed"),
    ("draining", "input-failed", "closed"),
    ("draining", "output-failed", "closed"),
    ("draining", "close", "closed"),
    *(("closed", trigger.value, "closed") for trigger in Trigger),
]


def test_every_state_and_trigger_has_its_row() -> None:
    assert {(state, trigger) for state, trigger, _ in MOVES} == {(s.value, t.value) for s in PeerState for t in Trigger}
    assert len(MOVES) == len(PeerState) * len(Trigger)
    assert all(before is not after for (before, _), after in TRANSITIONS.items())


@pytest.mark.parametrize(("before", "trigger", "after"), MOVES)
def test_transitions(before: str, trigger: str, after: str) -> None:
    peer: Peer[None] = Peer()
    peer.state = PeerState(before)
    assert peer.move(Trigger(trigger)) is (before != after)
    assert peer.state is PeerState(after)
    assert peer.can_send is (after in ("open", "draining"))


@given(st.lists(st.sampled_from(Trigger), max_size=8))
def test_closed_is_final_and_reached_once(triggers: list[Trigger]) -> None:
    peer: Peer[None] = Peer()
    states = [peer.state]
    for trigger in triggers:
        peer.move(trigger)
        states.append(peer.state)
    assert sum(a is not PeerState.CLOSED and b is PeerState.CLOSED for a, b in pairwise(states)) <= 1
    if PeerState.CLOSED in states:
        assert peer.state is PeerState.CLOSED


# -- properties

JUNK = st.one_of(
    st.binary(max_size=60),
    FRAGMENTS.map(lambda parts: "".join(parts).encode()),
    MEMBERS.map(dump_ascii),
    st.lists(MEMBERS, max_size=3).map(dump_ascii),
    st.sampled_from([row[0] for row in MALFORMED]),
    st.sampled_from(
        [REQUEST, cancelled("1"), encode_response(1, 0), encode_failure(1, 1, "m"), encode_notification("m")]
    ),
)


class Side:
    """A peer whose application answers every request, and what it still has to send."""

    def __init__(self, junk: list[bytes]) -> None:
        self.peer: Peer[None] = Peer(max_depth=8)
        self.out = deque(junk)

    def receive(self, given: bytes) -> None:
        event = self.peer.receive(given)
        if isinstance(event, Request):
            answer = self.peer.refuse(event.id, -32601, "no such method")
            assert answer is not None
            self.out.append(answer)
        elif isinstance(event, Problem) and event.reply is not None:
            self.out.append(event.reply)


@pytest.mark.spec("R-wire-4", "R-wire-7")
@given(st.lists(JUNK, max_size=8), st.lists(JUNK, max_size=8), st.integers(0, 3))
def test_two_peers_settle_whatever_is_thrown_in(here: list[bytes], there: list[bytes], requests: int) -> None:
    sides = Side(here), Side(there)
    for side in sides:
        side.out.extend(side.peer.request("m", UNSET, None)[1] for _ in range(requests))
    sent, started = 0, len(here) + len(there) + 2 * requests
    while sides[0].out or sides[1].out:
        for sender, receiver in (sides, sides[::-1]):
            if sender.out:
                receiver.receive(sender.out.popleft())
                sent += 1
                # Each message is answered at most once, and no answer is answered.
                assert sent <= 2 * started


@given(st.lists(JUNK, max_size=8), st.integers(0, 3))
def test_an_echo_settles_too(junk: list[bytes], requests: int) -> None:
    side, sent = Side([]), 0
    side.out.extend(side.peer.request("m", UNSET, None)[1] for _ in range(requests))
    for line in junk:
        side.receive(line)
    while side.out:
        side.receive(side.out.popleft())
        sent += 1
        assert sent <= 2 * (len(junk) + requests)


@given(st.lists(JUNK, max_size=8), st.data())
@example([b'{"jsonrpc":"2.0","id":1}', b"\r", b"\xff\n{}"], None)
def test_traffic_survives_any_chunking(junk: list[bytes], data: st.DataObject | None) -> None:
    def side() -> Peer[int]:
        peer: Peer[int] = Peer()
        peer.request("m", UNSET, 1)
        return peer

    stream = b"".join(map(encode_line, junk)) + encode_line(encode_notification("last"))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12))) if data else [1, 2, 3]
    decoder = LineDecoder()
    pieces = [stream[start:end] for start, end in pairwise([0, *cuts, len(stream)])]
    events = receive_all(side(), (line for piece in pieces for line in decoder.feed(piece)))
    lines = [line.removesuffix(b"\r") for line in stream.split(b"\n")]
    assert events == receive_all(side(), (line for line in lines if line.strip(b" \t\r")))
    assert events[-1] == ("notification", "last", b"")


@given(st.binary(max_size=200), st.integers(1, 60))
def test_no_bytes_stop_later_messages(noise: bytes, limit: int) -> None:
    peer: Peer[None] = Peer(max_depth=3)
    decoder = LineDecoder(limit)
    last = b'{"jsonrpc":"2.0","method":"last"}'
    decoder.max_message_bytes = max(limit, len(last))
    events = receive_all(peer, decoder.feed(noise + b"\n" + last + b"\n"))
    assert events[-1] == ("notification", "last", b"")


def test_an_answer_is_still_raw() -> None:
    peer: Peer[str] = Peer()
    peer.request("m", UNSET, "w")
    assert peer.receive(text('"id":1', '"result":[1e400]')) == Answer("w", Raw(b"[1e400]"))
    assert peer.receive(text('"id":1', '"result":0')) == Stray(1)


def test_texts_that_came_together_mean_what_each_means_alone() -> None:
    deep = text('"method":"m"', '"params":[[[[' + "1" * 20 + "]]]]")
    fits = deep.replace(b"[[[[", b"[").replace(b"]]]]", b"]")
    texts = [*[fits] * 7, deep, REQUEST, REQUEST, cancelled("1"), *[fits] * 8, b"x"]
    alone, together = (Peer[None](max_depth=4) for _ in range(2))
    events = [
        summary(together.accept(message, text)) for message, text in zip(together.read(texts), texts, strict=True)
    ]
    assert events == [summary(alone.receive(text)) for text in texts]
    assert [event[1] for event in events if event[0] == "problem"] == ["too-deep", "duplicate-id", "not-json"]
    assert alone.unanswered == together.unanswered == []
