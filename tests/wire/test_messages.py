"""One JSON text to one message: which, or why none, and who is answered."""

from __future__ import annotations

import copy
import json
import pickle
import tracemalloc
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from msgspec import UNSET, Raw

from mcpl_core.errors import (
    CapabilityDenied,
    InternalError,
    InvalidParams,
    MalformedKind,
    MalformedMessageError,
    RpcError,
    UnencodableError,
)
from mcpl_core.wire.framing import LineDecoder
from mcpl_core.wire.messages import (
    DEFAULT_MAX_DEPTH,
    Failure,
    Malformed,
    Message,
    Notification,
    Request,
    Success,
    decode_message,
    encode_failure,
    encode_notification,
    encode_request,
    encode_response,
    read_id,
)
from mcpl_core.wire.values import decode_value, dump_ascii
from tests.wire.test_values import JSON, TEXT, exact


def text(*members: str) -> bytes:
    return ('{"jsonrpc":"2.0"' + "".join("," + member for member in members) + "}").encode()


def request(text: bytes) -> Request:
    message = decode_message(text)
    assert isinstance(message, Request)
    return message


def malformed(message: Message) -> Malformed:
    assert isinstance(message, Malformed)
    return message


def failure(message: Message) -> RpcError:
    assert isinstance(message, Failure)
    return message.error


# -- messages


@pytest.mark.spec("4-1", "4.1-1", "4.1-2")
def test_the_four_messages() -> None:
    assert decode_message(text('"id":1', '"method":"m"', '"params":{"a":1}')) == Request(1, "m", Raw(b'{"a":1}'))
    assert decode_message(text('"method":"m"')) == Notification("m")
    assert decode_message(text('"id":"a"', '"result": [1] ')) == Success("a", Raw(b"[1]"))
    message = decode_message(text('"id":1', '"error":{"code":-32002,"message":"no","data":{"capability":"tools"}}'))
    assert isinstance(message, Failure) and message.id == 1
    error = message.error
    assert type(error) is CapabilityDenied
    assert (error.code, error.message, error.data) == (-32002, "no", {"capability": "tools"})


@pytest.mark.spec("R-wire-12")
def test_of_members_named_twice_the_last_counts() -> None:
    assert decode_message(text('"id":1', '"method":"a"', '"id":2', '"method":"b"')) == Request(2, "b")
    assert decode_message(text('"id":"\\ud800"', '"method":"a"', '"id":2', '"method":"b"')) == Request(2, "b")
    assert request(text('"id":1', '"method":"m"', '"params":{"a":1,"a":2}')).params == {"a": 2}


def test_names_may_be_escaped_and_others_are_ignored() -> None:
    assert decode_message(b'{"\\u006asonrpc":"2.0","m\\u0065thod":"m","trace":{"id":7},"ID":1}') == Notification("m")


def test_a_message_may_be_any_json_text() -> None:
    assert decode_message(b' \r\n{ "method"\t:\n"m" , "jsonrpc" : "\\u0032.0" }\n') == Notification("m")
    assert decode_message(text('"method":""')) == Notification("")


IDS: list[tuple[str, int | str | None]] = [
    ("1", 1),
    ("0", 0),
    ("-0", 0),
    ("-7", -7),
    ('"1"', "1"),
    ('""', ""),
    ('"\\ud800"', "\ud800"),
    ('"\\ud83d\\ude00"', "\U0001f600"),
    ("1.0", 1),
    ("-0.0", 0),
    ("1e2", 100),
    ("9007199254740992.0", 2**53),
    ("9007199254740993", 2**53 + 1),
    ("18446744073709551616", 2**64),
    ("1" + "0" * 4000, 10**4000),
    ("9007199254740994.0", None),
    ("1e300", None),
    ("1e400", None),
    ("1" + "0" * 5000, None),
    ("1.5", None),
    ("true", None),
    ("false", None),
    ("null", None),
    ("{}", None),
    ('{"a":1}', None),
    ("[1]", None),
    ("[[[[1e400]]]]", None),
]


@pytest.mark.spec("R-wire-3")
@pytest.mark.parametrize(("given", "id"), IDS, ids=lambda value: str(value)[:20])
def test_ids(given: str, id: int | str | None) -> None:
    # With a number or a string beside it that only the slow path reads.
    for extra in ('"x":1', '"x":1e400', '"x":"\\ud800"'):
        message = decode_message(text(f'"id":{given}', '"method":"m"', extra))
        if id is None:
            assert malformed(message).error.kind == "invalid-id"
            assert malformed(message).reply_id is None
        else:
            assert exact(message) == exact(Request(id, "m"))
        answer = decode_message(text(f'"id":{given}', '"result":{}', extra))
        if id is None:
            assert malformed(answer).error.kind == "invalid-response"
            assert malformed(answer).reply_id is UNSET
        else:
            assert answer == Success(id, Raw(b"{}"))
            assert isinstance(answer, Success) and type(answer.id) is type(id)


@pytest.mark.parametrize(
    ("value", "id"), [(1, 1), ("1", "1"), (2.0, 2), (-(2.0**53), -(2**53)), (2.0**54, None), (0.5, None), (True, None)]
)
def test_read_id(value: Any, id: int | str | None) -> None:
    assert exact(read_id(value)) == exact(id)


@pytest.mark.parametrize("value", [UNSET, None, float("nan"), float("inf"), [], {}, object()])
def test_read_id_of_anything_else(value: Any) -> None:
    assert read_id(value) is None


# -- params


def test_params_are_read_once_when_somebody_asks() -> None:
    message = request(text('"id":1', '"method":"m"', '"params": { "a" : [1, 2.0] } '))
    assert bytes(message.raw_params) == b'{ "a" : [1, 2.0] }'
    assert exact(message.params) == exact({"a": [1, 2.0]})
    assert message.params is message.params


def test_absent_null_and_empty_params() -> None:
    absent, null, empty = (
        request(text('"id":1', '"method":"m"' + more)) for more in ("", ',"params":null', ',"params":[]')
    )
    assert (absent.params, null.params, empty.params) == (None, None, [])
    assert [bytes(message.raw_params) for message in (absent, null, empty)] == [b"", b"null", b"[]"]


@pytest.mark.parametrize(
    "params", ["7", '"a"', "true", "1.5", "[1e400]", '{"a":-1e400}', '["\\ud800",1e400]', '"\\ud800"']
)
def test_params_that_cannot_be_used_are_an_error_when_read(params: str) -> None:
    for message in (
        decode_message(text('"id":1', '"method":"m"', f'"params":{params}')),
        decode_message(text('"method":"m"', f'"params":{params}')),
    ):
        assert isinstance(message, Request | Notification)
        assert bytes(message.raw_params) == params.encode()
        for _ in range(2):
            with pytest.raises(InvalidParams) as caught:
                _ = message.params
            assert caught.value.code == -32602
            assert caught.value.data["path"].startswith("$")


@pytest.mark.spec("R-wire-8")
@pytest.mark.parametrize(
    "params",
    [
        '["\\uD800"]',
        '{"\\udfff":[1.0, 1e2, 0.10, 12345678901234567890123]}',
        '[ "\\\\ud800" ,"\\ud83d\\ude00\\ud83d", "é"]',
        "{}",
    ],
)
def test_raw_params_are_the_text_as_received(params: str) -> None:
    for extra in ('"x":"\\ud800"', '"x":[1e400]', '"\\udfff":0', '"x":"\\\\\\ud800\\\\"'):
        message = request(text('"id":"\\ud800"', '"method":"\\udc00"', f'"params": {params} ', extra))
        assert (message.id, message.method) == ("\ud800", "\udc00")
        assert bytes(message.raw_params) == params.encode()
        assert message.params == json.loads(params)
        answer = decode_message(text('"id":1', f'"result": {params} ', extra))
        assert answer == Success(1, Raw(params.encode()))


def test_messages_are_equal_as_received() -> None:
    one, other = (request(text('"id":1', '"method":"m"', '"params":[1]')) for _ in range(2))
    assert one.params == [1]
    assert one == other
    assert one != Request(1, "m", Raw(b"[2]")) and one != Request(2, "m", Raw(b"[1]"))
    assert Request(1, "m") != Notification("m") and Notification("m") != "m"
    with pytest.raises(TypeError):
        hash(one)


@pytest.mark.parametrize("params", ["", ',"params":[1]'])
def test_messages_can_be_copied_and_pickled(params: str) -> None:
    message = request(text('"id":1', '"method":"m"' + params))
    for twin in (copy.copy(message), copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert twin == message
        assert twin.params == message.params


def test_a_message_shows_no_params() -> None:
    shown = repr(request(text('"id":"%s"' % ("x" * 500), '"method":"%s"' % ("y" * 500), '"params":["secret"]')))
    assert "secret" not in shown and len(shown) < 300
    assert repr(Notification("m", Raw(b"[1]"))) == "Notification(method='m', raw_params=<3 bytes>)"


# -- what is no message

#: Text -> why it is none, and the id that is answered (``UNSET``: none).
MALFORMED: list[tuple[bytes, MalformedKind, Any]] = [
    # No JSON: reported, not answered (a banner must not start an echo).
    (b"Server listening on port 3000", "not-json", UNSET),
    (b"", "not-json", UNSET),
    (b"\0", "not-json", UNSET),
    (b"{", "not-json", UNSET),
    (b'{"jsonrpc":"2.0","id":1,"method":"m"', "not-json", UNSET),
    (b'{"jsonrpc":"2.0","id":1,"method":"m"}}', "not-json", UNSET),
    (b'{"jsonrpc":"2.0","id":1,"method":"m"} {}', "not-json", UNSET),
    (b'{"jsonrpc":"2.0","id":1,"method":"m",}', "not-json", UNSET),
    (b"{'jsonrpc':'2.0'}", "not-json", UNSET),
    (b"[1,", "not-json", UNSET),
    (b'["\\ud800",', "not-json", UNSET),
    (b'"\\ud80"', "not-json", UNSET),
    (text('"method":"m"', '"params":[NaN]'), "not-json", UNSET),
    (text('"id":1', '"method":"m"', '"params":[-Infinity]'), "not-json", UNSET),
    (text('"id":01', '"method":"m"'), "not-json", UNSET),
    (text('"id":1', '"method":"m"', '"x":"\\q"'), "not-json", UNSET),
    (text('"id":1', '"method":"m"', '"x":"\t"'), "not-json", UNSET),
    (text('"id":1', '"method":"\\ud800"', '"x":"\\ud8 0"'), "not-json", UNSET),
    (text('"id":1', '"method":"\\ud800"', '"x":"\\ud8'), "not-json", UNSET),
    (b"\xef\xbb\xbf" + text('"id":1', '"method":"m"'), "not-json", UNSET),
    # Invalid UTF-8, wherever it stands.
    (b"\xff", "invalid-utf8", UNSET),
    (text('"id":1', '"method":"m"', '"params":["@"]').replace(b"@", b"\xff"), "invalid-utf8", UNSET),
    (text('"id":1', '"method":"m"', '"x":["@"]').replace(b"@", b"\xed\xa0\x80"), "invalid-utf8", UNSET),
    (text('"id":1', '"method":"m"', '"@":1').replace(b"@", b"\xc0\xaf"), "invalid-utf8", UNSET),
    (text('"id":"@"', '"method":"m"').replace(b"@", b"\xe2\x80"), "invalid-utf8", UNSET),
    (text('"id":1', '"method":"m"', '"\\ud800":"@"').replace(b"@", b"\xfe"), "invalid-utf8", UNSET),
    # Batches: one answer with id null, whatever they hold.
    (b"[]", "batch", None),
    (b' [{"jsonrpc":"2.0","id":1,"method":"m"}]', "batch", None),
    (b'[{"jsonrpc":"2.0","id":1,"result":1}]', "batch", None),
    (b'[1e400,"\\ud800"]', "batch", None),
    # JSON, and no object: there is no id to answer.
    (b"1", "invalid-request", UNSET),
    (b"1e400", "invalid-request", UNSET),
    (b"null", "invalid-request", UNSET),
    (b'"[]"', "invalid-request", UNSET),
    (b'"\\ud800"', "invalid-request", UNSET),
    # Objects.
    (b"{}", "invalid-request", UNSET),
    (b'{"jsonrpc":"2.0"}', "invalid-request", UNSET),
    (b'{"id":1,"method":"m"}', "invalid-request", 1),
    (b'{"id":1}', "invalid-request", 1),
    (b'{"jsonrpc":"1.0","id":"a","method":"m"}', "invalid-request", "a"),
    (b'{"jsonrpc":2.0,"id":1.0,"method":"m"}', "invalid-request", 1),
    (b'{"jsonrpc":null,"id":1,"method":"m"}', "invalid-request", 1),
    (b'{"jsonrpc":["2.0"],"id":1,"method":"m"}', "invalid-request", 1),
    (b'{"jsonrpc":"1.0","method":"m"}', "invalid-request", UNSET),
    (b'{"jsonrpc":"1.0","id":true,"method":"m"}', "invalid-id", None),
    (text('"id":1', '"method":7'), "invalid-request", 1),
    (text('"id":1', '"method":null'), "invalid-request", 1),
    (text('"id":"\\ud800"', '"method":{}'), "invalid-request", "\ud800"),
    (text('"id":1', '"method":1e400'), "invalid-request", 1),
    (text('"method":["m"]'), "invalid-request", UNSET),
    (text('"id":null'), "invalid-id", None),
    (text('"id":1'), "empty", 1),
    (text('"id":1', '"params":{}'), "empty", 1),
    # What looks like a response is never answered.
    (text('"id":1', '"method":"m"', '"result":1'), "invalid-response", UNSET),
    (text('"id":1', '"method":"m"', '"error":null'), "invalid-response", UNSET),
    (text('"id":1', '"method":7', '"error":{}'), "invalid-response", UNSET),
    (text('"id":{}', '"method":"m"', '"result":1'), "invalid-response", UNSET),
    (b'{"id":1,"result":1}', "invalid-response", UNSET),
    (b'{"jsonrpc":"1.0","id":1,"error":{}}', "invalid-response", UNSET),
    (b'{"jsonrpc":"1.0","id":{},"error":{}}', "invalid-response", UNSET),
    (text('"result":1'), "invalid-response", UNSET),
    (text('"error":{}'), "invalid-response", UNSET),
    (text('"id":null', '"result":1'), "invalid-response", UNSET),
    (text('"id":null', '"result":1', '"error":null'), "invalid-response", UNSET),
    (text('"id":[]', '"error":{"code":1,"message":"m"}'), "invalid-response", UNSET),
]


@pytest.mark.spec("R-wire-2", "R-wire-7", "R-wire-9", "R-wire-10", "R-wire-13")
@pytest.mark.parametrize(("given", "kind", "reply_id"), MALFORMED, ids=lambda value: str(value)[:60])
def test_malformed(given: bytes, kind: str, reply_id: Any) -> None:
    message = malformed(decode_message(given))
    assert message.error.kind == kind
    assert exact(message.reply_id) == exact(reply_id)
    assert message.error.detail
    assert message.error.excerpt == given[:200]


def test_the_report_of_a_long_message_is_short() -> None:
    error = malformed(decode_message(b"x" * 1_000_000)).error
    assert error.excerpt == b"x" * 200
    assert len(pickle.dumps(error)) < 2000


@pytest.mark.spec("R-wire-14")
def test_an_id_alone_may_be_a_broken_answer() -> None:
    assert malformed(decode_message(text('"id":1'))).answers == 1
    assert malformed(decode_message(b'{"id":1}')).answers is UNSET


# -- depth


def nested(levels: int, *members: str) -> bytes:
    return text(*members, '"x":' + "[" * levels + "]" * levels)


@pytest.mark.spec("R-wire-11")
@pytest.mark.parametrize("limit", [3, DEFAULT_MAX_DEPTH])
def test_depth_is_limited_exactly(limit: int) -> None:
    fits, exceeds = (nested(levels, '"id":1', '"method":"m"') for levels in (limit - 1, limit))
    assert decode_message(fits, max_depth=limit) == Request(1, "m")
    message = malformed(decode_message(exceeds, max_depth=limit))
    assert (message.error.kind, message.reply_id, message.answers) == ("too-deep", 1, UNSET)


@pytest.mark.parametrize(
    ("given", "reply_id", "answers"),
    [
        (nested(5, '"id":1', '"method":"m"'), 1, UNSET),
        (nested(5, '"id":"\\ud800"', '"method":"m"'), "\ud800", UNSET),
        (nested(5, '"id":1.0', '"method":7'), 1, UNSET),
        (nested(5, '"id":null', '"method":"m"'), None, UNSET),
        (text('"id":[[[[[1]]]]]', '"method":"m"'), None, UNSET),
        (nested(5, '"method":"m"'), UNSET, UNSET),
        (nested(5, '"id":1', '"result":1'), UNSET, 1),
        (nested(5, '"id":1', '"error":{}'), UNSET, 1),
        (nested(5, '"id":1'), 1, 1),
        (nested(5, '"id":1', '"result":1').replace(b"2.0", b"2.1"), UNSET, UNSET),
        (nested(5, '"id":null', '"error":{}'), UNSET, UNSET),
        (nested(5, '"id":1', '"method":"m"', '"error":{}'), UNSET, UNSET),
        (text('"id":1', '"result":[[[[[1e400]]]]]'), UNSET, 1),
    ],
)
def test_what_nests_too_deep_is_answered_where_it_can_be(given: bytes, reply_id: Any, answers: Any) -> None:
    message = malformed(decode_message(given, max_depth=4))
    assert message.error.kind == "too-deep"
    assert exact((message.reply_id, message.answers)) == exact((reply_id, answers))


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        (b"[" * 100_000, "too-deep"),
        (b"[" * 100_000 + b"]" * 100_000, "too-deep"),
        (b'{"a":' * 100_000, "too-deep"),
        (nested(100_000, '"id":1', '"method":"m"'), "too-deep"),
        (b"[" * 20 + b"]" * 20, "batch"),
        (b"[" * 20, "not-json"),
        (b"]" * 1000 + b"[" * 1000, "not-json"),
    ],
)
def test_deep_texts_of_every_kind(given: bytes, kind: str) -> None:
    assert malformed(decode_message(given, max_depth=10)).error.kind == kind


def test_the_default_depth() -> None:
    assert DEFAULT_MAX_DEPTH == 256
    assert decode_message(nested(255, '"method":"m"')) == Notification("m")
    assert malformed(decode_message(nested(256, '"method":"m"'))).error.kind == "too-deep"


def test_a_limit_of_ours_that_is_over_the_parsers() -> None:
    for deep in (nested(3000, '"id":1', '"method":"m"'), b"[" * 3000 + b"]" * 3000):
        message = malformed(decode_message(deep, max_depth=10**6))
        assert (message.error.kind, message.reply_id) == ("too-deep", UNSET)


def test_brackets_inside_strings_are_no_depth() -> None:
    assert decode_message(text('"method":"m"', '"x":"' + '[{\\"[\\\\' * 500 + '"'), max_depth=2) == Notification("m")


# -- errors in responses


@pytest.mark.parametrize(
    ("given", "code", "message", "data"),
    [
        ('{"code":-32603,"message":"m"}', -32603, "m", None),
        ('{"code":7,"message":"","data":null}', 7, "", None),
        ('{"code":-32001.0,"message":"m","data":[1]}', -32001, "m", [1]),
        ('{"code":1,"message":"\\ud800","data":"\\udfff"}', 1, "\ud800", "\udfff"),
        ('{"code":12345678901234567890,"message":"m"}', 12345678901234567890, "m", None),
        ('{"code":"1","message":"m"}', -32603, "m", None),
        ('{"code":true,"message":"m"}', -32603, "m", None),
        ('{"code":1.5,"message":"m"}', -32603, "m", None),
        ('{"message":"m"}', -32603, "m", None),
        ('{"code":1,"message":"-32001: m"}', 1, "-32001: m", None),
        ('{"code":7}', 7, ..., None),
        ('{"code":7,"message":8,"data":9}', 7, ..., 9),
        ('{"code":[' + "1," * 1000 + "1]}", -32603, ..., None),
        ("{}", -32603, ..., None),
        ("null", -32603, ..., None),
        ("false", -32603, ..., None),
        ("0", -32603, ..., None),
        ('"broken"', -32603, ..., None),
        ('["broken"]', -32603, ..., None),
        ('"%s"' % ("x" * 10_000), -32603, ..., None),
        ('{"code":7,"message":"m","data":1e400}', -32603, ..., None),
    ],
    ids=lambda value: str(value)[:40],
)
def test_errors_of_any_kind(given: str, code: int, message: Any, data: Any) -> None:
    error = failure(decode_message(text('"id":1', f'"error":{given}')))
    assert (error.code, error.data) == (code, data)
    if message is ...:
        # A sentence of ours that says what came instead, whatever its size.
        assert 20 < len(error.message) < 500
    else:
        assert error.message == message


def test_the_code_chooses_the_class() -> None:
    assert type(failure(decode_message(text('"id":1', '"error":{"code":-32603,"message":"m"}')))) is InternalError
    assert type(failure(decode_message(text('"id":1', '"error":{"code":-32000,"message":"m"}')))) is RpcError


@pytest.mark.spec("R-wire-14")
def test_result_and_error_together() -> None:
    assert decode_message(text('"id":1', '"result":3', '"error":null')) == Success(1, Raw(b"3"))
    assert failure(decode_message(text('"id":1', '"result":3', '"error":{"code":5,"message":"m"}'))).code == 5
    assert failure(decode_message(text('"id":1', '"result":null', '"error":{"code":5,"message":"m"}'))).code == 5
    assert failure(decode_message(text('"id":1', '"result":3', '"error":false'))).code == -32603


def test_an_error_for_nobody_has_no_id() -> None:
    message = decode_message(text('"id":null', '"error":{"code":-32700,"message":"m"}'))
    assert isinstance(message, Failure) and message.id is None


# -- out


@pytest.mark.spec("4-1", "6.6-2")
def test_the_envelopes() -> None:
    assert json.loads(encode_request(1, "m")) == {"jsonrpc": "2.0", "id": 1, "method": "m"}
    assert json.loads(encode_request("a", "m", None)) == {"jsonrpc": "2.0", "id": "a", "method": "m", "params": None}
    assert json.loads(encode_notification("m", [])) == {"jsonrpc": "2.0", "method": "m", "params": []}
    assert json.loads(encode_response(1, None)) == {"jsonrpc": "2.0", "id": 1, "result": None}
    assert json.loads(encode_failure(None, -32600, "m")) == {
        "jsonrpc": "2.0",
        "id": None,
        "error": {"code": -32600, "message": "m"},
    }
    denied = json.loads(encode_failure(1, -32002, "denied", {"capability": "tools"}))
    assert denied["error"] == {"code": -32002, "message": "denied", "data": {"capability": "tools"}}


def test_the_params_of_a_message_can_be_passed_on() -> None:
    absent = request(text('"id":1', '"method":"m"'))
    assert encode_request(2, "m", absent.raw_params) == encode_request(2, "m")
    assert encode_notification("m", Raw(b"")) == encode_notification("m")
    pretty = request(text('"id":1', '"method":"m"', '"params":{\n  "a": "\\ud800",\r\n  "b": "\u2028"\n}'))
    passed = request(encode_request(2, "m", pretty.raw_params))
    assert passed.params == pretty.params == {"a": "\ud800", "b": "\u2028"}
    assert b"\\u2028" in encode_notification("m", pretty.raw_params)


@pytest.mark.parametrize("value", [object(), float("nan"), {"a": UNSET}])
def test_what_has_no_json_form_is_refused(value: Any) -> None:
    encoders: list[Callable[[], bytes]] = [
        lambda: encode_request(1, "m", value),
        lambda: encode_notification("m", value),
        lambda: encode_response(1, value),
        lambda: encode_failure(1, 1, "m", value),
    ]
    for encode in encoders:
        with pytest.raises(UnencodableError):
            encode()


PARAMS = st.none() | st.lists(JSON, max_size=3) | st.dictionaries(TEXT, JSON, max_size=3)
SENT_IDS = st.integers() | st.integers(2**52, 2**70) | TEXT


@pytest.mark.spec("4.1-1", "4.1-2", "R-wire-8")
@given(SENT_IDS, TEXT, PARAMS)
@example("\ud800", "\udfff", {"\ud83d": "\ude00"})
@example(2**64, "", [])
def test_what_is_written_is_read_again(id: int | str, method: str, params: Any) -> None:
    for ascii in (False, True):
        asked = decode_message(_twin(encode_request(id, method, params), ascii))
        assert isinstance(asked, Request)
        assert exact((asked.id, asked.method, asked.params)) == exact((id, method, params))
        told = decode_message(_twin(encode_notification(method, params), ascii))
        assert isinstance(told, Notification)
        assert exact((told.method, told.params)) == exact((method, params))
        answered = decode_message(_twin(encode_response(id, params), ascii))
        assert isinstance(answered, Success)
        assert exact((answered.id, decode_value(answered.result))) == exact((id, params))
        refused = decode_message(_twin(encode_failure(id, 7, method, params), ascii))
        assert isinstance(refused, Failure)
        error = refused.error
        assert exact((refused.id, error.code, error.message, error.data)) == exact((id, 7, method, params))


def _twin(given: bytes, ascii: bool) -> bytes:
    """The same message as another encoder writes it."""
    return dump_ascii(decode_value(given)) if ascii else given


MEMBERS = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON,
        "id": SENT_IDS | JSON,
        "method": TEXT | JSON,
        "params": JSON,
        "result": JSON,
        "error": JSON | st.fixed_dictionaries({}, optional={"code": JSON, "message": JSON, "data": JSON}),
        "x": JSON,
    },
)


@given(MEMBERS)
def test_any_object_is_read(members: dict[str, Any]) -> None:
    """The classification, told once more in its own words."""
    message = decode_message(dump_ascii(members))
    looks_like_response = "result" in members or "error" in members
    version, method, id = members.get("jsonrpc"), members.get("method"), read_id(members.get("id"))
    if isinstance(message, Request | Notification):
        assert version == "2.0" and type(method) is str and not looks_like_response
        assert isinstance(message, Request) is ("id" in members)
        if isinstance(message, Request):
            assert message.id == id
    elif isinstance(message, Success | Failure):
        assert version == "2.0" and looks_like_response and "method" not in members
        assert message.id == id
    elif looks_like_response:
        assert (message.error.kind, message.reply_id) == ("invalid-response", UNSET)
    elif "id" not in members:
        assert message.reply_id is UNSET
    else:
        assert message.reply_id == id


@given(st.binary(max_size=80))
@example(b'{"jsonrpc":"2.0","id":1,"method":"\xff"}')
def test_any_bytes_are_read(given: bytes) -> None:
    message = decode_message(given, max_depth=3)
    assert isinstance(message, Message)
    if isinstance(message, Malformed):
        assert isinstance(message.error, MalformedMessageError)


FRAGMENTS = st.lists(
    st.sampled_from(
        [
            *'{ } [ ] " : , 1 - . e 0 true null \\ \\u \\ud800 d83d \u00e9 NaN 1e400 \ufeff'.split(" "),
            *(' | \n|"jsonrpc":"2.0"|"id":1|"method":"m"|"params":{}|"result":0|"error":|"x":'.split("|")),
        ]
    ),
    max_size=14,
)


@given(FRAGMENTS, st.booleans())
@example(['{"x":"\\ud8', '"}'], False)
@example(['"jsonrpc":"2.0"', ",", '"x":', '"', "\\", "\\ud800", '"'], True)
def test_what_is_json_is_decided_as_other_readers_do(parts: list[str], braces: bool) -> None:
    given = "".join(parts)
    given = "{" + given + "}" if braces else given
    message = decode_message(given.encode())
    try:
        json.loads(given, parse_constant=_no_constant)
        is_json = True
    except ValueError:
        is_json = False
    assert (isinstance(message, Malformed) and message.error.kind == "not-json") is not is_json


def _no_constant(name: str) -> Any:
    raise ValueError(name)


@pytest.mark.parametrize(
    "shape",
    ['{"jsonrpc":"2.0","id":[@],"method":"m"}', '{"id":{"a":[@]},"x":"\\ud800"}', "[@]", '["\\ud800",@]', '{"x":[@]}'],
)
def test_what_nobody_reads_takes_no_memory(shape: str) -> None:
    given = shape.replace("@", "[]," * 100_000 + "[]").encode()
    tracemalloc.start()
    try:
        decode_message(given)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5 * len(given)


def check_what_is_kept_alive(read: Callable[[list[bytes]], Iterable[Message]]) -> None:
    """A message of many keeps alive only its own text."""
    decoder = LineDecoder()
    line, long = (text('"id":1', '"method":"m"', f'"params":[{number}]') for number in ("1", "1" + "0" * 1_000_000))
    stream = b"\n".join([*[line] * 8, long, b""])
    tracemalloc.start()
    try:
        messages = list(read(decoder.feed(stream)))
        kept = messages[5]
        del messages
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert isinstance(kept, Request) and kept.params == [1]
    assert held < 50_000


def test_a_message_keeps_alive_only_its_own_text() -> None:
    check_what_is_kept_alive(lambda texts: map(decode_message, texts))
