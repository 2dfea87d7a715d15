"""Lines: where a message ends, what is skipped, and how much is held meanwhile."""

from __future__ import annotations

import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.wire.framing import DEFAULT_MAX_MESSAGE_BYTES, LineDecoder, encode_line
from mcpl_core.wire.values import decode_value
from tests.wire.replay import Lines, replay, split

MIB = 1 << 20

#: Bytes -> the messages in them.
CASES = {
    "nothing": (b"", []),
    "one line": (b"{}\n", [b"{}"]),
    "two lines": (b"{}\n[]\n", [b"{}", b"[]"]),
    "the end of the input ends the last": (b"{}\n[]", [b"{}", b"[]"]),
    "crlf": (b"{}\r\n[]\r\n", [b"{}", b"[]"]),
    "cr at the end of the input": (b"{}\r", [b"{}"]),
    "one cr of two": (b"{}\r\r\n", [b"{}\r"]),
    "cr alone": (b"{}\r[]\n", [b"{}\r[]"]),
    "cr first": (b"\r{}\n", [b"\r{}"]),
    "lf cr": (b"{}\n\r[]\n", [b"{}", b"\r[]"]),
    "blank lines": (b"\n\r\n \t\r\n{}\n\n\n  ", [b"{}"]),
    "many crs": (b"\r" * 100 + b"\n{}\n", [b"{}"]),
    "white space around": (b"  {} \t\n", [b"  {} \t"]),
    "vt and ff are no json white space": (b"\x0b\x0c\n \x0b\n{}\n", [b"\x0b\x0c", b" \x0b", b"{}"]),
    "u+2028 and u+2029": ('"a\u2028b\u2029c"\n'.encode(), ['"a\u2028b\u2029c"'.encode()]),
    "nel": ('"a\u0085"\n'.encode(), ['"a\u0085"'.encode()]),
    "vt, ff, fs, gs, rs": (b'"\x0b\x0c\x1c\x1d\x1e"\n', [b'"\x0b\x0c\x1c\x1d\x1e"']),
    "nul": (b"\0\n{}\n", [b"\0", b"{}"]),
    "invalid utf-8 is not looked at": (b"\xff\xfe\n\xc3\n", [b"\xff\xfe", b"\xc3"]),
    "utf-16 is cut where its bytes have an lf": ("{}\n".encode("utf-16-le"), [b"{\0}\0", b"\0"]),
}


@pytest.mark.spec("R-wire-1")
@pytest.mark.parametrize("name", CASES)
def test_lines(name: str) -> None:
    data, messages = CASES[name]
    assert replay(data) == Lines(messages)


#: Bytes, limit -> the messages, and how many lines were too long.
LIMITS = {
    "at the limit": (b"12345\n", 5, [b"12345"], 0),
    "at the limit, crlf": (b"12345\r\n", 5, [b"12345"], 0),
    "at the limit, unended": (b"12345", 5, [b"12345"], 0),
    "at the limit, cr unended": (b"12345\r", 5, [b"12345"], 0),
    "one more": (b"123456\nok\n", 5, [b"ok"], 1),
    "one more, crlf": (b"123456\r\nok\r\n", 5, [b"ok"], 1),
    "one more, unended": (b"ok\n123456", 5, [b"ok"], 1),
    "two crs": (b"12345\r\r\nok\n", 5, [b"ok"], 1),
    "far more": (b"x" * 1000 + b"\nok\n", 5, [b"ok"], 1),
    "twice, each reported once": (b"x" * 100 + b"\nok\n" + b"y" * 100 + b"\n", 5, [b"ok"], 2),
    "twice in a row": (b"x" * 100 + b"\n" + b"y" * 100 + b"\nok\n", 5, [b"ok"], 2),
    "only white space": (b" " * 100 + b"\nok\n", 5, [b"ok"], 1),
    "anew for each line": (b"1\r\n12345\r\n123456789\n12345\r\n12345\r", 5, [b"1", b"12345", b"12345", b"12345"], 1),
    "many short lines are not one long line": (b"1234\n" * 100, 5, [b"1234"] * 100, 0),
}


@pytest.mark.spec("R-wire-11")
@pytest.mark.parametrize("name", LIMITS)
def test_limits(name: str) -> None:
    data, limit, messages, too_long = LIMITS[name]
    assert replay(data, limit) == Lines(messages, too_long)


def test_the_error_shows_the_beginning() -> None:
    line = bytes(range(97, 123)) * 40
    for step in (len(line), 1, 7, 5000):
        decoder = LineDecoder(300)
        for at in range(0, len(line), step):
            decoder.feed(line[at : at + step])
        decoder.feed(b"\n")
        (error,) = decoder.errors
        assert error.kind == "too-long"
        assert error.excerpt == line[:200]


def test_the_beginning_is_shown_across_pieces() -> None:
    """A short piece, then a long one: the line passes the limit with the second."""
    decoder = LineDecoder(5000)
    decoder.feed(b"abc")
    decoder.feed(b"x" * 6000)
    (error,) = decoder.errors
    assert error.excerpt == b"abc" + b"x" * 197


def test_pieces_of_any_size_make_one_line() -> None:
    line = bytes(range(32, 127)) * 500
    for sizes in ((4095, 4096, 1), (1, 5000, 1, 1, 5000), (4096, 4096), (47_499, 1)):
        decoder, at = LineDecoder(), 0
        while at < len(line):
            for size in sizes:
                assert decoder.feed(line[at : at + size]) == []
                at += size
        assert decoder.feed(b"\n") == [line]


def test_empty_pieces_change_nothing() -> None:
    decoder = LineDecoder()
    assert decoder.feed(b"") == decoder.finish() == []
    decoder.feed(b"{")
    decoder.feed(b"")
    assert decoder.feed(b"}\n") == [b"{}"]


def test_the_end_of_the_input_leaves_nothing_behind() -> None:
    decoder = LineDecoder(5)
    decoder.feed(b"12345678")
    assert decoder.finish() == []
    assert decoder.feed(b"ok\n") == [b"ok"]
    assert len(decoder.errors) == 1


def _held(decoder: LineDecoder) -> int:
    return sum(map(sys.getsizeof, decoder._parts))


@pytest.mark.parametrize("size", [1, 10, 4095, 4096, 65_536])
def test_an_over_long_line_is_not_buffered(size: int) -> None:
    limit = 64 * 1024
    decoder, piece, most = LineDecoder(limit), b"x" * size, 0
    for _ in range(4 * limit // size):
        decoder.feed(piece)
        most = max(most, _held(decoder))
    assert most <= 1.2 * (limit + size) + 4096
    assert _held(decoder) == 0
    assert len(decoder.errors) == 1


@pytest.mark.parametrize("size", [1, 2, 3, 4000])
def test_a_line_in_small_pieces_takes_no_more_than_its_size(size: int) -> None:
    decoder, piece = LineDecoder(), b"x" * size
    tracemalloc.start()
    try:
        for _ in range(MIB // 4 // size):
            decoder.feed(piece)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < MIB // 4 * 1.3


def test_nothing_is_kept_of_what_was_delivered() -> None:
    decoder = LineDecoder()
    decoder.feed(b"x" * 10_000)
    (line,) = decoder.feed(b"\n{")
    assert len(line) == 10_000
    assert _held(decoder) < 200


def test_the_default_limit() -> None:
    assert LineDecoder().max_message_bytes == DEFAULT_MAX_MESSAGE_BYTES == 16 * MIB


@given(st.lists(st.binary(max_size=40).map(lambda line: line.replace(b"\n", b"")), max_size=20), st.data())
def test_lines_survive_any_chunking(lines: list[bytes], data: st.DataObject) -> None:
    limit = data.draw(st.integers(1, 50))
    stream = b"".join(line + b"\n" for line in lines)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=20)))
    chunks = [stream[start:end] for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)]
    bare = [line.removesuffix(b"\r") for line in lines]
    fitting = [line for line in bare if len(line) <= limit and line.strip(b" \t\r")]
    too_long = sum(len(line) > limit for line in bare)
    assert split(chunks, limit) == Lines(fitting, too_long)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"{}", b"{}\n"),
        (b'{\r\n  "a": 1\n}', b'{    "a": 1 }\n'),
        (b'"\\n\\r"', b'"\\n\\r"\n'),
        (b"[1,\r2]", b"[1, 2]\n"),
        (b"[1,\n2]", b"[1, 2]\n"),
        (b"", b"\n"),
    ],
)
def test_a_message_is_written_on_one_line(text: bytes, line: bytes) -> None:
    assert encode_line(text) == line
    if text:
        assert decode_value(encode_line(text)) == decode_value(text)
    assert replay(line).messages == ([line[:-1]] if text else [])
