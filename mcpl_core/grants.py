"""What a connection may do now, and which feature sets follow from it (SPEC 5.3, 5.4, 6.3, 6.4, 6.7).

Owns: the state of a grant, how ``featureSets/update`` changes it, the derivation of feature sets, and the
check of one method. Does not own: receipts (``receipts``), the host's own computation of a grant
(``negotiation``), sending, or when readiness is made known.

Nothing here widens by guessing: what cannot be read grants nothing, and a Notification only takes away.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import msgspec

from mcpl_core.capabilities import VOCABULARY, Vocabulary, capability_pattern_matches, validate_uses
from mcpl_core.errors import (
    CapabilityDenied,
    FeatureSetNotEnabled,
    InvalidParams,
    InvalidValueError,
    RpcError,
    UnknownFeatureSet,
)
from mcpl_core.trees import at_index, at_key, each_string, json_object, string_list

__all__ = (
    "DisabledReason",
    "FeatureSetStatus",
    "GrantState",
    "Malformed",
    "UpdateForm",
    "UpdateOutcome",
    "check_feature_set",
    "check_method",
    "derive_feature_sets",
    "feature_set_name_matches",
    "grant_from_update",
    "is_name_pattern",
)

#: How ``featureSets/update`` arrived (SPEC 6.7).
UpdateForm = Literal["request", "notification"]

#: Why a declared feature set is off. When several hold, the first in this order is given: the declaration
#: itself, the host's explicit choice, the host's allowlist, the grant.
DisabledReason = Literal["invalid_uses", "host_disabled", "not_selected", "capability_denied"]

_EFFECTIVE, _DENIED = "effectiveCapabilities", "deniedCapabilities"
_ENABLED, _DISABLED = "enabled", "disabled"


def is_name_pattern(pattern: Any) -> bool:
    """Whether ``pattern`` may name several feature sets: ``*``, or it ends in ``.*`` (SPEC 6.3)."""
    return isinstance(pattern, str) and (pattern == "*" or pattern.endswith(".*"))


def feature_set_name_matches(pattern: Any, name: Any) -> bool:
    """Whether ``pattern`` names the feature set ``name`` (SPEC 6.3).

    Equal, or a pattern that ends in ``.*`` and the name begins with what stands before the ``*``, at any
    depth; ``*`` alone names every set. (Capability paths are matched otherwise: one segment for one ``*``.) What is
    no string matches nothing.
    """
    if not isinstance(pattern, str) or not isinstance(name, str):
        return False
    return pattern == name or (is_name_pattern(pattern) and name.startswith(pattern[:-1]))


@dataclass(frozen=True, slots=True)
class _Names:
    """Names and patterns of feature sets, prepared so that a long list costs no more to ask than a short one."""

    plain: frozenset[str]
    prefixes: tuple[str, ...]

    @classmethod
    def of(cls, patterns: tuple[str, ...]) -> _Names:
        return cls(frozenset(patterns), tuple(pattern[:-1] for pattern in patterns if is_name_pattern(pattern)))

    def name(self, name: str) -> bool:
        return name in self.plain or name.startswith(self.prefixes)


@dataclass(frozen=True, slots=True)
class GrantState:
    """What one connection's policy says now. The default value is the state before any policy: nothing.

    Attributes:
        effective_capabilities: entries as received (paths or patterns), without repetitions, in order.
        enabled_feature_sets: the allowlist of names or patterns; ``None`` when there is none.
        disabled_feature_sets: names or patterns that are taken away.
        ready: the initial policy exchange is complete (SPEC 5.3).

    Raises:
        InvalidValueError: a list is a bare string or has a member that is no string (``not_array``, ``not_string``).
    """

    effective_capabilities: tuple[str, ...] = ()
    enabled_feature_sets: tuple[str, ...] | None = None
    disabled_feature_sets: tuple[str, ...] = ()
    ready: bool = False
    _paths: frozenset[str] = field(init=False, repr=False, compare=False)
    _patterns: tuple[str, ...] = field(init=False, repr=False, compare=False)
    _enabled: _Names | None = field(init=False, repr=False, compare=False)
    _disabled: _Names = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        effective = each_string(self.effective_capabilities, "$.effective_capabilities")
        disabled = each_string(self.disabled_feature_sets, "$.disabled_feature_sets")
        enabled = self.enabled_feature_sets
        if enabled is not None:
            enabled = each_string(enabled, "$.enabled_feature_sets")
        for name, value in (
            ("effective_capabilities", effective),
            ("enabled_feature_sets", enabled),
            ("disabled_feature_sets", disabled),
            ("_paths", frozenset(effective)),
            ("_patterns", tuple(entry for entry in effective if "*" in entry)),
            ("_enabled", None if enabled is None else _Names.of(enabled)),
            ("_disabled", _Names.of(disabled)),
        ):
            object.__setattr__(self, name, value)

    def allows(self, path: str) -> bool:
        """Whether ``path`` is granted now. Before readiness nothing is."""
        return self.ready and self.covers(path)

    def covers(self, path: str) -> bool:
        """Whether an entry matches ``path``, as ``capability_granted`` says it, ready or not."""
        return isinstance(path, str) and (
            path in self._paths or any(capability_pattern_matches(pattern, path) for pattern in self._patterns)
        )

    def deselected(self, name: str) -> Literal["host_disabled", "not_selected"] | None:
        """Why the host's selection turns the feature set ``name`` off, or ``None`` when it does not."""
        if self._disabled.name(name):
            return "host_disabled"
        if self._enabled is not None and not self._enabled.name(name):
            return "not_selected"
        return None


@dataclass(frozen=True, slots=True)
class Malformed:
    """Why a peer's value could not be taken.

    Attributes:
        code: a stable word for the rule that was broken.
        path: where in the value, as ``$.a[0]``.
        detail: what is wrong there.
    """

    code: str
    path: str
    detail: str

    @classmethod
    def from_error(cls, error: InvalidValueError) -> Malformed:
        return cls(error.code, error.path, error.detail)

    def as_error(self) -> InvalidParams:
        """The answer to the Request that carried it: -32602 with ``data: {path}``."""
        return InvalidParams(message=f"Invalid params: {self.detail}", data={"path": self.path})


@dataclass(frozen=True, slots=True)
class UpdateOutcome:
    """What one ``featureSets/update`` led to.

    Attributes:
        state: the state from now on. After a Request that makes it ready, the receipt goes out first.
        malformed: why the message was refused, or ``None``. A Request is then answered with
            ``malformed.as_error()``; a Notification is only reported.
        conflicts: paths that a Request had in both lists.
        discarded: fields of a Notification that were ignored (SPEC 6.7); worth a diagnostic.
    """

    state: GrantState
    malformed: Malformed | None = None
    conflicts: tuple[str, ...] = ()
    discarded: tuple[str, ...] = ()


def grant_from_update(previous: GrantState | None, params: Any, form: UpdateForm) -> UpdateOutcome:
    """Apply one ``featureSets/update`` (SPEC 5.3, 6.7).

    A Request is the whole policy: it replaces everything. An absent ``effectiveCapabilities`` grants nothing;
    an absent ``enabled`` constrains nothing and a present one is an allowlist; ``disabled`` takes away. It
    makes the connection ready. A Request that is malformed (a wrong type anywhere in the four fields, or one
    string in both capability lists) grants nothing and is not ready; the selection stays as narrow as before.

    A Notification only adds its ``disabled`` to what is taken away. Its other fields are not read. It never
    makes ready, and one whose ``disabled`` is malformed changes nothing.

    Args:
        previous: the state before, ``None`` at the start of a connection.
        params: the plain JSON value as received; ``msgspec.UNSET`` when the message had none, which says no
            more than an empty object. Unknown members are ignored.
        form: how the message arrived.

    Raises:
        InvalidValueError: ``form`` is neither of the two (``form``).
    """
    state = previous if previous is not None else GrantState()
    tree = {} if params is msgspec.UNSET else params
    if form == "request":
        return _from_request(state, tree)
    if form == "notification":
        return _from_notification(state, tree)
    raise InvalidValueError("form", "expected request or notification")


def _from_request(state: GrantState, params: Any) -> UpdateOutcome:
    conflicts: tuple[str, ...] = ()
    try:
        tree = json_object(params)
        effective = _names(tree, _EFFECTIVE) or ()
        denied = _names(tree, _DENIED) or ()
        enabled, disabled = _names(tree, _ENABLED), _names(tree, _DISABLED) or ()
        conflicts = _in_both(effective, denied)
        if conflicts:
            where = at_index(at_key("$", _DENIED), tree[_DENIED].index(conflicts[0]))
            raise InvalidValueError("path_in_both_lists", f"{conflicts[0][:80]!r} is granted and denied", where)
    except InvalidValueError as error:
        nothing = replace(state, effective_capabilities=(), ready=False)
        return UpdateOutcome(nothing, Malformed.from_error(error), conflicts)
    return UpdateOutcome(GrantState(effective, enabled, disabled, ready=True))


def _from_notification(state: GrantState, params: Any) -> UpdateOutcome:
    try:
        tree = json_object(params)
        discarded = tuple(name for name in (_EFFECTIVE, _DENIED, _ENABLED) if name in tree)
    except InvalidValueError as error:
        return UpdateOutcome(state, Malformed.from_error(error))
    try:
        disabled = _names(tree, _DISABLED) or ()
    except InvalidValueError as error:
        return UpdateOutcome(state, Malformed.from_error(error), discarded=discarded)
    union = tuple(dict.fromkeys((*state.disabled_feature_sets, *disabled)))
    return UpdateOutcome(replace(state, disabled_feature_sets=union), discarded=discarded)


def _names(tree: dict[str, Any], name: str) -> tuple[str, ...] | None:
    """The member as strings without repetitions; ``None`` when it is absent (null is a wrong type)."""
    if name not in tree:
        return None
    return tuple(dict.fromkeys(string_list(tree[name], at_key("$", name))))


def _in_both(effective: tuple[str, ...], denied: tuple[str, ...]) -> tuple[str, ...]:
    """The same string in both lists. A pattern beside a path it matches is no conflict."""
    granted = frozenset(effective)
    return tuple(path for path in denied if path in granted)


@dataclass(frozen=True, slots=True)
class FeatureSetStatus:
    """One declared feature set under a grant (SPEC 6.4).

    Attributes:
        name: its name.
        uses: the declared paths, empty when the declaration is invalid.
        reason: why it is off, ``None`` when it is on.
        missing_capabilities: declared paths that are not granted, whatever the reason is.
        unrecognized: members of an invalid ``uses`` that are no usable paths, as received.
    """

    name: str
    uses: tuple[str, ...] = ()
    reason: DisabledReason | None = None
    missing_capabilities: tuple[str, ...] = ()
    unrecognized: tuple[Any, ...] = ()

    @property
    def enabled(self) -> bool:
        return self.reason is None


def derive_feature_sets(
    declared: Any, grant: GrantState, vocabulary: Vocabulary = VOCABULARY
) -> dict[str, FeatureSetStatus]:
    """The status of every declared feature set (SPEC 5.3, 6.4), in the order of declaration.

    Selecting a set supplies nothing that its ``uses`` lacks; a denied capability turns off every set that
    names it.

    Args:
        declared: the manifest's ``featureSets`` member as received. Anything but an object declares nothing, and
            neither does a member whose name is no string.
        grant: the state; before readiness nothing is granted.
    """
    if not isinstance(declared, dict):
        return {}
    return {name: _status(name, entry, grant, vocabulary) for name, entry in declared.items() if isinstance(name, str)}


def _status(name: str, declaration: Any, grant: GrantState, vocabulary: Vocabulary) -> FeatureSetStatus:
    check = validate_uses(declaration.get("uses") if isinstance(declaration, dict) else None, vocabulary)
    missing = tuple(path for path in check.uses if not grant.allows(path))
    reason: DisabledReason | None = check.reason or grant.deselected(name)
    if reason is None and missing:
        reason = "capability_denied"
    return FeatureSetStatus(name, check.uses, reason, missing, check.unrecognized)


def check_method(grant: GrantState, alternatives: Collection[str]) -> CapabilityDenied | None:
    """Whether a method may be sent or served now.

    Args:
        grant: the state at this moment; for a response's contributions, at its receipt (SPEC 5.4).
        alternatives: the paths of which one must be granted; empty when the method needs none.

    Returns:
        ``None``, or the error to answer with (SPEC 6.6). ``data.capability`` is the first alternative (of a
        set, the first in order), ``data.anyOf`` all of them when there are several, and ``data.reason`` is
        ``not_ready`` before the initial policy exchange is complete (SPEC 5.3).

    Raises:
        InvalidValueError: ``alternatives`` is a bare string or no collection (``not_array``), or holds something else
            than strings (``not_string``), unless it is a frozen set with a path that is granted.
    """
    # Every message asks, most often with the frozen set of a row, and for a path that the grant has as it stands.
    if type(alternatives) is frozenset and grant.ready and not grant._paths.isdisjoint(alternatives):
        return None
    paths = _ordered(alternatives)
    if not paths or any(grant.allows(path) for path in paths):
        return None
    return CapabilityDenied(data=_denial(paths) | ({} if grant.ready else {"reason": "not_ready"}))


def check_feature_set(
    statuses: Mapping[str, FeatureSetStatus], name: Any, alternatives: Collection[str]
) -> RpcError | None:
    """Whether a message that names the feature set ``name`` may stand (SPEC 6.4, 6.6), after ``check_method``.

    Args:
        statuses: from ``derive_feature_sets``.
        name: as the message says it, whatever its type.
        alternatives: what the method exercises; one of them must be in the set's ``uses``.

    Returns:
        ``None``; -32003 for an undeclared set; -32001 for one that is off; -32002 with ``data.reason``
        ``declaration_mismatch`` when its ``uses`` names none of ``alternatives``.

    Raises:
        InvalidValueError: as for ``check_method``.
    """
    status = statuses.get(name) if isinstance(name, str) else None
    if status is None:
        return UnknownFeatureSet(data={"featureSet": name})
    if not status.enabled:
        return FeatureSetNotEnabled(data={"featureSet": name, "reason": status.reason})
    if type(alternatives) is frozenset and not alternatives.isdisjoint(status.uses):  # as in `check_method`
        return None
    paths = _ordered(alternatives)
    if not paths or any(path in status.uses for path in paths):
        return None
    return CapabilityDenied(data=_denial(paths) | {"reason": "declaration_mismatch", "featureSet": name})


def _ordered(alternatives: Collection[str]) -> tuple[str, ...]:
    if isinstance(alternatives, tuple):  # as the method table has them
        return alternatives
    paths = each_string(alternatives, "$.alternatives")
    # A set has no order of its own; an answer must not differ from one process to the next.
    return tuple(sorted(paths)) if isinstance(alternatives, set | frozenset) else paths


def _denial(paths: tuple[str, ...]) -> dict[str, Any]:
    data: dict[str, Any] = {"capability": paths[0]}
    return data | ({"anyOf": list(paths)} if len(paths) > 1 else {})
