"""The names of the transports, and everything else that may be given."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core import McplConnection
from mcpl_core.errors import InvalidValueError
from mcpl_core.mcp.serving import (
    ConnectionEndpoint,
    HttpEndpoint,
    McpUnsupportedError,
    WebSocketEndpoint,
    stdio_transport,
)
from mcpl_core.mcp.serving.choosing import choose_endpoint
from mcpl_core.mcp.serving.plugged import PluggedEndpoint


def test_each_name_stands_for_an_endpoint() -> None:
    stdio = choose_endpoint("stdio", {})
    assert isinstance(stdio, ConnectionEndpoint)
    assert stdio.kind == "stdio"
    assert isinstance(choose_endpoint("http", {"port": 0, "path": "/x"}), HttpEndpoint)
    assert isinstance(choose_endpoint("websocket", {"port": 0, "origins": ["https://app.example"]}), WebSocketEndpoint)


@pytest.mark.parametrize("name", ["sse", "pigeon", ""])
def test_another_name_is_refused_with_a_code(name: Any) -> None:
    with pytest.raises(McpUnsupportedError) as refused:
        choose_endpoint(name, {"port": 0})
    assert refused.value.code == "transport"


def test_what_is_no_transport_is_refused_with_a_code() -> None:
    with pytest.raises(McpUnsupportedError) as refused:
        choose_endpoint(object(), {})  # type: ignore[arg-type]
    assert refused.value.code == "transport"


def test_what_has_the_shape_is_taken_as_it_is() -> None:
    class Own:
        async def start(self, handler: Any) -> None: ...
        async def stop(self) -> None: ...

    endpoint = stdio_transport()
    assert choose_endpoint(endpoint, {}) is endpoint
    assert isinstance(choose_endpoint(McplConnection.memory_pair()[0], {}), ConnectionEndpoint)
    assert isinstance(choose_endpoint(Own(), {}), PluggedEndpoint)
    with pytest.raises(TypeError):
        choose_endpoint(Own(), {"port": 0})


@pytest.mark.parametrize("name", ["http", "websocket"])
@pytest.mark.parametrize("port", [None, -1, 65536, True, "80"])
def test_a_port_is_needed(name: Any, port: Any) -> None:
    with pytest.raises(InvalidValueError) as refused:
        choose_endpoint(name, {"port": port})
    assert refused.value.code == "port"
    with pytest.raises(InvalidValueError) as refused:
        choose_endpoint(name, {})
    assert refused.value.code == "port"


@pytest.mark.parametrize("name", ["http", "websocket", "stdio"])
def test_an_option_that_there_is_not_is_refused(name: Any) -> None:
    with pytest.raises(TypeError):
        choose_endpoint(name, {"port": 0, "cors": True})
