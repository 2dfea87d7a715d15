"""From an endpoint to a transport or a listener.

Owns: what the forms of an endpoint are. A string is always a URL, a command is always a sequence of words, and nothing
is ever a shell line. Does not own: the transports; nothing is dialled, spawned or bound here.

    mcpl://host[:port]/path     as RFC-004 resolves it
    wss://, ws://               a WebSocket
    tls://host:port, tcp://host:port
    unix:///path                percent-decoded
    ["program", "argument"]     a child process
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from ssl import SSLContext
from typing import Any, TypeVar
from urllib.parse import SplitResult, unquote, urlsplit

from ..errors import InvalidValueError
from ..uris import McplUri
from .base import Listener, Transport
from .listeners import TcpListener, UnixListener
from .sockets import TcpTransport, UnixTransport
from .subprocess import SubprocessTransport

__all__ = ("listener_for", "transport_for")

T = TypeVar("T")

_REFUSED = re.compile(r"[\x00-\x20\x7f\\\ud800-\udfff]")


def transport_for(endpoint: str | Sequence[str | os.PathLike[str]], **options: Any) -> Transport:
    """A transport to an endpoint, not started yet.

    Args:
        endpoint: a URL, or a command as a sequence of words.
        options: keyword arguments of the transport: of ``SubprocessTransport`` for a command, of ``TcpTransport``,
            ``UnixTransport`` or ``WebSocketTransport`` otherwise.

    Raises:
        InvalidValueError: the URL is outside its grammar; ``code`` is ``scheme``, ``character``, ``userinfo``,
            ``fragment``, ``empty_authority``, ``host``, ``port``, ``path`` or ``query``, or for ``mcpl:`` one of
            RFC-004's.
        TypeError: ``endpoint`` is neither, or an option is unknown.
    """
    if not isinstance(endpoint, str):
        return SubprocessTransport(endpoint, **options)
    return _chosen(_TRANSPORTS, endpoint)(endpoint, options)


def listener_for(endpoint: str, **options: Any) -> Listener:
    """A listener on an endpoint, not started yet.

    Args:
        endpoint: a ``tcp:``, ``tls:``, ``unix:``, ``ws:`` or ``wss:`` URL; port 0 is replaced by a free one.
        options: keyword arguments of ``TcpListener``, ``UnixListener`` or ``WebSocketListener``; ``ssl`` (a server's
            context) is required for ``tls:`` and ``wss:``.

    Raises:
        InvalidValueError: the URL is outside its grammar; ``code`` as for ``transport_for``.
        TypeError: ``endpoint`` is no string, or an option is unknown or missing.
    """
    if not isinstance(endpoint, str):
        raise TypeError(f"a listener's endpoint is a URL, not {endpoint!r}")
    return _chosen(_LISTENERS, endpoint)(endpoint, options)


def _chosen(forms: dict[str, Callable[[str, dict[str, Any]], T]], endpoint: str) -> Callable[[str, dict[str, Any]], T]:
    scheme, colon, _ = endpoint.partition(":")
    form = forms.get(scheme.lower()) if colon else None
    if form is None:
        known = ", ".join(f"{name}:" for name in forms)
        raise InvalidValueError("scheme", f"an endpoint begins with one of {known}; a command is a sequence of words")
    return form


def _parsed(endpoint: str) -> SplitResult:
    """The parts of a URL without anything that has no meaning in an endpoint. Secrets are never repeated."""
    if refused := _REFUSED.search(endpoint):
        raise InvalidValueError("character", f"{refused[0]!r} must be percent-encoded or left out")
    if "#" in endpoint:
        raise InvalidValueError("fragment", "a fragment has no meaning in an endpoint")
    try:
        url = urlsplit(endpoint)
        url.port  # noqa: B018 - raises
    except ValueError as error:
        code = "host" if "IPv6" in str(error) or "netloc" in str(error) else "port"
        raise InvalidValueError(code, f"this is no {code}") from error
    if "@" in url.netloc:
        raise InvalidValueError("userinfo", "a user or password has no place in an endpoint")
    if not endpoint[len(url.scheme) + 1 :].startswith("//"):
        slashes = "three slashes and a path follow" if url.scheme == "unix" else "two slashes follow"
        raise InvalidValueError("empty_authority", f"{slashes} {url.scheme}:")
    return url


def _host_and_port(endpoint: str) -> tuple[str, int]:
    url = _parsed(endpoint)
    if url.path not in ("", "/"):
        raise InvalidValueError("path", f"a {url.scheme}: endpoint has no path")
    if "?" in endpoint:
        raise InvalidValueError("query", f"a {url.scheme}: endpoint has no query")
    if not url.hostname:
        raise InvalidValueError("empty_authority", "there is no host")
    if url.port is None:
        raise InvalidValueError("port", f"a {url.scheme}: endpoint names its port")
    return url.hostname, url.port


def _unix_path(endpoint: str) -> str:
    url = _parsed(endpoint)
    if url.netloc:
        raise InvalidValueError("host", "a unix: endpoint has no host: three slashes follow the scheme")
    if "?" in endpoint:
        raise InvalidValueError("query", "a unix: endpoint has no query")
    path = unquote(url.path)
    if len(path) < 2 or "\0" in path:
        raise InvalidValueError("path", "a unix: endpoint names an absolute path")
    return path


def _without_tls(endpoint: str, options: dict[str, Any]) -> dict[str, Any]:
    if options.get("ssl"):
        scheme = endpoint.partition(":")[0]
        raise TypeError(f"ssl has no meaning for a {scheme}: endpoint; write {_SECURE[scheme.lower()]}:")
    return options


def _with_context(endpoint: str, options: dict[str, Any]) -> dict[str, Any]:
    if not isinstance(options.get("ssl"), SSLContext):
        raise TypeError(f"a listener on a {endpoint.partition(':')[0]}: endpoint needs ssl=, with its certificate")
    return options


def _websocket(url: str, options: dict[str, Any]) -> Transport:
    _parsed(url)
    # The WebSocket library takes longer to import than the rest of the package; who does not use it does not pay.
    from .websocket import WebSocketTransport

    return WebSocketTransport(url, **options)


def _websocket_listener(endpoint: str, options: dict[str, Any]) -> Listener:
    url = _parsed(endpoint)
    if "?" in endpoint:
        raise InvalidValueError("query", "a listener's endpoint has no query")
    if not url.hostname:
        raise InvalidValueError("empty_authority", "there is no host")
    port = url.port if url.port is not None else _WEB_PORTS[url.scheme]
    # As above.
    from .websocket import WebSocketListener

    return WebSocketListener(url.hostname, port, **({"path": url.path} if url.path else {}) | options)


_SECURE = {"tcp": "tls", "ws": "wss"}
_WEB_PORTS = {"ws": 80, "wss": 443}

_TRANSPORTS: dict[str, Callable[[str, dict[str, Any]], Transport]] = {
    "mcpl": lambda url, options: _websocket(McplUri.parse(url).resolved, options),
    "wss": _websocket,
    "ws": lambda url, options: _websocket(url, _without_tls(url, options)),
    "tls": lambda url, options: TcpTransport(*_host_and_port(url), **{"ssl": True} | options),
    "tcp": lambda url, options: TcpTransport(*_host_and_port(url), **_without_tls(url, options)),
    "unix": lambda url, options: UnixTransport(_unix_path(url), **options),
}

_LISTENERS: dict[str, Callable[[str, dict[str, Any]], Listener]] = {
    "wss": lambda url, options: _websocket_listener(url, _with_context(url, options)),
    "ws": lambda url, options: _websocket_listener(url, _without_tls(url, options)),
    "tls": lambda url, options: TcpListener(*_host_and_port(url), **_with_context(url, options)),
    "tcp": lambda url, options: TcpListener(*_host_and_port(url), **_without_tls(url, options)),
    "unix": lambda url, options: UnixListener(_unix_path(url), **options),
}
