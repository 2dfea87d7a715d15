"""Event tags: their syntax, the reserved core vocabulary, its closure, and globs over them (SPEC 16.1 to 16.3).

Owns: reading a ``tags`` member, the ``chat:`` table, expansion and the ``chat:ambient`` exclusion. Does not
own: rules and behaviours (``treatment``), or what a producer declares about its tags (``ontology``).

Tags are claims of whoever sent the event. Nothing here takes or gives a grant (SPEC 16.6).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec

from mcpl_core.errors import InvalidValueError
from mcpl_core.trees import at_index, each_string

__all__ = (
    "CHAT_ADDRESSED",
    "CHAT_AMBIENT",
    "CHAT_TAGS",
    "CORE_IMPLICATIONS",
    "RESERVED_NAMESPACES",
    "DroppedTag",
    "ImplicationEdge",
    "Tag",
    "TagReading",
    "check_tags",
    "expand_tags",
    "glob_matches",
    "is_reserved",
    "parse_tag",
    "read_tags",
)

CHAT_ADDRESSED = "chat:addressed"
CHAT_AMBIENT = "chat:ambient"

#: The reserved core vocabulary and the facet of each tag (SPEC 16.2).
CHAT_TAGS: Mapping[str, str] = MappingProxyType(
    {
        CHAT_ADDRESSED: "addressing",
        "chat:mention": "addressing",
        "chat:reply": "addressing",
        "chat:dm": "addressing",
        CHAT_AMBIENT: "addressing",
        "chat:broadcast": "addressing",
        "chat:to-self": "addressing",
        "chat:from-human": "sender",
        "chat:from-bot": "sender",
        "chat:from-self": "sender",
        "chat:from-agent": "sender",
        "chat:edited": "lifecycle",
        "chat:deleted": "lifecycle",
        "chat:reaction": "lifecycle",
        "chat:reaction-remove": "lifecycle",
        "chat:has-image": "content",
        "chat:has-audio": "content",
        "chat:has-file": "content",
        "chat:has-link": "content",
        "chat:command": "content",
        "chat:private": "locus",
        "chat:group": "locus",
        "chat:thread": "locus",
    }
)

#: The closure that every host expands, whatever a producer declares (SPEC 16.3).
CORE_IMPLICATIONS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "chat:mention": (CHAT_ADDRESSED,),
        "chat:reply": (CHAT_ADDRESSED,),
        "chat:dm": (CHAT_ADDRESSED, "chat:private"),
    }
)

#: Namespaces that no producer defines (SPEC 16.1).
RESERVED_NAMESPACES = frozenset({"chat", "mcpl"})

# The identifier characters of SPEC 17.2; the namespace ends at the first colon.
_TAG = re.compile(r"(?P<ns>[A-Za-z0-9._-]+):(?:(?P<key>[A-Za-z0-9._:*-]+)=)?(?P<value>[A-Za-z0-9._:*-]+)")


@dataclass(frozen=True, slots=True)
class Tag:
    """A tag in its parts: ``namespace:value`` or ``namespace:key=value``.

    Attributes:
        namespace: what stands before the first colon.
        value: the value.
        key: the key of a faceted tag, ``None`` for a plain one.
    """

    namespace: str
    value: str
    key: str | None = None

    def __str__(self) -> str:
        return f"{self.namespace}:{self.value if self.key is None else f'{self.key}={self.value}'}"


def parse_tag(text: Any, path: str = "$") -> Tag:
    """Read one tag (SPEC 16.1).

    Raises:
        InvalidValueError: no string (``not_string``), no namespace (``tag_namespace``), or a character
            outside ``[A-Za-z0-9._:*-]`` or an empty part (``tag_syntax``).
    """
    if not isinstance(text, str):
        raise InvalidValueError("not_string", "a tag is a string", path)
    if text.find(":") < 1:
        raise InvalidValueError("tag_namespace", f"{text[:80]!r} has no namespace", path)
    match = _TAG.fullmatch(text)
    if match is None:
        raise InvalidValueError("tag_syntax", f"{text[:80]!r} is no namespace:value", path)
    return Tag(match["ns"], match["value"], match["key"])


def is_reserved(tag: Any) -> bool:
    """Whether ``tag`` stands in a namespace that no producer defines. What is no string stands in none."""
    namespace, colon, _ = tag.partition(":") if isinstance(tag, str) else ("", "", "")
    return colon != "" and namespace in RESERVED_NAMESPACES


@dataclass(frozen=True, slots=True)
class DroppedTag:
    """A member of ``tags`` that is no tag.

    Attributes:
        code: as ``parse_tag`` raises it, or ``not_array`` for the whole member.
        path: where, ``$`` being the ``tags`` member.
        value: what stood there, as received.
    """

    code: str
    path: str
    value: Any


@dataclass(frozen=True, slots=True)
class TagReading:
    """What ``read_tags`` took and what it left.

    Attributes:
        tags: without repetitions, in order of first appearance; the order has no meaning.
        dropped: worth a diagnostic each.
    """

    tags: tuple[str, ...] = ()
    dropped: tuple[DroppedTag, ...] = ()


def read_tags(value: Any) -> TagReading:
    """Read the ``tags`` member of an event as a host does: one bad tag costs that tag, not the event.

    Args:
        value: the member as received, ``msgspec.UNSET`` when it is absent; null is a wrong type.
    """
    if value is msgspec.UNSET:
        return TagReading()
    if not isinstance(value, list | tuple):
        return TagReading((), (DroppedTag("not_array", "$", value),))
    tags: dict[str, None] = {}
    dropped: list[DroppedTag] = []
    for index, entry in enumerate(value):
        try:
            parse_tag(entry, at_index("$", index))
        except InvalidValueError as error:
            dropped.append(DroppedTag(error.code, error.path, entry))
        else:
            tags[entry] = None
    return TagReading(tuple(tags), tuple(dropped))


def check_tags(tags: Iterable[Any]) -> tuple[str, ...]:
    """The tags of an event that we are about to send, without repetitions.

    Raises:
        InvalidValueError: one of them is no tag; ``path`` says which. Producers must not send bare words
            (SPEC 16.1). ``not_array``: it is a bare string or nothing to iterate over.
    """
    entries = each_string(tags)
    for index, tag in enumerate(entries):
        parse_tag(tag, at_index("$", index))
    return tuple(dict.fromkeys(entries))


@dataclass(frozen=True, slots=True)
class ImplicationEdge:
    """A producer's ``implies`` edge that somebody accepted (SPEC 16.3); see ``ontology``.

    Attributes:
        tag: the tag it starts from.
        implies: the tags it adds.
    """

    tag: str
    implies: tuple[str, ...]


def expand_tags(tags: Iterable[str], accepted: Iterable[ImplicationEdge] = ()) -> tuple[str, ...]:
    """The closure of ``tags`` (SPEC 16.3).

    Adds what the core implications say, transitively, and then takes ``chat:ambient`` away beside
    ``chat:addressed``. Doing it twice changes nothing.

    Args:
        tags: tags, as ``read_tags`` gives them.
        accepted: edges of this event's own producer that were accepted (``Acceptances.edges``). A producer's
            ontology is no argument here: by itself it implies nothing.

    Returns:
        The given tags in their order, then the added ones.

    Raises:
        InvalidValueError: ``tags`` is a bare string or holds something else (``not_array``, ``not_string``).
    """
    edges = {tag: list(implied) for tag, implied in CORE_IMPLICATIONS.items()}
    for edge in accepted:
        edges.setdefault(edge.tag, []).extend(edge.implies)
    closure = dict.fromkeys(each_string(tags))
    queue = list(closure)
    for tag in queue:  # the queue grows while it is read; each tag enters once, so a cycle ends
        added = [implied for implied in edges.get(tag, ()) if implied not in closure]
        closure.update(dict.fromkeys(added))
        queue.extend(dict.fromkeys(added))
    if CHAT_ADDRESSED in closure:
        closure.pop(CHAT_AMBIENT, None)
    return tuple(closure)


def glob_matches(pattern: Any, text: Any) -> bool:
    """Whether ``pattern`` matches the whole of ``text``: ``*`` is any run of characters, also none.

    Nothing else is special and case counts; what is no string matches nothing. The work grows with
    ``len(pattern) + len(text)`` times the number of ``*`` at worst, whatever the two say.
    """
    if not isinstance(pattern, str) or not isinstance(text, str):
        return False
    head, *rest = pattern.split("*")
    if not rest:
        return pattern == text
    *middle, tail = rest
    if len(text) < len(head) + len(tail) or not (text.startswith(head) and text.endswith(tail)):
        return False
    position, end = len(head), len(text) - len(tail)
    for part in middle:
        position = text.find(part, position, end)
        if position < 0:
            return False
        position += len(part)
    return True
