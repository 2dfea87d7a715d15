"""What a changed manifest means for a host that has granted something (SPEC 17.5, 17.6).

Owns: the grant that is left, the impacts with their dispositions, and the degradation to remember. Does not
own: fetching, sending the policy that follows, writing the receipt for a resident, or waking one (the host).

Everything here is the host's own comparison. No member of a manifest says what a change means, nothing is
widened, and nothing is written in prose: an impact names its kind and its subject.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from mcpl_core.capabilities import VOCABULARY, Vocabulary, capability_pattern_matches
from mcpl_core.errors import InvalidValueError
from mcpl_core.grants import FeatureSetStatus, GrantState, derive_feature_sets
from mcpl_core.protocol.manifest import CHANGE_DOMAINS, ChangeDisposition, ChangeDomain, ChangeImpact
from mcpl_core.tags import glob_matches, read_tags

from .diff import changed_domains
from .validate import ManifestReading

__all__ = ("DISPOSITIONS", "HostFacts", "Impact", "ManifestChange", "assess_change")

#: Every impact, in the order of SPEC 17.6, and its disposition: done already, waiting for somebody's decision,
#: or only worth knowing.
DISPOSITIONS: Mapping[ChangeImpact, ChangeDisposition] = MappingProxyType(
    {
        "capability-revoked": "applied",
        "capability-expansion-pending": "decision-needed",
        "feature-degraded": "applied",
        "feature-restored": "applied",
        "ontology-acceptance-invalidated": "applied",
        "ontology-reference-undeclared": "informational",
        "surface-changed": "informational",
    }
)

#: Beyond it the return of a feature set is not told as a restoration.
_MAX_REMEMBERED = 1_024


@dataclass(frozen=True, slots=True)
class Impact:
    """One line of a change receipt.

    Attributes:
        impact: its kind.
        disposition: what became of it.
        subject: the capability path, feature set, tag or tag pattern, or surface that it is about.
    """

    impact: ChangeImpact
    disposition: ChangeDisposition
    subject: str


@dataclass(frozen=True, slots=True)
class HostFacts:
    """What the host knows about one connection when a manifest changes.

    Attributes:
        grant: the policy in force.
        degraded: feature sets that earlier changes turned off (``ManifestChange.degraded`` of the last one).
        accepted_ontologies: the digest of each ontology that was accepted of this server, by feature set.
        referenced_tags: tags and tag patterns in the consumer's rules for this server's events.
        surfaces: what MCP's and MCPL's own notifications reported since, to be told in the same receipt:
            ``tools``, ``resources``, ``prompts``, ``channels`` (SPEC 17.7).
    """

    grant: GrantState = field(default_factory=GrantState)
    degraded: Collection[str] = ()
    accepted_ontologies: Mapping[str, str] = field(default_factory=dict)
    referenced_tags: Collection[str] = ()
    surfaces: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class ManifestChange:
    """What follows from one change. One receipt is written from it (SPEC 17.5).

    Attributes:
        domains: in which the manifests differ; all of them when one of the two has no canonical form.
        grant: what is left, in force at once; it never allows more than before.
        revoked: paths that the grant lost.
        pending: paths that are newly advertised, none of them granted by this grant. An input to the host's policy,
            nothing more.
        feature_sets: the status of each declared set under ``grant``.
        degraded: the sets that are off through changes, to be remembered; at most 1,024 of them.
        impacts: for the receipt, in the order of SPEC 17.6.
    """

    domains: tuple[ChangeDomain, ...]
    grant: GrantState
    revoked: tuple[str, ...]
    pending: tuple[str, ...]
    feature_sets: Mapping[str, FeatureSetStatus]
    degraded: frozenset[str]
    impacts: tuple[Impact, ...]


def assess_change(
    previous: ManifestReading,
    current: ManifestReading,
    facts: HostFacts,
    vocabulary: Vocabulary = VOCABULARY,
) -> ManifestChange:
    """Compare the manifest in force with a fetched one (SPEC 17.5).

    Every removal counts, however much of the new manifest is invalid. Revisions are not looked at: a server
    that announces nothing, or the same one again, is compared all the same.

    Args:
        previous: the manifest in force.
        current: the fetched one.
        facts: the host's side.
        vocabulary: the paths that both readings were made with.
    """
    revoked = tuple(
        row.path
        for row in vocabulary.capabilities
        if not row.outer  # advertised elsewhere, so nothing here can withdraw it
        and row.path not in current.capabilities
        and facts.grant.covers(row.path)
    )
    added = current.capabilities - previous.capabilities
    pending = tuple(path for path in vocabulary if path in added)
    # Without the additions too: a pattern of the grant must not decide about what nobody saw when it was written.
    grant = _without(facts.grant, added.union(revoked), vocabulary)
    before = derive_feature_sets(previous.feature_sets, facts.grant, vocabulary)
    after = derive_feature_sets(current.feature_sets, grant, vocabulary)
    on_before = {name for name, status in before.items() if status.enabled}
    on_after = {name for name, status in after.items() if status.enabled}
    off = (before.keys() - on_before) | set(facts.degraded)
    subjects: dict[ChangeImpact, Collection[str]] = {
        "capability-revoked": revoked,
        "capability-expansion-pending": pending,
        "feature-degraded": sorted(on_before - on_after),
        "feature-restored": sorted(off & on_after),
        "ontology-acceptance-invalidated": sorted(_invalidated(current, facts)),
        "ontology-reference-undeclared": sorted(_undeclared(previous, current, facts)),
        "surface-changed": sorted(set(facts.surfaces)),
    }
    return ManifestChange(
        _domains(previous, current),
        grant,
        revoked,
        pending,
        after,
        _remembered((set(facts.degraded) | on_before) - on_after),
        tuple(
            Impact(impact, disposition, subject)
            for impact, disposition in DISPOSITIONS.items()
            for subject in subjects[impact]
        ),
    )


def _domains(previous: ManifestReading, current: ManifestReading) -> tuple[ChangeDomain, ...]:
    try:
        return changed_domains(previous.manifest, current.manifest)
    except InvalidValueError:
        return CHANGE_DOMAINS  # one of them cannot be written down, which must not keep a removal from counting


def _remembered(names: set[str]) -> frozenset[str]:
    # A server that declares other sets with each manifest must not make the host remember them all.
    return frozenset(sorted(names)[:_MAX_REMEMBERED])


def _without(grant: GrantState, lost: frozenset[str], vocabulary: Vocabulary) -> GrantState:
    """The grant without some paths. A pattern that matches one of them becomes the other paths it matches."""
    kept: dict[str, None] = {}
    for entry in grant.effective_capabilities:
        matched = [path for path in vocabulary if capability_pattern_matches(entry, path)]
        if lost.isdisjoint(matched):
            kept[entry] = None
        else:
            kept |= dict.fromkeys(path for path in matched if path not in lost)
    return replace(grant, effective_capabilities=tuple(kept))


def _invalidated(current: ManifestReading, facts: HostFacts) -> Iterator[str]:
    for name, digest in facts.accepted_ontologies.items():
        if current.ontology_digests.get(name) != digest:
            yield name


def _undeclared(previous: ManifestReading, current: ManifestReading, facts: HostFacts) -> Iterator[str]:
    """The certain fact alone: a description is gone. The rule may go on matching (SPEC 17.6)."""
    references = set(facts.referenced_tags)
    if references:
        before, after = _Descriptions.of(previous), _Descriptions.of(current)
        yield from (name for name in references if before.reach(name) and not after.reach(name))


@dataclass(frozen=True, slots=True)
class _Descriptions:
    """All tags that the ontologies of one manifest describe: single ones, and families by key."""

    tags: frozenset[str]
    families: Mapping[str, Collection[str]]

    @classmethod
    def of(cls, reading: ManifestReading) -> _Descriptions:
        tags: set[str] = set()
        families: dict[str, set[str]] = {}
        for ontology in reading.ontologies.values():
            tags.update(ontology.core_tags, (descriptor.tag for descriptor in ontology.tags))
            for family in ontology.keyed:
                families.setdefault(family.key, set()).update(family.values)
        return cls(frozenset(tags), families)

    def reach(self, reference: str) -> bool:
        """Whether a description fits a tag or a pattern of a consumer's rule."""
        namespace, _, local = reference.partition(":")
        # A family says no namespace: its tags are KEY:VALUE, or KEY=VALUE in a namespace that cannot be known.
        key, equals, _ = local.partition("=")
        if "*" not in reference:
            of_family = namespace in self.families or (equals != "" and key in self.families)
            return reference in self.tags or (of_family and read_tags([reference]).tags != ())
        return any(glob_matches(reference, tag) for tag in self.tags) or any(
            glob_matches(reference, f"{key}:{value}") or (equals != "" and glob_matches(local, f"{key}={value}"))
            for key, values in self.families.items()
            for value in values
        )
