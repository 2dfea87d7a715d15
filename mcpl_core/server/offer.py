"""What a server offers, as declared: the facts that every session reads.

Owns: the declarations and settings, in one place. Does not own: how they are declared (``app``) and what is done with
them (``session``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..capabilities import VOCABULARY, Vocabulary
from ..errors import InvalidValueError
from ..manifest import ManifestTracker
from ..protocol import METHODS, MethodTable
from ..wire.values import encode_value
from .calling import ArgumentCheck
from .lifecycle import DEFAULT_INFERENCE_TIMEOUT
from .outbox import Outbox
from .policy import ReceiptHook
from .tools import ServerTool

__all__ = ("DeclaredHandler", "DeclaredTool", "Offer", "ServerHandler", "Settings")

#: Takes a context and typed params (or the context alone, in hooks of the connection); sync or async.
ServerHandler = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class Settings:
    """Numbers of a server.

    Attributes:
        handler_limit: handlers of one connection that run at once, and worker threads of all of them.
        grace: seconds for accepted requests to finish after a host's input ended, and then for the closing hooks.
        page_size: tools in one page of ``tools/list``; ``None``: all in one.
        inference_timeout: seconds after which a host's inference without a terminal counts as failed.
        first_retry, longest_retry: seconds between attempts to deliver an event.
        event_timeout: seconds to wait for the answer to an event.
        event_window: events on their way to one host at once.
        event_attempts: attempts at an event that a host fails at (-32603) or puts off (``queue_full``).

    Raises:
        InvalidValueError: a number that must be positive is not (its name).
    """

    handler_limit: int = 100
    grace: float = 5.0
    page_size: int | None = None
    inference_timeout: float = DEFAULT_INFERENCE_TIMEOUT
    first_retry: float = 1.0
    longest_retry: float = 60.0
    event_timeout: float = 30.0
    event_window: int = 16
    event_attempts: int = 10

    def __post_init__(self) -> None:
        for name in ("handler_limit", "event_window", "event_attempts"):
            if getattr(self, name) < 1:
                raise InvalidValueError(name, "at least one")
        if self.page_size is not None and self.page_size < 1:
            raise InvalidValueError("page_size", "at least one, or None")
        for name in ("inference_timeout", "first_retry", "longest_retry", "event_timeout"):
            if not getattr(self, name) > 0:
                raise InvalidValueError(name, "more than nothing, in seconds")


class DeclaredTool(NamedTuple):
    """A tool in its place.

    Attributes:
        number: counts the declarations; a page of ``tools/list`` ends at one, whatever came and went since.
        feature_set: the name of the set that it belongs to, if any.
    """

    tool: ServerTool
    number: int
    feature_set: str | None = None


class DeclaredHandler(NamedTuple):
    """A handler of a method.

    Attributes:
        ordered: whether the messages behind wait; ``None``: the method table says.
        feature_set: the name of the set that the method belongs to, if any.
    """

    function: ServerHandler
    ordered: bool | None = None
    feature_set: str | None = None


@dataclass(slots=True)
class Offer:
    """Everything that a server declared.

    Attributes:
        info: ``serverInfo``.
        capabilities: MCP's ``capabilities``, without ``experimental``.
        tracker: the manifest in force.
        tools: by name, in order of declaration.
        hooks: functions for ``context/beforeInference``, with the names of their sets.
        lifecycle: functions for ``inference/lifecycle``.
        handlers: functions for other methods, by method.

    Raises:
        InvalidValueError: the identity or the instructions are no texts, or ``capabilities`` are none.
        UnencodableError: ``capabilities`` have no JSON form.
    """

    info: dict[str, Any]
    instructions: str | None
    capabilities: dict[str, Any]
    tracker: ManifestTracker[Any]
    outbox: Outbox
    settings: Settings = field(default_factory=Settings)
    vocabulary: Vocabulary = VOCABULARY
    methods: MethodTable = field(default_factory=lambda: METHODS)
    tools: dict[str, DeclaredTool] = field(default_factory=dict)
    hooks: list[tuple[str, ServerHandler]] = field(default_factory=list)
    lifecycle: list[ServerHandler] = field(default_factory=list)
    handlers: dict[str, DeclaredHandler] = field(default_factory=dict)
    on_connect: list[ServerHandler] = field(default_factory=list)
    on_ready: list[ServerHandler] = field(default_factory=list)
    on_policy: list[ServerHandler] = field(default_factory=list)
    on_close: list[ServerHandler] = field(default_factory=list)
    receipt_hook: ReceiptHook | None = None
    validate: ArgumentCheck | None = None
    tools_declared: int = 0
    _declared: tuple[str, Any] = ("", None)

    def __post_init__(self) -> None:
        texts = {**self.info, "instructions": "" if self.instructions is None else self.instructions}
        for name, text in texts.items():
            if not isinstance(text, str):
                raise InvalidValueError(name, "a text")
        if not isinstance(self.capabilities.get("experimental", {}), dict):
            raise InvalidValueError("mcp_capabilities", "experimental is an object", "$.experimental")
        encode_value(self.capabilities)

    def outer_capabilities(self, manifest: dict[str, Any]) -> dict[str, Any]:
        """The ``capabilities`` of ``initialize`` (MCP; SPEC 5.1)."""
        tools = {"tools": {"listChanged": True}} if self.tools else {}
        experimental = {**self.capabilities.get("experimental", {}), "mcpl": manifest}
        return {**tools, **self.capabilities, "experimental": experimental}

    def declared_feature_sets(self) -> Any:
        """The manifest's ``featureSets`` member in force, not to be changed."""
        if self._declared[0] != self.tracker.revision:
            self._declared = (self.tracker.revision, self.tracker.snapshot().get("featureSets"))
        return self._declared[1]

    def uses(self, feature_set: str) -> tuple[str, ...]:
        """What a declared feature set uses; empty when there is none of that name."""
        declared = self.declared_feature_sets()
        entry = declared.get(feature_set) if isinstance(declared, dict) else None
        uses = entry.get("uses") if isinstance(entry, dict) else None
        return tuple(path for path in uses if isinstance(path, str)) if isinstance(uses, list) else ()
