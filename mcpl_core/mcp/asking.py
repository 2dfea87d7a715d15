"""What one call of a tool says, and how long it may take.

Owns: the params of ``tools/call`` and the options of its request, out of what a caller gave. What makes no sense is
refused here, before anything is sent. Does not own: sending (``client``), and the time itself (``budgets``).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from inspect import iscoroutinefunction
from typing import Any

from msgspec import UNSET, UnsetType

from ..errors import InvalidValueError
from .budgets import checked_seconds
from .tracing import TraceSource, trace_members

__all__ = ("TIME_META", "call_params", "is_plain_function", "request_options")

_logger = logging.getLogger("mcpl_core.mcp")

#: The member of ``_meta`` that tells a tool the time of its call.
TIME_META = "mcpl/time"


def call_params(
    tool: str,
    arguments: Any,
    *,
    time: Any,
    meta: Mapping[str, Any] | None,
    trace: TraceSource | None,
    input_responses: Mapping[str, Any] | None,
    request_state: str | None,
) -> dict[str, Any]:
    """The params of a call; ``_meta`` only where it has members.

    Args:
        tool: its name at the server.
        arguments: a mapping; anything else becomes ``{}``.
        time, meta, input_responses, request_state: as for ``McpClient.answer``.
        trace: returns the trace context of the moment. What it raises is logged by its class, and nothing is traced.

    Raises:
        InvalidValueError: one of them is of another type.
    """
    params: dict[str, Any] = {"name": tool, "arguments": dict(arguments) if isinstance(arguments, Mapping) else {}}
    members = {**_mapping("meta", meta), **_traced(trace)}
    if time is not UNSET:
        members[TIME_META] = time
    if members:
        params["_meta"] = members
    if input_responses is not None:
        params["inputResponses"] = _mapping("input_responses", input_responses)
    if request_state is not None:
        if not isinstance(request_state, str):
            raise InvalidValueError("request_state", "a state is a text")
        params["requestState"] = request_state
    return params


def request_options(
    *,
    timeout: float | None | UnsetType,
    max_total: float | None | UnsetType,
    reset_on_progress: bool,
    on_progress: Callable[[dict[str, Any]], None] | None,
    default_max_total: float,
) -> dict[str, Any]:
    """The options of a call's request, as ``RawSession.request`` takes them.

    Args:
        timeout, max_total, reset_on_progress, on_progress: as for ``McpClient.answer``.
        default_max_total: seconds in all where progress extends the timeout and the caller names no cap.

    Raises:
        InvalidValueError: a number of seconds is none, or ``on_progress`` cannot be called, or is ``async``: nobody
            would wait for it.
    """
    if isinstance(max_total, UnsetType):
        max_total = default_max_total if reset_on_progress and timeout is not None else None
    if on_progress is not None and not is_plain_function(on_progress):
        raise InvalidValueError("on_progress", "a function that is not async is needed", "$.on_progress")
    return {
        "timeout": timeout if isinstance(timeout, UnsetType) else checked_seconds("timeout", timeout),
        "max_total": checked_seconds("max_total", max_total),
        "reset_on_progress": reset_on_progress,
        "on_progress": on_progress,
    }


def is_plain_function(value: Any) -> bool:
    """Whether it can be called where nobody waits for what it returns."""
    return callable(value) and not iscoroutinefunction(value)


def _mapping(name: str, value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise InvalidValueError(name, f"a mapping is needed, not a {type(value).__name__}")
    return dict(value or {})


def _traced(trace: TraceSource | None) -> dict[str, str]:
    if trace is None:
        return {}
    try:
        return trace_members(trace())
    except Exception as exc:
        # Who traces must not cost the call.
        _logger.error("a source of trace context failed: %s", type(exc).__name__)
        return {}
