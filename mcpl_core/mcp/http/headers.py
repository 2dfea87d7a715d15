"""The headers of a request: whose word counts, and what may not be set.

Owns: the order of precedence, the grammar of what callers give, and how a URL is shown. Does not own: where headers
come from (``signing``), and those of the protocol itself (the SDK, ``stamp``).

The order for one name, weakest first: the protocol's own, the caller's static headers, the vended ones, the hook's.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from urllib.parse import urljoin, urlsplit

from ...errors import InvalidValueError

__all__ = ("checked_headers", "origin_of", "redirect_origin", "refuse_reserved")

#: Headers that carry the message itself or its session; a static or vended header that replaced one would break both.
_RESERVED = frozenset(
    {
        "accept", "connection", "content-encoding", "content-length", "content-type", "host", "last-event-id",
        "mcp-method", "mcp-name", "mcp-protocol-version", "mcp-session-id", "te", "trailer", "transfer-encoding",
        "upgrade",
    }
)  # fmt: skip
_TOKEN = re.compile(r"[-!#$%&'*+.^_`|~0-9A-Za-z]+")
_VALUE = re.compile(r"[\t\x20-\x7e\x80-\xff]*")
_DEFAULT_PORTS = {"http": 80, "https": 443}


def checked_headers(headers: object) -> dict[str, str]:
    """What a provider or a hook gave, by lower-case name. The errors show no value.

    Raises:
        InvalidValueError: it is no mapping of header names to header values (``header``).
    """
    if not isinstance(headers, Mapping):
        raise InvalidValueError("header", "headers are a mapping of names to values")
    found = {}
    for name, value in headers.items():
        if not isinstance(name, str) or not _TOKEN.fullmatch(name):
            raise InvalidValueError("header", "the name of a header is a token")
        if not isinstance(value, str) or not _VALUE.fullmatch(value):
            raise InvalidValueError("header", f"the value of {name} holds what no header may hold")
        # Blanks around a value are no part of it (RFC 9110, 5.5).
        found[name.lower()] = value.strip(" \t")
    return found


def refuse_reserved(headers: Mapping[str, str]) -> dict[str, str]:
    """The headers by lower-case name, none of which the protocol sets itself.

    Raises:
        InvalidValueError: one is the protocol's own, or outside its grammar (``header``).
    """
    found = checked_headers(headers)
    for name in found:
        if name in _RESERVED:
            raise InvalidValueError("header", f"{name} is set by the protocol itself")
    return found


def origin_of(url: str) -> str:
    """Scheme, host and port of a URL: what errors, reports and logs may show."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    host = f"[{host}]" if ":" in host else host
    port = parts.port
    return f"{parts.scheme}://{host}" + ("" if port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f":{port}")


def redirect_origin(url: str, location: str) -> str | None:
    """The origin that a redirect of ``url`` leads to; ``None`` when it leads nowhere, or brings user and password."""
    try:
        target = urljoin(url, location)
        return None if "@" in urlsplit(target).netloc or not urlsplit(target).hostname else origin_of(target)
    except ValueError:
        return None
