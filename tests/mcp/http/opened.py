"""Sessions with a scripted server, as tests open them."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from typing import Any, cast

from mcpl_core.mcp.http import open_session
from mcpl_core.mcp.http.session import HttpSession
from mcpl_core.mcp.transports import GatewayTransport, HttpTransport
from tests.mcp.http.scripted_server import ScriptedServer

INFO = {"name": "tests", "version": "1"}


def opened(server: ScriptedServer | str, **options: Any) -> AbstractAsyncContextManager[HttpSession]:
    """A session of the handshake era, unless the test says otherwise."""
    url = server if isinstance(server, str) else server.url
    how = {key: options.pop(key) for key in ("headers", "request_hook") if key in options}
    transport: HttpTransport | GatewayTransport = HttpTransport(url, **how)
    if "credentials" in options:
        gateway = {key: options.pop(key) for key in ("credentials", "scopes", "mode", "service") if key in options}
        transport = GatewayTransport(url, **gateway, **how)
    merged: dict[str, Any] = {"client_info": INFO, "era": "handshake", "timeout": 5.0, **options}
    return cast("AbstractAsyncContextManager[HttpSession]", open_session(transport, **merged))
