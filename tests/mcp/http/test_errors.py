"""The errors of HTTP: facts as attributes, and copies of themselves."""

from __future__ import annotations

import copy
import pickle

import pytest

from mcpl_core.errors import ERR_INTERNAL_ERROR, ConnectionClosedError, McplError, RpcError, TransportError
from mcpl_core.mcp.http.errors import HttpStatusError, RedirectRefusedError, SessionEndedError


@pytest.mark.parametrize(
    ("error", "facts", "family"),
    [
        (HttpStatusError(503, 2.5), {"status": 503, "retry_after": 2.5, "code": ERR_INTERNAL_ERROR}, RpcError),
        (HttpStatusError(401), {"status": 401, "retry_after": None}, RpcError),
        (SessionEndedError(), {"status": 404, "outcome": "no-response", "reason": None}, ConnectionClosedError),
        (
            RedirectRefusedError(302, "https://b.example"),
            {"status": 302, "origin": "https://b.example"},
            TransportError,
        ),
        (RedirectRefusedError(302, None), {"status": 302, "origin": None}, TransportError),
    ],
)
def test_facts_survive_copies(error: McplError, facts: dict[str, object], family: type[McplError]) -> None:
    assert isinstance(error, family)
    for each in (error, copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert {name: getattr(each, name) for name in facts} == facts
        assert str(each) == str(error) != ""
