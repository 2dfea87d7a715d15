"""Trace context in ``_meta``: ``traceparent``, ``tracestate``, ``baggage`` (MCP 2026-07-28; W3C Trace Context).

Owns: the three names and their grammar. Does not own: spans. Who traces hands over a function that returns the context
of the moment; where there is none nothing is made, and nothing is sent.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

__all__ = ("TRACE_MEMBERS", "TraceSource", "trace_members")

TRACE_MEMBERS: Final = ("traceparent", "tracestate", "baggage")

#: Returns the members of the moment, or nothing.
TraceSource: TypeAlias = Callable[[], Mapping[str, str] | None]

_PARENT = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")
#: The specifications let receivers drop longer ones.
_LONGEST = {"traceparent": 256, "tracestate": 512, "baggage": 8192}


def trace_members(context: Mapping[str, Any] | None) -> dict[str, str]:
    """The members for ``_meta`` out of a context, whoever gave it. What is outside its grammar is left out; without
    a ``traceparent`` there is no ``tracestate``. Never raises.
    """
    if not isinstance(context, Mapping):
        return {}
    found = {name: context[name] for name in TRACE_MEMBERS if _usable(name, context.get(name))}
    if "traceparent" not in found or not _PARENT.fullmatch(found["traceparent"]):
        found.pop("traceparent", None)
        found.pop("tracestate", None)
    return found


def _usable(name: str, value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= _LONGEST[name] and value.isascii() and value.isprintable()
