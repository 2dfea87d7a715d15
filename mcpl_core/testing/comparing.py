"""Where two messages differ, and which message answers to which.

Owns: comparing JSON trees, leaving out what is known to vary, and the key by which a recorded message finds its live
counterpart. Pure. Does not own: the order in which messages are compared (``replayer``).

Compared is JSON: members in any order, ``true`` unlike ``1``, ``1`` like ``1.0``, absent unlike null.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw

from ..errors import InvalidValueError
from ..trees import at_index, at_key
from ..wire.messages import DEFAULT_MAX_DEPTH, read_id
from ..wire.values import (
    decode_value,
    depth_exceeds,
    has_surrogate_escape,
    hide_surrogates,
    show_surrogates,
)

__all__ = ("Ignored", "Kind", "ParsedMessage", "id_key", "member_differences", "with_member")

Kind: TypeAlias = Literal["request", "notification", "response", "other"]


@dataclass(frozen=True, slots=True)
class ParsedMessage:
    """A message with what is needed to find its counterpart.

    Attributes:
        text: as it was sent.
        value: its JSON value; ``UNSET`` when it is no JSON.
        kind: what it is.
        key: equal for messages that may be each other's counterpart.
        id: of a request or response.
    """

    text: bytes
    value: Any = UNSET
    kind: Kind = "other"
    key: tuple[Any, ...] = ("other",)
    id: Any = UNSET

    @classmethod
    def parse(cls, text: bytes) -> ParsedMessage:
        """Looks at a message. Whatever it is, this succeeds."""
        try:
            value = UNSET if depth_exceeds(text, DEFAULT_MAX_DEPTH) else decode_value(text)
        except InvalidValueError:
            value = UNSET
        if not isinstance(value, dict):
            return cls(text, value)
        id = value.get("id", UNSET)
        method = value.get("method", UNSET)
        if method is not UNSET:
            kind: Kind = "notification" if id is UNSET else "request"
            return cls(text, value, kind, (kind, str(method)), id)
        if id is not UNSET and ("result" in value or "error" in value):
            return cls(text, value, "response", ("response", *id_key(id)), id)
        return cls(text, value)

    @property
    def title(self) -> str:
        """What it is, for people."""
        if self.kind == "response":
            return f"the answer to request {self.id!r}"
        return str(self.key[1]) if len(self.key) > 1 else "something that is no JSON-RPC message"


def id_key(id: Any) -> tuple[str, Any]:
    """A hashable form of an id: ``1`` and ``"1"`` are two, ``1`` and ``1.0`` are one."""
    read = read_id(id)
    return (type(read).__name__, read) if read is not None else ("other", repr(id))


@dataclass(frozen=True, slots=True)
class Ignored:
    """What may differ.

    Attributes:
        names: members of these names, wherever they stand.
        paths: patterns over paths (``$.params.*.at``, ``$.result.items[*]``); ``*`` stands for one name or index.
            What lies beneath is ignored, too.
    """

    names: frozenset[str] = frozenset()
    paths: tuple[re.Pattern[str], ...] = field(default=())

    @classmethod
    def parse(cls, rules: Iterable[str]) -> Ignored:
        """Reads rules as people write them: what begins with ``$`` is a path, anything else a name."""
        names, paths = [], []
        for rule in rules:
            if rule.startswith("$"):
                paths.append(re.compile(re.escape(rule).replace(r"\*", r"[^.\[\]]+")))
            else:
                names.append(rule)
        return cls(frozenset(names), tuple(paths))

    def covers(self, path: str, name: str | None) -> bool:
        """Whether the member ``name`` at ``path`` may differ."""
        return name in self.names or any(pattern.fullmatch(path) for pattern in self.paths)


def member_differences(
    recorded: Any, live: Any, ignored: Ignored, but: Iterable[str] = ()
) -> list[tuple[str, Any, Any]]:
    """Where two JSON values differ.

    Args:
        recorded, live: the two.
        ignored: what may differ.
        but: exact paths that may differ, besides.

    Returns:
        Path, recorded and live value of each innermost difference, ``UNSET`` for a member that is not there.
    """
    found: list[tuple[str, Any, Any]] = []
    spared = frozenset(but)
    work: list[tuple[str, str | None, Any, Any]] = [("$", None, recorded, live)]
    while work:
        path, name, before, after = work.pop()
        if path in spared or ignored.covers(path, name):
            continue
        if isinstance(before, dict) and isinstance(after, dict):
            names = [*before, *(name for name in after if name not in before)]
            work += [(at_key(path, n), n, before.get(n, UNSET), after.get(n, UNSET)) for n in reversed(names)]
        elif isinstance(before, list) and isinstance(after, list):
            length = max(len(before), len(after))
            work += [(at_index(path, i), None, _at(before, i), _at(after, i)) for i in reversed(range(length))]
        elif before != after or isinstance(before, bool) != isinstance(after, bool):
            found.append((path, before, after))
    return found


def _at(items: list[Any], index: int) -> Any:
    return items[index] if index < len(items) else UNSET


def with_member(text: bytes, path: tuple[str, ...], value: bytes) -> bytes:
    """A JSON object with another value at ``path``, every other member byte for byte as it was.

    Args:
        text: the object.
        path: names of members from the outside in; each but the last holds an object.
        value: JSON text.

    Raises:
        InvalidValueError: there is no such member.
    """
    hidden = hide_surrogates(text) if has_surrogate_escape(text) else text
    members: dict[str, Raw] = decode_value(hidden, dict[str, Raw])
    name, *rest = path
    if name not in members:
        raise InvalidValueError("member", f"there is no {name}")
    old = bytes(members[name])
    if hidden is not text:
        old = show_surrogates(old)
        members = {key: Raw(show_surrogates(bytes(raw))) for key, raw in members.items()}
    members[name] = Raw(with_member(old, tuple(rest), value) if rest else value)
    return msgspec.json.encode(members)
