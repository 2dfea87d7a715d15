"""Where a WebSocket leads, and how that may be said aloud. Pure, but for the environment's proxies.

Owns: reading the URL, the headers and the proxy a caller gives, the names that errors use (scheme, host and port: a
path or a query may hold a token), and whether a redirect stays with the same origin. Does not own: sockets.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from urllib.parse import urljoin, urlsplit

from websockets.exceptions import InvalidProxy, InvalidURI
from websockets.proxy import Proxy, get_proxy, parse_proxy
from websockets.uri import WebSocketURI, parse_uri

from ..errors import InvalidValueError

__all__ = ("Address", "check_headers", "check_subprotocols", "is_loopback", "origin_of", "read_address", "redirected")

_UNSAFE = re.compile(r"[\x00-\x20\x7f\\]")
_TOKEN = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_HEADER_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_DEFAULT_PORTS = {"ws": 80, "wss": 443}

#: Headers that the opening handshake itself is made of.
_OWN_HEADERS = frozenset({"host", "upgrade", "connection", "content-length", "transfer-encoding"})


@dataclass(frozen=True, slots=True)
class Address:
    """Where to dial.

    Attributes:
        uri: the URL in its parts.
        origin: its scheme, host and port, for errors and logs.
        tls: for ``wss``, or ``None``.
        unix_path: the Unix socket to dial instead of host and port.
        proxy: the HTTP proxy to go through.
        proxy_tls: TLS for the proxy itself.
    """

    uri: WebSocketURI
    origin: str
    tls: ssl.SSLContext | None = None
    unix_path: str | None = None
    proxy: Proxy | None = None
    proxy_tls: ssl.SSLContext | None = None

    @property
    def host(self) -> str:
        """The host name or IP address, without brackets."""
        return self.uri.host

    @property
    def port(self) -> int:
        """The port, also when it is the scheme's own."""
        return self.uri.port

    def __repr__(self) -> str:
        return f"Address({self.origin})"


def read_address(
    url: str, *, tls: ssl.SSLContext | None = None, proxy: str | bool | None = None, unix_path: str | None = None
) -> Address:
    """Reads what a caller gave.

    Args:
        url: ``ws://`` or ``wss://``.
        tls: for ``wss``; left out: the system's certificates.
        proxy: the URL of an HTTP proxy; ``True``: what the environment says, but none for a loopback host.
        unix_path: a Unix socket to dial instead of the URL's host and port.

    Raises:
        InvalidValueError: something is outside its grammar; ``code`` is ``character``, ``scheme``, ``userinfo``,
            ``empty_authority``, ``host``, ``port``, ``fragment``, ``tls`` or ``proxy``.
    """
    uri = _read_url(url)
    if tls is not None and not uri.secure:
        raise InvalidValueError("tls", "a ws: URL takes no TLS context")
    address = Address(uri, origin_of(uri), _tls(uri, tls), unix_path)
    if not proxy or unix_path is not None:
        return address
    if proxy is not True:
        return _through(address, proxy)
    found = None if is_loopback(uri.host) else get_proxy(uri)
    return address if found is None else _through(address, found)


def redirected(address: Address, location: str) -> Address | str | None:
    """Where a redirect leads.

    Returns:
        The address, when it has the same origin (``http`` stands for ``ws``); else the other origin (RFC-004
        section 7); ``None`` when it leads to no WebSocket at all.
    """
    base = f"{address.origin}{address.uri.resource_name}"
    try:
        target = urljoin(base, location)
    except ValueError:
        return None
    scheme, colon, rest = target.partition(":")
    target = {"http": "ws", "https": "wss"}.get(scheme.lower(), scheme) + colon + rest
    try:
        uri = _read_url(target)
    except InvalidValueError:
        return None
    origin = origin_of(uri)
    return replace(address, uri=uri) if origin == address.origin else origin


def is_loopback(host: str) -> bool:
    """Whether a host name or address can only mean this machine."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_headers(headers: Mapping[str, str] | Iterable[tuple[str, str]] | None) -> list[tuple[str, str]]:
    """The headers to add to the request, checked.

    Raises:
        InvalidValueError: a name or value is outside its grammar, or the handshake itself sets that header
            (``code`` is ``header``; the value is not shown).
    """
    if headers is None:
        return []
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    for name, value in pairs:
        if not _TOKEN.fullmatch(name) or name.lower() in _OWN_HEADERS or name.lower().startswith("sec-websocket-"):
            raise InvalidValueError("header", f"{name!r} cannot be set")
        if not _HEADER_VALUE.fullmatch(value):
            raise InvalidValueError("header", f"the value of {name} holds a character that no header may hold")
    return pairs


def check_subprotocols(subprotocols: Iterable[str] | None) -> list[str]:
    """The subprotocols to offer or accept, checked.

    Raises:
        InvalidValueError: one is no HTTP token (``code`` is ``subprotocol``; it is not shown, it may be a secret).
    """
    if isinstance(subprotocols, str):
        raise TypeError("subprotocols are a sequence of strings, not one string")
    names = list(subprotocols or ())
    for name in names:
        if not _TOKEN.fullmatch(name):
            raise InvalidValueError("subprotocol", "a subprotocol is not an HTTP token")
    return names


def _read_url(url: str) -> WebSocketURI:
    if _UNSAFE.search(url):
        raise InvalidValueError("character", "a URL holds no white space, control characters or backslashes")
    try:
        parts = urlsplit(url)
        host, has_userinfo = parts.hostname, "@" in parts.netloc
    except ValueError:
        raise InvalidValueError("host", "the host is not well-formed") from None
    if parts.scheme not in _DEFAULT_PORTS:
        raise InvalidValueError("scheme", "the scheme of a WebSocket is ws or wss")
    if has_userinfo:
        raise InvalidValueError("userinfo", "a URL holds no user name or password")
    if not host:
        raise InvalidValueError("empty_authority", "the host is missing")
    if "#" in url:
        raise InvalidValueError("fragment", "a WebSocket URL has no fragment")
    try:
        port = parts.port
    except ValueError:
        port = 0
    if port == 0:
        raise InvalidValueError("port", "a port is between 1 and 65535")
    try:
        return parse_uri(url)
    except (InvalidURI, UnicodeError):
        raise InvalidValueError("host", "the host is not well-formed") from None


def origin_of(uri: WebSocketURI) -> str:
    """Scheme, host and port, the port left out when it is the scheme's own."""
    scheme = "wss" if uri.secure else "ws"
    host = f"[{uri.host}]" if ":" in uri.host else uri.host
    return f"{scheme}://{host}" + ("" if uri.port == _DEFAULT_PORTS[scheme] else f":{uri.port}")


def _tls(uri: WebSocketURI, given: ssl.SSLContext | None) -> ssl.SSLContext | None:
    if not uri.secure:
        return None
    return ssl.create_default_context() if given is None else given


def _through(address: Address, proxy: str) -> Address:
    try:
        parsed = parse_proxy(proxy)
    except (InvalidProxy, ValueError):
        raise InvalidValueError("proxy", "a proxy is http://host:port or https://host:port") from None
    if parsed.scheme not in ("http", "https"):
        raise InvalidValueError("proxy", "only HTTP proxies are supported, not SOCKS")
    proxy_tls = ssl.create_default_context() if parsed.scheme == "https" else None
    return replace(address, proxy=parsed, proxy_tls=proxy_tls)
