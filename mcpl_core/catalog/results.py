"""Reading the result of ``tools/call``: texts and structured content, or a code.

Owns: the order of the checks. Does not own: whether anything may be sent, and what a code says of the effect
(``calls``).

Nothing of the result is in a code, so nothing of it reaches a log or an exception.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import McplError
from ..wire.values import encode_value
from .bounded import freeze
from .errors import CatalogCode
from .limits import CatalogLimits
from .profile import CompiledSchema, ProfileMismatchError, compile_schema

__all__ = ("Envelope", "json_size", "read_result")

#: Any object within the budgets of the profile.
_OBJECT = compile_schema({"type": "object"})


@dataclass(frozen=True, slots=True)
class Envelope:
    """What a success holds. See ``CallOutcome``."""

    text: tuple[str, ...]
    structured: Mapping[str, Any] | None

    def __repr__(self) -> str:
        return "<Envelope>"


def json_size(value: Any) -> int | None:
    """Bytes of the compact JSON text of a value in UTF-8; ``None`` when it has none."""
    try:
        return len(encode_value(value))
    except McplError:
        return None


def read_result(value: Any, output: CompiledSchema | None, limits: CatalogLimits) -> Envelope | CatalogCode:
    """The envelope of a result that is valid in every way, else the code of the first thing that is wrong.

    Args:
        value: the result as it came.
        output: the compiled output schema; ``None``: the tool has none.
        limits: of the catalog.
    """
    content = value.get("content") if isinstance(value, dict) else None
    failed = value.get("isError", False) if isinstance(value, dict) else None
    if not isinstance(content, list) or not isinstance(failed, bool):
        return "mcp_result_invalid"
    if failed:
        return "mcp_tool_error"
    if len(content) > limits.max_content_blocks:
        return "mcp_result_too_large"
    size = json_size(value)
    if size is None:
        return "mcp_result_invalid"
    if size > limits.max_result_bytes:
        return "mcp_result_too_large"
    texts: list[str] = []
    for block in content:
        problem = _block_problem(block)
        if problem is not None:
            return problem
        texts.append(block["text"])
    return _structured(value, tuple(texts), output)


#: Blocks that MCP has beside text. A type that nobody knows is no block at all.
_UNSUPPORTED = frozenset({"audio", "image", "resource", "resource_link"})


def _block_problem(block: Any) -> CatalogCode | None:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and _is_text(block.get("text")):
        return None
    return "mcp_result_unsupported" if isinstance(kind, str) and kind in _UNSUPPORTED else "mcp_result_invalid"


def _is_text(value: Any) -> bool:
    """Whether it is a text that has a form in UTF-8: a lone surrogate has none."""
    return isinstance(value, str) and (value.isascii() or not any("\ud800" <= char <= "\udfff" for char in value))


def _structured(value: dict[str, Any], texts: tuple[str, ...], output: CompiledSchema | None) -> Envelope | CatalogCode:
    structured = value.get("structuredContent")
    if structured is None:
        # Text that looks like JSON is text.
        return "mcp_result_invalid" if output is not None else Envelope(texts, None)
    try:
        return Envelope(texts, freeze((output or _OBJECT).validate(structured)))
    except ProfileMismatchError:
        return "mcp_result_invalid"
