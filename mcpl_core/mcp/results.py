"""Reading the result of ``tools/call``: as text, or as one JSON object.

Owns: the modes, the shape of earlier protocol versions, and which of ``content`` and ``structuredContent`` counts. Does
not own: the bounds (``decoding``), output schemas (``checks``), and the call.

The rule for what stands twice: the mode decides, and nothing is a fallback for something that is present and wrong.
Errors tell the shape of a result, never what is in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, get_args

from ..errors import McplError
from ..wire.values import encode_value
from .decoding import BoundFault, broken_bound, read_json_text
from .errors import McpResultError, McpToolError, ResultFault

__all__ = ("RESULT_MODES", "McpAnswer", "ResultMode", "read_answer", "read_text", "shape_of")

#: ``text``: the text blocks; ``structured``: ``structuredContent``, an object; ``structured-or-json``: that, or where
#: it is absent the one text block that is a JSON object.
ResultMode = Literal["text", "structured", "structured-or-json"]
RESULT_MODES: Final[tuple[str, ...]] = get_args(ResultMode)

#: Of a name that a server chose, in a text of ours.
_LONGEST_NAME = 40
_MOST_NAMES = 8


@dataclass(frozen=True, slots=True)
class McpAnswer:
    """What a tool answered.

    Attributes:
        value: what the mode makes of it: a text, or a JSON object.
        result: the whole result, as received.
    """

    value: str | dict[str, Any]
    result: dict[str, Any]

    @property
    def content(self) -> list[Any]:
        """The content blocks, as received; none for the shape of earlier versions."""
        content = self.result.get("content")
        return content if isinstance(content, list) else []

    @property
    def structured(self) -> Any:
        """``structuredContent``, as received; ``None`` when absent."""
        return self.result.get("structuredContent")


def read_answer(server: str, tool: str, result: dict[str, Any], mode: ResultMode) -> McpAnswer:
    """Reads a result in a mode.

    Args:
        server: the name that the caller gave the server.
        tool: the tool's name there.
        result: as received.
        mode: see ``ResultMode``.

    Raises:
        McpToolError: the tool says that it failed.
        McpResultError: it cannot be read so.
    """
    kind = result.get("resultType", "complete")
    if kind != "complete":
        shown = kind[:_LONGEST_NAME] if isinstance(kind, str) else shape_of(kind)
        raise McpResultError(server, tool, "result-type", f"a result of kind {shown!r} is not spoken", "$.resultType")
    failed = result.get("isError")
    if failed is True:
        raise McpToolError(server, tool, _failure_text(result), result)
    if failed is not None and failed is not False:
        # Whatever it means, it is not success.
        raise McpResultError(server, tool, "shape", f"isError is no truth value but {shape_of(failed)}", "$.isError")
    if mode == "text":
        return McpAnswer(read_text(server, tool, result), result)
    if "structuredContent" in result:
        return McpAnswer(_structured(server, tool, result["structuredContent"]), result)
    if mode == "structured":
        raise McpResultError(server, tool, "structured-missing", f"no structuredContent in {shape_of(result)}")
    return McpAnswer(_json_text(server, tool, result), result)


def read_text(server: str, tool: str, result: dict[str, Any]) -> str:
    """The text of a result: its text blocks, one a line; of other blocks the type in brackets. A ``toolResult`` (MCP
    2024-10-07) is read where ``content`` is absent or empty: a string as it is, else as JSON.

    Raises:
        McpResultError: there is neither.
    """
    content = result.get("content")
    if not content and "toolResult" in result:
        return _legacy_text(server, tool, result["toolResult"])
    if isinstance(content, list):
        return "\n".join(map(_block_text, content))
    detail = f"neither content nor toolResult in {shape_of(result)}"
    if "content" in result:
        detail = f"content is no array but {shape_of(content)}"
    raise McpResultError(server, tool, "shape", detail, "$.content")


def shape_of(value: Any) -> str:
    """The shape of a value, in words that hold nothing of it but the names of a few members."""
    if not isinstance(value, dict):
        kinds = {bool: "a truth value", str: "a string", list: "an array", type(None): "null"}
        return kinds.get(type(value), "a number" if isinstance(value, int | float) else f"a {type(value).__name__}")
    names = [name[:_LONGEST_NAME] for name in value if isinstance(name, str)][:_MOST_NAMES]
    more = ", ..." if len(value) > len(names) else ""
    return f"an object with {', '.join(map(ascii, names))}{more}" if names else "an empty object"


def _legacy_text(server: str, tool: str, value: Any) -> str:
    if isinstance(value, str):
        return value
    try:
        return encode_value(value).decode()
    except (McplError, RecursionError, ValueError) as exc:
        detail = f"toolResult has no JSON form: {shape_of(value)}"
        raise McpResultError(server, tool, "shape", detail, "$.toolResult") from exc


def _block_text(block: Any) -> str:
    if not isinstance(block, dict):
        return "[unknown]"
    kind, text = block.get("type"), block.get("text")
    if kind == "text" and isinstance(text, str):
        return text
    return f"[{kind[:_LONGEST_NAME]}]" if isinstance(kind, str) and kind else "[unknown]"


def _failure_text(result: dict[str, Any]) -> str:
    content = result.get("content")
    return "\n".join(map(_block_text, content)) if isinstance(content, list) else ""


def _structured(server: str, tool: str, value: Any) -> dict[str, Any]:
    path = "$.structuredContent"
    if not isinstance(value, dict):
        detail = f"it is no object but {shape_of(value)}"
        raise McpResultError(server, tool, "structured-not-object", detail, path)
    if (fault := broken_bound(value)) is not None:
        raise McpResultError(server, tool, fault, _BOUNDS[fault], path)
    return value


def _json_text(server: str, tool: str, result: dict[str, Any]) -> dict[str, Any]:
    content = result.get("content")
    block = content[0] if isinstance(content, list) and len(content) == 1 else None
    if not isinstance(block, dict) or block.get("type") != "text" or not isinstance(block.get("text"), str):
        detail = f"no structuredContent, and content is not one text, in {shape_of(result)}"
        raise McpResultError(server, tool, "not-one-text", detail, "$.content")
    value, fault = read_json_text(block["text"])
    if fault is None and isinstance(value, dict):
        return value
    found: ResultFault = fault or "text-not-object"
    detail = _BOUNDS[fault] if fault else "the text is JSON, and no object"
    raise McpResultError(server, tool, found, detail, "$.content[0].text")


_BOUNDS: dict[BoundFault, str] = {
    "too-deep": "it nests too deep",
    "too-many-values": "it holds too many values",
    "text-too-long": "the text is too long",
    "text-not-json": "the text is no JSON",
}
