"""Frames to messages: one message for each text message, whatever its frames and however they arrive."""

from __future__ import annotations

import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.extensions.permessage_deflate import PerMessageDeflate
from websockets.frames import Close, Frame, Opcode
from websockets.protocol import OPEN, Protocol
from websockets.server import ServerProtocol
from websockets.uri import parse_uri

from mcpl_core.errors import WebSocketClosedError
from mcpl_core.transports.websocket_incoming import Incoming

LIMIT = 1000
SIDES = ["client", "server"]


def protocol_of(side: str, limit: int | None = LIMIT) -> Protocol:
    if side == "server":
        return ServerProtocol(state=OPEN, max_size=limit)
    return ClientProtocol(parse_uri("ws://localhost/"), state=OPEN, max_size=limit)


def reader(side: str, limit: int = LIMIT) -> Incoming:
    return Incoming(protocol_of(side), limit)


def wire(side: str, *frames: Frame) -> bytes:
    """The frames as a peer of ``side`` sends them: a client masks."""
    return b"".join(frame.serialize(mask=side == "server") for frame in frames)


def text(data: str | bytes, fin: bool = True) -> Frame:
    return Frame(Opcode.TEXT, data.encode() if isinstance(data, str) else data, fin)


def more(data: bytes, fin: bool = True) -> Frame:
    return Frame(Opcode.CONT, data, fin)


def fed(incoming: Incoming, data: bytes, sizes: Iterable[int] = ()) -> list[bytes]:
    messages: list[bytes] = []
    for size in sizes:
        messages += incoming.receive(data[:size])
        data = data[size:]
    return messages + incoming.receive(data)


def code_of(incoming: Incoming) -> int:
    assert isinstance(incoming.end_error, WebSocketClosedError)
    return incoming.end_error.close_code


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("size", [0, 1, 125, 126, 127, 999, 1000])
def test_a_text_message_is_a_message(side: str, size: int) -> None:
    message = b"x" * size
    for sizes in ([], [1] * (size + 10), [7] * size):
        incoming = reader(side)
        data = wire(side, text(message), text(b"after"))
        assert fed(incoming, data, sizes) == [message, b"after"]
        assert not incoming.malformed and not incoming.ended


@pytest.mark.parametrize("side", SIDES)
def test_a_large_message_in_many_reads(side: str) -> None:
    message = json.dumps({"data": "\u00e9\u2028" * 100_000}, ensure_ascii=False).encode()
    incoming = reader(side, len(message))
    data = wire(side, text(message), text(b"{}"))
    assert fed(incoming, data, [65536] * (len(data) // 65536)) == [message, b"{}"]


@pytest.mark.parametrize("side", SIDES)
def test_newlines_and_two_values_in_one_text_stay_one_message(side: str) -> None:
    pretty, two = b'{\n  "a": 1\r\n}\n', b'{"a":1}\n{"b":2}\n'
    assert fed(reader(side), wire(side, text(pretty), text(two))) == [pretty, two]


@pytest.mark.parametrize("side", SIDES)
def test_fragments_are_one_message_with_control_frames_between_them(side: str) -> None:
    incoming = reader(side)
    frames = [
        text("{", False),
        Frame(Opcode.PING, b"p"),
        more(b"", False),
        more('"\u00e9"'.encode()[:2], False),
        Frame(Opcode.PONG, b""),
        more('"\u00e9"'.encode()[2:] + b":1}"),
        text("next"),
    ]
    assert fed(incoming, wire(side, *frames), [3] * 20) == ['{"\u00e9":1}'.encode(), b"next"]


@pytest.mark.parametrize("side", SIDES)
def test_a_binary_message_is_reported_and_dropped(side: str) -> None:
    incoming = reader(side)
    frames = [
        Frame(Opcode.BINARY, b'{"jsonrpc":"2.0","method":"x"}'),
        Frame(Opcode.BINARY, b"\xff" * 150, False),
        more(b"\xfe" * 150, False),
        more(b"\xfd" * 150),
        text("{}"),
    ]
    assert fed(incoming, wire(side, *frames)) == [b"{}"]
    assert [error.kind for error in incoming.malformed] == ["binary", "binary"]
    assert incoming.malformed[0].excerpt == b'{"jsonrpc":"2.0","method":"x"}'
    assert incoming.malformed[1].excerpt == b"\xff" * 150 + b"\xfe" * 50
    assert not incoming.ended


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("cut", [0, 3, 20])
def test_a_message_over_the_limit_is_reported_and_ends_the_connection(side: str, cut: int) -> None:
    incoming = reader(side)
    data = wire(side, text("{}"), text("x" * (LIMIT + 1)), text("[]"))
    assert fed(incoming, data, [cut]) == [b"{}"]
    assert [error.kind for error in incoming.malformed] == ["too-long"]
    assert incoming.ended and code_of(incoming) == 1009


def test_fragments_over_the_limit_together_end_the_connection() -> None:
    incoming = reader("server")
    frames = [text("x" * 600, False), more(b"x" * 400, False), more(b"x", False)]
    assert fed(incoming, wire("server", *frames)) == []
    assert [error.kind for error in incoming.malformed] == ["too-long"]
    assert code_of(incoming) == 1009


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize(
    "frames",
    [
        [text(b'"\xff"')],
        [text(b'"\xc3"')],
        [text(b'"\xed\xa0\x80"')],
        [text(b'"\xc3', False), more(b'"')],
    ],
    ids=["never", "cut", "surrogate", "fragments"],
)
@pytest.mark.parametrize("step", [1, 1000])
def test_invalid_utf8_is_reported_and_ends_the_connection(side: str, frames: list[Frame], step: int) -> None:
    incoming = reader(side)
    data = wire(side, text("{}"), *frames, text("[]"))
    assert fed(incoming, data, [step] * (len(data) // step)) == [b"{}"]
    assert [error.kind for error in incoming.malformed] == ["invalid-utf8"]
    assert code_of(incoming) == 1007


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\x83\x00", 1002),  # a reserved opcode
        (b"\xc1\x00", 1002),  # RSV1 without an extension
        (b"\x81\x80\x00\x00\x00\x00", 1002),  # a server that masks
        (b"\x80\x00", 1002),  # a continuation of nothing
        (b"\x01\x00\x81\x00", 1002),  # a new message inside a fragmented one
        (b"\x89\x7e\x00\x7e" + b"x" * 126, 1002),  # a long ping
        (b"\x88\x01\x00", 1002),  # half a close code
        (b"\x88\x04\x03\xe8\xff\xff", 1007),  # a reason that is no text
    ],
)
def test_what_the_protocol_does_not_allow_ends_the_connection(data: bytes, code: int) -> None:
    for sizes in ([], [1] * len(data)):
        incoming = reader("client")
        assert fed(incoming, data, sizes) == []
        assert incoming.ended and code_of(incoming) == code


def test_a_client_that_does_not_mask_ends_the_connection() -> None:
    incoming = reader("server")
    assert fed(incoming, wire("client", text("{}"))) == []
    assert code_of(incoming) == 1002


@pytest.mark.parametrize("code", [1000, 1001])
def test_an_ordinary_close_is_no_error(code: int) -> None:
    incoming = reader("client")
    data = wire("client", text("{}"), Frame(Opcode.CLOSE, Close(code, "bye").serialize()), text("[]"))
    assert fed(incoming, data) == [b"{}"]
    assert incoming.ended and incoming.end_error is None


def test_a_close_without_a_code_is_no_error() -> None:
    incoming = reader("client")
    assert fed(incoming, b"\x88\x00") == []
    assert incoming.ended and incoming.end_error is None


@pytest.mark.parametrize("code", [1002, 1008, 1011, 1012, 4000])
def test_any_other_close_is_an_error_with_its_code_and_reason(code: int) -> None:
    incoming = reader("server")
    fed(incoming, wire("server", Frame(Opcode.CLOSE, Close(code, "because").serialize())))
    error = incoming.end_error
    assert isinstance(error, WebSocketClosedError)
    assert (error.close_code, error.close_reason) == (code, "because")


def test_an_end_without_a_close_frame_is_1006() -> None:
    incoming = reader("client")
    incoming.receive(b"\x81\x05abc")
    cause = ConnectionResetError()
    incoming.lost(cause)
    assert incoming.ended and code_of(incoming) == 1006
    assert incoming.end_error is not None and incoming.end_error.__cause__ is cause


def test_an_end_after_a_close_frame_changes_nothing() -> None:
    incoming = reader("client")
    incoming.receive(b"\x88\x00")
    incoming.lost(ConnectionResetError())
    assert incoming.end_error is None
    incoming.receive_eof()
    assert incoming.end_error is None


def test_giving_up_is_1011() -> None:
    incoming = reader("client")
    incoming.give_up("silence")
    error = incoming.end_error
    assert isinstance(error, WebSocketClosedError)
    assert (error.close_code, error.close_reason) == (1011, "silence")
    assert incoming.receive(b"\x81\x00") == []


def test_a_frame_longer_than_anything_is_refused_by_its_header() -> None:
    incoming = reader("client")
    assert fed(incoming, b"\x81\x7f" + b"\xff" * 8) == []
    assert code_of(incoming) == 1009


def test_a_length_written_in_more_bytes_than_needed_is_read() -> None:
    assert fed(reader("client"), b"\x81\x7f" + bytes(8) + b"\x81\x7e\x00\x01x") == [b"", b"x"]


def test_compressed_messages_are_read() -> None:
    protocol = protocol_of("client")
    protocol.extensions = [PerMessageDeflate(False, False, 15, 15)]
    sender = PerMessageDeflate(False, False, 15, 15)
    frames = [sender.encode(text("ab" * 100)), text("plain"), sender.encode(text("cd" * 100))]
    data = b"".join(
        bytes([0x81 | frame.rsv1 << 6, len(frame.data)]) + bytes(frame.data) if len(frame.data) < 126 else b""
        for frame in frames
    )
    incoming = Incoming(protocol, LIMIT)
    assert fed(incoming, data, [2] * len(data)) == [b"ab" * 100, b"plain", b"cd" * 100]


def test_a_compressed_message_is_measured_unpacked() -> None:
    protocol = protocol_of("client")
    protocol.extensions = [PerMessageDeflate(False, False, 15, 15)]
    frame = PerMessageDeflate(False, False, 15, 15).encode(text("a" * (LIMIT + 1)))
    incoming = Incoming(protocol, LIMIT)
    assert fed(incoming, bytes([0xC1, len(frame.data)]) + bytes(frame.data)) == []
    assert code_of(incoming) == 1009


# ---------------------------------------------------------------------------------------- taking over


@pytest.mark.parametrize("cut", range(30))
def test_taking_over_works_anywhere_in_a_frame(cut: int) -> None:
    """The library parsed the first ``cut`` bytes."""
    protocol = protocol_of("client")
    data = wire("client", text('{"a":1}'), Frame(Opcode.PING, b""), text("x", False), more(b"y"), text("[]"), text(""))
    protocol.receive_data(data[:cut])
    frames = [event for event in protocol.events_received() if isinstance(event, Frame)]
    incoming = Incoming(protocol, LIMIT)
    messages = incoming.take_over([frame for frame in frames if frame.opcode is not Opcode.PING])
    messages += fed(incoming, data[cut:], [1] * (len(data) - cut))
    messages += incoming.receive(wire("client", text("last")))
    assert messages == [b'{"a":1}', b"xy", b"[]", b"", b"last"]
    assert not incoming._blind


def test_taking_over_a_closed_connection_finds_its_end() -> None:
    protocol = protocol_of("client")
    protocol.receive_data(wire("client", text("{}"), Frame(Opcode.CLOSE, Close(1008, "no").serialize())))
    frames = [event for event in protocol.events_received() if isinstance(event, Frame)]
    incoming = Incoming(protocol, LIMIT)
    assert incoming.take_over(frames) == [b"{}"]
    assert incoming.ended and code_of(incoming) == 1008


def test_taking_over_a_connection_that_the_library_gave_up() -> None:
    protocol = protocol_of("client")
    protocol.fail(1011, "keepalive")
    incoming = Incoming(protocol, LIMIT)
    assert incoming.take_over([]) == []
    incoming.lost(None)
    assert code_of(incoming) == 1006


# ---------------------------------------------------------------------------------------- properties

PAYLOADS = st.one_of(st.text(max_size=40).map(str.encode), st.binary(max_size=40), st.just(b"y" * 300))
FRAMES = st.builds(
    Frame,
    st.sampled_from([Opcode.TEXT] * 5 + [Opcode.CONT, Opcode.BINARY, Opcode.PING, Opcode.PONG]),
    PAYLOADS,
    st.sampled_from([True, True, True, False]),
).filter(lambda frame: not (frame.opcode in (Opcode.PING, Opcode.PONG) and (len(frame.data) > 125 or not frame.fin)))


def by_the_library(side: str, data: bytes) -> tuple[list[bytes], int | None]:
    """The messages that the library's parser alone sees, and the code that it fails with."""
    protocol = protocol_of(side, 200)
    protocol.receive_data(data)
    messages: list[bytes] = []
    parts: list[bytes] = []
    kind = Opcode.TEXT
    for event in protocol.events_received():
        assert isinstance(event, Frame)
        if event.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            kind = kind if event.opcode is Opcode.CONT else event.opcode
            parts.append(bytes(event.data))
            if event.fin:
                message, parts = b"".join(parts), []
                if kind is Opcode.TEXT:
                    try:
                        message.decode()
                    except UnicodeDecodeError:
                        return messages, 1007
                    messages.append(message)
    return messages, None if protocol.close_sent is None else int(protocol.close_sent.code)


@given(side=st.sampled_from(SIDES), frames=st.lists(FRAMES, max_size=8), cuts=st.lists(st.integers(0, 60), max_size=8))
def test_the_messages_are_those_of_the_library_however_the_bytes_arrive(
    side: str, frames: list[Frame], cuts: list[int]
) -> None:
    data = wire(side, *frames)
    incoming = reader(side, 200)
    messages = fed(incoming, data, cuts)
    expected, code = by_the_library(side, data)
    assert messages == expected
    assert (code_of(incoming) if incoming.ended else None) == code


@given(data=st.binary(max_size=60), cuts=st.lists(st.integers(0, 20), max_size=5), side=st.sampled_from(SIDES))
def test_no_bytes_raise(data: bytes, cuts: list[int], side: str) -> None:
    incoming = reader(side)
    fed(incoming, data, cuts)
    incoming.lost(None)
    assert incoming.ended
