"""Toolsets and delegated access, as wire shapes (SPEC_NOTES R-toolsets-1).

Owns: ``toolsets/*``, ``access/token``, and the ``_meta`` slots that carry presence and hints. Does not own:
what a toolset is, when a hint is sent, and the keeping of credentials.

Provisional: the drafts behind it (RFC-014, RFC-015) are not published. The shapes stand in this module alone,
so that adopting their text means editing one file.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, UnsetType

from ..content import Content, HasContent
from ..errors import InvalidValueError
from .base import EmptyParams, Integer, WireMessage, WireStruct, read_items, whole_numbers

__all__ = (
    "META_EVENTS",
    "META_HINTS",
    "META_INSTANCE",
    "META_PRESENCE",
    "AccessTokenParams",
    "AccessTokenResult",
    "CarriedEvent",
    "EndReason",
    "EndedInstance",
    "HintChange",
    "ToolPresence",
    "Toolset",
    "ToolsetInstance",
    "ToolsetsChangedParams",
    "ToolsetsCloseParams",
    "ToolsetsCloseResult",
    "ToolsetsListParams",
    "ToolsetsListResult",
    "ToolsetsOpenParams",
    "ToolsetsOpenResult",
    "read_hints",
)

#: On a tool of ``tools/list``: a ``ToolPresence``.
META_PRESENCE = "mcpl/presence"
#: On a result: an array of ``HintChange``.
META_HINTS = "mcpl/hints"
#: On the params of ``tools/call``: which instance is meant.
META_INSTANCE = "mcpl/instance"
#: On the result of a call: an array of ``CarriedEvent``.
META_EVENTS = "mcpl/events"

EndReason: TypeAlias = Literal["closed", "idle", "failed", "evicted"]


class ToolPresence(WireStruct, frozen=True, kw_only=True):
    """Whether a tool is always there, and whether it is there now.

    Attributes:
        toolset: absent for a tool outside every toolset.
    """

    kind: Literal["static", "dynamic"]
    visible: bool
    toolset: str | UnsetType = UNSET


class HintChange(WireStruct, frozen=True, kw_only=True):
    """Which tools of a toolset, or of one instance of it, are visible from now on.

    Attributes:
        rev: counts the changes sent on this connection, from 1.
        visible: all of them, never a difference.
    """

    rev: Integer
    toolset: str
    open: bool
    visible: list[str]
    instance: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        whole_numbers(self, "rev")


def read_hints(hints: Any, path: str = "$.hints") -> list[HintChange | InvalidValueError]:
    """Each change in an array of hints as received, or what is wrong with it; ``UNSET`` is an empty array.

    Args:
        hints: the ``hints`` member of a ``push/event``, or the slot ``META_HINTS`` of a result.
        path: where it stands.
    """
    return read_items(hints, HintChange, path)


class CarriedEvent(HasContent, WireStruct, frozen=True, kw_only=True):
    """An event that a call caused, in that call's result."""

    event_id: str
    timestamp: str
    content: Content
    tags: list[str] | UnsetType = UNSET


class ToolsetInstance(HasContent, WireStruct, frozen=True, kw_only=True):
    """One open instance of a toolset. ``opened_at``: RFC 3339, UTC."""

    id: str
    title: str
    visible: list[str]
    content: Content
    opened_at: str


class Toolset(WireStruct, frozen=True, kw_only=True):
    """A toolset and how it stands.

    Attributes:
        default: how it stands before anybody opens or closes it.
        instances: whether it is opened as instances, each on its own.
        tools: all its tools; ``visible`` those that may be called now.
        options_schema: JSON Schema for the options of ``toolsets/open``.
        open_instances: there exactly when ``instances`` is true.
    """

    name: str
    title: str
    summary: str
    default: Literal["open", "closed"]
    instances: bool
    open: bool
    tools: list[str]
    visible: list[str]
    options_schema: dict[str, Any] | UnsetType = UNSET
    open_instances: list[ToolsetInstance] | UnsetType = UNSET


class EndedInstance(WireStruct, frozen=True, kw_only=True):
    """An instance that is no more. ``ended_at``: RFC 3339, UTC."""

    toolset: str
    instance: str
    title: str
    reason: EndReason
    ended_at: str


class ToolsetsListParams(EmptyParams, frozen=True, kw_only=True):
    """``toolsets/list`` asks nothing more."""


class ToolsetsListResult(WireMessage, frozen=True, kw_only=True):
    """A full statement. ``rev``: of the last change sent before it, 0 at first."""

    rev: Integer
    toolsets: list[Toolset]
    ended: list[EndedInstance] = []

    def __post_init__(self) -> None:
        whole_numbers(self, "rev")


class ToolsetsOpenParams(WireMessage, frozen=True, kw_only=True):
    """Open a toolset. ``instance`` proposes an id for the new instance."""

    toolset: str
    options: dict[str, Any] | UnsetType = UNSET
    instance: str | UnsetType = UNSET


class ToolsetsOpenResult(HasContent, WireMessage, frozen=True, kw_only=True):
    """What was opened, and which of its tools are visible."""

    toolset: str
    title: str | UnsetType = UNSET
    content: Content
    visible: list[str]
    instance: str | UnsetType = UNSET


class ToolsetsCloseParams(WireMessage, frozen=True, kw_only=True):
    """Close a toolset, or one instance of it."""

    toolset: str
    instance: str | UnsetType = UNSET


class ToolsetsCloseResult(WireMessage, frozen=True, kw_only=True):
    """``closed`` is false when it was not open."""

    closed: bool


class ToolsetsChangedParams(WireMessage, frozen=True, kw_only=True):
    """Changes of presence that nothing else carried; ``read_hints`` reads them one by one."""

    hints: list[Any]


class AccessTokenParams(WireMessage, frozen=True, kw_only=True):
    """Ask the host for a short-lived credential. ``reason`` is for the person who decides."""

    audience: str
    reason: str | UnsetType = UNSET
    scopes: list[str] | UnsetType = UNSET


class AccessTokenResult(WireMessage, frozen=True, kw_only=True):
    """A credential; its ``repr`` does not show it. ``expires_at``: RFC 3339, UTC."""

    token: str
    expires_at: str
    token_type: Literal["Bearer"] = "Bearer"

    def __repr__(self) -> str:
        return f"AccessTokenResult(token=<hidden>, expires_at={self.expires_at!r})"

    def __rich_repr__(self) -> Any:
        yield "token", "<hidden>"
        yield "expires_at", self.expires_at
