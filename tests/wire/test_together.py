"""Texts that came together: as if each had come alone, and mostly read by the codec alone."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidParams
from mcpl_core.wire import together as together_module
from mcpl_core.wire.messages import (
    DEFAULT_MAX_DEPTH,
    Failure,
    Malformed,
    Message,
    Notification,
    Request,
    Success,
    decode_message,
)
from mcpl_core.wire.together import decode_messages
from mcpl_core.wire.values import dump_ascii, encode_value
from tests.wire.test_messages import MEMBERS, PARAMS, check_what_is_kept_alive, nested, text
from tests.wire.test_values import exact


def _told(message: Message) -> Any:
    """All there is to know of a message, in comparable parts."""
    if isinstance(message, Malformed):
        error = message.error
        return "malformed", error.kind, error.detail, error.excerpt, message.reply_id, message.answers
    if isinstance(message, Failure):
        return "failure", message.id, type(message.error), message.error.code, message.error.message, message.error.data
    if isinstance(message, Success):
        return "success", type(message.id), message.id, bytes(message.result)
    id = (type(message.id), message.id) if isinstance(message, Request) else None
    try:
        params = message.params
    except InvalidParams as exc:
        params = exc.data
    return type(message), id, message.method, bytes(message.raw_params), params


def together(texts: list[bytes], max_depth: int = DEFAULT_MAX_DEPTH) -> list[Any]:
    """Reads texts as one read brings them, and says that it is as if each had come alone."""
    messages = list(decode_messages(texts, max_depth=max_depth))
    assert list(map(exact, map(_told, messages))) == [
        exact(_told(decode_message(text, max_depth=max_depth))) for text in texts
    ]
    return messages


NOTE, ASK, ANSWER = (
    text('"method":"n"', '"params":{"x":1}'),
    text('"id":1', '"method":"r"', '"params":[1]'),
    text('"id":1', '"result":{}'),
)
ODD = [
    b'{"method":"n"}',
    b'{"jsonrpc":"2.1","method":"n"}',
    b'{"jsonrpc":"","method":"n"}',
    b'{"jsonrpc":""}',
    b'{"jsonrpc":"","nothing":null}',
    b'{"jsonrpc":"1.0"}',
    b'{"jsonrpc":"2.0"}',
    b"{}",
    b'{"jsonrpc":2.0,"method":"n"}',
    b'{"jsonrpc":"2.0","jsonrpc":"1.0","method":"n"}',
    b'{"jsonrpc":"1.0","method":"n","jsonrpc":"2.0"}',
    b'{"method":"n","params":{},"jsonrpc":"2.0"}',
    b'{"\\u006asonrpc":"2\\u002e0","method":"n"}',
    b' {"jsonrpc" : "2.0" , "method":"n"}\t\r',
    b'{"jsonrpc":"2.0","method":"n","method":"m","params":1,"params":[2]}',
    b'{"jsonrpc":"2.0","method":null}',
    b'{"jsonrpc":"2.0","method":"n","_params":{"x":2}}',
    b'{"jsonrpc":"2.0","method":"n","_params":null}',
    b'{"jsonrpc":"2.0","method":"n","raw_params":{"x":2}}',
    b'{"jsonrpc":"2.0","id":1,"method":"r","_params":{"x":2}}',
    b'{"jsonrpc":"2.0","method":"n","x":"\\ud800"}',
    b'{"jsonrpc":"2.0","method":"\\ud800"}',
    b'{"jsonrpc":"2.0","method":"\\ud83d\\ude00"}',
    b'{"jsonrpc":"2.0","method":"n","params":"\xff"}',
    b'{"jsonrpc":"2.0","method":"n","params":"\xc3',
    b'\xa9"}',
    '{"jsonrpc":"2.0","method":"é","params":{"é":"\u2028"}}'.encode(),
    b'{"jsonrpc":"2.0","method":"n","result":1}',
    b'{"jsonrpc":"2.0","method":"n","error":null}',
    b'{"jsonrpc":"2.0","method":"n","id":null}',
    b'{"jsonrpc":"2.0","method":"n"}{"jsonrpc":"2.0","method":"n"}',
    b'{"jsonrpc":"2.0","method":"n","params":{}',
    b'{"jsonrpc":"2.0",\n"method":"n"}',
    b'[{"jsonrpc":"2.0","method":"n"}]',
    b"",
    b"banner",
    b"\xef\xbb\xbf" + NOTE,
    *(
        b'{"jsonrpc":"2.0","id":%b,"method":"r"}' % id
        for id in (b"1.0", b"1.5", b"1e2", b"-0.0", b"-0", b"9007199254740993.0", b"%d" % 2**64, b"1" + b"0" * 40,
                   b"-%d" % 2**63, b"1e400", b"true", b'"1"', b'""', b'"\\ud800"', b"[1]")
    ),
    *(
        b'{"jsonrpc":"2.0","id":%b,"result":0}' % id
        for id in (b"1.0", b"1.5", b"1e2", b'"1"', b"null", b"%d" % 2**64, b"1" + b"0" * 40, b"{}")
    ),
    b'{"jsonrpc":"2.0","id":1,"result":0,"error":null}',
    b'{"jsonrpc":"2.0","id":1,"result":0,"error":{"code":1,"message":"m"}}',
    b'{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"m"}}',
    b'{"jsonrpc":"2.0","id":1,"result":1e400}',
    b'{"jsonrpc":"2.0","id":1,"result":"\xff"}',
    b'{"jsonrpc":"2.0","id":1,"result":0,"x":[[[[[[]]]]]]}',
    b'{"jsonrpc":"2.0","id":1}',
    b'{"jsonrpc":"2.0","id":1,"result":[[[[[[[[]]]]]]]]}',
    b'{"jsonrpc":"2.0","method":"n","params":[[[[[[[[]]]]]]]]}',
]  # fmt: skip


@pytest.mark.parametrize("odd", ODD)
@pytest.mark.parametrize("usual", [NOTE, ASK, ANSWER])
def test_texts_that_came_together_are_read_as_if_each_had_come_alone(usual: bytes, odd: bytes) -> None:
    for max_depth in (3, DEFAULT_MAX_DEPTH):
        for at in (0, 1, 9, 10):
            together([usual] * at + [odd] + [usual] * (10 - at), max_depth)
        together([odd] * 10, max_depth)


@given(st.lists(st.sampled_from([NOTE, ASK, ANSWER, *ODD]) | MEMBERS.map(dump_ascii), min_size=1, max_size=20))
def test_any_texts_together(texts: list[bytes]) -> None:
    together(texts, 5)


@given(st.sampled_from([NOTE, ASK, ANSWER]), st.lists(PARAMS.map(encode_value), min_size=8, max_size=12))
def test_any_values_together(usual: bytes, values: list[bytes]) -> None:
    together([usual.replace(b'{"x":1}', value).replace(b"[1]", value).replace(b"{}", value) for value in values])


#: Names and values of which a text can be put together that is nearly a message.
NAMES = ["jsonrpc", "id", "method", "params", "result", "error", "_params", "x", "\\u006asonrpc", "i\\u0064", "nothing"]
VALUES = [
    *('"2.0"', '"2\\u002e0"', '"1.0"', '""', '"\\ud800"', '"\\ud83d\\ude00"', '"\\x"', '"é\u2028"', '"\xa0'),
    *("1", "1.0", "-0.0", "1e2", "1e400", "01", "9007199254740994.0", str(2**64), "9" * 30, "9" * 5000),
    *("null", "true", "{}", "[1]", '{"a":1,"a":[2]}', "[[[]]]", "[[[[]]]]", "[1e400]", "["),
]
PAIRS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)).map('"{0[0]}":{0[1]}'.format), max_size=3)


@given(st.sampled_from([NOTE, ASK, ANSWER]), PAIRS, PAIRS, st.sampled_from(["", " ", "\n", "\v"]))
def test_texts_that_are_nearly_of_one_kind(usual: bytes, before: list[str], after: list[str], space: str) -> None:
    """Members stand before and behind those of a message; of those with the same name the last counts."""
    members = [*before, usual.decode()[1:-1], *after]
    odd = f"{{{f',{space}'.join(members)}}}{space}".encode()
    together([usual] + [odd] * 7, 4)


def test_deeper_than_any_parser_reads() -> None:
    deep = nested(3000, '"method":"n"').replace(b'"x"', b'"params"')
    kinds = [type(message) for message in together([NOTE] * 7 + [deep], 10**6)]
    assert kinds == [Notification] * 7 + [Malformed]


def test_one_character_in_two_texts_is_none() -> None:
    """Joined they would be UTF-8."""
    texts = [NOTE] * 8 + [b'{"jsonrpc":"2.0","method":"n","x":"\xc3', b'\xa9"}'] + [NOTE] * 8
    kinds = [message.error.kind for message in together(texts) if isinstance(message, Malformed)]
    assert kinds == ["invalid-utf8", "invalid-utf8"]


def test_long_texts_together_are_looked_at_for_their_depth() -> None:
    deep = text('"method":"n"', '"params":' + "[" * 300 + "]" * 300)
    long = text('"method":"n"', '"params":["' + "[" * 600 + '"]')
    kinds = [isinstance(message, Malformed) for message in together([long, deep, NOTE] * 4)]
    assert kinds == [False, True, False] * 4
    assert not any(isinstance(message, Malformed) for message in together([long] * 20))
    fits, exceeds = (text('"method":"n"', '"params":' + "[" * n + "1" * 600 + "]" * n) for n in (255, 256))
    assert isinstance(together([NOTE] * 8 + [exceeds])[-1], Malformed)
    assert isinstance(together([NOTE] * 8 + [fits])[-1], Notification)


def test_what_is_of_one_kind_is_read_by_the_codec_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[bytes] = []

    def reading(text: bytes, *, max_depth: int) -> Message:
        read.append(text)
        return decode_message(text, max_depth=max_depth)

    monkeypatch.setattr(together_module, "decode_message", reading)
    for usual in (NOTE, ASK, ANSWER):
        fits = '"é' + "x" * 600 + '",' + "[" * 254 + "]" * 254
        other = usual.replace(b'{"x":1}', b"[1]").replace(b"{}", b"[1]").replace(b"[1]", f"[{fits}]".encode())
        assert other != usual
        read.clear()
        assert list(decode_messages([usual] + [other] * 7)) == [decode_message(usual)] + [decode_message(other)] * 7
        assert read == [usual]


@pytest.mark.parametrize("usual", [b"1", NOTE])
def test_what_is_of_no_kind_is_read_when_its_turn_comes(usual: bytes) -> None:
    """So it takes no memory before, and none at all behind what closes the connection."""
    texts = [usual] + [b"1"] * 10_000
    tracemalloc.start()
    try:
        number = sum(1 for _ in decode_messages(texts))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert number == 10_001
    assert peak < 2_000_000


def test_a_message_keeps_alive_only_its_own_text() -> None:
    check_what_is_kept_alive(decode_messages)
