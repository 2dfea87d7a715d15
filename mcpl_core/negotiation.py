"""The host's side of a grant: computing one, changing one, and what an answer makes of it (SPEC 5.4, 6.7).

Owns: the effective grant of an advertisement and a policy, the params that carry it, the split of a change
into what holds at once and what waits for the receipt, and the consequence of the receipt. Does not own:
sending, waiting, or serialising changes (the host runtime), and reading a receipt (``receipts``).

Taking away never waits for the peer; giving always does (SPEC 6.7). No function here takes a path or a name
from a receipt.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Any, Literal

from mcpl_core.capabilities import VOCABULARY, Vocabulary, capability_granted
from mcpl_core.errors import InvalidValueError
from mcpl_core.grants import GrantState, Malformed, feature_set_name_matches, is_name_pattern
from mcpl_core.receipts import AcceptedReceipt, Receipt, RefusedReceipt
from mcpl_core.trees import at_index, each_string

__all__ = (
    "PolicyChange",
    "ServerMode",
    "Settlement",
    "concrete_names",
    "effective_grant",
    "ineffective_patterns",
    "intersect_grants",
    "plan_change",
    "policy_params",
    "settle",
)

#: What a server is to the host after an exchange: a full peer, a plain MCP server, or to be closed.
ServerMode = Literal["mcpl", "mcp-only", "close"]


def effective_grant(
    advertised: Iterable[str],
    allow: Iterable[str],
    deny: Iterable[str] = (),
    vocabulary: Vocabulary = VOCABULARY,
) -> tuple[str, ...]:
    """The paths that a server may use: its advertisement, narrowed by policy (SPEC 5.4).

    Args:
        advertised: from ``advertised_capabilities_from_initialize``.
        allow: paths and ``*`` patterns. A path that is denied by default needs an entry equal to it.
        deny: paths and patterns that win over ``allow``.
        vocabulary: advertised paths outside it are dropped.

    Returns:
        Concrete paths, sorted.

    Raises:
        InvalidValueError: a list of patterns is a bare string or holds something else (``not_array``,
            ``not_string``).
    """
    allowed, denied = each_string(allow, "$.allow"), each_string(deny, "$.deny")
    return tuple(
        sorted(
            path
            for path in frozenset(each_string(advertised, "$.advertised"))
            if path in vocabulary and _policy_grants(allowed, path, vocabulary) and not capability_granted(denied, path)
        )
    )


def ineffective_patterns(
    allow: Iterable[str], deny: Iterable[str] = (), vocabulary: Vocabulary = VOCABULARY
) -> tuple[str, ...]:
    """The entries of a policy that can never grant or deny anything: most often a slip of the pen.

    ``channels`` (a parent), ``channels.**`` and ``contextHooks.*`` are such entries, and so is an ``allow``
    pattern that reaches only paths which are denied by default.

    Raises:
        InvalidValueError: as for ``effective_grant``.
    """
    return tuple(
        pattern
        for pattern in each_string(allow, "$.allow")
        if not any(_policy_grants((pattern,), path, vocabulary) for path in vocabulary)
    ) + tuple(
        pattern
        for pattern in each_string(deny, "$.deny")
        if not any(capability_granted((pattern,), path) for path in vocabulary)
    )


def _policy_grants(allow: tuple[str, ...], path: str, vocabulary: Vocabulary) -> bool:
    if vocabulary.denied_by_default(path):
        return path in allow
    return capability_granted(allow, path)


def concrete_names(patterns: Iterable[str], declared: Iterable[str]) -> tuple[str, ...]:
    """Feature-set names for the wire: each pattern replaced by the declared names that it matches.

    A server need not understand wildcards (SPEC 6.3), and one that does not would leave a set on that
    ``memory.*`` meant to turn off. A plain name stays, declared or not.

    Returns:
        Names, sorted, without repetitions.

    Raises:
        InvalidValueError: as for ``effective_grant``.
    """
    names = each_string(declared, "$.declared")
    chosen: set[str] = set()
    for pattern in each_string(patterns, "$.patterns"):
        wild = is_name_pattern(pattern)
        chosen.update((n for n in names if feature_set_name_matches(pattern, n)) if wild else (pattern,))
    return tuple(sorted(chosen))


def policy_params(grant: GrantState, advertised: Iterable[str] = ()) -> dict[str, Any]:
    """The params of ``featureSets/update`` that carry ``grant`` (SPEC 5.3).

    Args:
        grant: the state to propose.
        advertised: when given, the advertised paths outside the grant are named in ``deniedCapabilities``,
            which is for diagnostics only.

    Returns:
        A JSON object with sorted lists. ``effectiveCapabilities`` is always there; ``enabled`` when there is
        an allowlist, even an empty one; the other two when they are not empty.

    Raises:
        InvalidValueError: the grant has a pattern instead of a path (``pattern_on_wire``), or as for
            ``effective_grant``.
    """
    for index, path in enumerate(grant.effective_capabilities):
        if "*" in path:
            where = at_index("$.effective_capabilities", index)
            raise InvalidValueError("pattern_on_wire", f"{path[:80]!r} is no concrete path", where)
    params: dict[str, Any] = {"effectiveCapabilities": sorted(grant.effective_capabilities)}
    denied = sorted(frozenset(each_string(advertised, "$.advertised")).difference(grant.effective_capabilities))
    if denied:
        params["deniedCapabilities"] = denied
    if grant.enabled_feature_sets is not None:
        params["enabled"] = sorted(grant.enabled_feature_sets)
    if grant.disabled_feature_sets:
        params["disabled"] = sorted(grant.disabled_feature_sets)
    return params


def intersect_grants(one: GrantState, other: GrantState) -> GrantState:
    """What both states allow, and nothing else: paths, selection and readiness."""
    return GrantState(
        _common(one.effective_capabilities, other.effective_capabilities, _is_path_pattern, _narrower_path),
        _both_selected(one.enabled_feature_sets, other.enabled_feature_sets),
        tuple(dict.fromkeys((*one.disabled_feature_sets, *other.disabled_feature_sets))),
        one.ready and other.ready,
    )


def _both_selected(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if one is None or other is None:
        return other if one is None else one
    return _common(one, other, is_name_pattern, _narrower_name)


def _common(
    one: tuple[str, ...],
    other: tuple[str, ...],
    is_pattern: Callable[[str], bool],
    narrower: Callable[[str, str], str | None],
) -> tuple[str, ...]:
    """What both lists match. Two entries that are no patterns have nothing in common unless they are equal, so that
    only patterns are compared one by one: a server may declare many names."""
    shared = frozenset(one).intersection(other)
    found = [entry for entry in one if entry in shared]
    for entries, others in ((one, other), (other, one)):
        patterns = [entry for entry in others if is_pattern(entry)]
        alone = [entry for entry in entries if entry not in shared]
        found += [common for a in alone for b in patterns if (common := narrower(a, b)) is not None]
    return tuple(dict.fromkeys(found))


def _is_path_pattern(entry: str) -> bool:
    return "*" in entry


def _narrower_path(a: str, b: str) -> str | None:
    """The pattern that matches exactly what both match, or ``None`` when nothing is matched by both."""
    left, right = a.split("."), b.split(".")
    if len(left) != len(right):
        return None
    segments = [y if x == "*" else x for x, y in zip(left, right, strict=True)]
    same = all(x == y or "*" in (x, y) for x, y in zip(left, right, strict=True))
    return ".".join(segments) if same and "" not in segments else None


def _narrower_name(a: str, b: str) -> str | None:
    # Two name patterns are nested or disjoint, because each is a prefix. When it is the other that is the narrower one,
    # the comparison the other way round finds it.
    return a if feature_set_name_matches(b, a) else None


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """A policy change, split by SPEC 6.7.

    Attributes:
        in_force: what holds from this moment, before the Request is sent: what old and new both allow.
        proposed: what the Request carries, and what holds once the server accepted it.
        initial: this is the first exchange of the connection; nothing is in force before its receipt.
        reduced: entries of the old grant that are gone now.
        expanded: entries of the new grant that wait for the receipt.
        needed: there is something to tell the server.
    """

    in_force: GrantState
    proposed: GrantState
    initial: bool
    reduced: tuple[str, ...]
    expanded: tuple[str, ...]
    needed: bool


def plan_change(current: GrantState, proposed: GrantState) -> PolicyChange:
    """Split the change from ``current`` to ``proposed`` into reduction and expansion.

    Args:
        current: the state in force; a state that is not ready makes this the initial policy, which is sent
            even when it grants nothing (SPEC 5.3).
        proposed: the new policy as a whole. Its ``ready`` is ignored: only a receipt makes ready.
    """
    target = replace(proposed, ready=True)
    in_force = intersect_grants(current, target)
    return PolicyChange(
        in_force,
        target,
        initial=not current.ready,
        reduced=tuple(path for path in current.effective_capabilities if not in_force.covers(path)),
        expanded=tuple(path for path in target.effective_capabilities if not in_force.covers(path)),
        needed=_meaning(current) != _meaning(target),
    )


def _meaning(state: GrantState) -> tuple[bool, frozenset[str], frozenset[str] | None, frozenset[str]]:
    """A state without the order of its lists."""
    enabled = state.enabled_feature_sets
    return (
        state.ready,
        frozenset(state.effective_capabilities),
        None if enabled is None else frozenset(enabled),
        frozenset(state.disabled_feature_sets),
    )


@dataclass(frozen=True, slots=True)
class Settlement:
    """What holds after an exchange.

    Attributes:
        grant: the state in force.
        mode: what the server is to the host. In ``mcp-only`` its tools work without a grant (SPEC 3.2).
    """

    grant: GrantState
    mode: ServerMode


def settle(change: PolicyChange, answer: Receipt | Malformed | None, limit: GrantState | None = None) -> Settlement:
    """What the answer to a policy Request leads to (SPEC 6.7).

    Accepted: the proposed state, exactly as it was proposed. Refused: no grant, and the server's own
    fallback. No answer, an error or a malformed receipt: a plain MCP server after the first policy; later the
    reduced grant stays.

    Args:
        change: what was sent.
        answer: from ``read_receipt``; ``None`` for an error or no answer in time.
        limit: the policy wanted by now, when it changed while the answer was awaited. A reduction that came
            in between stands: nothing outside ``limit`` comes into force.
    """
    if isinstance(answer, RefusedReceipt):
        return Settlement(GrantState(), answer.fallback)
    accepted = isinstance(answer, AcceptedReceipt)
    if change.initial and not accepted:
        return Settlement(GrantState(), "mcp-only")
    grant = change.proposed if accepted else change.in_force
    if limit is not None:
        grant = intersect_grants(grant, replace(limit, ready=True))
    return Settlement(grant, "mcpl")
