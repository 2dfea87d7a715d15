"""Content blocks: reading whatever came, building what the SPEC defines (SPEC 10.3, Appendix B.1).

Owns: the block classes, their builders, the string shorthand, and the change of shape between MCPL messages
and MCP tool results. Does not own: which block may go where, what a host shows of one, or the fetching of
anything a ``uri`` names.

A block is its own JSON object: each class is a ``dict`` that holds the members as they came, so members that
nobody here knows (``_meta``, ``annotations``, later fields) survive, and every JSON encoder writes it. The
classes add names to look members up by, and are there for ``match``::

    match block:
        case TextContent(text=text): ...
        case ImageContent(uri=str(uri)): ...
        case UnknownContent(value=value): ...

Reading refuses no block. A type that is not known, and a known one without what makes it usable, comes back
as ``UnknownContent``; MCP's embedded resources and links are read as they are.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from .errors import InvalidValueError

__all__ = (
    "AudioContent",
    "Content",
    "ContentBlock",
    "EmbeddedResource",
    "HasContent",
    "ImageContent",
    "MediaContent",
    "ResourceContent",
    "ResourceLink",
    "TextContent",
    "UnknownContent",
    "audio_content",
    "content_block",
    "content_text",
    "embedded_resource",
    "image_content",
    "parse_content",
    "resource_content",
    "resource_link",
    "text_content",
    "to_mcp",
    "to_mcpl",
)

#: What a ``content`` member holds on the wire: a string, or an array of blocks, as received.
Content: TypeAlias = str | list[Any]


class ContentBlock(dict[str, Any]):
    """One content block: a JSON object with its members as they came."""

    __slots__ = ()

    @property
    def type(self) -> str:
        """The block type; empty when there is none."""
        return self._string("type") or ""

    def _string(self, name: str) -> str | None:
        value = self.get(name)
        return value if isinstance(value, str) else None

    def __repr__(self) -> str:
        return f"{type(self).__name__}({super().__repr__()})"


class TextContent(ContentBlock):
    """``{type: "text", text}``."""

    __slots__ = ()

    @property
    def text(self) -> str:
        return self._string("text") or ""


class MediaContent(ContentBlock):
    """What image and audio share: base64 ``data`` inline, or a ``uri``. A peer may have sent both."""

    __slots__ = ()

    @property
    def data(self) -> str | None:
        """The payload in base64, as received."""
        return self._string("data")

    @property
    def mime_type(self) -> str | None:
        return self._string("mimeType")

    @property
    def uri(self) -> str | None:
        return self._string("uri")

    def decode_data(self) -> bytes:
        """The inline payload.

        Raises:
            InvalidValueError: there is none (``no_data``), or it is not base64 (``base64``); ``$.data``.
        """
        if self.data is None:
            raise InvalidValueError("no_data", "the block has no inline data", "$.data")
        try:
            return base64.b64decode(self.data, validate=True)
        except ValueError as exc:  # binascii.Error, or a character above ASCII
            raise InvalidValueError("base64", str(exc), "$.data") from exc


class ImageContent(MediaContent):
    """``{type: "image"}`` with ``data`` or ``uri``."""

    __slots__ = ()


class AudioContent(MediaContent):
    """``{type: "audio"}`` with ``data`` or ``uri``."""

    __slots__ = ()


class ResourceContent(ContentBlock):
    """``{type: "resource", uri}``: the SPEC's reference to a resource."""

    __slots__ = ()

    @property
    def uri(self) -> str:
        return self._string("uri") or ""

    @property
    def mime_type(self) -> str | None:
        return self._string("mimeType")

    @property
    def name(self) -> str | None:
        return self._string("name")


class ResourceLink(ResourceContent):
    """``{type: "resource_link", uri}``: MCP's reference to a resource."""

    __slots__ = ()


class EmbeddedResource(ContentBlock):
    """``{type: "resource", resource: {uri, text | blob}}``: MCP's resource with its contents."""

    __slots__ = ()

    @property
    def resource(self) -> dict[str, Any]:
        """The inner object, as received."""
        value = self.get("resource")
        return value if isinstance(value, dict) else {}

    def _inner(self, name: str) -> str | None:
        value = self.resource.get(name)
        return value if isinstance(value, str) else None

    @property
    def uri(self) -> str | None:
        return self._inner("uri")

    @property
    def mime_type(self) -> str | None:
        return self._inner("mimeType")

    @property
    def text(self) -> str | None:
        return self._inner("text")

    @property
    def blob(self) -> str | None:
        """Binary contents in base64, as received."""
        return self._inner("blob")


class UnknownContent(ContentBlock):
    """A block of a type that is not known here, or of a known type without what that type needs.

    Attributes:
        value: what stood in the array. It equals the block itself, except for a member that was no object:
            then ``value`` has it and the block is empty.
    """

    __slots__ = ("value",)

    value: Any

    def __init__(self, value: Any) -> None:
        super().__init__(value if isinstance(value, dict) else {})
        self.value = value

    def __eq__(self, other: object) -> bool:
        return bool(self.value == (other.value if isinstance(other, UnknownContent) else other))

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]  # mutable, as every dict is

    def __repr__(self) -> str:
        return f"UnknownContent({self.value!r})"


def _has_string(*names: str) -> Callable[[dict[str, Any]], bool]:
    return lambda value: any(isinstance(value.get(name), str) for name in names)


def _embeds(value: dict[str, Any]) -> bool:
    return isinstance(value.get("resource"), dict)


#: Block type -> the classes that it may be, each with what it needs; the first that fits is it.
_SHAPES: Mapping[str, tuple[tuple[type[ContentBlock], Callable[[dict[str, Any]], bool]], ...]] = {
    "text": ((TextContent, _has_string("text")),),
    "image": ((ImageContent, _has_string("data", "uri")),),
    "audio": ((AudioContent, _has_string("data", "uri")),),
    "resource": ((EmbeddedResource, _embeds), (ResourceContent, _has_string("uri"))),
    "resource_link": ((ResourceLink, _has_string("uri")),),
}


def content_block(value: Any) -> ContentBlock:
    """The block that a member of a content array is. Never raises.

    Args:
        value: plain JSON as received, or a block, which is returned as it is.
    """
    if isinstance(value, ContentBlock):
        return value
    kind = value.get("type") if isinstance(value, dict) else None
    for cls, fits in _SHAPES.get(kind, ()) if isinstance(kind, str) else ():
        if fits(value):
            return cls(value)
    return UnknownContent(value)


def parse_content(content: Any, path: str = "$") -> list[ContentBlock]:
    """The blocks of a ``content`` member. A plain string is one text block (SPEC 10.3).

    Args:
        content: a string or an array, as received; no member of the array is refused.
        path: where ``content`` stands, for the error.

    Raises:
        InvalidValueError: it is neither (``content``).
    """
    if isinstance(content, str):
        return [text_content(content)]
    if isinstance(content, list | tuple):
        return [content_block(member) for member in content]
    raise InvalidValueError("content", "content is a string or an array of blocks", path)


def content_text(content: Any) -> str:
    """The text of the text blocks of a ``content`` member, one per line; other blocks are passed over.

    Raises:
        InvalidValueError: as ``parse_content``.
    """
    if isinstance(content, str):
        return content
    return "\n".join(block.text for block in parse_content(content) if isinstance(block, TextContent))


class HasContent:
    """Views of a ``content`` member, for the message types that have one."""

    __slots__ = ()

    content: Any

    @property
    def blocks(self) -> list[ContentBlock]:
        """The content as blocks; a plain string is one text block."""
        return parse_content(self.content)

    @property
    def text(self) -> str:
        """The text of its text blocks, one per line."""
        return content_text(self.content)


def text_content(text: str, **extra: Any) -> TextContent:
    """A text block. ``extra``: more members, by their names on the wire."""
    return TextContent(type="text", text=text, **extra)


def image_content(
    data: bytes | str | None = None, mime_type: str | None = None, *, uri: str | None = None, **extra: Any
) -> ImageContent:
    """An image block: ``data`` with ``mime_type``, or ``uri`` (SPEC Appendix B.1).

    Args:
        data: the image, as bytes or already in base64.
        mime_type: such as ``image/png``; required with ``data``, allowed with ``uri``.
        uri: where the image is, instead of ``data``.
        extra: more members, by their names on the wire.

    Raises:
        InvalidValueError: both or neither of ``data`` and ``uri``, or ``data`` alone (``media_source``).
    """
    return ImageContent(type="image", **_media(data, mime_type, uri), **extra)


def audio_content(
    data: bytes | str | None = None, mime_type: str | None = None, *, uri: str | None = None, **extra: Any
) -> AudioContent:
    """An audio block; arguments and errors as ``image_content``."""
    return AudioContent(type="audio", **_media(data, mime_type, uri), **extra)


def _media(data: bytes | str | None, mime_type: str | None, uri: str | None) -> dict[str, Any]:
    if (data is None) == (uri is None):
        raise InvalidValueError("media_source", "either data or a uri, and not both")
    if data is not None and mime_type is None:
        raise InvalidValueError("media_source", "data needs a MIME type", "$.mimeType")
    payload = base64.b64encode(data).decode() if isinstance(data, bytes) else data
    members = {"data": payload, "uri": uri, "mimeType": mime_type}
    return {name: value for name, value in members.items() if value is not None}


def resource_content(uri: str, **extra: Any) -> ResourceContent:
    """A reference to a resource in the SPEC's shape. ``extra``: more members, by their names on the wire."""
    return ResourceContent(type="resource", uri=uri, **extra)


def resource_link(uri: str, name: str, **extra: Any) -> ResourceLink:
    """A reference to a resource in MCP's shape, which requires a name; for tool results."""
    return ResourceLink(type="resource_link", uri=uri, name=name, **extra)


def embedded_resource(uri: str, contents: bytes | str, mime_type: str | None = None, **extra: Any) -> EmbeddedResource:
    """A resource with its contents in MCP's shape; for tool results.

    Args:
        uri: what the contents are of.
        contents: text, or bytes, which are written in base64.
        mime_type: the type of the contents.
        extra: more members of the block, by their names on the wire.
    """
    resource = {"uri": uri} if mime_type is None else {"uri": uri, "mimeType": mime_type}
    if isinstance(contents, bytes):
        resource["blob"] = base64.b64encode(contents).decode()
    else:
        resource["text"] = contents
    return EmbeddedResource(type="resource", resource=resource, **extra)


def to_mcp(block: ContentBlock) -> ContentBlock:
    """``block`` in the shape that MCP knows, for a tool result; unchanged when it is that already.

    MCP has no reference by ``uri`` but the link, so references become links; other members stay.
    """
    by_uri = isinstance(block, MediaContent) and block.data is None
    if isinstance(block, ResourceLink) or not (by_uri or isinstance(block, ResourceContent)):
        return block
    link = ResourceLink(block, type="resource_link")
    link.setdefault("name", link.uri)
    return _renamed(link, "sizeBytes", "size")


def to_mcpl(block: ContentBlock) -> ContentBlock:
    """``block`` in the shape of the SPEC, for an MCPL message; unchanged when it is that already.

    Links become references. A resource that carries text, or an image or audio, becomes that block; other
    embedded contents have no shape in the SPEC and stay as they are.
    """
    if isinstance(block, ResourceLink):
        return _renamed(ResourceContent(block, type="resource"), "size", "sizeBytes")
    if not isinstance(block, EmbeddedResource):
        return block
    extra = {name: value for name, value in block.items() if name not in ("type", "resource")}
    if block.text is not None:
        return TextContent({**extra, "type": "text", "text": block.text})
    kind = (block.mime_type or "").partition("/")[0]
    if kind not in _MEDIA or block.blob is None:
        return block
    return _MEDIA[kind]({**extra, "type": kind, "data": block.blob, "mimeType": block.mime_type})


_MEDIA: Mapping[str, type[MediaContent]] = {"image": ImageContent, "audio": AudioContent}


def _renamed(block: ContentBlock, old: str, new: str) -> ContentBlock:
    if old in block:
        block[new] = block.pop(old)
    return block
