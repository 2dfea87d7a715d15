"""Which strings of a manifest are identifiers, and their characters (SPEC 17.2).

Owns: the charset, the positions as a table, and the search for an identifier that breaks the rule. Does not
own: sorting or hashing (``digest``), or what an identifier means.

The positions belong to the shape that SPEC 6.1 and 16.4 give a manifest. A part with another shape, such as an
array where an object belongs or an array with a number among its strings, holds no identifiers.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from mcpl_core.capabilities import NOT_CAPABILITIES
from mcpl_core.errors import InvalidValueError
from mcpl_core.trees import Place, at_place

__all__ = ("all_strings", "check_identifiers", "is_identifier")

_match = re.compile(r"[A-Za-z0-9._:*-]+").fullmatch

#: An object whose member names are identifiers, an array of identifiers, or one.
_Holder = dict[str, Any] | list[str] | tuple[str, ...] | str


def is_identifier(text: object) -> bool:
    """Whether ``text`` is one or more of ``[A-Za-z0-9._:*-]``, as capability paths and tags must be."""
    return isinstance(text, str) and _match(text) is not None


def all_strings(value: Any) -> list[str] | tuple[str, ...] | None:
    """``value`` when it is an array of nothing but strings, else ``None``."""
    if isinstance(value, list | tuple):
        try:
            "".join(value)
        except TypeError:
            return None
        return value
    return None


def check_identifiers(manifest: dict[str, Any]) -> None:
    """Look at every identifier of a manifest: capability member names at every depth, and the table below.

    Args:
        manifest: a tree that ``canonical_bytes`` took: no container inside itself, and names that are strings.

    Raises:
        InvalidValueError: one is empty or has another character (``identifier_charset``).
    """
    found = _capability_names(manifest)
    _FEATURE_SETS.find(manifest.get("featureSets"), (None, "featureSets"), found)
    names: list[str] = []
    for holder, _ in found:
        names += [holder] if isinstance(holder, str) else holder
    # Two passes at C speed say the same as one match for each name.
    if not all(names) or (names and not _match("".join(names))):
        raise next(_refusal(holder, place) for holder, place in found if not _holds(holder))


_Found = list[tuple[_Holder, Place]]


def _capability_names(manifest: dict[str, Any]) -> _Found:
    """To any depth, but not into arrays: what stands in an array is no capability member (SPEC 5.1)."""
    capabilities = {name: value for name, value in manifest.items() if name not in NOT_CAPABILITIES}
    found: _Found = [(capabilities, None)]
    nodes: list[tuple[dict[str, Any], Place]] = [(capabilities, None)]
    for node, place in nodes:
        below = [(value, (place, name)) for name, value in node.items() if isinstance(value, dict)]
        nodes += below
        found += below
    return found


def _holds(holder: _Holder) -> bool:
    return all(map(_match, (holder,) if isinstance(holder, str) else holder))


def _refusal(holder: _Holder, place: Place) -> InvalidValueError:
    if isinstance(holder, str):
        bad = holder
    else:
        index, bad = next((index, name) for index, name in enumerate(holder) if not _match(name))
        place = (place, bad if isinstance(holder, dict) else index)
    return InvalidValueError("identifier_charset", f"{bad[:80]!r} is not of A-Z a-z 0-9 . _ : * -", at_place(place))


class _Part(Protocol):
    """The shape of one part of a manifest, which finds the identifiers in a value of that shape."""

    def find(self, value: Any, place: Place, found: _Found) -> None: ...


class _Name:
    """A string that is an identifier."""

    def find(self, value: Any, place: Place, found: _Found) -> None:
        if isinstance(value, str):
            found.append((value, place))


class _Names:
    """An array of identifiers."""

    def find(self, value: Any, place: Place, found: _Found) -> None:
        if (strings := all_strings(value)) is not None:
            found.append((strings, place))


@dataclass(frozen=True, slots=True)
class _List:
    """An array of parts of one shape."""

    each: _Part

    def find(self, value: Any, place: Place, found: _Found) -> None:
        if isinstance(value, list | tuple):
            for index, element in enumerate(value):
                self.each.find(element, (place, index), found)


@dataclass(frozen=True, slots=True)
class _Map:
    """An object whose member names are identifiers and whose values have one shape."""

    each: _Part

    def find(self, value: Any, place: Place, found: _Found) -> None:
        if isinstance(value, dict):
            found.append((value, place))
            for name, member in value.items():
                self.each.find(member, (place, name), found)


@dataclass(frozen=True, slots=True)
class _Record:
    """An object with known members."""

    members: Mapping[str, _Part] = field(default_factory=dict)

    def find(self, value: Any, place: Place, found: _Found) -> None:
        if isinstance(value, dict):
            for name, part in self.members.items():
                if name in value:
                    part.find(value[name], (place, name), found)


_RULE = _Record({"tagsAny": _Names(), "tagsAll": _Names(), "tagsNone": _Names()})
_ONTOLOGY = _Record(
    {
        "coreTags": _Names(),
        "tags": _Map(_Record({"implies": _Names(), "facet": _Name()})),
        "keyed": _Map(_Record({"values": _Names()})),
        "suggestedTreatment": _List(_RULE),
    }
)
_FEATURE_SETS = _Map(_Record({"uses": _Names(), "tagOntology": _ONTOLOGY}))
