"""How a consumer treats an event by its tags: behaviours, rules, and the choice (SPEC 16.7).

Owns: the behaviours as values, reading a rule list, and first-match-wins. Does not own: the clock that a
debounce needs (the host runtime), the tags themselves (``tags``), or who accepted a rule (``ontology``).

A choice is made among events that were admitted already; no rule admits one (SPEC 16.6).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from mcpl_core.errors import InvalidValueError
from mcpl_core.tags import glob_matches
from mcpl_core.trees import at_index, at_key, each_string, json_object, string_list

__all__ = (
    "Behavior",
    "Debounce",
    "Immediate",
    "Mute",
    "RuleOrigin",
    "Sample",
    "Throttle",
    "Treatment",
    "TreatmentRule",
    "behavior_to_wire",
    "choose_treatment",
    "parse_behavior",
    "parse_rule",
    "parse_rules",
    "with_interval",
)

#: Beyond this a JSON number is no exact integer for every reader.
_MAX_INTEGER = 2**53 - 1


@dataclass(frozen=True, slots=True)
class Immediate:
    """Wake the model now."""


@dataclass(frozen=True, slots=True)
class Mute:
    """Deliver without waking the model."""


@dataclass(frozen=True, slots=True)
class Debounce:
    """Wake once it has been quiet for a while.

    Attributes:
        ms: milliseconds; ``None`` takes the host's interval.
    """

    ms: int | None = None

    def __post_init__(self) -> None:
        if self.ms is not None:
            _check_amount(self.ms)


@dataclass(frozen=True, slots=True)
class Throttle:
    """Wake at most once in a period.

    Attributes:
        per_ms: milliseconds; ``None`` takes the host's interval.
    """

    per_ms: int | None = None

    def __post_init__(self) -> None:
        if self.per_ms is not None:
            _check_amount(self.per_ms)


@dataclass(frozen=True, slots=True)
class Sample:
    """Wake for one event in so many.

    Attributes:
        every: how many.
    """

    every: int

    def __post_init__(self) -> None:
        _check_amount(self.every)


Behavior = Immediate | Mute | Debounce | Throttle | Sample


def _check_amount(value: Any, path: str = "$") -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MAX_INTEGER:
        raise InvalidValueError("behavior_amount", "expected a whole number from 1 to 2**53 - 1", path)


def _amount(value: Any, path: str) -> int:
    # A JSON writer may print a whole number as 1.8e5.
    amount = int(value) if isinstance(value, float) and value.is_integer() else value
    _check_amount(amount, path)
    return int(amount)


#: Behaviours written as one word. ``skip`` is an older name of ``mute``.
_WORDS: MappingProxyType[str, Behavior] = MappingProxyType(
    {
        "immediate": Immediate(),
        "mute": Mute(),
        "skip": Mute(),
        "debounce": Debounce(),
        "throttle": Throttle(),
    }
)

#: Behaviours written as an object with one member: what makes the value, and the member inside it.
_OBJECTS: MappingProxyType[str, tuple[Callable[[int], Behavior], str | None]] = MappingProxyType(
    {
        "debounce": (Debounce, None),
        "throttle": (Throttle, "perMs"),
        "sample": (Sample, "every"),
    }
)


def parse_behavior(value: Any, path: str = "$") -> Behavior:
    """Read a behaviour: ``immediate``, ``mute``, ``{debounce: ms}``, ``{throttle: {perMs}}``, ``{sample: {every}}``.

    Raises:
        InvalidValueError: it is none of these (``behavior``), or its amount is no positive whole number
            (``behavior_amount``).
    """
    if isinstance(value, str) and value in _WORDS:
        return _WORDS[value]
    if not isinstance(value, dict) or len(value) != 1:
        raise InvalidValueError("behavior", "expected a behaviour word or an object with one member", path)
    ((name, amount),) = value.items()
    if name not in _OBJECTS:
        raise InvalidValueError("behavior", "expected debounce, throttle or sample", path)
    make, inner = _OBJECTS[name]
    where = at_key(path, name)
    if inner is not None:
        if not isinstance(amount, dict) or amount.keys() != {inner}:
            raise InvalidValueError("behavior", f"expected an object with {inner}", where)
        amount, where = amount[inner], at_key(where, inner)
    return make(_amount(amount, where))


def behavior_to_wire(behavior: Behavior) -> Any:
    """The JSON form of a behaviour."""
    match behavior:
        case Immediate():
            return "immediate"
        case Mute():
            return "mute"
        case Debounce(ms):
            return "debounce" if ms is None else {"debounce": ms}
        case Throttle(per_ms):
            return "throttle" if per_ms is None else {"throttle": {"perMs": per_ms}}
    return {"sample": {"every": behavior.every}}


def with_interval(behavior: Behavior, ms: int) -> Behavior:
    """The behaviour with the host's interval (milliseconds) where it names none."""
    if behavior == Debounce():
        return Debounce(ms)
    return Throttle(ms) if behavior == Throttle() else behavior


@dataclass(frozen=True, slots=True)
class RuleOrigin:
    """Whose suggestion a rule was, and who accepted it (SPEC 16.5).

    Attributes:
        server: the producer, as the host names it.
        feature_set: the feature set that declared the ontology.
        digest: the ontology that was accepted.
        accepted_by: who accepted it.
    """

    server: str
    feature_set: str
    digest: str
    accepted_by: str


#: The matchers of a rule: member name and attribute.
_MATCHERS: MappingProxyType[str, str] = MappingProxyType(
    {
        "tagsAny": "tags_any",
        "tagsAll": "tags_all",
        "tagsNone": "tags_none",
        "source": "source",
        "channel": "channel",
    }
)


@dataclass(frozen=True, slots=True)
class TreatmentRule:
    """One rule. A matcher that is ``None`` constrains nothing; patterns are globs (``*``).

    Attributes:
        behavior: what happens to an event that the rule matches.
        tags_any: at least one pattern matches a tag; an empty list never does.
        tags_all: every pattern matches a tag.
        tags_none: no pattern matches a tag.
        source: one pattern matches the server's name.
        channel: one pattern matches the channel id; an event without a channel is not matched.
        origin: ``None`` for the consumer's own rule. A rule that came from a producer matches that
            producer's events alone.

    Raises:
        InvalidValueError: a matcher is a bare string or has a member that is no string (``not_array``,
            ``not_string``).
    """

    behavior: Behavior
    tags_any: tuple[str, ...] | None = None
    tags_all: tuple[str, ...] | None = None
    tags_none: tuple[str, ...] | None = None
    source: tuple[str, ...] | None = None
    channel: tuple[str, ...] | None = None
    origin: RuleOrigin | None = None

    def __post_init__(self) -> None:
        for attribute in _MATCHERS.values():
            if (patterns := getattr(self, attribute)) is not None:
                object.__setattr__(self, attribute, each_string(patterns, f"$.{attribute}"))

    def matches(self, tags: Collection[str], source: str, channel: str | None) -> bool:
        """Whether the rule matches an event with these (closure-expanded) tags."""
        return (
            (self.origin is None or self.origin.server == source)
            and (self.source is None or _any_glob(self.source, (source,)))
            and (self.channel is None or _any_glob(self.channel, (channel,)))
            and (self.tags_any is None or _any_glob(self.tags_any, tags))
            and (self.tags_all is None or all(_any_glob((pattern,), tags) for pattern in self.tags_all))
            and (self.tags_none is None or not _any_glob(self.tags_none, tags))
        )

    def to_wire(self) -> dict[str, Any]:
        """The JSON form, without the origin."""
        wire: dict[str, Any] = {
            name: list(value)
            for name, attribute in _MATCHERS.items()
            if (value := getattr(self, attribute)) is not None
        }
        return wire | {"behavior": behavior_to_wire(self.behavior)}


def _any_glob(patterns: Iterable[str], texts: Collection[str | None]) -> bool:
    return any(
        any(glob_matches(pattern, text) for text in texts) if "*" in pattern else pattern in texts
        for pattern in patterns
    )


#: The matchers that may be one string instead of an array.
_SINGLE = frozenset({"source", "channel"})


def parse_rule(value: Any, path: str = "$") -> TreatmentRule:
    """Read one rule: ``tagsAny``, ``tagsAll``, ``tagsNone``, ``source``, ``channel`` (all optional), ``behavior``.

    Raises:
        InvalidValueError: a member has a wrong type; ``behavior`` is missing or unknown; or there is a member
            of another name (``unknown_member``), because a matcher that is not understood would make the
            rule match more than its author meant.
    """
    tree = json_object(value, path)
    for name in tree:
        if name not in _MATCHERS and name != "behavior":
            raise InvalidValueError("unknown_member", f"a rule has no member {name[:80]!r}", at_key(path, name))
    matchers: dict[str, Any] = {}
    for name, attribute in _MATCHERS.items():
        if name in tree:
            patterns = [tree[name]] if name in _SINGLE and isinstance(tree[name], str) else tree[name]
            matchers[attribute] = string_list(patterns, at_key(path, name))
    return TreatmentRule(parse_behavior(tree.get("behavior"), at_key(path, "behavior")), **matchers)


def parse_rules(value: Any, path: str = "$") -> tuple[TreatmentRule, ...]:
    """Read an ordered rule list, whole or not at all.

    Raises:
        InvalidValueError: it is no array (``not_array``), or as for ``parse_rule``: one missing rule would
            change what the next ones decide.
    """
    if not isinstance(value, list | tuple):
        raise InvalidValueError("not_array", "expected an array of rules", path)
    return tuple(parse_rule(rule, at_index(path, index)) for index, rule in enumerate(value))


@dataclass(frozen=True, slots=True)
class Treatment:
    """What was chosen, and why.

    Attributes:
        behavior: the behaviour.
        rule: the rule that matched, ``None`` for the host's default.
        index: its place in the list, ``None`` for the default.
    """

    behavior: Behavior
    rule: TreatmentRule | None = None
    index: int | None = None


def choose_treatment(
    rules: Iterable[TreatmentRule],
    tags: Collection[str],
    *,
    source: str,
    channel: str | None = None,
    default: Behavior = Immediate(),
) -> Treatment:
    """The treatment of one admitted event: the first rule that matches, else the host's default.

    Args:
        rules: the consumer's own, then accepted ones (``Acceptances.rules``).
        tags: after ``expand_tags``. Only patterns with a ``*`` are tried on one tag after the other.
        source: the server, as the host names it (never as the message does).
        channel: the registered channel id, for channel messages.
        default: the host's.

    Raises:
        InvalidValueError: ``tags`` is a bare string or holds something else (``not_array``, ``not_string``).
    """
    present = frozenset(each_string(tags, "$.tags"))
    for index, rule in enumerate(rules):
        if rule.matches(present, source, channel):
            return Treatment(rule.behavior, rule, index)
    return Treatment(default)
