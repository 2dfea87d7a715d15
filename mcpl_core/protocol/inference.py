"""Inference that a server asks for, and what there is to know about models (SPEC 11, 12).

Owns: ``inference/request``, ``inference/chunk``, ``model/info``. Does not own: the notices about the host's
own inferences (``hooks``), budgets and routing.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, UnsetType

from ..content import Content, HasContent
from .base import EmptyParams, Integer, RequestId, WireMessage, WireStruct, read_plain, whole_numbers

__all__ = (
    "FinishReason",
    "InferenceChunkParams",
    "InferenceMessage",
    "InferenceRequestParams",
    "InferenceRequestResult",
    "ModelInfo",
    "ModelInfoParams",
    "Preferences",
    "Usage",
)

#: Why generation stopped (SPEC Appendix B.4).
FinishReason: TypeAlias = Literal["end_turn", "max_tokens", "stop_sequence"]


class ModelInfo(WireMessage, frozen=True, kw_only=True):
    """A model (SPEC 12.2). Only its id is always known.

    Attributes:
        context_window: in tokens.
        capabilities: such as ``vision``; the host's words, no capability paths.
    """

    id: str
    vendor: str | UnsetType = UNSET
    context_window: Integer | UnsetType = UNSET
    capabilities: list[str] | UnsetType = UNSET

    def __post_init__(self) -> None:
        whole_numbers(self, "context_window")


class ModelInfoParams(EmptyParams, frozen=True, kw_only=True):
    """``model/info`` asks nothing more."""


class Usage(WireStruct, frozen=True, kw_only=True):
    """Tokens that an inference took."""

    input_tokens: Integer | UnsetType = UNSET
    output_tokens: Integer | UnsetType = UNSET

    def __post_init__(self) -> None:
        whole_numbers(self, "input_tokens", "output_tokens")


class InferenceMessage(HasContent, WireStruct, frozen=True, kw_only=True):
    """One message of the conversation to infer from."""

    role: str
    content: Content


class Preferences(WireStruct, frozen=True, kw_only=True):
    """The preferences that SPEC 11.2 defines."""

    max_tokens: Integer | UnsetType = UNSET
    temperature: int | float | UnsetType = UNSET

    def __post_init__(self) -> None:
        whole_numbers(self, "max_tokens")


class InferenceRequestParams(WireMessage, frozen=True, kw_only=True):
    """A request for an inference without a human in the loop (SPEC 11.2).

    Attributes:
        feature_set: the declared set that asks.
        stream: whether chunks are wanted before the result; needs ``inferenceRequest.streaming`` as well.
        preferences: the whole object as received; hosts may know more keys than ``known_preferences``.

    Raises:
        InvalidValueError: a preference that SPEC 11.2 defines has the wrong type (``type``).
    """

    feature_set: str
    messages: list[InferenceMessage]
    conversation_id: str | UnsetType = UNSET
    stream: bool = False
    preferences: dict[str, Any] | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.preferences is not UNSET:
            _ = self.known_preferences

    @property
    def known_preferences(self) -> Preferences:
        """The defined ones, all ``UNSET`` when there are none."""
        return read_plain(self.preferences or {}, Preferences, "$.preferences")


class InferenceRequestResult(WireMessage, frozen=True, kw_only=True):
    """What was generated (SPEC 11.3).

    Attributes:
        model: the model that was used.
        finish_reason: a ``FinishReason``; other words are kept, since the text is there all the same.
    """

    content: str
    model: str
    finish_reason: str | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET


class InferenceChunkParams(WireMessage, frozen=True, kw_only=True):
    """A piece of a result to come (SPEC 11.4).

    Attributes:
        request_id: the JSON-RPC id of the ``inference/request``.
        index: counts the pieces of one request.
    """

    request_id: RequestId
    index: Integer
    delta: str

    def __post_init__(self) -> None:
        whole_numbers(self, "request_id", "index")
