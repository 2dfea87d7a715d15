"""The runner of the family ``framing``; what it must answer is in ``tests/vectors/test_framing.py``."""

from __future__ import annotations

import base64

import pytest

from mcpl_core.cli.framing import framing_answer
from mcpl_core.wire.framing import LineDecoder

NOTE = '{"jsonrpc":"2.0","method":"m"}'


def test_text_and_base64_are_the_same_bytes() -> None:
    text = framing_answer({"text": NOTE + "\n"})
    assert text == framing_answer({"base64": base64.b64encode(NOTE.encode() + b"\n").decode()})
    assert text == {"messages": [{"type": "notification", "method": "m"}], "problems": [], "answers": []}


def test_what_common_readers_lose_is_given_as_text() -> None:
    given = {"text": '{"jsonrpc":"2.0","id":9007199254740993,"method":"\\ud800","params":["\\\\ud800"]}'}
    (message,) = framing_answer(given)["messages"]
    assert message["id"] == {"json": "9007199254740993"}
    assert message["method"] == {"json": '"\\ud800"'}
    assert message["params"] == ["\\ud800"]


def test_a_difference_between_the_ways_of_feeding_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    def forgetful(self: LineDecoder, data: bytes) -> list[bytes]:
        return [line for line in data.split(b"\n")[:-1] if line]

    monkeypatch.setattr(LineDecoder, "feed", forgetful)
    assert framing_answer({"text": NOTE + "\n"})["messages"] == []


def test_a_lost_tail_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    def first_only(self: LineDecoder, data: bytes) -> list[bytes]:
        return [] if b"tail" in data or b"\n" not in data else [NOTE.encode()]

    monkeypatch.setattr(LineDecoder, "feed", first_only)
    assert framing_answer({"text": NOTE + "\n"})["messages"] == []
