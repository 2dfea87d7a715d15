"""What a server offers, as declared: the facts that every session reads.

Owns: the declarations and settings, in one place. Does not own: how they are declared (``app``) and what is done with
them (``session``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..capabilities import VOCABULARY, Vocabulary
from ..manifest import ManifestTracker
from ..protocol import METHODS, MethodTable
from .features import FeatureSet
from .lifecycle import DEFAULT_INFERENCE_TIMEOUT
from .outbox import Outbox
from .policy import ReceiptHook
from .tools import ServerTool

__all__ = ("ArgumentCheck", "Offer", "ServerHandler", "Settings")

#: Checks the arguments of a tool before it is called; raises ``InvalidValueError`` or ``ToolError``.
ArgumentCheck = Callable[[ServerTool, dict[str, Any]], object]
#: Takes a context and typed params (or the context alone, in hooks of the connection); sync or async.
ServerHandler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Settings:
    """Numbers of a server.

    Attributes:
        handler_limit: handlers of one connection that run at once, and worker threads of all of them.
        grace: seconds for accepted requests to finish after a host's input ended.
        page_size: tools in one page of ``tools/list``; ``None``: all in one.
        inference_timeout: seconds after which an inference without a terminal counts as failed.
        first_retry, longest_retry: seconds between attempts to deliver an event.
        event_timeout: seconds to wait for the answer to an event.
    """

    handler_limit: int = 100
    grace: float = 5.0
    page_size: int | None = None
    inference_timeout: float = DEFAULT_INFERENCE_TIMEOUT
    first_retry: float = 1.0
    longest_retry: float = 60.0
    event_timeout: float = 30.0


@dataclass(slots=True)
class Offer:
    """Everything that a server declared.

    Attributes:
        tool_sets: the feature set that a tool belongs to, by tool name, where it was named.
        hooks: functions for ``context/beforeInference``, with their sets.
        lifecycle: functions for ``inference/lifecycle``.
        handlers: functions for other methods, by method.
        tracker: the manifest in force.
    """

    info: dict[str, Any]
    instructions: str | None
    capabilities: dict[str, Any]
    tracker: ManifestTracker[Any]
    outbox: Outbox
    settings: Settings = field(default_factory=Settings)
    vocabulary: Vocabulary = VOCABULARY
    methods: MethodTable = field(default_factory=lambda: METHODS)
    tools: dict[str, ServerTool] = field(default_factory=dict)
    tool_sets: dict[str, FeatureSet] = field(default_factory=dict)
    hooks: list[tuple[FeatureSet, ServerHandler]] = field(default_factory=list)
    lifecycle: list[ServerHandler] = field(default_factory=list)
    handlers: dict[str, ServerHandler] = field(default_factory=dict)
    on_connect: list[ServerHandler] = field(default_factory=list)
    on_ready: list[ServerHandler] = field(default_factory=list)
    on_close: list[ServerHandler] = field(default_factory=list)
    receipt_hook: ReceiptHook | None = None
    validate: ArgumentCheck | None = None

    def declared_feature_sets(self) -> Any:
        """The manifest's ``featureSets`` member in force."""
        return self.tracker.snapshot().get("featureSets")
