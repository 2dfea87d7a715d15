"""What a producer declares about its tags, and the act of accepting it (SPEC 16.4, 16.5).

Owns: reading a ``tagOntology``, the record of acceptances, and what an acceptance brings into force. Does not
own: the digest of an ontology (``manifest``), closure (``tags``) and rules (``treatment``), or asking anybody.

A declaration does nothing by itself. Its ``implies`` edges and suggested treatments leave this module only
through an ``Acceptance``, which names who accepted which digest, holds for that producer's events alone, and
can be taken back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeVar

import msgspec

from mcpl_core.errors import InvalidValueError
from mcpl_core.tags import CHAT_TAGS, ImplicationEdge, Tag, is_reserved, parse_tag, read_tags
from mcpl_core.treatment import Behavior, RuleOrigin, TreatmentRule, parse_behavior, parse_rules
from mcpl_core.trees import at_index, at_key, json_object, string_list, string_value

__all__ = (
    "Acceptance",
    "Acceptances",
    "KeyedFamily",
    "OntologyProblem",
    "OntologyReading",
    "Stability",
    "TagDescriptor",
    "TagOntology",
    "parse_ontology",
)

Stability = Literal["stable", "experimental", "deprecated"]
_STABILITIES: dict[str, Stability] = {
    "stable": "stable",
    "experimental": "experimental",
    "deprecated": "deprecated",
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class TagDescriptor:
    """What a producer says about one of its tags. All of it is a hint.

    Attributes:
        tag: the tag.
        desc: for people and models, ``None`` when absent.
        facet: a group, of the spec's (``addressing``, ``sender``, ``content``, ``lifecycle``, ``locus``) or
            the producer's own.
        implies: tags that it would add, once accepted.
        suggested_treatment: a behaviour that it would get, once accepted.
        stability: ``stable`` unless said otherwise.
    """

    tag: str
    desc: str | None = None
    facet: str | None = None
    implies: tuple[str, ...] = ()
    suggested_treatment: Behavior | None = None
    stability: Stability = "stable"


@dataclass(frozen=True, slots=True)
class KeyedFamily:
    """A family of tags with one key, as ``urgency:high`` or ``ns:urgency=high``.

    Attributes:
        key: the key.
        desc: for people and models, ``None`` when absent.
        values: suggested values, in their order.
        ordered: the order has a meaning, for this producer only.
    """

    key: str
    desc: str | None = None
    values: tuple[str, ...] = ()
    ordered: bool = False


@dataclass(frozen=True, slots=True)
class TagOntology:
    """A producer's catalogue of tags: open-world, inspectable, without effect.

    Attributes:
        core_tags: the reserved tags that it emits.
        tags: its own, in order.
        keyed: its families, in order.
        suggested_treatment: rules that it suggests, in order.
        open: it may emit further tags.
    """

    core_tags: tuple[str, ...] = ()
    tags: tuple[TagDescriptor, ...] = ()
    keyed: tuple[KeyedFamily, ...] = ()
    suggested_treatment: tuple[TreatmentRule, ...] = ()
    open: bool = False

    def declares(self, tag: str) -> bool:
        """Whether ``tag`` is described here. An undescribed tag is still a tag (SPEC 16.4)."""
        if tag in self.core_tags or any(descriptor.tag == tag for descriptor in self.tags):
            return True
        if not read_tags([tag]).tags:
            return False
        parsed = parse_tag(tag)
        return any(family.key in (parsed.key, parsed.namespace) for family in self.keyed)


@dataclass(frozen=True, slots=True)
class OntologyProblem:
    """A part of an ontology that could not be taken.

    Attributes:
        code: a stable word for the rule that was broken; ``deprecated_alias`` is only a remark.
        path: where, ``$`` being the ``tagOntology`` member.
        detail: what is wrong there.
    """

    code: str
    path: str
    detail: str


@dataclass(frozen=True, slots=True)
class OntologyReading:
    """What ``parse_ontology`` took and what it left."""

    ontology: TagOntology
    problems: tuple[OntologyProblem, ...] = ()


def parse_ontology(value: Any) -> OntologyReading:
    """Read a ``tagOntology`` member, part by part: a bad part costs that part.

    A part is a descriptor's field, a family, or a whole rule list (one missing rule would change the others).
    ``defaultTreatment`` is read as ``suggestedTreatment``, of which it is the older name.

    Args:
        value: the member as received, ``msgspec.UNSET`` when it is absent; null is a wrong type.
    """
    problems: list[OntologyProblem] = []
    reader = _Reader(problems)
    empty: dict[str, Any] = {}
    tree = empty if value is msgspec.UNSET else reader.take(json_object, value, "$", empty)
    tags = reader.field(tree, "tags", "$", json_object, empty)
    keyed = reader.field(tree, "keyed", "$", json_object, empty)
    ontology = TagOntology(
        reader.core_tags(reader.field(tree, "coreTags", "$", string_list, ())),
        tuple(d for name, entry in tags.items() if (d := reader.descriptor(name, entry)) is not None),
        tuple(f for name, entry in keyed.items() if (f := reader.family(name, entry)) is not None),
        reader.suggestion(tree, "$", parse_rules, ()),
        reader.field(tree, "open", "$", _boolean, False),
    )
    return OntologyReading(ontology, tuple(problems))


@dataclass(slots=True)
class _Reader:
    """Reads parts and notes what it could not read."""

    problems: list[OntologyProblem]

    def note(self, code: str, path: str, detail: str) -> None:
        self.problems.append(OntologyProblem(code, path, detail))

    def take(self, parse: Callable[[Any, str], T], value: Any, path: str, default: T) -> T:
        try:
            return parse(value, path)
        except InvalidValueError as error:
            self.note(error.code, error.path, error.detail)
            return default

    def field(self, tree: dict[str, Any], name: str, path: str, parse: Callable[[Any, str], T], default: T) -> T:
        return self.take(parse, tree[name], at_key(path, name), default) if name in tree else default

    def suggestion(self, tree: dict[str, Any], path: str, parse: Callable[[Any, str], T], default: T) -> T:
        name = "suggestedTreatment"
        if "defaultTreatment" in tree:
            self.note("deprecated_alias", at_key(path, "defaultTreatment"), f"the name is {name}")
            name = name if name in tree else "defaultTreatment"
        return self.field(tree, name, path, parse, default)

    def core_tags(self, entries: tuple[str, ...]) -> tuple[str, ...]:
        for index, tag in enumerate(entries):
            if tag not in CHAT_TAGS:
                self.note("not_core_tag", at_index("$.coreTags", index), "not in the reserved vocabulary")
        return tuple(dict.fromkeys(tag for tag in entries if tag in CHAT_TAGS))

    def descriptor(self, name: str, entry: Any) -> TagDescriptor | None:
        path = at_key("$.tags", name)
        tree = self.take(_entry, entry, path, None)
        if self.take(_tag, name, path, None) is None or tree is None:
            return None
        none: tuple[str, ...] = ()
        implies = self.field(tree, "implies", path, _tag_list, none)
        if implies and is_reserved(name):
            # Whoever could add edges to a reserved tag would redefine it for every rule that names it.
            self.note("reserved_tag", at_key(path, "implies"), "the spec alone says what this tag implies")
            implies = ()
        return TagDescriptor(
            name,
            self.field(tree, "desc", path, _text, None),
            self.field(tree, "facet", path, _text, None),
            implies,
            self.suggestion(tree, path, _behavior, None),
            self.field(tree, "stability", path, _stability, "stable"),
        )

    def family(self, name: str, entry: Any) -> KeyedFamily | None:
        path = at_key("$.keyed", name)
        tree = self.take(_entry, entry, path, None)
        if tree is None:
            return None
        return KeyedFamily(
            name,
            self.field(tree, "desc", path, _text, None),
            self.field(tree, "values", path, string_list, ()),
            self.field(tree, "ordered", path, _boolean, False),
        )


# The readers below give an optional type, so that None can be the default of a part that is left out.


def _entry(value: Any, path: str) -> dict[str, Any] | None:
    return json_object(value, path)


def _tag(value: Any, path: str) -> Tag | None:
    return parse_tag(value, path)


def _boolean(value: Any, path: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidValueError("not_boolean", "expected true or false", path)
    return value


def _text(value: Any, path: str) -> str | None:
    return string_value(value, path)


def _behavior(value: Any, path: str) -> Behavior | None:
    return parse_behavior(value, path)


def _stability(value: Any, path: str) -> Stability:
    stability = _STABILITIES.get(string_value(value, path))
    if stability is None:
        raise InvalidValueError("stability", "expected stable, experimental or deprecated", path)
    return stability


def _tag_list(value: Any, path: str) -> tuple[str, ...]:
    tags = string_list(value, path)
    for index, tag in enumerate(tags):
        parse_tag(tag, at_index(path, index))
    return tuple(dict.fromkeys(tags))


@dataclass(frozen=True, slots=True)
class Acceptance:
    """One explicit decision to let a producer's ontology have effect (SPEC 16.5).

    Attributes:
        server: the producer, as the host names it.
        feature_set: the feature set that declared the ontology.
        digest: of the ontology that was accepted.
        accepted_by: who decided.
        ontology: what was accepted.
        accepted_at: when, in the host's own notation, ``None`` when it keeps none.
        implies: its edges are in force.
        treatment: its suggested treatments are in force.

    Raises:
        InvalidValueError: nobody is named (``accepted_by``).
    """

    server: str
    feature_set: str
    digest: str
    accepted_by: str
    ontology: TagOntology
    accepted_at: str | None = None
    implies: bool = True
    treatment: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.accepted_by, str) or not self.accepted_by:
            raise InvalidValueError("accepted_by", "an acceptance names who decided", "$.accepted_by")

    def edges(self) -> tuple[ImplicationEdge, ...]:
        """The edges in force."""
        return tuple(
            ImplicationEdge(descriptor.tag, descriptor.implies)
            for descriptor in self.ontology.tags
            if self.implies and descriptor.implies
        )

    def rules(self) -> tuple[TreatmentRule, ...]:
        """The rules in force, each with its origin: the suggested list, then one for each tag that has one."""
        if not self.treatment:
            return ()
        origin = RuleOrigin(self.server, self.feature_set, self.digest, self.accepted_by)
        single = (
            TreatmentRule(descriptor.suggested_treatment, tags_any=(descriptor.tag,))
            for descriptor in self.ontology.tags
            if descriptor.suggested_treatment is not None
        )
        return tuple(replace(rule, origin=origin) for rule in (*self.ontology.suggested_treatment, *single))


@dataclass(frozen=True, slots=True)
class Acceptances:
    """The acceptances in force. Immutable: each change returns another record.

    Attributes:
        entries: at most one for each server and feature set, in order of acceptance.

    Raises:
        InvalidValueError: there are two for one feature set (``duplicate_acceptance``).
    """

    entries: tuple[Acceptance, ...] = ()
    # Made once: both are asked for with each event.
    _edges: Mapping[str, Mapping[str, tuple[ImplicationEdge, ...]]] = field(init=False, repr=False, compare=False)
    _rules: tuple[TreatmentRule, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        edges: dict[str, dict[str, tuple[ImplicationEdge, ...]]] = {}
        for index, entry in enumerate(self.entries):
            of_server = edges.setdefault(entry.server, {})
            if entry.feature_set in of_server:
                raise InvalidValueError("duplicate_acceptance", "accepted twice", at_index("$.entries", index))
            of_server[entry.feature_set] = entry.edges()
        object.__setattr__(self, "entries", tuple(self.entries))
        object.__setattr__(self, "_edges", edges)
        object.__setattr__(self, "_rules", tuple(rule for entry in self.entries for rule in entry.rules()))

    def accept(self, acceptance: Acceptance, *, current_digest: str) -> Acceptances:
        """Add an acceptance; it replaces one for the same server and feature set.

        Args:
            acceptance: the decision.
            current_digest: the digest of what the server declares now.

        Raises:
            InvalidValueError: the declaration is not the one that was decided on (``ontology_changed``).
        """
        if acceptance.digest != current_digest:
            raise InvalidValueError("ontology_changed", "the declaration is another one by now", "$.digest")
        kept = self.revoke(acceptance.server, acceptance.feature_set).entries
        return Acceptances((*kept, acceptance))

    def revoke(self, server: str, feature_set: str | None = None) -> Acceptances:
        """Take back what was accepted of a server, or of one of its feature sets. Nothing there: no change."""
        return Acceptances(tuple(e for e in self.entries if not _concerns(e, server, feature_set)))

    def revalidate(self, server: str, digests: Mapping[str, str]) -> tuple[Acceptances, tuple[Acceptance, ...]]:
        """Drop what no longer fits a server's manifest (SPEC 17.5).

        Args:
            server: the producer.
            digests: the digest of each ontology that it declares now, by feature set.

        Returns:
            The record from now on, and the acceptances that were dropped.
        """
        kept: list[Acceptance] = []
        dropped: list[Acceptance] = []
        for entry in self.entries:
            stands = entry.server != server or digests.get(entry.feature_set) == entry.digest
            (kept if stands else dropped).append(entry)
        return (Acceptances(tuple(kept)) if dropped else self), tuple(dropped)

    def edges(self, server: str, feature_set: str | None = None) -> tuple[ImplicationEdge, ...]:
        """The accepted edges for one event, for ``expand_tags``.

        Args:
            server: the producer of the event.
            feature_set: the event's own; ``None`` for a channel message, which carries none.
        """
        accepted = self._edges.get(server, {})
        if feature_set is not None:
            return accepted.get(feature_set, ())
        return tuple(edge for edges in accepted.values() for edge in edges)

    def rules(self) -> tuple[TreatmentRule, ...]:
        """Every accepted rule, to stand after the consumer's own. Each matches its producer's events alone."""
        return self._rules


def _concerns(entry: Acceptance, server: str, feature_set: str | None) -> bool:
    return entry.server == server and feature_set in (None, entry.feature_set)
