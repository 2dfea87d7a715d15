"""From what a caller says about a transport to an endpoint.

Owns: the names of the transports, and that everything else is refused by name. Does not own: the endpoints.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

from ...connection import McplConnection
from ...errors import InvalidValueError
from .endpoints import ConnectionEndpoint, Endpoint, stdio_transport
from .errors import McpUnsupportedError
from .http_endpoint import HttpEndpoint
from .plugged import McpTransport, PluggedEndpoint
from .websocket_endpoint import WebSocketEndpoint

__all__ = ("TransportChoice", "choose_endpoint")

#: A name, an endpoint made by one of the functions, a connection of ours, or a transport of the application's own.
TransportChoice: TypeAlias = Literal["stdio", "http", "websocket"] | Endpoint | McplConnection | McpTransport

_NAMED: Final[Mapping[str, Callable[..., Endpoint]]] = {
    "stdio": stdio_transport,
    "http": HttpEndpoint,
    "websocket": WebSocketEndpoint,
}


def choose_endpoint(transport: TransportChoice, options: Mapping[str, Any]) -> Endpoint:
    """The endpoint that is meant.

    Args:
        transport: see ``TransportChoice``.
        options: of a named transport; ``port`` is needed where there is one.

    Raises:
        McpUnsupportedError: there is no such transport (``transport``), or it does not run here (``event-loop``).
        McpExtraMissingError: it needs a library that is not installed.
        InvalidValueError, TypeError: an option is missing, unknown or out of range.
    """
    if isinstance(transport, str):
        make = _NAMED.get(transport)
        if make is None:
            raise McpUnsupportedError(
                "transport", f"there is no transport {transport!r}; there are {', '.join(_NAMED)}"
            )
        if transport != "stdio" and options.get("port") is None:
            raise InvalidValueError("port", f"{transport} needs a port; 0 is any that is free")
        return make(**options)
    if options:
        raise TypeError(f"a transport that is given has its own options; not taken: {', '.join(options)}")
    if isinstance(transport, Endpoint):
        return transport
    if isinstance(transport, McplConnection):
        return ConnectionEndpoint(transport)
    if isinstance(transport, McpTransport):
        return PluggedEndpoint(transport)
    raise McpUnsupportedError("transport", f"a {type(transport).__name__} is no transport: it has no start and stop")
