"""The hook before an inference, and the notices about one (SPEC 10, 14.4).

Owns: ``context/beforeInference`` and ``inference/lifecycle``. Does not own: which injection is allowed
(each by its ``position``, on arrival; ``grants``), timeouts, ordering.
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, UnsetType

from ..content import Content, HasContent
from ..errors import InvalidValueError
from .base import Integer, WireMessage, WireStruct, read_items, whole_numbers
from .inference import ModelInfo, Usage

__all__ = (
    "TERMINAL_PHASES",
    "BeforeInferenceChannels",
    "ChannelReference",
    "ContextBeforeInferenceParams",
    "ContextBeforeInferenceResult",
    "ContextInjection",
    "InferenceLifecycleParams",
    "LifecyclePhase",
    "Position",
)

#: Where an injection goes (SPEC Appendix B.4).
Position: TypeAlias = Literal["system", "beforeUser", "afterUser"]
LifecyclePhase: TypeAlias = Literal["started", "completed", "aborted", "failed"]

#: The phases that end an inference (SPEC 10.5).
TERMINAL_PHASES: frozenset[LifecyclePhase] = frozenset({"completed", "aborted", "failed"})


class ChannelReference(WireStruct, frozen=True, kw_only=True):
    """A channel, and the message in it where there is one."""

    channel_id: str
    message_id: str | UnsetType = UNSET
    thread_id: str | None | UnsetType = UNSET


class BeforeInferenceChannels(WireStruct, frozen=True, kw_only=True):
    """Which channels the turn belongs to, if the host says so (SPEC 14.4)."""

    incoming: ChannelReference | UnsetType = UNSET
    default_outgoing: ChannelReference | UnsetType = UNSET
    candidates: list[str] | UnsetType = UNSET


class ContextBeforeInferenceParams(WireMessage, frozen=True, kw_only=True):
    """A turn is about to begin (SPEC 10.1).

    Attributes:
        turn_index: counts from 0.
        user_message: what the user said. ``None`` when generation goes on without them, and for a server
            without ``contextHooks.beforeInference.observe``.
    """

    inference_id: str
    conversation_id: str
    turn_index: Integer
    model: ModelInfo
    user_message: str | None | UnsetType = UNSET
    channels: BeforeInferenceChannels | UnsetType = UNSET

    def __post_init__(self) -> None:
        whole_numbers(self, "turn_index")


class ContextInjection(HasContent, WireStruct, frozen=True, kw_only=True):
    """One thing to put into the context (SPEC 10.4). ``metadata`` is passed on as received."""

    namespace: str
    position: Position
    content: Content
    metadata: Any = UNSET


class ContextBeforeInferenceResult(WireMessage, frozen=True, kw_only=True):
    """What a server wants in the context (SPEC 10.2).

    Attributes:
        feature_set: the server's claim; it authorises nothing (SPEC 5.4).
        context_injections: as received; ``read_injections`` reads them one by one, since each is judged on
            its own (SPEC 10.8).
    """

    feature_set: str | UnsetType = UNSET
    context_injections: list[Any] = []

    def read_injections(self) -> list[ContextInjection | InvalidValueError]:
        """Each injection, or what is wrong with it, in order."""
        return read_items(self.context_injections, ContextInjection, "$.contextInjections")


class InferenceLifecycleParams(WireMessage, frozen=True, kw_only=True):
    """An inference began or ended; never what was said in it (SPEC 10.5, 15.2).

    Attributes:
        model: only for a server with ``modelInfo``.
        usage: only with ``completed``.
    """

    inference_id: str
    phase: LifecyclePhase
    conversation_id: str | UnsetType = UNSET
    turn_index: Integer | UnsetType = UNSET
    model: ModelInfo | UnsetType = UNSET
    usage: Usage | UnsetType = UNSET

    def __post_init__(self) -> None:
        whole_numbers(self, "turn_index")

    @property
    def is_terminal(self) -> bool:
        """Whether the inference is over."""
        return self.phase in TERMINAL_PHASES
