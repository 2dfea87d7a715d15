"""From what a tool returned to a ``tools/call`` result (MCP; SPEC 8.2 for ``state``).

Owns: ``ToolResult`` and ``ToolError``, what becomes content and what structured content, and that what an output
schema promises is kept. Does not own: the promise (``schemas``), and calling (``calling``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from msgspec import UNSET, Raw, UnsetType

from ..content import ContentBlock, text_content
from ..errors import InvalidValueError, UnencodableError
from ..protocol import StateRecord, ToolsCallResult
from ..wire.messages import DEFAULT_MAX_DEPTH
from ..wire.values import decode_value, depth_exceeds, encode_value
from .blocks import tool_content
from .schemas import ResultSchema

__all__ = ("MAX_RESULT_DEPTH", "WHOLE_RESULTS", "ToolError", "ToolResult", "error_result", "tool_result")


class ToolError(Exception):
    """Raised by a tool to answer with an error that the model reads: ``isError: true`` with this text (MCP)."""


@dataclass(frozen=True, slots=True)
class ToolResult:
    """A tool's answer in full, where a plain return value does not say enough.

    Attributes:
        content: a text, a content block, or a list of blocks and texts.
        structured: the ``structuredContent`` member, an object; left out when ``UNSET``.
        is_error: the model should read this as a failure.
        state: the state that this call led to (SPEC 8.2).
        meta: the ``_meta`` member.
    """

    content: Any = ()
    structured: Any = UNSET
    is_error: bool = False
    state: StateRecord | UnsetType = UNSET
    meta: dict[str, Any] | UnsetType = UNSET


#: What a tool returns when it says all itself.
WHOLE_RESULTS: Final = (ToolResult, ToolsCallResult)

#: What holds nothing. An object of these alone is not deep, and is whatever an object with any members may be: neither
#: has to be looked for in its text.
_LEAVES: Final = frozenset({str, int, float, bool, type(None)})
_OBJECT: Final = dict[str, Any]

#: Levels of nesting that are left for what the result stands in.
MAX_RESULT_DEPTH: Final = DEFAULT_MAX_DEPTH - 8


def tool_result(promised: ResultSchema, value: Any) -> Raw:
    """What a tool returned, as the text of a ``tools/call`` result.

    A text is one text block, content blocks stay as they are, nothing is no content. Anything else becomes
    ``structuredContent`` and, for hosts that do not read that, its JSON text; with an output schema everything does.

    Raises:
        UnencodableError: the value has no JSON form, or one that nests deeper than peers read.
        InvalidValueError: it is not what the output schema promises.
    """
    content: list[ContentBlock] | None = None
    flat = False
    if type(value) is dict:
        # It is nothing of what follows; most results are one, and each question has its price.
        flat = _LEAVES.issuperset(map(type, value.values()))
    else:
        if isinstance(value, ToolsCallResult):
            return _text(value)
        if isinstance(value, ToolResult):
            return _text(_full(promised, value))
        content = _own_content(value)
        if promised.schema is None and content is not None:
            return _text({"content": content})
    text = encode_value(value)
    structured = _kept(promised, text, fits=flat and promised.kind == _OBJECT)
    result = {"content": content or [text_content(text.decode())], "structuredContent": structured}
    return Raw(encode_value(result)) if flat else _text(result)


def error_result(text: str) -> Raw:
    """A tool error (MCP): the model reads what went wrong."""
    return _text({"content": tool_content(text), "isError": True})


def _own_content(value: Any) -> list[ContentBlock] | None:
    """The value as content, where it is that and nothing else."""
    if value is None:
        return []
    blocks = isinstance(value, list | tuple) and any(isinstance(item, ContentBlock) for item in value)
    return tool_content(value) if blocks or isinstance(value, str | ContentBlock) else None


def _kept(promised: ResultSchema, text: bytes, *, fits: bool = False) -> Any:
    """The structured content; what is no object stands in one. ``fits``: it is known to be of the promised type."""
    if not fits and promised.kind is not Any:
        decode_value(text, promised.kind)
    if promised.wrapped or (promised.schema is None and text[:1] != b"{"):
        return {"result": Raw(text)}
    if text[:1] != b"{":
        raise InvalidValueError("structured", "structured content is an object", "$.structuredContent")
    return Raw(text)


def _full(promised: ResultSchema, value: ToolResult) -> dict[str, Any]:
    if not isinstance(value.state, StateRecord | UnsetType):
        raise InvalidValueError("state", "the state is a StateRecord", "$.state")
    if value.state is not UNSET and value.state.form == "both":
        raise InvalidValueError("state", "a state carries data or a patch, not both", "$.state")
    if not isinstance(value.meta, dict | UnsetType):
        raise InvalidValueError("meta", "the _meta member is an object", "$._meta")
    result: dict[str, Any] = {"content": tool_content(value.content)}
    if value.structured is not UNSET:
        text = encode_value(value.structured)
        result["structuredContent"] = _kept(ResultSchema({}), text)
        result["content"] = result["content"] or tool_content(text.decode())
    elif promised.schema is not None and not value.is_error:
        raise InvalidValueError("structured", "the output schema promises an object", "$.structuredContent")
    if value.is_error:
        result["isError"] = True
    optional = {"state": value.state, "_meta": value.meta}
    return result | {name: member for name, member in optional.items() if member is not UNSET}


def _text(result: Any) -> Raw:
    text = encode_value(result)
    # A peer that refuses the depth could not tell which of its requests was answered.
    if depth_exceeds(text, MAX_RESULT_DEPTH):
        raise UnencodableError(f"it nests deeper than {MAX_RESULT_DEPTH} levels")
    return Raw(text)
