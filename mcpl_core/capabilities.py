"""The capability vocabulary and what can be read from it without a grant (SPEC 5.1, 5.4, 6.2).

Owns: the paths as data, the walk from an advertisement to paths, ``*`` matching, the check of ``uses``, and
which paths a host policy must name before it grants them. Does not own: the state of a grant (``grants``),
the computation of one from a policy (``negotiation``), or which method needs which path
(``protocol.methods``).

Everything here answers with the narrow reading: what is not recognised is not advertised, not granted and
not a valid ``uses`` member.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from mcpl_core.errors import InvalidValueError
from mcpl_core.trees import at_index

__all__ = (
    "CAPABILITY_PATHS",
    "EXTENSION_CAPABILITIES",
    "EXTENSION_PATHS",
    "NOT_CAPABILITIES",
    "VOCABULARY",
    "Capability",
    "UsesCheck",
    "Vocabulary",
    "advertised_capabilities",
    "advertised_capabilities_from_initialize",
    "capability_granted",
    "capability_pattern_matches",
    "validate_uses",
)

#: One path segment. Part of the identifier characters of SPEC 17.2, without ``.`` (the separator) and ``*``.
_SEGMENT = r"[A-Za-z0-9_:-]+"
_PATH = re.compile(rf"{_SEGMENT}(\.{_SEGMENT})*")

#: The root members of a manifest that are no capabilities (SPEC 17.1): protocol identity, the revision itself, the
#: feature sets. No path may begin with one.
NOT_CAPABILITIES = frozenset({"version", "revision", "featureSets"})


@dataclass(frozen=True, slots=True)
class Capability:
    """One row of the vocabulary.

    Attributes:
        path: dot-separated, without ``*``.
        denied_by_default: a host policy grants it only through an entry equal to the path, never through
            a ``*`` pattern (SPEC 13.4 asks this of ``inject.system``; extensions get it unless they say no).
        in_uses: whether a feature set may name it in ``uses`` (SPEC 6.2).
        outer: advertised by an object in MCP's own ``capabilities``, not inside ``experimental.mcpl``.
    """

    path: str
    denied_by_default: bool = True
    in_uses: bool = True
    outer: bool = False


@dataclass(slots=True)
class _Node:
    """A place in the advertisement tree; ``path`` is ``None`` where the vocabulary has no such path."""

    path: str | None = None
    members: dict[str, _Node] = field(default_factory=dict)

    def place(self, path: str) -> None:
        node = self
        for segment in path.split("."):
            node = node.members.setdefault(segment, _Node())
        node.path = path

    def walk(self, value: Any) -> Iterator[str]:
        """SPEC 5.1: true is everything from here down, an object is this node and what its members say."""
        places = [(self, value)]
        for node, value in places:  # grows while it is read, so that no depth is too great
            if value is not True and not isinstance(value, dict):
                continue
            if node.path is not None:
                yield node.path
            places += [(member, value is True or value.get(name)) for name, member in node.members.items()]


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A closed set of capability paths. Immutable; ``extend`` returns another one.

    Attributes:
        capabilities: the rows, in order.

    Raises:
        InvalidValueError: a row is not well-formed (``capability_path``), begins with a manifest member
            that is no capability (``reserved_member``), or repeats a path (``duplicate_capability``).
    """

    capabilities: tuple[Capability, ...]
    _rows: Mapping[str, Capability] = field(init=False, repr=False, compare=False)
    _tree: _Node = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rows: dict[str, Capability] = {}
        tree = _Node()
        for index, row in enumerate(self.capabilities):
            where = at_index("$", index)
            _check_row(row, where)
            if row.path in rows:
                raise InvalidValueError("duplicate_capability", f"{row.path} is there already", where)
            rows[row.path] = row
            if not row.outer:
                tree.place(row.path)
        object.__setattr__(self, "capabilities", tuple(rows.values()))
        object.__setattr__(self, "_rows", rows)
        object.__setattr__(self, "_tree", tree)

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path, in order."""
        return tuple(self._rows)

    def __contains__(self, path: object) -> bool:
        return isinstance(path, str) and path in self._rows

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def __repr__(self) -> str:
        # It is a default of much, whose help would show all its rows.
        return f"Vocabulary({len(self)} paths)"

    def denied_by_default(self, path: object) -> bool:
        """Whether a policy must name ``path`` itself. True for a path that is not in the vocabulary."""
        return not isinstance(path, str) or path not in self._rows or self._rows[path].denied_by_default

    def usable(self, path: object) -> bool:
        """Whether ``path`` may stand in ``uses`` (SPEC 6.2)."""
        return isinstance(path, str) and path in self._rows and self._rows[path].in_uses

    def extend(self, *additions: Capability | str) -> Vocabulary:
        """A new vocabulary with more rows; this one stays as it is.

        Args:
            additions: rows, or paths, which become rows that are denied by default. A row that is there
                already, equal in every part, is no addition.

        Raises:
            InvalidValueError: as for the class; a row that contradicts a present one is
                ``duplicate_capability``, so that no extension can lift another row's default.
        """
        rows = list(self.capabilities)
        known = dict(self._rows)
        for item in additions:
            row = Capability(item) if isinstance(item, str) else item
            _check_row(row, at_index("$", len(rows)))
            if known.get(row.path) != row:
                known[row.path] = row
                rows.append(row)
        return Vocabulary(tuple(rows))

    def advertised(self, mcpl: Any) -> frozenset[str]:
        """The paths that a manifest (the ``experimental.mcpl`` object) advertises; ``outer`` ones never."""
        return frozenset(self._tree.walk(mcpl)) if isinstance(mcpl, dict) else frozenset()

    def advertised_outer(self, capabilities: Any) -> frozenset[str]:
        """The ``outer`` paths that MCP's own ``capabilities`` object advertises by an object member."""
        if not isinstance(capabilities, dict):
            return frozenset()
        return frozenset(
            row.path
            for row in self.capabilities
            if row.outer and isinstance(_member(capabilities, row.path.split(".")), dict)
        )


def _check_row(row: Any, where: str) -> None:
    path = row.path if isinstance(row, Capability) else None
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise InvalidValueError("capability_path", "segments of A-Z a-z 0-9 _ : - joined by dots", where)
    if path.split(".", 1)[0] in NOT_CAPABILITIES:
        raise InvalidValueError("reserved_member", f"{path} begins with a member that is no capability", where)


def _member(tree: Any, segments: Iterable[str]) -> Any:
    for segment in segments:
        tree = tree.get(segment) if isinstance(tree, dict) else None
    return tree


#: The vocabulary of SPEC 6.2. ``tools`` is MCP's own capability, so MCP's own object advertises it.
VOCABULARY = Vocabulary(
    (
        Capability("pushEvents", denied_by_default=False),
        Capability("tools", denied_by_default=False, outer=True),
        Capability("modelInfo", denied_by_default=False),
        Capability("inferenceRequest", denied_by_default=False),
        Capability("inferenceRequest.streaming", denied_by_default=False),
        Capability("inferenceLifecycle", denied_by_default=False),
        Capability("contextHooks.beforeInference.observe", denied_by_default=False),
        Capability("contextHooks.beforeInference.inject.system", denied_by_default=True),
        Capability("contextHooks.beforeInference.inject.beforeUser", denied_by_default=False),
        Capability("contextHooks.beforeInference.inject.afterUser", denied_by_default=False),
        Capability("channels.register", denied_by_default=False),
        Capability("channels.lifecycle", denied_by_default=False),
        Capability("channels.publish", denied_by_default=False),
        Capability("channels.incoming", denied_by_default=False),
        Capability("channels.streaming", denied_by_default=False),
        Capability("channels.acknowledge", denied_by_default=False),
        Capability("channels.typing", denied_by_default=False),
    )
)

#: The 17 paths of SPEC 6.2.
CAPABILITY_PATHS: tuple[str, ...] = VOCABULARY.paths

#: Paths outside SPEC 6.2 that optional parts of this package know. Nothing reads them until a vocabulary
#: is extended with them: ``VOCABULARY.extend(*EXTENSION_CAPABILITIES)``.
EXTENSION_CAPABILITIES: tuple[Capability, ...] = (
    Capability("stateUpdate"),
    Capability("branches.list"),
    Capability("branches.create"),
    Capability("branches.switch"),
    Capability("branches.delete"),
    # A credential for a person is asked for by a tool call, never claimed by a feature set.
    Capability("access.token", in_uses=False),
)
EXTENSION_PATHS: tuple[str, ...] = tuple(row.path for row in EXTENSION_CAPABILITIES)


def advertised_capabilities(mcpl: Any, vocabulary: Vocabulary = VOCABULARY) -> frozenset[str]:
    """The paths that a manifest advertises (SPEC 5.1), by one recursive walk over the vocabulary.

    Args:
        mcpl: the ``experimental.mcpl`` object, as received. True at a node is every path from there down; an
            object at a node that is a path is that path and what the members say; everything else (false,
            null, numbers, strings, arrays, members outside the vocabulary) advertises nothing.

    Returns:
        Paths of the vocabulary; never ``tools``, which stands outside this object.
    """
    return vocabulary.advertised(mcpl)


def advertised_capabilities_from_initialize(capabilities: Any, vocabulary: Vocabulary = VOCABULARY) -> frozenset[str]:
    """The paths that a whole ``capabilities`` object of ``initialize`` advertises, ``tools`` included.

    Args:
        capabilities: the object as received; ``tools`` counts when its member there is an object.
    """
    manifest = _member(capabilities, ("experimental", "mcpl"))
    return vocabulary.advertised(manifest) | vocabulary.advertised_outer(capabilities)


def capability_pattern_matches(pattern: Any, path: Any) -> bool:
    """Whether ``pattern`` matches ``path`` (SPEC 5.4): ``*`` is one whole segment, the counts are equal.

    A ``*`` beside other characters in a segment is an ordinary character. Nothing matches by prefix, and what is no
    string matches nothing.
    """
    if not isinstance(pattern, str) or not isinstance(path, str):
        return False
    if pattern == path:
        return True
    if "*" not in pattern:
        return False
    wanted, given = pattern.split("."), path.split(".")
    return len(wanted) == len(given) and all(
        a == b or (a == "*" and b != "") for a, b in zip(wanted, given, strict=True)
    )


def capability_granted(entries: Collection[Any] | None, path: Any) -> bool:
    """Whether one of ``entries`` grants ``path`` (SPEC 5.4).

    Args:
        entries: ``effectiveCapabilities`` (a list, tuple or set). Anything else grants nothing, and members
            that are no strings are passed over.
        path: a full path. A parent grants only itself, and what is no string is not granted.
    """
    return isinstance(entries, list | tuple | set | frozenset) and any(
        capability_pattern_matches(entry, path) for entry in entries
    )


@dataclass(frozen=True, slots=True)
class UsesCheck:
    """What ``validate_uses`` found.

    Attributes:
        reason: ``"invalid_uses"``, or ``None`` when the list is valid.
        uses: the paths, without repetitions, in order; empty when invalid.
        unrecognized: the members that are no usable paths, as received, in order.
    """

    reason: Literal["invalid_uses"] | None
    uses: tuple[str, ...] = ()
    unrecognized: tuple[Any, ...] = ()

    @property
    def valid(self) -> bool:
        return self.reason is None


def validate_uses(uses: Any, vocabulary: Vocabulary = VOCABULARY) -> UsesCheck:
    """Check a declaration's ``uses`` (SPEC 6.2, 6.4): absent, empty, wrongly typed or unrecognised is invalid.

    Args:
        uses: the member as received, ``None`` when absent. Only full paths count, no patterns.
    """
    if not isinstance(uses, list | tuple) or not uses:
        return UsesCheck("invalid_uses")
    unrecognized = tuple(entry for entry in uses if not vocabulary.usable(entry))
    if unrecognized:
        return UsesCheck("invalid_uses", (), unrecognized)
    return UsesCheck(None, tuple(dict.fromkeys(uses)))
