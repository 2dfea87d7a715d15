"""Content that the application gave, in the shape of where it goes."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core import InvalidValueError, image_content, resource_content, resource_link, text_content
from mcpl_core.server.blocks import message_content, tool_content

TEXT = {"type": "text", "text": "a"}


@pytest.mark.parametrize("content", ["a", ["a"], TEXT, [TEXT], (TEXT,), text_content("a")])
@pytest.mark.parametrize("shape", [message_content, tool_content])
def test_a_text_is_one_block(shape: Any, content: Any) -> None:
    assert shape(content) == [TEXT]


def test_texts_and_blocks_may_be_mixed() -> None:
    image = image_content(b"\x00", "image/png")
    assert message_content(["a", image]) == [TEXT, image]
    assert message_content([]) == []


def test_a_reference_has_the_shape_of_where_it_goes() -> None:
    reference, link = resource_content("memory://1"), resource_link("memory://1", "one")
    assert message_content(link)[0]["type"] == "resource"
    assert tool_content(reference)[0]["type"] == "resource_link"
    assert message_content(reference) == [reference]
    assert tool_content(link) == [link]
    # What was given is not changed.
    assert (reference["type"], link["type"]) == ("resource", "resource_link")


def test_a_block_type_that_is_not_known_is_its_owners_affair() -> None:
    assert message_content({"type": "x-map", "zoom": 3}) == [{"type": "x-map", "zoom": 3}]


@pytest.mark.parametrize(
    ("content", "path"),
    [
        (3, "$[0]"),
        (None, "$[0]"),
        (b"a", "$[0]"),
        (["a", 3], "$[1]"),
        ([["a"]], "$[0]"),
        ({"text": "a"}, "$[0]"),
        ({"type": "text"}, "$[0]"),
        ({"type": "image", "mimeType": "image/png"}, "$[0]"),
    ],
)
def test_what_no_peer_could_read_is_refused(content: Any, path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        message_content(content)
    assert (caught.value.code, caught.value.path) == ("content", path)
