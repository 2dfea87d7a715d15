"""Content that the application gave, in the shape of where it goes (SPEC 10.3, Appendix B.1; MCP tool results).

Owns: the shorthands (a text, one block, plain objects) and the refusal of what no peer could read. Does not own: the
blocks and the change of shape (``content``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..content import ContentBlock, UnknownContent, content_block, text_content, to_mcp, to_mcpl
from ..errors import InvalidValueError

__all__ = ("message_content", "tool_content")

#: Block types whose shape is known; one that does not have it is a mistake, while other types are their owner's.
_KNOWN = frozenset({"", "text", "image", "audio", "resource", "resource_link"})


def message_content(content: Any) -> list[ContentBlock]:
    """Content for an MCPL message, in the SPEC's shapes.

    Args:
        content: a text, a content block (also as a plain object), or a list of both.

    Raises:
        InvalidValueError: something else, or a block without what its type needs (``content``).
    """
    return _blocks(content, to_mcpl)


def tool_content(content: Any) -> list[ContentBlock]:
    """Content for a tool result, in MCP's shapes; otherwise as ``message_content``."""
    return _blocks(content, to_mcp)


def _blocks(content: Any, shape: Callable[[ContentBlock], ContentBlock]) -> list[ContentBlock]:
    if isinstance(content, str):
        return [text_content(content)]
    members = content if isinstance(content, list | tuple) else [content]
    return [shape(_block(member, f"$[{index}]")) for index, member in enumerate(members)]


def _block(member: Any, path: str) -> ContentBlock:
    if isinstance(member, str):
        return text_content(member)
    block = content_block(member)
    if isinstance(block, UnknownContent) and block.type in _KNOWN:
        raise InvalidValueError("content", f"{type(member).__name__} is neither a text nor a content block", path)
    return block
