"""Sending a tool call once more: who allows it, and what is known afterwards.

Owns: what an application declares about its tools, the decision whether a failed attempt may be repeated, the record of
every attempt, and when a policy cannot be kept at all. Does not own: waiting and counting (``http.retry``), sending.

Permissions come from the application alone: never from a model, a description or a server's hints, and they are read
once. An answer is never repeated, whatever it says (HTTP 429 apart, which says "not now").
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any, Literal

from ..errors import InvalidValueError
from .errors import ReplayUnavailableReason

__all__ = (
    "REFUSED_BEFORE_EXECUTION",
    "AttemptOutcome",
    "AttemptRecord",
    "CallRecord",
    "Cause",
    "Effect",
    "Permission",
    "Replay",
    "ReplayPolicy",
    "ToolReplay",
    "Watched",
    "may_have_run",
    "permission_for",
    "replay_unavailable",
)


#: Why an attempt may be repeated: it was answered with HTTP 429, or failed without an answer.
Cause = Literal["throttle", "network"]
_CAUSES: tuple[Cause, ...] = ("throttle", "network")

#: ``compatibility``: a 429 is repeated for every tool, on the assumption that it was refused before it ran, and the
#: rest as declared. ``app-authorized``: only what the application declared.
ReplayPolicy = Literal["compatibility", "app-authorized"]
_POLICIES: tuple[ReplayPolicy, ...] = ("compatibility", "app-authorized")

#: The assumption behind a repetition that nobody declared.
REFUSED_BEFORE_EXECUTION = "refused-before-execution"

#: What is known of the effect: nothing was sent; it may have happened; the call completed (which proves no write).
Effect = Literal["not-sent", "unknown", "applied"]

#: How one attempt ended.
AttemptOutcome = Literal[
    "completed",  # a result
    "input-required",  # a result that asks something first
    "tool-error",  # a result that says the tool failed
    "rpc-error",  # a JSON-RPC error
    "throttled",  # HTTP 429
    "refused",  # another HTTP status that is no success
    "no-answer",  # sent, and the answer never came
    "timed-out",  # sent, and nobody waited any longer
    "cancelled",  # sent, and given up by the caller
    "not-sent",  # it failed before anything was sent
]
_EFFECTS: dict[AttemptOutcome, Effect] = {"completed": "applied", "not-sent": "not-sent"}
#: Outcomes of an attempt that was sent and truly lacks an answer.
_UNANSWERED = frozenset({"no-answer", "timed-out", "cancelled"})


@dataclass(frozen=True, slots=True)
class Permission:
    """What permitted the next attempt.

    Attributes:
        by: ``compatibility``, ``app-authorized``, ``credentials`` (new ones after HTTP 401), or the name of an adapter
            that repeats by a policy of its own.
        cause: why it was repeated; ``None`` for what is neither of the two.
        assumes: what is taken for granted by whoever permitted it; ``None`` where the application declared it.
        deduplicates: the name of the argument that tells the server that it is the same call.
    """

    by: str
    cause: Cause | None = None
    assumes: str | None = None
    deduplicates: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptRecord:
    """One attempt of a call. Holds no argument, no result, no header and no text of a server.

    Attributes:
        number: from 1.
        outcome: one of ``AttemptOutcome``.
        status: the HTTP status of the answer, ``None`` where none was read.
        permission: what permitted the next attempt; ``None`` at the last.
    """

    number: int
    outcome: AttemptOutcome
    status: int | None = None
    permission: Permission | None = None

    @property
    def effect(self) -> Effect:
        """What is known of its effect."""
        return _EFFECTS.get(self.outcome, "unknown")


@dataclass(frozen=True, slots=True)
class CallRecord:
    """All attempts of one tool call, oldest first.

    Attributes:
        server: the name that the caller gave the server.
        tool: the tool's name there.
        attempts: at least one.
    """

    server: str
    tool: str
    attempts: tuple[AttemptRecord, ...]

    @property
    def effect(self) -> Effect:
        """``applied`` when an attempt completed, ``unknown`` when one was sent, else ``not-sent``."""
        effects = {attempt.effect for attempt in self.attempts}
        known: tuple[Effect, ...] = ("applied", "unknown")
        return next((effect for effect in known if effect in effects), "not-sent")


@dataclass(frozen=True, slots=True)
class ToolReplay:
    """What the application declares about one tool.

    Attributes:
        on: the causes for which it may be called again with the same arguments.
        changes: it changes something. Then it is repeated under no policy, unless it has ``deduplicates`` and the call
            carries that argument.
        deduplicates: the name of the argument by which the server knows the same call again. It protects only as far
            as the server uses it.
    """

    on: tuple[Cause, ...] = ()
    changes: bool = False
    deduplicates: str | None = None

    def __post_init__(self) -> None:
        causes: Any = self.on
        if not isinstance(causes, list | tuple | set | frozenset) or any(cause not in _CAUSES for cause in causes):
            raise InvalidValueError("replay_cause", f"causes are a list of {' and '.join(_CAUSES)}", "$.on")
        if not isinstance(self.changes, bool):
            raise InvalidValueError("replay_changes", "a truth value is needed", "$.changes")
        if self.deduplicates is not None and not (isinstance(self.deduplicates, str) and self.deduplicates):
            raise InvalidValueError("replay_argument", "the name of an argument is needed", "$.deduplicates")
        object.__setattr__(self, "on", tuple(self.on))


@dataclass(frozen=True, slots=True)
class Replay:
    """What the application declares about repeating calls to one server.

    Attributes:
        policy: one of ``ReplayPolicy``.
        tools: name of a tool -> what is declared about it.
        on_record: called once for each tool call that was made, when it is over, with its attempts.
    """

    policy: ReplayPolicy = "compatibility"
    tools: Mapping[str, ToolReplay] = field(default_factory=dict)
    on_record: Callable[[CallRecord], object] | None = None

    def __post_init__(self) -> None:
        if self.policy not in _POLICIES:
            raise InvalidValueError("replay_policy", f"a policy is {' or '.join(_POLICIES)}", "$.policy")
        if not isinstance(self.tools, Mapping) or not all(isinstance(t, ToolReplay) for t in self.tools.values()):
            raise InvalidValueError("replay_tools", "tools are a mapping of names to declarations", "$.tools")
        if not all(isinstance(name, str) for name in self.tools):
            raise InvalidValueError("replay_tools", "the name of a tool is text", "$.tools")
        if self.on_record is not None and not callable(self.on_record):
            raise InvalidValueError("replay_on_record", "a function is needed", "$.on_record")
        object.__setattr__(self, "tools", MappingProxyType(dict(self.tools)))

    @classmethod
    def read(cls, value: Replay | Mapping[str, Any] | None) -> Replay:
        """A policy from plain data, such as a configuration file holds, in which no unknown member may stand.

        ``{"policy": ..., "tools": {name: {"on": [...], "changes": bool, "deduplicates": {"argument": name}}}}``;
        ``deduplicates`` may be the name alone.

        Raises:
            InvalidValueError: a member is unknown (``unknown_member``) or has a value outside its grammar.
        """
        if value is None:
            return cls()
        if isinstance(value, Replay):
            return value
        members = _known_members(value, cls, "$")
        tools = members.pop("tools", {})
        if not isinstance(tools, Mapping):
            raise InvalidValueError("replay_tools", "tools are a mapping of names to declarations", "$.tools")
        return cls(**members, tools={name: _read_tool(tool, f"$.tools.{name}") for name, tool in tools.items()})

    def declares(self, tool: str) -> bool:
        """Whether the attempts of this tool's calls are kept together as one series with a record of its own."""
        return self.policy == "app-authorized" or tool in self.tools


@dataclass(slots=True)
class Watched:
    """What was seen of a session's own traffic so far, by whoever repeats its calls.

    Attributes:
        requests: a request was seen on its way.
        matched: one of them was told to be a certain message.
        answered: the answer to such a one was seen.
    """

    requests: bool = False
    matched: bool = False
    answered: bool = False


def permission_for(replay: Replay, tool: str, arguments: Any, cause: Cause) -> Permission | None:
    """Whether an attempt of a tool call that failed for ``cause`` may be repeated with the same arguments.

    Args:
        replay: what was declared.
        tool: the tool's name.
        arguments: of the call.
        cause: why it failed.
    """
    declared = replay.tools.get(tool)
    key = declared.deduplicates if declared is not None else None
    if key is not None and not (isinstance(arguments, Mapping) and arguments.get(key) not in (None, "")):
        key = None
    if declared is not None and declared.changes and key is None:
        return None
    if declared is not None and cause in declared.on:
        return Permission("app-authorized", cause, deduplicates=key)
    if replay.policy == "compatibility" and cause == "throttle":
        return Permission("compatibility", cause, REFUSED_BEFORE_EXECUTION, key)
    return None


def replay_unavailable(replay: Replay, watched: Watched | None) -> ReplayUnavailableReason | None:
    """Why tool calls have to be refused before they are sent, or ``None``: a policy that only an application authorizes
    is kept wholly or not at all.

    Args:
        replay: what was declared.
        watched: what was seen of the session's connecting; ``None``: its carrier is watched by nobody.
    """
    if replay.policy != "app-authorized":
        return None
    if watched is None or not watched.requests:
        return "requests-unwatched"
    if not watched.matched:
        return "request-unmatched"
    return None if watched.answered else "answers-unobserved"


def may_have_run(attempts: tuple[AttemptRecord, ...]) -> bool:
    """Whether an attempt was sent and truly lacks an answer, so that a call that failed may have run."""
    return any(attempt.outcome in _UNANSWERED for attempt in attempts)


def _read_tool(value: Any, path: str) -> ToolReplay:
    if isinstance(value, ToolReplay):
        return value
    members = _known_members(value, ToolReplay, path)
    key = members.get("deduplicates")
    if isinstance(key, Mapping):
        if set(key) != {"argument"}:
            raise InvalidValueError("unknown_member", "it has one member, argument", f"{path}.deduplicates")
        members["deduplicates"] = key["argument"]
    return ToolReplay(**members)


def _known_members(value: Any, cls: type[Replay] | type[ToolReplay], path: str) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise InvalidValueError("replay", "a mapping is needed", path)
    unknown = set(value) - {each.name for each in fields(cls)}
    if unknown:
        raise InvalidValueError("unknown_member", f"{sorted(map(str, unknown))} are not known", path)
    return dict(value)
