"""The form of a transcript: what is written is read back byte for byte."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidValueError
from mcpl_core.testing.transcripts import Entry, decode_entry, encode_entry, is_json, read_transcript

MESSAGES = [
    b'{"jsonrpc":"2.0","id":1,"method":"m"}',
    b'{ "a" : [1.0, 1e2,  true] }',
    '{"text":"\u00e9\u2028\U0001f600"}'.encode(),
    rb'{"lone":"\ud800","pair":"\ud83d\ude00","back\\ud800":"\\\ud800"}',
    b"a banner that is no JSON",
    b'{"a":1',
    b"[" * 300 + b"]" * 300,
    b"NaN",
    rb"not JSON \ud800 either",
    b"",
    b"17",
]


@pytest.mark.parametrize("message", MESSAGES)
def test_what_is_written_is_read_back(message: bytes) -> None:
    entry = Entry("to-host", message, "2026-01-02T03:04:05Z", ("$.a",), 7)
    line = encode_entry(entry)
    assert line.endswith(b"\n") and line.count(b"\n") == 1
    json.loads(line)
    assert decode_entry(line) == entry


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    ),
    st.booleans(),
)
def test_any_json_is_read_back(value: object, ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=ascii).encode("utf-8", "replace")
    assert decode_entry(encode_entry(Entry("to-server", text))).message == text


def test_json_stands_in_the_line_as_it_is_and_the_rest_as_text() -> None:
    assert encode_entry(Entry("to-server", b'{"a": 1}')) == b'{"direction":"to-server","message":{"a": 1}}\n'
    assert encode_entry(Entry("to-server", b"oops")) == b'{"direction":"to-server","text":"oops"}\n'


def test_line_breaks_between_tokens_become_spaces() -> None:
    line = encode_entry(Entry("to-server", b'{\r\n  "a": 1\n}'))
    assert decode_entry(line).message == b'{    "a": 1 }'


def test_what_is_not_utf_8_loses_what_cannot_be_read() -> None:
    assert decode_entry(encode_entry(Entry("to-host", b'"\xff"'))).message == '"\ufffd"'.encode()


def test_what_can_be_read() -> None:
    assert [is_json(message) for message in MESSAGES] == [True] * 4 + [False] * 6 + [True]


@pytest.mark.parametrize(
    "line",
    [
        b"oops",
        b"[]",
        b'{"direction":"sideways","message":1}',
        b'{"direction":"to-host"}',
        b'{"direction":"to-host","message":1,"text":"1"}',
        b'{"message":{}}',
        b'{"direction":"to-host","text":1}',
        b'{"direction":"to-host","message":{},"connection":"one"}',
    ],
)
def test_what_is_no_entry(line: bytes) -> None:
    with pytest.raises(InvalidValueError):
        decode_entry(line)
    with pytest.raises(InvalidValueError) as caught:
        read_transcript([b'{"direction":"to-host","message":1}', b"  \n", line])
    assert caught.value.code == "entry"
    assert "line 3" in caught.value.detail


def test_unknown_members_are_passed_over() -> None:
    assert decode_entry(b'{"direction":"to-host","message":1,"later":[]}') == Entry("to-host", b"1")


def test_a_file_is_read_whole(tmp_path: Path) -> None:
    entries = tuple(Entry("to-host", message) for message in MESSAGES)
    path = tmp_path / "t.jsonl"
    path.write_bytes(b"\n".join(map(encode_entry, entries)))
    assert read_transcript(path) == read_transcript(str(path)) == entries


def test_one_connection_of_several() -> None:
    lines = [encode_entry(Entry("to-host", b"%d" % number, connection=number % 2 + 2)) for number in range(4)]
    assert [entry.message for entry in read_transcript(lines)] == [b"0", b"2"]
    assert [entry.message for entry in read_transcript(lines, connection=3)] == [b"1", b"3"]
    for nothing in ([], lines):
        with pytest.raises(InvalidValueError) as caught:
            read_transcript(nothing, connection=1)
        assert caught.value.code == "transcript"
