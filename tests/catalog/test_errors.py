"""One exception with one text, and codes as data."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest

from mcpl_core.catalog.errors import CALL_CODES, CODES, DISCOVERY_CODES, CatalogError, GateRequiredError
from mcpl_core.errors import LocalProtocolError, McplError


def test_the_text_is_the_same_for_every_code() -> None:
    assert len({str(CatalogError(code)) for code in CODES}) == 1
    assert issubclass(CatalogError, McplError)
    assert repr(CatalogError("mcp_timeout")) == "CatalogError('mcp_timeout')"
    assert CatalogError("mcp_timeout").__notes__ == ["code: mcp_timeout"]


def test_every_code_comes_up_somewhere() -> None:
    assert len(set(CODES)) == len(CODES)
    assert set(CODES) == CALL_CODES | DISCOVERY_CODES
    assert CODES == tuple(sorted(CODES))


@pytest.mark.parametrize("error", [CatalogError("mcp_timeout"), GateRequiredError("spent")])
def test_errors_are_copied_and_pickled(error: Any) -> None:
    for twin in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is type(error) and twin.args == error.args and vars(twin) == vars(error)


def test_a_write_without_its_gate_is_our_own_fault() -> None:
    assert issubclass(GateRequiredError, LocalProtocolError)
    assert "spent" in str(GateRequiredError("spent"))
