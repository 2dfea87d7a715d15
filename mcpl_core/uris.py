"""``mcpl://`` URIs: what is refused, what they resolve to, and when two of them are one (RFC-004).

Owns: the rejections of RFC-004 2.1, resolution to ``wss:``, the canonical form, and the three values kept
apart. Does not own: ``ws:`` and ``wss:`` endpoints (``transports.endpoints``), dialling, redirects, or any
authority: a URI is a locator and grants nothing.

The resolved form is made first, by a WHATWG URL parser, and the canonical form from it: no URL library treats
``mcpl:`` as it treats ``wss:``, so its reading of the ``mcpl:`` form decides nothing (RFC-004 3.1). What such a
parser repairs without a word (backslashes, control characters, dot segments, a missing host) is refused before
it sees the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import ada_url

from mcpl_core.errors import InvalidValueError

__all__ = ("McplUri", "UriErrorCode")

#: Why a text is no usable ``mcpl://`` URI: the ``code`` of the ``InvalidValueError``.
UriErrorCode = Literal[
    "scheme",  # does not begin with mcpl://
    "character",  # a backslash, a control character, a space, or a lone surrogate
    "fragment",  # a # and what follows it, nothing included
    "empty_authority",  # no host
    "userinfo",  # an @ before the path
    "dot_segment",  # . or .. as a path segment, escaped or not
    "port",  # not a number from 0 to 65535
    "host",  # no host that a URL can have
]

_SCHEME = re.compile(r"mcpl://", re.IGNORECASE)
_REFUSED = re.compile(r"[\x00-\x20\x7f\\\ud800-\udfff]")
_PORT = re.compile(r"0*([0-9]{1,5})")
_DOTS = frozenset({".", ".."})


@dataclass(frozen=True, slots=True, repr=False)
class McplUri:
    """One endpoint, as its three values (RFC-004 5). Equal when their canonical forms are.

    Build it with ``McplUri.parse``. ``str`` and ``repr`` show scheme, host and port only, since a query may
    carry an invitation.

    Attributes:
        configured: what was written, character for character.
        canonical: the ``mcpl://`` form to compare and deduplicate by.
        resolved: the ``wss://`` target to dial.
    """

    configured: str = field(compare=False)
    canonical: str
    resolved: str = field(compare=False)

    @classmethod
    def parse(cls, text: Any) -> Self:
        """Read a ``mcpl://`` URI.

        Args:
            text: as written. What is no string does not begin with the scheme either.

        Raises:
            InvalidValueError: it is refused; ``code`` is one of ``UriErrorCode``. The text itself is not
                repeated in the error.
        """
        rest = _checked(text)
        try:
            resolved = ada_url.normalize_url(f"wss://{rest}")
        except ValueError:
            raise _refusal("host", "no URL can have this host") from None
        return cls(text, f"mcpl{resolved.removeprefix('wss')}", resolved)

    @property
    def origin(self) -> str:
        """Scheme, host and port of the target, as ``wss://host:port``; the port only when it is not 443.

        A redirect that leaves it needs a new decision (RFC-004 7).
        """
        return "/".join(self.resolved.split("/", 3)[:3])

    def __str__(self) -> str:
        return f"mcpl{self.origin.removeprefix('wss')}"

    def __repr__(self) -> str:
        return f"<McplUri {self}>"


def _refusal(code: UriErrorCode, detail: str) -> InvalidValueError:
    return InvalidValueError(code, detail)


def _checked(text: Any) -> str:
    """What follows ``mcpl://``, when nothing in it is refused as text (RFC-004 2.1)."""
    scheme = _SCHEME.match(text) if isinstance(text, str) else None
    if scheme is None:
        raise _refusal("scheme", "an MCPL URI begins with mcpl://")
    rest: str = text[scheme.end() :]
    if refused := _REFUSED.search(rest):
        position = scheme.end() + refused.start()
        raise _refusal("character", f"{refused[0]!r} at {position} must be percent-encoded or left out")
    if "#" in rest:
        raise _refusal("fragment", "a fragment has no meaning here")
    before_query = rest.partition("?")[0]
    authority, _, path = before_query.partition("/")
    _check_authority(authority)
    for segment in path.split("/"):
        if segment.lower().replace("%2e", ".") in _DOTS:
            raise _refusal("dot_segment", "a path segment is . or ..")
    return rest


def _check_authority(authority: str) -> None:
    if "@" in authority:
        raise _refusal("userinfo", "a user or password has no place in the URI")
    host, port = _split_port(authority)
    if not host:
        raise _refusal("empty_authority", "no host")
    number = _PORT.fullmatch(port or "443")
    if number is None or int(number[1]) > 65535:
        raise _refusal("port", "a port is a number from 0 to 65535")


def _split_port(authority: str) -> tuple[str, str]:
    """Host and port as text. What is no host, such as an open bracket, is left to the URL parser."""
    if authority.startswith("["):
        host, bracket, after = authority.partition("]")
        return (host + bracket, after[1:]) if after.startswith(":") else (authority, "")
    host, _, port = authority.rpartition(":") if ":" in authority else (authority, "", "")
    return host, port
