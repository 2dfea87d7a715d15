"""``push/event`` (SPEC 9).

Owns: the shapes. Does not own: admission, deduplication, tags (``tags``) and hint changes (``toolsets``).
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from ..content import Content, HasContent
from .base import WireMessage, WireStruct

__all__ = ("PushEventParams", "PushEventResult", "PushPayload")


class PushPayload(HasContent, WireStruct, frozen=True, kw_only=True):
    """What an event says, for the model to read."""

    content: Content


class PushEventParams(WireMessage, frozen=True, kw_only=True):
    """An event that the host may act on (SPEC 9.2).

    Attributes:
        feature_set: the declared set that sends it.
        event_id: the same for every retry of one event (SPEC 9.4).
        timestamp: when it happened (ISO 8601).
        origin: where it came from; the server's claim, passed on as received.
        tags: ``namespace:value`` labels; claims, never authority (SPEC 16).
        hints: changes of tool presence that came with the event; ``toolsets.read_hints`` reads them.
    """

    feature_set: str
    event_id: str
    timestamp: str
    payload: PushPayload
    origin: Any = UNSET
    tags: list[str] | UnsetType = UNSET
    hints: Any = UNSET


class PushEventResult(WireMessage, frozen=True, kw_only=True):
    """What became of the event (SPEC 9.3).

    Attributes:
        inference_id: the inference that it started, if it did.
        reason: why it was not accepted.
    """

    accepted: bool
    inference_id: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET
