"""Server-sent events, cut into pieces of every size."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpl_core.mcp.http.events import EventReader

STREAM = (
    b"\xef\xbb\xbf: hello\n\n"
    b"id: 7\nretry: 250\ndata:\n\n"
    b'event: message\ndata: {"a":1}\n\n'
    b'data: {"b":\r\ndata:2}\r\n\r\n'
    b"event: other\ndata: no\n\n"
    b"data:  two\rdata: lines\r\r"
    b"event: message\n\n"
    b"unknown: x\nnofield\nid: \0\nretry: soon\ndata: \xe2\x80\xa8\n\n"
    b"data: unfinished\n"
)
FOUND = [b"", b'{"a":1}', b'{"b":\n2}', b" two\nlines", b"\xe2\x80\xa8"]


def read(*pieces: bytes, limit: int = 1000) -> tuple[EventReader, list[bytes]]:
    reader = EventReader(limit)
    return reader, [data for piece in pieces for data in reader.feed(piece)]


def test_events_of_type_message() -> None:
    reader, found = read(STREAM)
    assert found == FOUND
    assert (reader.last_id, reader.retry, reader.too_long) == (b"7", 250, False)


def test_byte_by_byte() -> None:
    assert read(*(STREAM[i : i + 1] for i in range(len(STREAM))))[1] == FOUND


def test_nothing_between_the_halves_of_a_line_break() -> None:
    assert read(b"data: a\r", b"", b"\ndata: b\r", b"\n", b"\r", b"\n")[1] == [b"a\nb"]


@given(st.lists(st.integers(0, len(STREAM)), max_size=8).map(sorted))
@settings(max_examples=150, deadline=None)
def test_in_any_pieces(cuts: list[int]) -> None:
    bounds = [0, *cuts, len(STREAM)]
    assert read(*(STREAM[a:b] for a, b in zip(bounds, bounds[1:], strict=False)))[1] == FOUND


@pytest.mark.parametrize("step", [1, 7, 1000])
def test_an_event_that_is_too_long_is_skipped_whole(step: int) -> None:
    text = b"data: " + b"x" * 30 + b"\n\ndata: ok\n\n" + b"data: 1234567\ndata: 1234567\n\ndata: fine\n\n"
    reader, found = read(*(text[i : i + step] for i in range(0, len(text), step)), limit=20)
    assert found == [b"ok", b"fine"]
    assert reader.too_long


def test_an_event_of_the_limit_is_not_too_long() -> None:
    reader, found = read(b"data: 123456\n\n", limit=12)
    assert (found, reader.too_long) == ([b"123456"], False)
    assert read(b"data: 1234567\n\n", limit=12)[0].too_long


def test_remarks_that_keep_a_stream_alive_do_not_add_up() -> None:
    reader, found = read(*[b": ping\n"] * 50, b"data: ok\n\n", limit=20)
    assert (found, reader.too_long) == ([b"ok"], False)


def test_a_line_without_end_is_not_kept() -> None:
    reader = EventReader(20)
    for _ in range(100):
        assert reader.feed(b"data: xxxxxxxxxx") == []
    assert reader.too_long
    assert len(reader._line) <= 20


@pytest.mark.parametrize("step", [1, 100])
def test_a_mark_of_the_byte_order_belongs_to_no_line(step: int) -> None:
    text = b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n"
    assert read(*(text[i : i + step] for i in range(0, len(text), step)))[1] == [b"a"]
