"""What a request carries about the protocol itself: headers, and from 2026-07-28 on members of ``_meta``.

Owns: the stamp of both eras, and the ``Mcp-Param-*`` headers that a tool's input schema asks for. Does not own: how
versions are agreed on (the SDK), and what else is in ``_meta``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mcp.shared.inbound import (
    MCP_METHOD_HEADER,
    MCP_NAME_HEADER,
    MCP_PROTOCOL_VERSION_HEADER,
    NAME_BEARING_METHODS,
    encode_header_value,
    find_invalid_x_mcp_header,
    mcp_param_headers,
    x_mcp_header_map,
)
from mcp_types import CLIENT_CAPABILITIES_META_KEY, CLIENT_INFO_META_KEY, PROTOCOL_VERSION_META_KEY
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from ...errors import LocalProtocolError, UnencodableError

__all__ = ("Stamp", "is_modern")


def is_modern(version: str) -> bool:
    """Whether a version has no handshake and no sessions."""
    return version in MODERN_PROTOCOL_VERSIONS


class Stamp:
    """The stamp of one session.

    Args:
        version: the one agreed on.
        client_info, capabilities: what this client says of itself.
    """

    def __init__(self, version: str, client_info: Mapping[str, Any], capabilities: Mapping[str, Any]) -> None:
        self.version = version
        self.modern = is_modern(version)
        self._meta = {
            PROTOCOL_VERSION_META_KEY: version,
            CLIENT_INFO_META_KEY: dict(client_info),
            CLIENT_CAPABILITIES_META_KEY: dict(capabilities),
        }
        #: Tool -> the headers that mirror its arguments; ``None`` where its schema asks for them wrongly.
        self._mirrored: dict[str, dict[tuple[str, ...], str] | None] = {}

    def params(self, params: dict[str, Any] | None) -> dict[str, Any] | None:
        """The params with what this era wants in them; a ``_meta`` of the caller's is kept."""
        if not self.modern:
            return params
        given = (params or {}).get("_meta")
        return {**(params or {}), "_meta": {**(given if isinstance(given, dict) else {}), **self._meta}}

    def headers(self, method: str, params: Mapping[str, Any] | None) -> dict[str, str]:
        """The headers of a request.

        Raises:
            LocalProtocolError: the tool's schema asks for headers in a way that the protocol forbids; such a tool must
                not be called.
            UnencodableError: a name or an argument that belongs into a header holds a lone surrogate.
        """
        headers = {MCP_PROTOCOL_VERSION_HEADER: self.version}
        if not self.modern:
            return headers
        headers[MCP_METHOD_HEADER] = _encoded(method)
        params = params or {}
        name = params.get(NAME_BEARING_METHODS.get(method, ""))
        if not isinstance(name, str):
            return headers
        headers[MCP_NAME_HEADER] = _encoded(name)
        if method == "tools/call" and name in self._mirrored:
            mirrored = self._mirrored[name]
            if mirrored is None:
                raise LocalProtocolError(f"the input schema of {name} asks for headers that no tool may ask for")
            arguments = params.get("arguments")
            headers |= _mirrors(mirrored, arguments if isinstance(arguments, Mapping) else {})
        return headers

    def learn(self, result: Mapping[str, Any]) -> None:
        """Reads a result of ``tools/list``."""
        tools = result.get("tools")
        if not self.modern or not isinstance(tools, list):
            return
        for tool in tools:
            if isinstance(tool, Mapping) and isinstance(name := tool.get("name"), str):
                schema = tool.get("inputSchema")
                valid = find_invalid_x_mcp_header(schema) is None
                self._mirrored[name] = x_mcp_header_map(schema) if valid else None


def _encoded(value: str) -> str:
    try:
        return encode_header_value(value)
    except UnicodeEncodeError:
        pass
    raise UnencodableError("a lone surrogate has no form in a header")


def _mirrors(mirrored: dict[tuple[str, ...], str], arguments: Mapping[str, Any]) -> dict[str, str]:
    try:
        return mcp_param_headers(mirrored, arguments)
    except UnicodeEncodeError:
        pass
    raise UnencodableError("a lone surrogate has no form in a header")
