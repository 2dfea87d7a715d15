"""Playing a transcript against a live peer: the same peer shows no difference, another one shows all of them."""

from __future__ import annotations

import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio
import pytest
from msgspec import UNSET

from mcpl_core.connection import McplConnection
from mcpl_core.errors import ERR_METHOD_NOT_FOUND, ProcessExitedError, TransportError
from mcpl_core.testing.raw import RawPeer
from mcpl_core.testing.recorder import Recorder
from mcpl_core.testing.replayer import Difference, Replayer, ReplayReport
from mcpl_core.testing.transcripts import Entry, Role
from mcpl_core.transports.base import Transport
from mcpl_core.transports.endpoints import transport_for
from mcpl_core.transports.memory import ScriptedTransport, memory_transports
from mcpl_core.wire.messages import Notification, Request

pytestmark = pytest.mark.anyio

LIMIT = 20.0


def out(message: Any) -> Entry:
    """What the host sent."""
    return Entry("to-server", message if isinstance(message, bytes) else json.dumps(message).encode())


def back(message: Any) -> Entry:
    """What the server sent."""
    return Entry("to-host", message if isinstance(message, bytes) else json.dumps(message).encode())


def ask(id: Any, method: str, params: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params or {}}


def tell(method: str, params: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params or {}}


def answer(id: Any, result: Any = None) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "result": result or {}}


Peer = Callable[[RawPeer], Awaitable[None]]


async def replayed(replayer: Replayer, peer: Peer) -> ReplayReport:
    """Plays against a peer that is a function."""
    ours, theirs = memory_transports()
    reports = []

    async def play() -> None:
        reports.append(await replayer.run(ours))

    with anyio.fail_after(LIMIT):
        async with RawPeer(theirs) as raw, anyio.create_task_group() as tasks:
            tasks.start_soon(play)
            await peer(raw)
    (report,) = reports
    return report


def brief(report: ReplayReport) -> list[tuple[Any, ...]]:
    return [(item.kind, item.entry, item.path, item.recorded, item.live) for item in report.differences]


# ---------------------------------------------------------------------------------------- the same again


async def server_of(transport: Transport, text: str = "hello") -> None:
    """Tells of progress and asks back before it answers."""

    async def call(request: Request | Notification) -> dict[str, Any]:
        await conn.send_notification("progress", {"of": request.params["n"]})
        heard = await conn.send_request("sample", {"n": request.params["n"]})
        return {"said": text, "heard": heard}

    async with McplConnection(transport) as conn:
        await conn.serve({"call": call})


async def host_of(transport: Transport, at_once: bool = False) -> None:
    """Calls three times, one after the other or all at once."""
    async with McplConnection(transport) as conn, anyio.create_task_group() as tasks:
        tasks.start_soon(conn.serve, {"sample": lambda request: request.params, "progress": lambda _: None})
        async with anyio.create_task_group() as calls:
            for number in range(3):
                if at_once:
                    calls.start_soon(conn.send_request, "call", {"n": number})
                else:
                    await conn.send_request("call", {"n": number})
        await conn.aclose()


async def recorded(at_once: bool = False) -> tuple[Entry, ...]:
    recorder = Recorder()
    left, right = memory_transports()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server_of, right)
            await host_of(recorder.tap(left), at_once)
    return tuple(recorder.entries)


@pytest.mark.parametrize("at_once", [False, True])
@pytest.mark.parametrize("role", ["host", "server"])
async def test_the_same_peer_does_the_same(role: Role, at_once: bool) -> None:
    entries = await recorded(at_once)
    again = Recorder()
    ours, theirs = memory_transports()
    reports = []

    async def play() -> None:
        reports.append(await Replayer(entries, role=role).run(again.tap(ours, role)))

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(play)
            await (server_of(theirs) if role == "host" else host_of(theirs, at_once))
    (report,) = reports
    assert report.same, report
    assert (report.sent, report.matched) == ((6, 9) if role == "host" else (9, 6))
    if not at_once:
        # Byte for byte.
        assert [entry.message for entry in again.entries] == [entry.message for entry in entries]


async def test_another_server_differs_where_it_does() -> None:
    entries = await recorded()
    ours, theirs = memory_transports()
    reports = []

    async def play() -> None:
        reports.append(await Replayer(entries).run(ours))

    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(play)
            await server_of(theirs, "bye")
    (report,) = reports
    assert not report.same
    assert {item.path for item in report.differences} == {"$.result.said"}
    assert {(item.recorded, item.live) for item in report.differences} == {("hello", "bye")}
    assert len(report.differences) == 3
    assert "$.result.said" in str(report) and '"bye"' in str(report)


# ---------------------------------------------------------------------------------------- one thing at a time


async def test_the_live_peer_has_ids_of_its_own() -> None:
    entries = [
        back(ask(1, "sample")),
        back(ask("1", "sample")),
        out(answer(1, "first")),
        out(tell("chunk", {"requestId": 1, "text": "a"})),
        back(tell("notifications/cancelled", {"requestId": "1"})),
        out(answer("1", "second")),
    ]

    async def peer(raw: RawPeer) -> None:
        await raw.send(ask("x", "sample"))
        await raw.send(ask(77, "sample"))
        assert json.loads(await raw.receive()) == answer("x", "first")
        assert json.loads(await raw.receive())["params"] == {"requestId": "x", "text": "a"}
        await raw.send(tell("notifications/cancelled", {"requestId": 77}))
        assert json.loads(await raw.receive()) == answer(77, "second")
        await raw.send_eof()

    report = await replayed(Replayer(entries), peer)
    assert report.same, report
    assert (report.sent, report.matched) == (3, 3)


async def test_request_ids_that_are_not_the_peers_stay() -> None:
    entries = [out(tell("x", {"requestId": 5})), out(tell("y", {"requestId": [1]})), back(tell("z", {"requestId": 6}))]

    async def peer(raw: RawPeer) -> None:
        for entry in entries[:2]:
            assert await raw.receive() == entry.message
        await raw.send(tell("z", {"requestId": 7}))
        await raw.send_eof()

    report = await replayed(Replayer(entries), peer)
    assert brief(report) == [("changed", 2, "$.params.requestId", 6, 7)]


async def test_the_peers_messages_may_come_in_another_order() -> None:
    entries = [out(ask(1, "a")), out(ask(2, "b")), back(tell("n")), back(answer(1)), back(answer(2))]

    async def peer(raw: RawPeer) -> None:
        await raw.receive()
        await raw.receive()
        for message in (answer(2), answer(1), tell("n")):
            await raw.send(message)
        await raw.send_eof()

    assert (await replayed(Replayer(entries), peer)).same


async def test_the_one_that_is_equal_belongs_to_it_whenever_it_comes() -> None:
    entries = [back(tell("n", {"x": number})) for number in range(4)] + [out(tell("done"))]

    async def peer(raw: RawPeer) -> None:
        for number in (2, 9, 3, 0):
            await raw.send(tell("n", {"x": number}))
        await raw.receive()
        await raw.send_eof()

    report = await replayed(Replayer(entries), peer)
    assert brief(report) == [("changed", 1, "$.params.x", 1, 9)]
    assert report.matched == 4


async def test_what_does_not_come_is_missing_and_what_comes_besides_is_extra() -> None:
    entries = [out(ask(1, "a")), back(tell("progress")), back(answer(1)), out(tell("bye"))]

    async def peer(raw: RawPeer) -> None:
        await raw.receive()
        await raw.send(tell("surprise", {"x": 1}))
        await raw.send(answer(1))
        assert json.loads(await raw.receive()) == tell("bye")
        await raw.send(answer(1))
        await raw.send_eof()

    report = await replayed(Replayer(entries, patience=0.05), peer)
    kinds = [(item.kind, item.message, item.entry) for item in report.differences]
    assert kinds == [
        ("extra", "surprise", None),
        ("missing", "progress", 1),
        ("extra", "the answer to request 1", None),
    ]
    assert report.differences[0].live == tell("surprise", {"x": 1})
    assert (report.sent, report.matched) == (2, 1)


async def test_a_request_that_the_transcript_does_not_have_is_answered() -> None:
    entries = [out(ask(1, "a")), back(answer(1))]

    async def peer(raw: RawPeer) -> None:
        await raw.receive()
        await raw.send(ask("mine", "ping"))
        refusal = json.loads(await raw.receive())
        assert (refusal["id"], refusal["error"]["code"]) == ("mine", ERR_METHOD_NOT_FOUND)
        await raw.send(answer(1))
        await raw.send_eof()

    report = await replayed(Replayer(entries), peer)
    assert [item.kind for item in report.differences] == ["extra"]
    assert report.matched == 1


async def test_an_answer_to_a_request_that_did_not_come_is_not_sent() -> None:
    entries = [back(ask(1, "sample")), out(answer(1)), out(tell("on"))]

    async def peer(raw: RawPeer) -> None:
        assert json.loads(await raw.receive()) == tell("on")
        await raw.send_eof()

    report = await replayed(Replayer(entries, patience=0.01), peer)
    assert [(item.kind, item.entry) for item in report.differences] == [("missing", 0), ("not-sent", 1)]


async def test_a_peer_that_goes_on_for_ever_ends_nothing() -> None:
    entries = [out(tell("start")), back(tell("never"))]

    async def peer(raw: RawPeer) -> None:
        with anyio.move_on_after(LIMIT):
            while True:
                await raw.send(tell("tick"))
                await anyio.lowlevel.checkpoint()
                if raw._ended:
                    return

    report = await replayed(Replayer(entries, patience=0.05), peer)
    assert {item.kind for item in report.differences} == {"missing", "extra"}


async def test_a_peer_that_reads_nothing_ends_nothing() -> None:
    script = ScriptedTransport()
    script.stalled = True
    with anyio.fail_after(LIMIT):
        report = await Replayer([out(tell("start")), out(tell("more"))], patience=0.01).run(script)
    assert (report.sent, len(script.sent)) == (2, 2)


async def test_a_peer_that_leaves_early() -> None:
    entries = [out(ask(1, "a")), back(answer(1)), back(tell("n")), out(tell("bye"))]
    script = ScriptedTransport()
    failure = TransportError("gone")
    script.feed(answer(1))
    script.end(failure)
    with anyio.fail_after(LIMIT):
        report = await Replayer(entries).run(script)
    assert [(item.kind, item.entry) for item in report.differences] == [("missing", 2), ("not-sent", 3)]
    assert report.error is failure and not report.same
    assert "gone" in str(report)


async def test_how_it_ends_after_the_end_is_no_difference() -> None:
    code = 'import sys; sys.stdin.readline(); print(\'{"jsonrpc":"2.0","method":"n"}\'); sys.exit(1)'
    with anyio.fail_after(LIMIT):
        report = await Replayer([out(tell("x")), back({"jsonrpc": "2.0", "method": "n"})]).run(
            transport_for([sys.executable, "-c", code])
        )
    assert report.same, report


async def test_a_child_that_fails_before_the_end() -> None:
    with anyio.fail_after(LIMIT):
        report = await Replayer([back(tell("n"))]).run(transport_for([sys.executable, "-c", "raise SystemExit(3)"]))
    assert isinstance(report.error, ProcessExitedError)


async def test_nobody_is_there() -> None:
    with pytest.raises(TransportError):
        await Replayer([out(tell("x"))]).run(transport_for(["/nonexistent/server"]))


async def test_what_may_differ_and_what_was_taken_out_does_not_count() -> None:
    secret = ("$.result.token",)
    entries = [
        Entry("to-server", json.dumps(tell("login", {"password": "[redacted]"})).encode(), "", ("$.params.password",)),
        Entry("to-host", json.dumps(answer(1, {"token": "[redacted]", "at": 1, "x": 1})).encode(), "", secret),
    ]

    async def peer(raw: RawPeer) -> None:
        assert await raw.receive() == entries[0].message
        await raw.send(answer(1, {"token": "abc", "at": 2, "x": 2}))
        await raw.send_eof()

    report = await replayed(Replayer(entries, ignore=["at"]), peer)
    assert brief(report) == [("changed", 1, "$.result.x", 1, 2)]
    assert report.redacted == 1


async def test_what_is_no_json_is_compared_as_it_is() -> None:
    entries = [back(b"banner 1"), back(b"same"), out(b"oops")]

    async def peer(raw: RawPeer) -> None:
        await raw.send(b"banner 2")
        await raw.send(b"same")
        assert await raw.receive() == b"oops"
        await raw.send_eof()

    report = await replayed(Replayer(entries), peer)
    assert brief(report) == [("changed", 0, "$", b"banner 1", b"banner 2")]
    assert "banner 2" in str(report)


async def test_an_answer_that_cannot_be_rewritten_goes_out_as_it_is() -> None:
    odd = rb'{"jsonrpc":"2.0","id":1,"result":{},"\ud800":1}'
    entries = [back(ask(1, "a")), out(odd)]

    async def peer(raw: RawPeer) -> None:
        await raw.send(ask(2, "a"))
        assert await raw.receive() == odd
        await raw.send_eof()

    await replayed(Replayer(entries), peer)


async def test_each_entry_is_told_when_it_is_settled() -> None:
    entries = [out(ask(1, "a")), back(answer(1, {"n": 1}))]
    told: list[tuple[int, str, int]] = []

    async def peer(raw: RawPeer) -> None:
        await raw.receive()
        await raw.send(answer(1, {"n": 2}))
        await raw.send_eof()

    replayer = Replayer(entries, on_entry=lambda index, entry, found: told.append((index, entry.direction, len(found))))
    await replayed(replayer, peer)
    assert told == [(0, "to-server", 0), (1, "to-host", 1)]


def test_long_values_are_cut_when_shown() -> None:
    shown = str(Difference("changed", "m", 0, "$.a", "x" * 500, UNSET))
    assert len(shown) < 200 and "nothing" in shown
