"""The formats of a store. What a whole store promises is in the contract suite."""

from __future__ import annotations

import pytest

from mcpl_core.approvals.errors import ApprovalError
from mcpl_core.approvals.store import check_format


@pytest.mark.parametrize(("found", "known"), [(3, 2), (2, 1), (-1, 2), (0, 2)])
def test_a_format_that_is_not_known(found: int, known: int) -> None:
    with pytest.raises(ApprovalError) as caught:
        check_format(found, known)
    assert caught.value.code == "approval_storage_version"


def test_a_format_that_is_known() -> None:
    assert [check_format(found, 2) for found in (1, 2)] == [1, 2]
