"""What can be refused, as facts."""

from __future__ import annotations

from mcpl_core import McplError
from mcpl_core.errors import LocalProtocolError
from mcpl_core.mcp.serving import McpUnsupportedError, ServingRefusedError


def test_the_code_of_what_is_not_offered_is_an_attribute() -> None:
    error = McpUnsupportedError("transport", "there is no carrier pigeon")
    assert (error.code, error.detail) == ("transport", "there is no carrier pigeon")
    assert isinstance(error, McplError)
    assert isinstance(error, NotImplementedError)
    assert str(error) == "there is no carrier pigeon"


def test_a_refusal_names_its_tools() -> None:
    error = ServingRefusedError("duplicate-name", ("a", "b"), "several tools have one name")
    assert (error.code, error.tools) == ("duplicate-name", ("a", "b"))
    assert isinstance(error, LocalProtocolError)
    assert "a, b" in str(error)
    assert str(ServingRefusedError("no-tools", (), "none")) == "none"
