"""What goes wrong with tools under authority: one exception, and its codes as data.

Owns: ``CatalogError``, whose message is the same for every code and never holds a byte of the peer; the codes, where
each of them comes up, and ``GateRequiredError``. Does not own: when a code is given (each module decides that).
"""

from __future__ import annotations

from typing import Final, Literal, get_args

from ..errors import LocalProtocolError, McplError

__all__ = (
    "CALL_CODES",
    "CODES",
    "DISCOVERY_CODES",
    "CatalogCode",
    "CatalogError",
    "EffectState",
    "GateRequiredError",
)

#: Every code. Hosts may match them; no text ever goes with them.
CatalogCode = Literal[
    "mcp_binding_invalid",  # a binding, a server id or a limit of the host is not what it must be
    "mcp_binding_missing",  # a tool that is bound is not in the server's list
    "mcp_canceled",  # a write was cancelled; its effect says whether before or after it was sent
    "mcp_catalog_limit_exceeded",  # too many pages, tools or bytes
    "mcp_catalog_stale",  # the list of tools changed since it was read
    "mcp_connection_closed",  # the connection that the list was read from closed
    "mcp_invalid_arguments",  # the arguments do not fit the schema; nothing was sent
    "mcp_name_conflict",  # two tools of one name, or two bindings to one local name
    "mcp_not_initialized",  # nobody said which version was negotiated
    "mcp_pagination_invalid",  # a cursor is too long, came twice, or is no text
    "mcp_peer_repeats",  # a session that may repeat requests by itself, asked for writes
    "mcp_pin_invalid",  # a file of pins cannot be read, or was tampered with
    "mcp_pin_mismatch",  # what was discovered is not what was pinned
    "mcp_protocol_conflict",  # another version than the one before was reported
    "mcp_protocol_error",  # the peer answered with an error
    "mcp_protocol_unsupported",  # a version outside the supported ones
    "mcp_result_invalid",  # a result is malformed, or does not fit the output schema
    "mcp_result_too_large",  # a result has too many bytes or blocks
    "mcp_result_unsupported",  # a result has a block that is no text
    "mcp_schema_unsupported",  # a schema is outside the profile
    "mcp_scope_denied",  # the host's scope check did not allow the call
    "mcp_timeout",  # no answer in time
    "mcp_tool_error",  # the tool failed (``isError``)
    "mcp_tool_unsupported",  # a selected tool can only be called as a task
    "mcp_tools_unavailable",  # the server has no tools, or is not to be asked for them
    "mcp_transport_error",  # the carrier failed, or something that nobody expected
]

CODES: Final[tuple[CatalogCode, ...]] = get_args(CatalogCode)

#: What a call of a tool can come back with; it is returned. What is asked without calling raises its code.
CALL_CODES: Final[frozenset[CatalogCode]] = frozenset(
    {
        "mcp_canceled",
        "mcp_catalog_stale",
        "mcp_connection_closed",
        "mcp_invalid_arguments",
        "mcp_not_initialized",
        "mcp_protocol_error",
        "mcp_result_invalid",
        "mcp_result_too_large",
        "mcp_result_unsupported",
        "mcp_scope_denied",
        "mcp_timeout",
        "mcp_tool_error",
        "mcp_tools_unavailable",
        "mcp_transport_error",
    }
)

#: What discovery, the monitor and pinning raise.
DISCOVERY_CODES: Final[frozenset[CatalogCode]] = frozenset(CODES) - {
    "mcp_canceled",
    "mcp_invalid_arguments",
    "mcp_result_too_large",
    "mcp_result_unsupported",
    "mcp_scope_denied",
    "mcp_tool_error",
}

#: What is *known* of the effect of a write. Of a read, ``not_started`` says that the host declared none.
EffectState = Literal["not_started", "committed", "unknown"]


class CatalogError(McplError):
    """The boundary refused. The text is the same for every code; nothing of the peer is in it, and no other exception
    hangs on it. A traceback shows the code as a note.

    Attributes:
        code: one of ``CODES``.
    """

    def __init__(self, code: CatalogCode) -> None:
        super().__init__(code)
        self.code: CatalogCode = code
        self.add_note(f"code: {code}")

    def __str__(self) -> str:
        return "the tool boundary refused the operation"


class GateRequiredError(LocalProtocolError):
    """A write was asked for without a permit that is good for it; nothing was sent.

    Attributes:
        reason: ``no_permit``, ``spent`` (a permit is good for one dispatch), ``other_call`` (it is for other arguments
            or another registration) or ``not_copyable``.
    """

    def __init__(self, reason: Literal["no_permit", "spent", "other_call", "not_copyable"]) -> None:
        super().__init__(reason)
        self.reason = reason

    def __str__(self) -> str:
        return f"a write goes through the approval gate only ({self.reason})"
