"""The last words of a child process."""

from __future__ import annotations

import logging

import pytest

from mcpl_core.transports.stderr_tail import StderrTail


class Recorded:
    def __init__(self) -> None:
        self.lines: list[str] = []
        self.progress: list[int] = []
        self.tail = StderrTail(self.lines.append, self.progress.append)


def test_lines_in_any_chunks() -> None:
    recorded = Recorded()
    for byte in b"one\r\n\ntwo \xff\xe2\x82\xac\nlast":
        recorded.tail.data_received(bytes([byte]))
    assert recorded.lines == ["one", "", "two \ufffd\u20ac"]
    assert str(recorded.tail) == "one\n\ntwo \ufffd\u20ac\nlast"
    recorded.tail.input_lost(None)
    recorded.tail.input_lost(OSError())
    assert recorded.lines == ["one", "", "two \ufffd\u20ac", "last"]
    assert recorded.tail.over
    assert sum(recorded.progress) == len(b"one\r\n\ntwo \xff\xe2\x82\xac\nlast")
    assert recorded.progress[-1] == 0


def test_it_keeps_fifty_lines() -> None:
    recorded = Recorded()
    recorded.tail.data_received(b"".join(b"%d\n" % number for number in range(200)))
    assert str(recorded.tail).splitlines() == [str(number) for number in range(150, 200)]
    assert len(recorded.lines) == 200


def test_it_keeps_sixteen_kibibytes() -> None:
    recorded = Recorded()
    for _ in range(30):
        recorded.tail.data_received(b"x" * 1000 + b"\n")
    assert 15_000 < len(str(recorded.tail)) <= 16 * 1024 + 50


@pytest.mark.parametrize("chunk", [1000, 1 << 20])
def test_a_line_without_end_is_passed_on_in_pieces(chunk: int) -> None:
    recorded = Recorded()
    for _ in range(10 * (1 << 20) // chunk):
        recorded.tail.data_received(b"x" * chunk)
    recorded.tail.input_lost(None)
    assert sum(map(len, recorded.lines)) == 10 * (1 << 20) // chunk * chunk
    assert max(map(len, recorded.lines)) <= 16 * 1024
    assert len(str(recorded.tail)) <= 16 * 1024 + 50


def test_a_long_line_at_once_is_kept_by_its_end() -> None:
    recorded = Recorded()
    recorded.tail.data_received(b"x" * 20_000 + b"end\n")
    assert str(recorded.tail).endswith("end")
    assert len(str(recorded.tail)) == 16 * 1024


def test_nobody_listens() -> None:
    progress: list[int] = []
    tail = StderrTail(None, progress.append)
    tail.data_received(b"line\n")
    tail.input_lost(None)
    assert str(tail) == "line"
    assert progress == [5, 0]


def test_a_callback_that_fails_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def fail(line: str) -> None:
        raise ValueError(line)

    tail = StderrTail(fail, lambda size: None)
    with caplog.at_level(logging.ERROR, "mcpl_core"):
        tail.data_received(b"one\ntwo\n")
    assert [record.exc_info is not None for record in caplog.records] == [True, True]
    assert str(tail) == "one\ntwo"
