"""The exceptions of the MCP bridges."""

from __future__ import annotations

import copy
import pickle

import pytest

from mcpl_core.errors import InvalidResultError, LocalProtocolError, McplError, RemoteProtocolError
from mcpl_core.mcp import errors
from mcpl_core.mcp.errors import (
    ConsentRequiredError,
    CredentialsUnavailableError,
    LocalSessionHandleLostError,
    McpExtraMissingError,
    McpInputRequiredError,
    McpOutputMismatchError,
    McpOutputUncheckedError,
    McpRediscoveryRequiredError,
    McpReplayUnavailableError,
    McpResultError,
    McpTaskRequiredError,
    McpToolError,
    McpToolListIncompleteError,
    UnknownEffectError,
)

EXAMPLES: list[tuple[McplError, type[Exception]]] = [
    (McpExtraMissingError("MCP over HTTP", "mcp"), ImportError),
    (McpToolError("s", "t", "no such file", {"isError": True}), McplError),
    (McpToolError("s", "t", ""), McplError),
    (McpInputRequiredError("s", "tools/call", {"q": {"method": "roots/list"}}, "state"), McplError),
    (UnknownEffectError("s", "t", (1,)), McplError),
    (CredentialsUnavailableError("mail"), McplError),
    (ConsentRequiredError("mail", "https://consent.example/?state=canary"), CredentialsUnavailableError),
    (LocalSessionHandleLostError("s"), McplError),
    (McpTaskRequiredError("s", "t"), LocalProtocolError),
    (McpOutputUncheckedError("s", "t"), LocalProtocolError),
    (McpOutputUncheckedError("s", "t", True), LocalProtocolError),
    (McpReplayUnavailableError("s", "requests-unwatched"), LocalProtocolError),
    (McpRediscoveryRequiredError("s"), LocalProtocolError),
    (McpToolListIncompleteError("s", "limit", 100, ({"name": "a"},)), RemoteProtocolError),
    (McpToolListIncompleteError("s", "repeated-cursor", 2), RemoteProtocolError),
    (McpResultError("s", "t", "too-deep", "it nests too deep", "$.structuredContent"), InvalidResultError),
    (McpOutputMismatchError("s", "t", "a number is needed"), InvalidResultError),
]


@pytest.mark.parametrize(("error", "kind"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_errors_are_ours_and_can_be_copied(error: McplError, kind: type[Exception]) -> None:
    assert isinstance(error, kind)
    for other in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert vars(other) == vars(error)
        assert str(other) == str(error) != ""


def test_every_class_has_an_example() -> None:
    classes = {name for name in errors.__all__ if isinstance(getattr(errors, name), type)}
    assert {type(error).__name__ for error, _ in EXAMPLES} == classes


def test_the_way_to_consent_is_in_no_text() -> None:
    error = ConsentRequiredError("mail", "https://consent.example/?state=canary")
    assert error.authorization_url.endswith("canary")
    assert "canary" not in str(error)
    assert str(error) != str(CredentialsUnavailableError("mail"))


def test_what_is_missing_says_how_to_get_it() -> None:
    error = McpExtraMissingError("MCP over HTTP", "mcp")
    assert (error.feature, error.library, error.extra) == ("MCP over HTTP", "mcp", "mcp")
    assert "mcp-live-core[mcp]" in str(error)
