from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    HasContent,
    ImageContent,
    ResourceContent,
    ResourceLink,
    TextContent,
    UnknownContent,
    audio_content,
    content_block,
    content_text,
    embedded_resource,
    image_content,
    parse_content,
    resource_content,
    resource_link,
    text_content,
    to_mcp,
    to_mcpl,
)
from mcpl_core.errors import InvalidValueError
from mcpl_core.wire.values import decode_value, encode_value

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
TYPES = st.sampled_from(["text", "image", "audio", "resource", "resource_link", "video", "", "type"])
BLOCKS = st.builds(
    lambda kind, members: {**members, "type": kind},
    TYPES,
    st.dictionaries(
        st.sampled_from(["text", "data", "mimeType", "uri", "name", "resource", "_meta", "size", "x"]), JSON
    ),
)


@pytest.mark.parametrize(
    ("raw", "cls"),
    [
        ({"type": "text", "text": "hi"}, TextContent),
        ({"type": "image", "data": "aGk=", "mimeType": "image/png"}, ImageContent),
        ({"type": "image", "data": "aGk="}, ImageContent),
        ({"type": "image", "uri": "https://example.com/a.png"}, ImageContent),
        ({"type": "image", "uri": "https://example.com/a.png", "data": "aGk="}, ImageContent),
        ({"type": "audio", "data": "aGk=", "mimeType": "audio/wav"}, AudioContent),
        ({"type": "audio", "uri": "https://example.com/a.wav", "mimeType": "audio/wav"}, AudioContent),
        ({"type": "resource", "uri": "memory://facts/1"}, ResourceContent),
        ({"type": "resource", "resource": {"uri": "file:///a", "text": "hi"}}, EmbeddedResource),
        ({"type": "resource", "resource": {}, "uri": "file:///a"}, EmbeddedResource),
        ({"type": "resource_link", "uri": "file:///a", "name": "a"}, ResourceLink),
        ({"type": "video", "uri": "https://example.com/a.mp4"}, UnknownContent),
        ({"type": "text"}, UnknownContent),
        ({"type": "text", "text": None}, UnknownContent),
        ({"type": "image", "data": 5}, UnknownContent),
        ({"type": "resource", "resource": "file:///a"}, UnknownContent),
        ({"type": ["text"], "text": "hi"}, UnknownContent),
        ({"text": "hi"}, UnknownContent),
        ({}, UnknownContent),
        (None, UnknownContent),
        (5, UnknownContent),
        ("hi", UnknownContent),
        ([{"type": "text", "text": "hi"}], UnknownContent),
    ],
)
@pytest.mark.spec("R-content-1", "10.3-2")
def test_the_class_of_a_block(raw: Any, cls: type[ContentBlock]) -> None:
    block = content_block(raw)
    assert type(block) is cls
    assert block == raw


@given(st.lists(BLOCKS | JSON))
@pytest.mark.spec("R-content-1")
def test_no_block_is_refused_and_none_is_changed(raw: list[Any]) -> None:
    blocks = parse_content(raw)
    assert blocks == raw
    assert [block.value if isinstance(block, UnknownContent) else dict(block) for block in blocks] == raw


@given(st.lists(BLOCKS))
def test_every_member_survives_a_round_trip(raw: list[Any]) -> None:
    assert decode_value(encode_value(parse_content(raw))) == decode_value(encode_value(raw))
    assert json.loads(json.dumps(parse_content(raw))) == raw


def test_a_block_is_left_as_it_is() -> None:
    block = text_content("hi")
    assert content_block(block) is block
    assert parse_content([block])[0] is block
    assert parse_content((block,))[0] is block


@pytest.mark.spec("10.3-1")
def test_a_string_is_one_text_block() -> None:
    assert parse_content("hi") == [{"type": "text", "text": "hi"}]
    assert type(parse_content("hi")[0]) is TextContent
    assert parse_content("") == [{"type": "text", "text": ""}]
    assert parse_content([]) == []


@pytest.mark.parametrize("content", [None, 5, True, {"type": "text", "text": "hi"}, text_content("hi")])
def test_content_is_a_string_or_an_array(content: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        parse_content(content, "$.payload.content")
    assert (caught.value.code, caught.value.path) == ("content", "$.payload.content")


def test_content_text() -> None:
    image = image_content(uri="https://example.com/a.png")
    assert content_text("hi") == "hi"
    assert content_text([{"type": "text", "text": "a"}, image, 5, text_content("b")]) == "a\nb"
    assert content_text([image]) == ""
    with pytest.raises(InvalidValueError):
        content_text(None)


def test_has_content() -> None:
    class Message(HasContent):
        def __init__(self, content: Any) -> None:
            self.content = content

    assert Message("hi").blocks == [{"type": "text", "text": "hi"}]
    assert Message([text_content("a"), text_content("b")]).text == "a\nb"


def _describe(block: ContentBlock) -> str:
    match block:
        case TextContent(text=text):
            return text
        case ImageContent(uri=str(uri)):
            return f"image at {uri}"
        case ImageContent(mime_type=str(mime)):
            return f"inline {mime}"
        case UnknownContent(value=int(value)):
            return f"number {value}"
        case _:
            return block.type


def test_blocks_can_be_matched() -> None:
    raw = [
        {"type": "text", "text": "hi"},
        {"type": "image", "uri": "u:1"},
        {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        5,
        {"type": "video"},
        {"type": 5},
    ]
    assert [_describe(block) for block in parse_content(raw)] == [
        "hi",
        "image at u:1",
        "inline image/png",
        "number 5",
        "video",
        "",
    ]


def test_members_by_name() -> None:
    audio = content_block({"type": "audio", "data": "aGk=", "mimeType": 5})
    assert isinstance(audio, AudioContent)
    assert (audio.data, audio.mime_type, audio.uri) == ("aGk=", None, None)
    resource = content_block({"type": "resource", "uri": "u:1", "mimeType": "text/plain", "name": "a"})
    assert isinstance(resource, ResourceContent)
    assert (resource.uri, resource.mime_type, resource.name) == ("u:1", "text/plain", "a")
    embedded = content_block({"type": "resource", "resource": {"uri": "u:1", "blob": "aGk=", "text": 5}})
    assert isinstance(embedded, EmbeddedResource)
    assert (embedded.uri, embedded.blob, embedded.text, embedded.mime_type) == ("u:1", "aGk=", None, None)


def test_members_of_blocks_that_were_built_wrongly() -> None:
    assert TextContent({"type": "text"}).text == ""
    assert ResourceContent({"type": "resource"}).uri == ""
    assert EmbeddedResource({"type": "resource", "resource": 5}).resource == {}


@pytest.mark.spec("10.3-2")
def test_inline_data() -> None:
    assert image_content(b"\x00\xff", "image/png").decode_data() == b"\x00\xff"
    assert ImageContent({"type": "image", "data": ""}).decode_data() == b""


@pytest.mark.parametrize("data", ["!", "aGk", "aG k=", "ä==="])
def test_inline_data_that_is_no_base64(data: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        ImageContent({"type": "image", "data": data}).decode_data()
    assert (caught.value.code, caught.value.path) == ("base64", "$.data")


def test_no_inline_data() -> None:
    with pytest.raises(InvalidValueError) as caught:
        audio_content(uri="u:1").decode_data()
    assert caught.value.code == "no_data"


@pytest.mark.parametrize(
    ("block", "raw"),
    [
        (text_content("hi", _meta={"a": 1}), {"type": "text", "text": "hi", "_meta": {"a": 1}}),
        (image_content(b"hi", "image/png"), {"type": "image", "data": "aGk=", "mimeType": "image/png"}),
        (image_content("aGk=", "image/png"), {"type": "image", "data": "aGk=", "mimeType": "image/png"}),
        (image_content(uri="u:1"), {"type": "image", "uri": "u:1"}),
        (
            audio_content(uri="u:1", mime_type="audio/wav", sizeBytes=5),
            {"type": "audio", "uri": "u:1", "mimeType": "audio/wav", "sizeBytes": 5},
        ),
        (
            resource_content("u:1", name="a", disposition="ref"),
            {"type": "resource", "uri": "u:1", "name": "a", "disposition": "ref"},
        ),
        (resource_link("u:1", "a", size=5), {"type": "resource_link", "uri": "u:1", "name": "a", "size": 5}),
        (embedded_resource("u:1", "hi"), {"type": "resource", "resource": {"uri": "u:1", "text": "hi"}}),
        (
            embedded_resource("u:1", b"hi", "image/png", annotations={}),
            {
                "type": "resource",
                "resource": {"uri": "u:1", "mimeType": "image/png", "blob": "aGk="},
                "annotations": {},
            },
        ),
    ],
)
def test_builders(block: ContentBlock, raw: dict[str, Any]) -> None:
    assert dict(block) == raw
    assert type(content_block(raw)) is type(block)
    assert json.loads(encode_value(block)) == raw


@pytest.mark.parametrize("build", [image_content, audio_content])
@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({}, "$"),
        ({"mime_type": "image/png"}, "$"),
        ({"data": b"hi", "mime_type": "image/png", "uri": "u:1"}, "$"),
        ({"data": b"hi"}, "$.mimeType"),
    ],
)
def test_media_comes_from_one_place(build: Callable[..., ContentBlock], arguments: Any, path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        build(**arguments)
    assert (caught.value.code, caught.value.path) == ("media_source", path)


@pytest.mark.parametrize(
    ("ours", "mcp"),
    [
        (
            resource_content("u:1", sizeBytes=5, digest="d"),
            {"type": "resource_link", "uri": "u:1", "name": "u:1", "size": 5, "digest": "d"},
        ),
        (resource_content("u:1", name="a"), {"type": "resource_link", "uri": "u:1", "name": "a"}),
        (
            image_content(uri="u:1", mime_type="image/png"),
            {"type": "resource_link", "uri": "u:1", "mimeType": "image/png", "name": "u:1"},
        ),
    ],
)
@pytest.mark.spec("R-content-1")
def test_references_become_links_in_tool_results(ours: ContentBlock, mcp: dict[str, Any]) -> None:
    before = copy.deepcopy(ours)
    written = to_mcp(ours)
    assert written == mcp
    assert isinstance(written, ResourceLink)
    assert ours == before


@pytest.mark.parametrize(
    "block",
    [
        text_content("hi"),
        image_content(b"hi", "image/png"),
        content_block({"type": "image", "data": "aGk=", "uri": "u:1"}),
        resource_link("u:1", "a"),
        embedded_resource("u:1", "hi"),
        content_block({"type": "video"}),
    ],
)
def test_what_mcp_knows_stays(block: ContentBlock) -> None:
    assert to_mcp(block) is block


@pytest.mark.parametrize(
    ("mcp", "ours"),
    [
        (
            resource_link("u:1", "a", size=5, mimeType="text/plain"),
            {"type": "resource", "uri": "u:1", "name": "a", "sizeBytes": 5, "mimeType": "text/plain"},
        ),
        (embedded_resource("u:1", "hi", _meta={}), {"type": "text", "text": "hi", "_meta": {}}),
        (
            embedded_resource("u:1", b"hi", "image/png"),
            {"type": "image", "data": "aGk=", "mimeType": "image/png"},
        ),
        (
            embedded_resource("u:1", b"hi", "audio/wav"),
            {"type": "audio", "data": "aGk=", "mimeType": "audio/wav"},
        ),
    ],
)
@pytest.mark.spec("R-content-1")
def test_mcp_shapes_become_the_specs(mcp: ContentBlock, ours: dict[str, Any]) -> None:
    before = copy.deepcopy(mcp)
    written = to_mcpl(mcp)
    assert written == ours
    assert type(written) is type(content_block(ours))
    assert mcp == before


@pytest.mark.parametrize(
    "block",
    [
        text_content("hi"),
        resource_content("u:1"),
        image_content(uri="u:1"),
        embedded_resource("u:1", b"hi", "application/pdf"),
        embedded_resource("u:1", b"hi"),
        content_block({"type": "resource", "resource": {"uri": "u:1", "mimeType": "image/png"}}),
    ],
)
def test_what_the_spec_knows_or_cannot_say_stays(block: ContentBlock) -> None:
    assert to_mcpl(block) is block


def test_references_go_there_and_back() -> None:
    block = resource_content("u:1", name="a", sizeBytes=5, digest="d")
    assert to_mcpl(to_mcp(block)) == block


def test_unknown_content_equals_what_it_stands_for() -> None:
    assert UnknownContent(5) == 5
    assert UnknownContent(5) == UnknownContent(5)
    assert UnknownContent(5) != UnknownContent(6)
    assert UnknownContent(5) != {}
    assert UnknownContent({"type": "video"}) == {"type": "video"}
    assert copy.deepcopy(UnknownContent([5])) == [5]
    with pytest.raises(TypeError):
        hash(UnknownContent(5))


def test_repr_names_the_class() -> None:
    assert repr(text_content("hi")) == "TextContent({'type': 'text', 'text': 'hi'})"
    assert repr(UnknownContent(5)) == "UnknownContent(5)"
