"""What a host lets its servers do, as rules over facts that no server chooses (SPEC 5.3, 5.4, 6.3, 14.5, 16.7).

Owns: the rules, and what follows from them for one server: its grant, its channels, the treatment of its events. Does
not own: the state of a connection (``authority``), telling a server, and the vocabulary of capabilities. Pure.

Every rule whose ``servers`` matches the id that the host gave a server holds for it. What one of them allows is
allowed, what one of them denies is denied whoever allows it, and where one names feature sets or channels, only those.
A path that is denied by default, ``inject.system`` above all, must be named itself (SPEC 13.4).
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from difflib import get_close_matches
from typing import Final, Self

from ..capabilities import EXTENSION_PATHS, VOCABULARY, Vocabulary
from ..errors import InvalidValueError
from ..grants import GrantState, feature_set_name_matches
from ..negotiation import concrete_names, effective_grant, ineffective_patterns
from ..tags import glob_matches
from ..treatment import Behavior, Immediate, Treatment, TreatmentRule, choose_treatment, with_interval

__all__ = ("DEFAULT_INTERVAL_MS", "DENY_ALL", "HostPolicy", "PolicyRule")

#: Milliseconds for a ``debounce`` or ``throttle`` that names none.
DEFAULT_INTERVAL_MS = 30_000


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """One rule.

    Attributes:
        servers: globs over server ids.
        allow, deny: capability paths and patterns (``*`` is one segment).
        feature_sets: names and ``name.*`` patterns of the only sets that may be on; ``None``: any.
        disable: names and patterns of sets that are off.
        channels: globs over channel ids, the only ones that may be used; ``None``: any.

    Raises:
        TypeError: a string in the place of a list: each of its letters would be a pattern, ``*`` among them.
    """

    servers: tuple[str, ...] = ("*",)
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    feature_sets: tuple[str, ...] | None = None
    disable: tuple[str, ...] = ()
    channels: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for name in ("servers", "allow", "deny", "feature_sets", "disable", "channels"):
            value = getattr(self, name)
            if isinstance(value, str):
                raise TypeError(f"{name} is a list of strings, not {value!r}")

    def concerns(self, server: str) -> bool:
        """Whether the rule holds for a server."""
        return any(glob_matches(pattern, server) for pattern in self.servers)


@dataclass(frozen=True, slots=True)
class HostPolicy:
    """A host's policy. Immutable; without rules it denies everything.

        HostPolicy.allow("tools", "pushEvents", "channels.*").also(
            "contextHooks.beforeInference.inject.system", servers="memory"
        )

    Attributes:
        rules: see ``PolicyRule``.
        treatments: the consumer's own rules for events, the first that matches decides.
        default_treatment: for events that no rule matches.
        interval_ms: for a ``debounce`` or ``throttle`` that names no time.
        expand_on_change: whether capabilities that a server advertises later are judged by these rules at once, and
            not only when ``renegotiate`` is called or the server connects anew. They come into force after its receipt
            in either case (SPEC 17.5).
        vocabulary: the capability paths that are known; extend it to grant paths of extensions.

    Raises:
        InvalidValueError: an entry can never allow or deny anything (``ineffective_pattern``): ``channels`` is a
            parent, ``contextHooks.*`` matches two segments and no path has two there.
    """

    rules: tuple[PolicyRule, ...] = ()
    treatments: tuple[TreatmentRule, ...] = ()
    default_treatment: Behavior = Immediate()
    interval_ms: int = DEFAULT_INTERVAL_MS
    expand_on_change: bool = False
    vocabulary: Vocabulary = VOCABULARY

    def __post_init__(self) -> None:
        for index, rule in enumerate(self.rules):
            if not isinstance(rule, PolicyRule):
                raise TypeError("the rules of a policy are PolicyRule objects; HostPolicy.allow(...) makes one")
            for pattern in ineffective_patterns(rule.allow, rule.deny, self.vocabulary):
                hint = _hint(pattern, self.vocabulary)
                raise InvalidValueError("ineffective_pattern", f"{pattern} matches no path{hint}", f"$.rules[{index}]")

    @classmethod
    def allow(
        cls,
        *patterns: str,
        deny: str | Iterable[str] = (),
        servers: str | Iterable[str] = "*",
        feature_sets: str | Iterable[str] | None = None,
        disable: str | Iterable[str] = (),
        channels: str | Iterable[str] | None = None,
        vocabulary: Vocabulary = VOCABULARY,
    ) -> Self:
        """A policy of one rule; see ``PolicyRule`` and ``also``.

        Args:
            patterns: what is allowed.
            vocabulary: the capability paths that are known.

        Raises:
            InvalidValueError: an entry can never have an effect.
        """
        return cls(vocabulary=vocabulary).also(
            *patterns, deny=deny, servers=servers, feature_sets=feature_sets, disable=disable, channels=channels
        )

    def also(
        self,
        *patterns: str,
        deny: str | Iterable[str] = (),
        servers: str | Iterable[str] = "*",
        feature_sets: str | Iterable[str] | None = None,
        disable: str | Iterable[str] = (),
        channels: str | Iterable[str] | None = None,
    ) -> Self:
        """This policy with one more rule. ``deny``, ``disable``, ``feature_sets`` and ``channels`` only take away.

        Raises:
            InvalidValueError: an entry can never have an effect.
        """
        rule = PolicyRule(
            servers=_texts(servers),
            allow=patterns,
            deny=_texts(deny),
            feature_sets=None if feature_sets is None else _texts(feature_sets),
            disable=_texts(disable),
            channels=None if channels is None else _texts(channels),
        )
        return replace(self, rules=(*self.rules, rule))

    def treating(self, rules: Iterable[TreatmentRule], default: Behavior | None = None) -> Self:
        """This policy with other rules for events, and another default when one is given."""
        chosen = self.default_treatment if default is None else default
        return replace(self, treatments=tuple(rules), default_treatment=chosen)

    # -- what follows for one server

    def grant(self, server: str, advertised: Iterable[str], declared: Iterable[str] = ()) -> GrantState:
        """What a server may do: its advertisement, narrowed by the rules (SPEC 5.4). Not ready; a receipt makes it so.

        Args:
            server: the id that the host gave it.
            advertised: the paths that it advertises.
            declared: the names of its feature sets. Patterns become names here, since a server need not know any.
        """
        rules = self._rules_of(server)
        names = tuple(declared)
        lists = [rule.feature_sets for rule in rules if rule.feature_sets is not None]
        enabled = tuple(sorted(name for name in names if all(_names(patterns, name) for patterns in lists)))
        return GrantState(
            effective_grant(
                advertised,
                [path for rule in rules for path in rule.allow],
                [path for rule in rules for path in rule.deny],
                self.vocabulary,
            ),
            enabled if lists else None,
            concrete_names((pattern for rule in rules for pattern in rule.disable), names),
        )

    def permits_channel(self, server: str, channel: str) -> bool:
        """Whether a server may have a channel of this id (SPEC 14.5). It needs a capability besides."""
        return all(
            any(glob_matches(pattern, channel) for pattern in rule.channels)
            for rule in self._rules_of(server)
            if rule.channels is not None
        )

    def treat(
        self,
        tags: Collection[str],
        *,
        source: str,
        channel: str | None = None,
        accepted: Iterable[TreatmentRule] = (),
        default: Behavior | None = None,
    ) -> Treatment:
        """The treatment of one admitted event (SPEC 16.7).

        Args:
            tags: after closure.
            source: the server's id.
            channel: the registered channel.
            accepted: rules of producers that somebody accepted; they stand after the consumer's own.
            default: in the place of ``default_treatment``.
        """
        chosen = choose_treatment(
            (*self.treatments, *accepted),
            tags,
            source=source,
            channel=channel,
            default=self.default_treatment if default is None else default,
        )
        return replace(chosen, behavior=with_interval(chosen.behavior, self.interval_ms))

    def referenced_tags(self, server: str) -> frozenset[str]:
        """The tags and patterns in the consumer's rules that can concern a server's events (SPEC 17.6)."""
        return frozenset(
            tag
            for rule in self.treatments
            if rule.source is None or any(glob_matches(pattern, server) for pattern in rule.source)
            for tag in (*(rule.tags_any or ()), *(rule.tags_all or ()), *(rule.tags_none or ()))
        )

    def _rules_of(self, server: str) -> list[PolicyRule]:
        return [rule for rule in self.rules if rule.concerns(server)]


#: Nothing is allowed; a plain MCP server's tools work all the same.
DENY_ALL: Final = HostPolicy()


def _names(patterns: tuple[str, ...], name: str) -> bool:
    return any(feature_set_name_matches(pattern, name) for pattern in patterns)


def _texts(value: str | Iterable[str]) -> tuple[str, ...]:
    return (value,) if isinstance(value, str) else tuple(value)


def _hint(pattern: str, vocabulary: Vocabulary) -> str:
    """What whoever wrote it may have meant."""
    if pattern in EXTENSION_PATHS:
        return "; extend the policy's vocabulary with it"
    if below := [path for path in vocabulary if path.startswith(f"{pattern}.")]:
        return f"; it is a parent: name what is below it, like {below[0]}"
    if near := get_close_matches(pattern, vocabulary.paths, n=1, cutoff=0.5):
        return f"; is {near[0]} meant?"
    return f"; the paths are {', '.join(vocabulary.paths)}"
