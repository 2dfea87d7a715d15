"""The entry: a session over Streamable HTTP, and the retrying transport for carriers of the caller's own.

Owns: the arguments. Does not own: everything behind them. The SDK is imported here, when something needs it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from ...errors import InvalidValueError
from ...options import DEFAULT_REQUEST_TIMEOUT
from ..replay import Replay
from ..session import WatchedSession
from ..transports import GatewayTransport, HttpTransport
from .config import Era, read_config, read_sdk
from .exchange import Timing
from .retry import RetrySettings

if TYPE_CHECKING:
    import httpx2

__all__ = ("open_session", "retrying_transport")


def open_session(
    transport: HttpTransport | GatewayTransport,
    *,
    client_info: Mapping[str, Any],
    name: str = "mcp",
    timeout: float | None = DEFAULT_REQUEST_TIMEOUT,
    era: Era = "auto",
    retry_on_throttle: RetrySettings | Mapping[str, Any] | bool = True,
    replay: Replay | Mapping[str, Any] | None = None,
    handlers: Mapping[str, Callable[[Any], Any]] | None = None,
    sdk: Any = None,
    carrier: Callable[[], httpx2.AsyncBaseTransport] | None = None,
    timing: Timing | None = None,
    max_message_bytes: int | None = None,
) -> AbstractAsyncContextManager[WatchedSession]:
    """A session with an MCP server. A plain call that returns an async context manager; nothing is dialled before it is
    entered, and everything is checked now.

    Args:
        transport: where, and with which headers, credentials and hook.
        client_info: ``name`` and ``version`` of this client.
        name: stands for the server in errors and records.
        timeout: seconds that a request waits unless it says otherwise; ``None``: without end.
        era: see ``Era``.
        retry_on_throttle: whether and how HTTP 429 is answered with patience; see ``RetrySettings``.
        replay: what may be sent again; see ``Replay``.
        handlers: method -> what answers a request of the server, which makes them only in the handshake era. Later it
            puts its questions into results (``input_required``), which are handed on as they are. The server is told of
            ``elicitation``, ``sampling`` and ``roots`` as far as there are handlers for them.
        sdk: an object with ``Client`` and ``streamable_http_client``, in the place of the installed SDK.
        carrier: makes the ``httpx2`` transport that sends, below signing and vending; left out, the library's own.
        timing: clock, sleep and chance of the retries.
        max_message_bytes: the longest answer or event; left out, 16 MiB.

    Raises:
        InvalidValueError: an argument is outside its grammar.
        McpExtraMissingError: the SDK is not installed.
    """
    if not isinstance(transport, HttpTransport | GatewayTransport):
        raise InvalidValueError("transport", "a description of a way over HTTP is needed")
    options = {
        "client_info": client_info,
        "name": name,
        "timeout": timeout,
        "era": era,
        "retry_on_throttle": retry_on_throttle,
        "replay": replay,
        "handlers": handlers,
        "sdk": sdk,
        "carrier": carrier,
        "timing": timing,
        "max_message_bytes": max_message_bytes,
    }
    config = read_config(transport, options)
    from .session import http_session

    return http_session(config)


def retrying_transport(
    inner: httpx2.AsyncBaseTransport,
    settings: RetrySettings | Mapping[str, Any] | bool = True,
    *,
    timing: Timing | None = None,
) -> httpx2.AsyncBaseTransport:
    """The transport that answers HTTP 429 with patience, around one of the caller's own. Inside a session it joins the
    series of the call. With ``False`` it is ``inner`` itself.

    Args:
        inner: what sends.
        settings: see ``RetrySettings``.
        timing: clock, sleep and chance.

    Raises:
        InvalidValueError: a setting is outside its range.
        McpExtraMissingError: the SDK, which brings ``httpx2``, is not installed.
    """
    read = RetrySettings.read(settings)
    if read is None:
        return inner
    read_sdk()
    from .retrying import RetryingTransport

    return RetryingTransport(inner, read, timing or Timing())
