"""Which HTTP requests may reach a tool. Pure: it looks at the head of a request alone.

Owns: the checks of the length's form, path, ``Host``, ``Origin``, ``Sec-Fetch-Site``, method and content type, in this
order, and what is said of them before anything listens. Does not own: MCP's own headers (the official SDK), who the
caller is (``authenticate``), and sockets.

A page in a browser may send requests to any server that the user's machine can reach. The browser says where the page
is from in ``Origin``; a page can also make its own host name point to this machine, and ``Host`` then has that name.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias
from urllib.parse import urlsplit

from ...errors import InvalidValueError

__all__ = ("Allowed", "HttpPolicy", "HttpRefusal", "IncomingRequest", "is_loopback_host", "make_http_policy")

#: What may be allowed: a list of values, everything, or (``None``) what the row of each says.
Allowed: TypeAlias = Iterable[str] | Literal["any"] | None

_LOOPBACK_NAMES: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})


@dataclass(frozen=True, slots=True)
class IncomingRequest:
    """The head of a request, for ``authenticate``. Its ``repr`` shows no query and no headers, which may hold secrets.

    Attributes:
        method: the HTTP method.
        path, query: of its target.
        headers: by lower-case name, values of the same name joined by a comma and a space.
        peer: the client's address as host and port, where it is known.
    """

    method: str
    path: str
    query: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    peer: str = ""

    @property
    def token(self) -> str | None:
        """The bearer token of ``Authorization``, or ``None``."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() or None if scheme.lower() == "bearer" else None


@dataclass(frozen=True, slots=True)
class HttpRefusal:
    """An answer in the place of MCP's.

    Attributes:
        status: the HTTP status.
        text: what to say with it.
        headers: to send with it.
    """

    status: int
    text: str
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class HttpPolicy:
    """Which requests are served.

    Attributes:
        path: the only path.
        hosts: the values of ``Host``, in lower case, with a port or (without) on any; ``None``: all.
        origins: the origins of pages, in lower case; ``None``: only those from the host that the request names itself.
        any_origin: pages from everywhere.
    """

    path: str
    hosts: frozenset[str] | None
    origins: frozenset[str] | None
    any_origin: bool = False

    def refusal(self, request: IncomingRequest) -> HttpRefusal | None:
        """Why a request is refused, or ``None``."""
        if {"content-length", "transfer-encoding"} <= request.headers.keys():
            # Where it ends is one thing to us and another to a proxy in front (RFC 9112, section 6.3).
            return HttpRefusal(400, "a request has one length", (("connection", "close"),))
        if request.path != self.path:
            return HttpRefusal(404, "there is nothing at this path")
        if not self._knows_host(request.headers.get("host", "")):
            return HttpRefusal(421, "this server does not have that name")
        if not self._serves_page(request.headers):
            return HttpRefusal(403, "pages of this origin may not call")
        if request.method != "POST":
            # Without sessions there is no stream to listen to, and none to end.
            return HttpRefusal(405, "only POST is served", (("allow", "POST"),))
        if not _is_json(request.headers.get("content-type", "")):
            return HttpRefusal(415, "the content type is application/json")
        return None

    def _knows_host(self, host: str) -> bool:
        if self.hosts is None:
            return True
        host = host.lower()
        return host in self.hosts or _without_port(host) in self.hosts

    def _serves_page(self, headers: Mapping[str, str]) -> bool:
        if self.any_origin:
            return True
        origin = headers.get("origin")
        if origin is None:
            # A program; or a page that the browser does not name but calls foreign.
            return not _is_foreign(headers)
        origin = origin.lower()
        if self.origins is not None:
            return origin in self.origins
        return not _is_foreign(headers) and _host_of(origin) == headers.get("host", "").lower() != ""


def make_http_policy(*, path: str, host: str, allowed_hosts: Allowed, allowed_origins: Allowed) -> HttpPolicy:
    """The policy of an endpoint.

    Args:
        path: see ``HttpPolicy``.
        host: where it is bound.
        allowed_hosts: values of ``Host``, with a port or for any port. ``None``: on a loopback bind ``localhost``,
            ``127.0.0.1``, ``[::1]`` and ``host``, elsewhere all. ``"any"``: all.
        allowed_origins: origins of pages (``https://app.example``). ``None``: the endpoint's own, which is whatever the
            request calls it. ``"any"``: all.

    Raises:
        InvalidValueError: an allowed value is no string or no origin (``allowed_hosts``, ``allowed_origins``).
    """
    hosts = _values("allowed_hosts", allowed_hosts)
    origins = _values("allowed_origins", allowed_origins)
    for origin in origins or ():
        if not _host_of(origin):
            raise InvalidValueError("allowed_origins", f"{origin!r} is no origin: scheme, host and port")
    if hosts is None and allowed_hosts is None and is_loopback_host(host):
        own = host.strip("[]").lower()
        hosts = _LOOPBACK_NAMES | {f"[{own}]" if ":" in own else own}
    return HttpPolicy(path, hosts, origins, allowed_origins == "any")


def is_loopback_host(host: str) -> bool:
    """Whether a host name or address can only mean this machine."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _values(name: str, allowed: Allowed) -> frozenset[str] | None:
    if allowed is None or allowed == "any":
        return None
    values = list(allowed) if isinstance(allowed, Iterable) and not isinstance(allowed, str) else [None]
    strings = [value.lower() for value in values if isinstance(value, str)]
    if len(strings) < len(values):
        raise InvalidValueError(name, "it is a list of strings, 'any' or None")
    return frozenset(strings)


def _is_foreign(headers: Mapping[str, str]) -> bool:
    return "cross-site" in headers.get("sec-fetch-site", "").lower()


def _host_of(origin: str) -> str:
    """Host and port of an origin; empty when it is none (``null``)."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return ""
    return parts.netloc if parts.scheme and parts.netloc and not (parts.path or parts.query) else ""


def _without_port(host: str) -> str:
    head, colon, port = host.rpartition(":")
    return head if colon and port.isdigit() else host


def _is_json(content_type: str) -> bool:
    return content_type.partition(";")[0].strip().lower() == "application/json"
