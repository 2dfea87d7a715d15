from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from mcpl_core.errors import InvalidValueError
from mcpl_core.protocol.branches import (
    BranchesChangedParams,
    BranchesCreateParams,
    BranchesCreateResult,
    BranchesCurrentResult,
    BranchesDeleteResult,
    BranchesListResult,
    BranchesSwitchResult,
    BranchInfo,
)
from mcpl_core.protocol.codec import decode_typed
from mcpl_core.wire.values import encode_value


def test_listing() -> None:
    text = (
        b'{"branches":[{"name":"main","head":40,"isCurrent":true,"parent":null,"branchPoint":null},'
        b'{"name":"alt","head":37,"isCurrent":false,"parent":"main","branchPoint":35}]}'
    )
    result = decode_typed(text, BranchesListResult)
    assert result.branches[1] == BranchInfo(name="alt", head=37, is_current=False, parent="main", branch_point=35)
    assert encode_value(result) == text
    lax = decode_typed(b'{"name":"a","head":1.0,"isCurrent":true,"branchPoint":2.0}', BranchInfo)
    assert (lax.head, lax.branch_point, lax.parent) == (1, 2, UNSET)


def test_creating() -> None:
    text = b'{"featureSet":"edit","name":"alt","from":"main","atCheckpoint":"seq_35"}'
    params = decode_typed(text, BranchesCreateParams)
    assert (params.source, params.at_checkpoint) == ("main", "seq_35")
    assert encode_value(params) == text


@pytest.mark.parametrize("kind", [BranchesCreateResult, BranchesSwitchResult, BranchesDeleteResult])
def test_hosts_that_say_only_whether(kind: Any) -> None:
    result = decode_typed(b'{"accepted":true}', kind)
    assert (result.accepted, result.name, result.reason) == (True, UNSET, UNSET)


def test_results() -> None:
    created = decode_typed(b'{"accepted":true,"name":"alt-2","head":35.0}', BranchesCreateResult)
    assert (created.name, created.head) == ("alt-2", 35)
    switched = decode_typed(b'{"accepted":true,"name":"alt","head":1.0,"previous":"main"}', BranchesSwitchResult)
    assert (switched.previous, switched.head) == ("main", 1)
    assert decode_typed(b'{"name":"main","head":4.0}', BranchesCurrentResult).head == 4


@pytest.mark.parametrize(
    "text",
    [
        b'{"event":"created","branch":"alt","head":35,"parent":"main"}',
        b'{"event":"switched","branch":"alt","previous":"main","head":35}',
        b'{"event":"deleted","branch":"alt"}',
    ],
)
def test_changes(text: bytes) -> None:
    assert encode_value(decode_typed(text, BranchesChangedParams)) == text
    assert encode_value(decode_typed(text.replace(b":35", b":35.0"), BranchesChangedParams)) == text


def test_unknown_events() -> None:
    with pytest.raises(InvalidValueError) as caught:
        decode_typed(b'{"event":"renamed","branch":"alt"}', BranchesChangedParams)
    assert caught.value.path == "$.event"
