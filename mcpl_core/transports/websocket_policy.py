"""Who may open a WebSocket here. Pure: it looks at the request alone.

Owns: what a request says, as a value, and the checks of path, ``Host`` and ``Origin``. Does not own: the grammar of the
upgrade (the ``websockets`` library), who the peer is (``authenticate``), and sockets.

A page in a browser may open a WebSocket to any server the user's machine can reach, and the browser tells where the
page comes from in ``Origin``; so an origin is refused unless it is listed. A page can also make its own host name point
to this machine; ``Host`` then has that name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs

from websockets.http11 import Request

from .websocket_address import is_loopback

__all__ = ("Refusal", "UpgradePolicy", "UpgradeRequest", "make_policy")

_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")
_DEFAULT_PORTS = {False: 80, True: 443}


@dataclass(frozen=True, slots=True)
class UpgradeRequest:
    """What a client asked for when it opened a WebSocket. Its ``repr`` shows no query and no headers, which may hold
    secrets.

    Attributes:
        path: the path, without the query.
        query: the query, without the question mark.
        headers: the headers, names in lower case, values of the same name joined by a comma and a space.
        peer: the client's address as host and port, or empty on a Unix socket.
    """

    path: str
    query: str = field(default="", repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    peer: str = ""

    @classmethod
    def read(cls, request: Request, peer: str = "") -> UpgradeRequest:
        """From the library's request."""
        path, _, query = request.path.partition("?")
        headers: dict[str, str] = {}
        for name, value in request.headers.raw_items():
            name = name.lower()
            headers[name] = f"{headers[name]}, {value}" if name in headers else value
        return cls(path, query, headers, peer)

    @property
    def subprotocols(self) -> tuple[str, ...]:
        """The subprotocols that the client offers."""
        offered = self.headers.get("sec-websocket-protocol", "").split(",")
        return tuple(name.strip() for name in offered if name.strip())

    @property
    def token(self) -> str | None:
        """The bearer token: of ``Authorization``, else the query's ``token``; ``None`` when there is neither."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and token.strip():
            return token.strip()
        return next(iter(parse_qs(self.query).get("token", ())), None)


@dataclass(frozen=True, slots=True)
class Refusal:
    """An answer that is no upgrade.

    Attributes:
        status: the HTTP status.
        text: what to say with it.
    """

    status: int
    text: str


@dataclass(frozen=True, slots=True)
class UpgradePolicy:
    """Which requests a listener takes.

    Attributes:
        path: the only path; ``None``: any.
        origins: the origins of pages that may connect, in lower case. A request without ``Origin`` comes from a
            program and is taken.
        hosts: the values of ``Host``, in lower case, with and without port; ``None``: any.
    """

    path: str | None = None
    origins: frozenset[str] = frozenset()
    hosts: frozenset[str] | None = None

    def refusal(self, request: UpgradeRequest) -> Refusal | None:
        """Why the request is refused, or ``None``."""
        host, origin = request.headers.get("host", "").lower(), request.headers.get("origin")
        if self.path is not None and request.path != self.path:
            return Refusal(404, "there is no WebSocket at this path")
        if self.hosts is not None and host not in self.hosts and host.rpartition(":")[0] + ":*" not in self.hosts:
            return Refusal(421, "this server does not have that name")
        if origin is not None and origin.lower() not in self.origins:
            return Refusal(403, "pages of this origin may not connect")
        return None


def make_policy(
    *,
    path: str | None,
    origins: Iterable[str],
    host: str | None,
    port: int,
    secure: bool,
    allowed_hosts: Iterable[str] | None,
) -> UpgradePolicy:
    """The policy of a listener.

    Args:
        path: see ``UpgradePolicy``.
        origins: see ``UpgradePolicy``.
        host: where it is bound; ``None`` for a Unix socket.
        port: its real port.
        secure: whether it speaks TLS.
        allowed_hosts: names that ``Host`` may have, with a port or with any. They are added to those of a loopback
            bind; elsewhere, ``None`` means any name.
    """
    hosts: set[str] = set()
    if host is not None and is_loopback(host):
        hosts.update(f"{name}:{port}" for name in _LOOPBACK_NAMES)
        if port == _DEFAULT_PORTS[secure]:
            hosts.update(_LOOPBACK_NAMES)
    for name in allowed_hosts or ():
        name = name.lower()
        has_port = ":" in name.rpartition("]")[2]
        hosts.update((name,) if has_port else (name, f"{name}:*"))
    checked = bool(hosts) or allowed_hosts is not None
    return UpgradePolicy(
        path,
        frozenset(origin.lower() for origin in origins),
        frozenset(hosts) if checked else None,
    )
