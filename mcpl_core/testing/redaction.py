"""Which parts of a message are secret, and taking them out.

Owns: the rules (names of members, shapes inside strings), those that hold by default, and their application. Pure. Does
not own: what is done with a message afterwards.

No rule finds every secret: a password that a person types into a chat looks like any other word. The default rules
would rather take out too much than too little.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ..errors import InvalidValueError
from ..trees import at_index, at_key

__all__ = ("DEFAULT_REDACTION", "NO_REDACTION", "REDACTED", "Redaction")

#: What stands in the place of a secret.
REDACTED = "[redacted]"

#: Members of these hold descriptions of values, not values: a schema for a password is no password.
_SCHEMAS = frozenset({"properties", "$defs", "definitions", "patternProperties"})


def _folded(name: str) -> str:
    """``API-Key``, ``api_key`` and ``apiKey`` are one name."""
    return name.replace("-", "").replace("_", "").lower()


@dataclass(frozen=True, slots=True)
class Redaction:
    """Rules for what is secret.

    Attributes:
        names: members whose whole value is secret; case, ``-`` and ``_`` do not count.
        endings: members whose name ends so, likewise.
        spared: names that an ending would match, and that are no secrets.
        patterns: what is secret inside any string: the group ``secret`` of a match, or all of it.
    """

    names: frozenset[str] = frozenset()
    endings: tuple[str, ...] = ()
    spared: frozenset[str] = frozenset()
    patterns: tuple[re.Pattern[str], ...] = ()

    def adding(self, *, names: Iterable[str] = (), patterns: Iterable[str | re.Pattern[str]] = ()) -> Redaction:
        """These rules and more.

        Raises:
            InvalidValueError: a pattern is no regular expression (``pattern``).
        """
        return replace(
            self,
            names=self.names | {_folded(name) for name in names},
            patterns=(*self.patterns, *map(_compiled, patterns)),
        )

    def is_secret(self, name: str) -> bool:
        """Whether the value of a member called ``name`` is secret."""
        folded = _folded(name)
        return folded in self.names or (folded.endswith(self.endings) and folded not in self.spared)

    def text(self, text: str) -> str:
        """``text`` without what the patterns find in it."""
        for pattern in self.patterns:
            text = pattern.sub(_without_secret, text)
        return text

    def value(self, value: Any) -> tuple[Any, tuple[str, ...]]:
        """A plain JSON value without what is secret in it; lists and objects are changed in place.

        Returns:
            The value, and the paths (``$.a["b.c"][0]``) of what was replaced, in no particular order.
        """
        root = [value]
        paths: list[str] = []
        work: list[tuple[Any, Any, str, bool]] = [(root, 0, "$", False)]
        while work:
            holder, key, path, in_schemas = work.pop()
            item = holder[key]
            if isinstance(key, str) and self.is_secret(key) and _is_value(item, in_schemas):
                if item != REDACTED:
                    holder[key] = REDACTED
                    paths.append(path)
            elif isinstance(item, str):
                cleaned = self.text(item)
                if cleaned != item:
                    holder[key] = cleaned
                    paths.append(path)
            elif isinstance(item, dict):
                schemas = key in _SCHEMAS
                work += ((item, name, at_key(path, name), schemas) for name in item)
            elif isinstance(item, list):
                work += ((item, index, at_index(path, index), False) for index in range(len(item)))
        return root[0], tuple(paths)


def _is_value(item: Any, in_schemas: bool) -> bool:
    if item is None or isinstance(item, bool) or item in ("", [], {}):
        return False  # there is nothing to hide, and that there is nothing may matter
    return not (in_schemas and isinstance(item, dict))


def _without_secret(match: re.Match[str]) -> str:
    group = "secret" if "secret" in match.re.groupindex else 0
    start, end = match.span(group)
    if start == end:
        return match[0]
    whole, offset = match[0], match.start()
    return whole[: start - offset] + REDACTED + whole[end - offset :]


def _compiled(pattern: str | re.Pattern[str]) -> re.Pattern[str]:
    try:
        return re.compile(pattern)
    except re.error as exc:
        raise InvalidValueError("pattern", f"{pattern!r} is no regular expression: {exc}") from exc


# A string may hold megabytes, and its sender may mean ill. So each pattern takes linear time: what it runs over is
# bounded, or cannot contain its own beginning.
_PATTERNS = (
    # Authorization headers. Prose ("basic understanding") has neither digits nor capitals inside a word.
    r"""\b(?i:bearer|basic)\s{1,8}(?P<secret>(?=[^\s"]*?(?:[\d=]|[a-z][A-Z]))[\w.~+/=-]{8,})""",
    # URLs with a user or a secret in the query.
    r"""(?<=://)(?P<secret>[^\s/@"'<>]{0,256}:[^\s/@"'<>]{1,256})@""",
    r"""(?i)[?&;](?:[a-z]{0,12}[_-]?token|api[_-]?key|key|sig|signature|password|secret)=(?P<secret>[^&#\s"'<>]+)""",
    # Keys that announce themselves, and JSON Web Tokens.
    r"""(?<![\w-])(?P<secret>[spr]k[-_][\w-]{16,}|gh[pousr]_\w{20,}|github_pat_\w{20,}|xox[abeprs]-[\w-]{10,}"""
    r"""|AKIA[0-9A-Z]{16}|AIza[\w-]{30,}|eyJ[\w-]{6,}\.[\w-]{6,}\.[\w-]{4,})""",
    r"""-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----(?P<secret>(?:[\w+/=\s\\:,.]|-(?!-))+)""",
    # Assignments, as in configuration files and in JSON inside a string.
    r"""(?i)(?:password|passwd|passphrase|secret|api[_-]?key|private[_-]?key|token)\\?["']?\s{0,8}[:=]\s{0,8}\\?["']?"""
    r"""(?P<secret>[^\s"'\\,;&{}()\[\]<>]{4,})""",
)

#: Takes nothing out.
NO_REDACTION = Redaction()

#: The rules that hold unless others are given.
DEFAULT_REDACTION = Redaction(
    names=frozenset(
        {
            "authorization", "proxyauthorization", "cookie", "setcookie", "credential", "credentials", "password",
            "passwd", "passphrase", "pin", "otp", "secret", "apikey", "privatekey", "signature", "token", "jwt",
        }
    ),
    endings=("password", "passphrase", "secret", "apikey", "privatekey", "secretkey", "accesskey", "token"),
    spared=frozenset({"progresstoken", "pagetoken", "nextpagetoken", "continuationtoken"}),
).adding(patterns=_PATTERNS)  # fmt: skip
