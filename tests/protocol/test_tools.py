from __future__ import annotations

import pytest
from msgspec import UNSET

from mcpl_core.content import EmbeddedResource, ResourceLink, text_content
from mcpl_core.errors import InvalidValueError
from mcpl_core.protocol.codec import decode_typed
from mcpl_core.protocol.state import StateRecord
from mcpl_core.protocol.tools import Tool, ToolsCallParams, ToolsCallResult, ToolsListParams, ToolsListResult
from mcpl_core.wire.values import encode_value


@pytest.mark.parametrize(
    ("text", "cursor"),
    [(b"{}", UNSET), (b'{"cursor":null}', None), (b'{"cursor":""}', ""), (b'{"cursor":"p2"}', "p2")],
)
def test_absent_null_and_empty_cursors_differ(text: bytes, cursor: object) -> None:
    params = decode_typed(text, ToolsListParams)
    assert params.cursor == cursor
    assert encode_value(params) == text
    page = decode_typed(encode_value(ToolsListResult(tools=[], next_cursor=params.cursor)), ToolsListResult)
    assert page.next_cursor == cursor


def test_one_bad_tool_does_not_fail_a_list() -> None:
    result = decode_typed(
        b'{"tools":[{"name":"add","inputSchema":{"type":"object"},"_meta":{"mcpl/presence":{"kind":"static"}},'
        b'"execution":{"taskSupport":"optional"}},{"name":"broken"},5]}',
        ToolsListResult,
    )
    good, broken, number = result.read_tools()
    assert good == Tool(name="add", input_schema={"type": "object"}, meta={"mcpl/presence": {"kind": "static"}})
    assert good.slot("mcpl/presence") == {"kind": "static"}
    assert isinstance(broken, InvalidValueError)
    assert isinstance(number, InvalidValueError)
    assert (broken.path, number.path) == ("$.tools[1]", "$.tools[2]")
    # The tree keeps what the view does not know.
    assert result.tools[0]["execution"] == {"taskSupport": "optional"}


def test_a_call_with_state() -> None:
    text = b'{"name":"add_note","arguments":{"text":"Buy"},"state":{"notes":[]},"_meta":{"progressToken":3}}'
    call = decode_typed(text, ToolsCallParams)
    assert (call.state, call.checkpoint, call.slot("progressToken")) == ({"notes": []}, UNSET, 3)
    assert decode_typed(encode_value(call), ToolsCallParams) == call


def test_a_call_with_a_checkpoint() -> None:
    text = b'{"name":"git_commit","arguments":{"message":"Fix"},"checkpoint":"chk_def"}'
    assert encode_value(decode_typed(text, ToolsCallParams)) == text


def test_absent_null_and_empty_states_differ() -> None:
    states = [
        decode_typed(b'{"name":"a"%b}' % rest, ToolsCallParams).state
        for rest in (b"", b',"state":null', b',"state":{}')
    ]
    assert states == [UNSET, None, {}]


def test_a_result_in_mcps_shapes() -> None:
    text = (
        b'{"content":[{"type":"resource_link","uri":"file:///a","name":"a"},'
        b'{"type":"resource","resource":{"uri":"file:///b","text":"b"}},{"type":"text","text":"done"}],"isError":false}'
    )
    result = decode_typed(text, ToolsCallResult)
    link, embedded, words = result.blocks
    assert isinstance(link, ResourceLink)
    assert isinstance(embedded, EmbeddedResource)
    assert words == text_content("done")
    assert result.text == "done"
    assert encode_value(result) == text


def test_a_result_of_structure_alone() -> None:
    result = decode_typed(b'{"structuredContent":{"n":1},"isError":true}', ToolsCallResult)
    assert (result.blocks, result.structured_content, result.is_error) == ([], {"n": 1}, True)
    with pytest.raises(InvalidValueError) as caught:
        decode_typed(b'{"content":"done"}', ToolsCallResult)
    assert caught.value.path == "$.content"


def test_the_state_of_a_result() -> None:
    result = decode_typed(b'{"content":[],"state":{"checkpoint":"b","parent":"a"}}', ToolsCallResult)
    assert result.read_state() == StateRecord(checkpoint="b", parent="a")
    assert ToolsCallResult().read_state() is UNSET
    built = ToolsCallResult(state=StateRecord(checkpoint="b"))
    assert built.read_state() is built.state


@pytest.mark.parametrize(
    ("state", "path"), [(b'"open"', "$.state"), (b'{"checkpoint":5}', "$.state.checkpoint"), (b"null", "$.state")]
)
def test_what_a_plain_mcp_server_calls_state_does_not_fail_its_result(state: bytes, path: str) -> None:
    result = decode_typed(b'{"content":[{"type":"text","text":"done"}],"state":' + state + b"}", ToolsCallResult)
    error = result.read_state()
    assert isinstance(error, InvalidValueError)
    assert (error.path, result.text) == (path, "done")
