"""Opening a WebSocket as a client.

Owns: the request, redirects, and what each kind of failure is called. Does not own: the bytes
(``websocket_asyncio``, ``websocket_trio``), and reading what the caller gave (``websocket_address``).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import anyio
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidProxyStatus, ProxyError
from websockets.extensions.permessage_deflate import enable_client_permessage_deflate
from websockets.http11 import Response
from websockets.typing import Subprotocol

from .._version import __version__
from ..errors import TransportError, UpgradeRefusedError
from .websocket_address import Address, redirected
from .websocket_engine import SILENT_LOGGER, Engine, WebSocketSettings

__all__ = ("DEFAULT_OPEN_TIMEOUT", "MAX_REDIRECTS", "ClientOptions", "open_client")

#: Seconds for the whole way to an open connection, redirects included.
DEFAULT_OPEN_TIMEOUT = 15.0

#: Redirects that are followed, all within one origin.
MAX_REDIRECTS = 5

_REDIRECTS = frozenset((301, 302, 303, 307, 308))


@dataclass(frozen=True, slots=True)
class ClientOptions:
    """What a client says when it opens.

    Attributes:
        headers: headers to add to the request.
        subprotocols: subprotocols to offer.
        open_timeout: seconds for the whole way to an open connection.
    """

    headers: Sequence[tuple[str, str]] = ()
    subprotocols: Sequence[str] = ()
    open_timeout: float = DEFAULT_OPEN_TIMEOUT


async def open_client(
    address: Address, options: ClientOptions, settings: WebSocketSettings, backend: ModuleType
) -> Engine:
    """Dials, follows redirects within the origin, and returns an open WebSocket that reads nothing yet.

    Args:
        address: where to.
        options: see there.
        settings: see there.
        backend: ``websocket_asyncio`` or ``websocket_trio``.

    Raises:
        UpgradeRefusedError: the answer was no upgrade, or a redirect to another origin, which it names.
        TransportError: nobody answers there, or not in time.
    """
    try:
        with anyio.fail_after(options.open_timeout):
            return await _follow(address, options, settings, backend)
    except TimeoutError as exc:
        raise TransportError(f"{address.origin} did not answer within {options.open_timeout:g} s") from exc


async def _follow(address: Address, options: ClientOptions, settings: WebSocketSettings, backend: ModuleType) -> Engine:
    for _ in range(MAX_REDIRECTS + 1):
        opened = await _open_once(address, options, settings, backend)
        if isinstance(opened, Engine):
            return opened
        address = _next_address(address, opened)
    raise UpgradeRefusedError(f"{address.origin} redirects more than {MAX_REDIRECTS} times")


async def _open_once(
    address: Address, options: ClientOptions, settings: WebSocketSettings, backend: ModuleType
) -> Engine | Response:
    """An open engine, or the response that was no upgrade."""
    protocol = ClientProtocol(
        address.uri,
        subprotocols=[Subprotocol(name) for name in options.subprotocols] or None,
        extensions=enable_client_permessage_deflate(None) if settings.compression else None,
        logger=SILENT_LOGGER,
    )
    engine = await _dial(address, protocol, settings, backend)
    try:
        request = protocol.connect()
        for name, value in options.headers:
            request.headers[name] = value
        request.headers.setdefault("User-Agent", f"mcpl_core/{__version__}")
        protocol.send_request(request)
        response = await engine.exchange()
    except UpgradeRefusedError as exc:
        engine.abort()
        raise UpgradeRefusedError(f"{address.origin}: {exc.detail}", exc.status) from exc
    except TransportError as exc:
        engine.abort()
        raise TransportError(f"{address.origin}: {exc.detail}") from exc
    except BaseException:
        engine.abort()
        raise
    assert isinstance(response, Response)
    if response.status_code == 101:
        return engine
    engine.abort()
    return response


async def _dial(address: Address, protocol: ClientProtocol, settings: WebSocketSettings, backend: ModuleType) -> Engine:
    reason: Any
    try:
        engine: Engine = await backend.dial(address, protocol, settings)
        return engine
    except InvalidProxyStatus as exc:
        status = exc.response.status_code
        raise UpgradeRefusedError(f"the proxy refuses {address.origin} (HTTP {status})", status) from exc
    except ProxyError as exc:
        raise TransportError(f"the proxy to {address.origin} does not speak HTTP") from exc
    except (OSError, UnicodeError) as exc:
        reason = getattr(exc, "strerror", None) or str(exc)
        raise TransportError(f"cannot connect to {address.origin}: {reason}") from exc


def _next_address(address: Address, response: Response) -> Address:
    status = response.status_code
    locations = response.headers.get_all("Location")
    if status not in _REDIRECTS or not locations:
        raise UpgradeRefusedError(f"{address.origin} refused the upgrade (HTTP {status})", status)
    target = redirected(address, locations[0])
    if isinstance(target, Address):
        return target
    where = target or "somewhere that is no WebSocket"
    raise UpgradeRefusedError(f"{address.origin} redirects to {where} (HTTP {status})", status, target)
