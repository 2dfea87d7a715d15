from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from mcpl_core.errors import InvalidValueError
from mcpl_core.protocol.codec import decode_typed
from mcpl_core.protocol.state import (
    StateGetResult,
    StateRecord,
    StateRollbackParams,
    StateRollbackResult,
    StateUpdateParams,
    StateUpdateResult,
    state_form,
)
from mcpl_core.wire.values import encode_value

PATCH = b'[{"op":"add","path":"/notes/-","value":null}]'


@pytest.mark.parametrize(
    ("data", "patch", "form"),
    [
        (UNSET, UNSET, "opaque"),
        (None, UNSET, "data"),
        ({}, UNSET, "data"),
        (UNSET, [], "patch"),
        (None, [], "both"),
    ],
)
def test_the_form_of_a_record(data: Any, patch: Any, form: str) -> None:
    assert state_form(data, patch) == form
    assert StateRecord(checkpoint="c", data=data, patch=patch).form == form
    assert StateUpdateParams(feature_set="a", checkpoint="c", parent=None, data=data, patch=patch).form == form


@pytest.mark.parametrize(
    "text",
    [
        b'{"checkpoint":"chk_def","parent":"chk_abc"}',
        b'{"checkpoint":"chk_abc","parent":null,"data":{"notes":[]}}',
        b'{"checkpoint":"chk_def","parent":"chk_abc","patch":' + PATCH + b"}",
        b'{"checkpoint":"seq_1"}',
        b'{"checkpoint":"seq_1","data":null}',
    ],
)
def test_records(text: bytes) -> None:
    assert encode_value(decode_typed(text, StateRecord)) == text


def test_absent_null_and_empty_differ() -> None:
    read = [
        decode_typed(b'{"checkpoint":"c"%b}' % rest, StateRecord)
        for rest in (b"", b',"parent":null', b',"parent":""', b',"data":null', b',"data":{}')
    ]
    assert [record.parent for record in read] == [UNSET, None, "", UNSET, UNSET]
    assert [record.data for record in read] == [UNSET, UNSET, UNSET, None, {}]


@pytest.mark.spec("R-ext-1")
def test_an_update_says_what_came_before() -> None:
    text = b'{"featureSet":"a","checkpoint":"c","parent":null,"patch":' + PATCH + b"}"
    update = decode_typed(text, StateUpdateParams)
    assert (update.parent, update.form) == (None, "patch")
    assert encode_value(update) == text
    with pytest.raises(InvalidValueError):
        decode_typed(b'{"featureSet":"a","checkpoint":"c","data":{}}', StateUpdateParams)


@pytest.mark.parametrize(
    ("patch", "path"), [(b"null", "$.patch"), (b"{}", "$.patch"), (b"[5]", "$.patch[0]"), (b'"x"', "$.patch")]
)
def test_a_patch_is_an_array_of_objects(patch: bytes, path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        decode_typed(b'{"checkpoint":"c","patch":' + patch + b"}", StateRecord)
    assert caught.value.path == path


def test_results() -> None:
    assert decode_typed(b'{"accepted":false,"reason":"parent"}', StateUpdateResult).reason == "parent"
    empty = decode_typed(b'{"checkpoint":null,"data":null}', StateGetResult)
    assert (empty.checkpoint, empty.data) == (None, None)
    assert decode_typed(b'{"checkpoint":null}', StateGetResult).data is UNSET
    with pytest.raises(InvalidValueError):
        decode_typed(b'{"data":null}', StateGetResult)


def test_rolling_back() -> None:
    params = b'{"featureSet":"notes.edit","checkpoint":"chk_abc"}'
    assert encode_value(decode_typed(params, StateRollbackParams)) == params
    for text in (
        b'{"checkpoint":"chk_abc","success":true}',
        b'{"checkpoint":"chk_abc","success":false,"reason":"cannot be undone"}',
        b'{"checkpoint":"chk_abc","success":true,"data":null}',
    ):
        assert encode_value(decode_typed(text, StateRollbackResult)) == text
