from __future__ import annotations

from typing import Any

import pytest
from msgspec import UNSET

from mcpl_core.errors import InvalidValueError
from mcpl_core.protocol.codec import decode_typed
from mcpl_core.protocol.handshake import (
    CancelledParams,
    Implementation,
    InitializeParams,
    InitializeResult,
    PingResult,
    ProgressParams,
    mcpl_manifest,
)
from mcpl_core.wire.values import encode_value

PARAMS = (
    b'{"protocolVersion":"2024-11-05","capabilities":{"experimental":{"mcpl":{"version":"0.5","pushEvents":true,'
    b'"contextHooks":{"beforeInference":true},"featureSets":true}}},"clientInfo":{"name":"host","version":"1.0.0"}}'
)
RESULT = (
    b'{"protocolVersion":"2024-11-05","capabilities":{"tools":{},"resources":{"subscribe":true},"experimental":'
    b'{"mcpl":{"version":"0.5","revision":"sha256:x","channels":{"publish":true},"later":null}}},'
    b'"serverInfo":{"name":"memory","version":"0.1.0"}}'
)


@pytest.mark.parametrize(("text", "kind"), [(PARAMS, InitializeParams), (RESULT, InitializeResult)])
def test_the_handshake_keeps_its_trees(text: bytes, kind: Any) -> None:
    assert encode_value(decode_typed(text, kind)) == text


def test_the_manifest_of_a_handshake() -> None:
    assert decode_typed(PARAMS, InitializeParams).mcpl["pushEvents"] is True
    assert decode_typed(RESULT, InitializeResult).mcpl == {
        "version": "0.5",
        "revision": "sha256:x",
        "channels": {"publish": True},
        "later": None,
    }


@pytest.mark.parametrize(
    ("capabilities", "manifest"),
    [
        (None, UNSET),
        ([], UNSET),
        ({}, UNSET),
        ({"experimental": None}, UNSET),
        ({"experimental": []}, UNSET),
        ({"experimental": {}}, UNSET),
        ({"experimental": {"mcpl": None}}, None),
        ({"experimental": {"mcpl": {}}}, {}),
        ({"mcpl": {"version": "0.5"}}, UNSET),
    ],
)
def test_whatever_stands_in_the_manifests_place(capabilities: Any, manifest: Any) -> None:
    assert mcpl_manifest(capabilities) == manifest


def test_a_plain_mcp_peer() -> None:
    result = InitializeResult(
        protocol_version="2025-06-18",
        capabilities={"tools": {}},
        server_info=Implementation(name="a", version="1", website_url="https://example.com"),
        instructions="Be kind.",
    )
    assert result.mcpl is UNSET
    assert encode_value(result) == (
        b'{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"a","version":"1",'
        b'"websiteUrl":"https://example.com"},"instructions":"Be kind."}'
    )


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (b'{"protocolVersion":"1","capabilities":[],"clientInfo":{"name":"a","version":"1"}}', "$.capabilities"),
        (b'{"protocolVersion":1,"capabilities":{},"clientInfo":{"name":"a","version":"1"}}', "$.protocolVersion"),
        (b'{"protocolVersion":"1","capabilities":{},"clientInfo":{"name":"a"}}', "$.clientInfo"),
    ],
)
def test_bad_handshakes(text: bytes, path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        decode_typed(text, InitializeParams)
    assert caught.value.path == path


def test_ping_is_answered_with_an_empty_object() -> None:
    assert encode_value(PingResult()) == b"{}"


@pytest.mark.parametrize(("text", "request_id"), [(b"7", 7), (b"7.0", 7), (b'"7"', "7")])
def test_the_request_that_is_cancelled(text: bytes, request_id: int | str) -> None:
    params = decode_typed(b'{"requestId":' + text + b',"reason":"too slow"}', CancelledParams)
    assert params == CancelledParams(request_id=request_id, reason="too slow")
    assert type(params.request_id) is type(request_id)


def test_progress() -> None:
    text = b'{"progressToken":"t","progress":0.5,"total":1,"message":"half"}'
    params = decode_typed(text, ProgressParams)
    assert (params.progress, params.total) == (0.5, 1)
    assert encode_value(params) == text
    assert decode_typed(b'{"progressToken":3.0,"progress":2}', ProgressParams).progress_token == 3
