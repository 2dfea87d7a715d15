"""The answer to ``featureSets/update``: what a server says it will do under a grant (SPEC 6.7).

Owns: building that answer on the server's side, its wire form, and reading one on the host's side. Does not
own: what a host does with it (``negotiation``); a receipt is testimony, and no field of it reaches a grant.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from mcpl_core.capabilities import VOCABULARY, Vocabulary
from mcpl_core.errors import InvalidValueError
from mcpl_core.grants import GrantState, Malformed, derive_feature_sets
from mcpl_core.trees import at_index, at_key, each_string, json_object, string_list, string_value

__all__ = (
    "AcceptedReceipt",
    "Fallback",
    "Receipt",
    "RefusedReceipt",
    "UnavailableFeature",
    "degradation_receipt",
    "read_receipt",
    "refusal",
)

#: What a server that refuses becomes: a plain MCP server, or gone.
Fallback = Literal["mcp-only", "close"]
_FALLBACKS: dict[str, Fallback] = {"mcp-only": "mcp-only", "close": "close"}


@dataclass(frozen=True, slots=True)
class UnavailableFeature:
    """A feature set that the server will not provide as declared.

    Attributes:
        feature_set: its name.
        missing_capabilities: what it lacks.
        effect: what becomes of it, for example ``disabled``.
        reason: ``invalid_uses`` when the declaration itself is at fault, else ``None``.
    """

    feature_set: str
    missing_capabilities: tuple[str, ...] = ()
    effect: str = "disabled"
    reason: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """The JSON object."""
        wire: dict[str, Any] = {
            "featureSet": self.feature_set,
            "missingCapabilities": list(self.missing_capabilities),
            "effect": self.effect,
        }
        return wire if self.reason is None else wire | {"reason": self.reason}


@dataclass(frozen=True, slots=True)
class AcceptedReceipt:
    """The server works under the grant, perhaps with less.

    Attributes:
        unavailable_features: what it will not provide.
        mode: ``degraded``, or ``None`` when nothing degraded (the member is then absent).
        notes: for people.
    """

    unavailable_features: tuple[UnavailableFeature, ...] = ()
    mode: str | None = None
    notes: tuple[str, ...] = ()

    def to_wire(self) -> dict[str, Any]:
        """The JSON object; what is empty is left out."""
        wire: dict[str, Any] = {"accepted": True}
        if self.mode is not None:
            wire["mode"] = self.mode
        if self.unavailable_features:
            wire["unavailableFeatures"] = [feature.to_wire() for feature in self.unavailable_features]
        if self.notes:
            wire["notes"] = list(self.notes)
        return wire


@dataclass(frozen=True, slots=True)
class RefusedReceipt:
    """The server does not work under the grant.

    Attributes:
        fallback: what it becomes instead. Always present.
        missing_capabilities: what it would have needed; a statement, never a request.
        reason: for people, ``None`` when absent.
    """

    fallback: Fallback
    missing_capabilities: tuple[str, ...] = ()
    reason: str | None = None

    def to_wire(self) -> dict[str, Any]:
        """The JSON object; what is empty is left out, ``fallback`` never."""
        wire: dict[str, Any] = {"accepted": False, "fallback": self.fallback}
        if self.missing_capabilities:
            wire["missingCapabilities"] = list(self.missing_capabilities)
        if self.reason is not None:
            wire["reason"] = self.reason
        return wire


Receipt = AcceptedReceipt | RefusedReceipt


def degradation_receipt(
    declared: Any,
    grant: GrantState,
    *,
    effects: Mapping[str, str] | None = None,
    further: Iterable[UnavailableFeature] = (),
    notes: Iterable[str] = (),
    vocabulary: Vocabulary = VOCABULARY,
) -> AcceptedReceipt:
    """The receipt that follows from a declaration and a grant.

    A feature set is unavailable when its declaration is invalid or a path that it names is not granted. One
    that the host alone deselected lacks nothing and is not listed: the host knows its own choice.

    Args:
        declared: the manifest's ``featureSets`` member.
        grant: the state after the update, ``UpdateOutcome.state``.
        effects: another effect than ``disabled`` for some sets, by name.
        further: what the server knows of itself beyond the derivation (SPEC 6.4); an entry for a set that is
            listed already replaces that one.
        notes: for people.

    Raises:
        InvalidValueError: ``notes`` is a bare string, or holds something else than strings (``not_array``,
            ``not_string``).
    """
    listed = {
        status.name: UnavailableFeature(
            status.name,
            status.missing_capabilities,
            (effects or {}).get(status.name, "disabled"),
            "invalid_uses" if status.reason == "invalid_uses" else None,
        )
        for status in derive_feature_sets(declared, grant, vocabulary).values()
        if status.missing_capabilities or status.reason == "invalid_uses"
    }
    listed.update((feature.feature_set, feature) for feature in further)
    return AcceptedReceipt(tuple(listed.values()), "degraded" if listed else None, each_string(notes, "$.notes"))


def refusal(
    fallback: Fallback, *, missing_capabilities: Iterable[str] = (), reason: str | None = None
) -> RefusedReceipt:
    """A refusal, which always names what the server becomes (SPEC 6.7).

    Raises:
        InvalidValueError: ``fallback`` is neither ``mcp-only`` nor ``close`` (``fallback``), or the paths are a bare
            string or something else than strings (``not_array``, ``not_string``).
    """
    missing = each_string(missing_capabilities, "$.missing_capabilities")
    return RefusedReceipt(_fallback(fallback, "$.fallback"), missing, reason)


def read_receipt(result: Any) -> Receipt | Malformed:
    """Read the result of ``featureSets/update`` as a peer sent it.

    Malformed: no object; ``accepted`` is no boolean; a refusal without a known ``fallback``; an unavailable
    feature without ``featureSet`` or ``effect``; or a member that SPEC 6.7 names and that has another type,
    null included. Unknown members are ignored.

    Args:
        result: the plain JSON value.
    """
    try:
        tree = json_object(result)
        accepted = tree.get("accepted")
        if not isinstance(accepted, bool):
            raise InvalidValueError("accepted", "expected true or false", "$.accepted")
        return _accepted(tree) if accepted else _refused(tree)
    except InvalidValueError as error:
        return Malformed.from_error(error)


def _accepted(tree: dict[str, Any]) -> AcceptedReceipt:
    features = tree.get("unavailableFeatures", [])
    if not isinstance(features, list):
        raise InvalidValueError("not_array", "expected an array", "$.unavailableFeatures")
    return AcceptedReceipt(
        tuple(_unavailable(entry, at_index("$.unavailableFeatures", i)) for i, entry in enumerate(features)),
        _text(tree, "mode", "$"),
        _texts(tree, "notes", "$"),
    )


def _unavailable(entry: Any, path: str) -> UnavailableFeature:
    tree = json_object(entry, path)
    return UnavailableFeature(
        string_value(tree.get("featureSet"), at_key(path, "featureSet")),
        _texts(tree, "missingCapabilities", path),
        string_value(tree.get("effect"), at_key(path, "effect")),
        _text(tree, "reason", path),
    )


def _refused(tree: dict[str, Any]) -> RefusedReceipt:
    fallback = _fallback(tree.get("fallback"), "$.fallback")
    return RefusedReceipt(fallback, _texts(tree, "missingCapabilities", "$"), _text(tree, "reason", "$"))


def _fallback(value: Any, path: str) -> Fallback:
    fallback = _FALLBACKS.get(value) if isinstance(value, str) else None
    if fallback is None:
        raise InvalidValueError("fallback", "a refusal names mcp-only or close", path)
    return fallback


def _text(tree: dict[str, Any], name: str, path: str) -> str | None:
    return string_value(tree[name], at_key(path, name)) if name in tree else None


def _texts(tree: dict[str, Any], name: str, path: str) -> tuple[str, ...]:
    return string_list(tree.get(name, []), at_key(path, name))
