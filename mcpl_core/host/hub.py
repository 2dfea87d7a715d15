"""What all servers of one host share: its identity, its numbers, its handlers, and what outlives a connection.

Owns: these facts in one place, and what the host says of itself (SPEC 5.2). Does not own: what is done with them (the
parts of a session).
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

import anyio

from ..errors import InvalidValueError, LocalProtocolError
from ..ontology import Acceptances
from ..protocol import MCPL_VERSION, METHODS, MethodTable, ModelInfo
from .audit import AuditRecord
from .channels import DEFAULT_CHANNEL_LIMIT
from .dedupe import SeenEvents
from .delivery import Delivery, EventHandler
from .events import DEFAULT_QUEUE_BYTES, DEFAULT_QUEUE_LIMIT, EventQueue
from .extensions import HostExtension, joint_advertisement, joint_handlers
from .state import States

__all__ = ("HostHandlers", "HostSettings", "Hub", "host_manifest")

_logger = logging.getLogger("mcpl_core.host")

#: Rows of the core's table that have their own parts: the SPEC's and MCP's, and these extensions.
_SERVED = frozenset({None, "state", "branches"})


@dataclass(frozen=True, slots=True, kw_only=True)
class HostSettings:
    """Numbers of a host; all times in seconds.

    Attributes:
        handshake_timeout: for the answer to ``initialize``.
        policy_timeout: for the receipt of a policy.
        call_timeout: for the answer to a tool call; each progress notification gives as much again.
        call_limit: for the whole of a tool call, however much progress there is.
        hook_timeout: for the answer to a context hook (SPEC 10.6).
        handler_limit: messages of one server that are handled at once.
        grace: for accepted requests of a server to finish after its input ended.
        queue_limit, queue_bytes: events of one server that wait for the application.
        channel_limit: channels of one server.
        tool_pages: pages of ``tools/list`` that are asked for.
        manifest_interval: between two fetches of a manifest; announcements in between lead to one fetch at its end.
            It doubles, up to ``manifest_longest``, while fetches bring nothing new.
        manifest_longest: see ``manifest_interval``.
        manifest_burst: announcements between two fetches, past which the rest is a reported defect (SPEC 17.8).
        manifest_failures: unreadable manifests in a row after which the server is a plain MCP server (SPEC 17.5).
        manifest_schedule: between fetches that nobody announced; ``None``: none.
        changelog_delay: for changes of tools and channels to be told together (SPEC 17.7).
        first_retry, longest_retry: between attempts to connect again; doubled each time, with jitter.
        stable_after: a connection that lasted so long starts the series anew.
        close_timeout: for a server to be told goodbye.

    Raises:
        TypeError: a value is no number, or no whole one where things are counted.
        InvalidValueError: it is negative or not a number, or a count of none; ``code`` is its name.
    """

    handshake_timeout: float = 30.0
    policy_timeout: float = 30.0
    call_timeout: float = 30.0
    call_limit: float = 600.0
    hook_timeout: float = 5.0
    handler_limit: int = 100
    grace: float = 5.0
    queue_limit: int = DEFAULT_QUEUE_LIMIT
    queue_bytes: int = DEFAULT_QUEUE_BYTES
    channel_limit: int = DEFAULT_CHANNEL_LIMIT
    tool_pages: int = 100
    manifest_interval: float = 10.0
    manifest_longest: float = 300.0
    manifest_burst: int = 16
    manifest_failures: int = 3
    manifest_schedule: float | None = None
    changelog_delay: float = 0.5
    first_retry: float = 0.5
    longest_retry: float = 60.0
    stable_after: float = 30.0
    close_timeout: float = 5.0

    def __post_init__(self) -> None:
        for field_ in fields(self):
            value, counts = getattr(self, field_.name), isinstance(field_.default, int)
            if value is None and field_.default is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int if counts else int | float):
                raise TypeError(
                    f"{field_.name} is a {'whole number' if counts else 'number of seconds'}, not {value!r}"
                )
            if not value >= (1 if counts else 0):
                raise InvalidValueError(field_.name, f"{value} is out of range")


@dataclass(frozen=True, slots=True, kw_only=True)
class HostHandlers:
    """What the application does for its servers. What is left out is answered with -32601.

    Attributes:
        on_event: takes each ``HostEvent``, in the place of the queue; may return an ``EventAnswer``.
        inference: takes an ``InferenceCall`` and returns an ``InferenceRequestResult`` (SPEC 11).
        model_info: a ``ModelInfo``, or takes the server's id and returns one (SPEC 12).
        branches: an object with the methods of ``Branches`` (extension).
        others: handlers of further methods that a server sends, by method; each is a row of the method table, and its
            handler takes the session and the typed params only when the grant holds what the row needs. That of a
            notification is a plain function, called as its message is taken from the wire.
        extensions: further parts of the host, each beside every session.
        on_audit: takes each ``AuditRecord``.
        trace: returns the members of ``_meta`` that carry the trace context of a request (``traceparent``, ...).
    """

    on_event: EventHandler | None = None
    inference: Callable[[Any], Any] | None = None
    model_info: ModelInfo | Callable[[str], Any] | None = None
    branches: Any = None
    others: Mapping[str, Callable[..., Any]] = field(default_factory=dict)
    extensions: Sequence[HostExtension] = ()
    on_audit: Callable[[AuditRecord], object] | None = None
    trace: Callable[[], Mapping[str, str]] | None = None


@dataclass(slots=True, kw_only=True)
class Hub:
    """See the module.

    Attributes:
        name, version: the host's identity (``clientInfo``).
        seen, states, acceptances: outlive connections.
        clock: seconds, for intervals; ``wall_clock``: since the epoch, for records.
        sleep, jitter: of the waiting between attempts to connect; ``jitter`` gives a number from 0 to 1.
        others, advertises: of the application and all extensions together.

    Raises:
        LocalProtocolError: a handler is given for a method that no server sends, or that has its own part; or two parts
            are for the same thing.
    """

    name: str
    version: str
    settings: HostSettings = field(default_factory=HostSettings)
    handlers: HostHandlers = field(default_factory=HostHandlers)
    methods: MethodTable = field(default_factory=lambda: METHODS)
    seen: SeenEvents = field(default_factory=SeenEvents)
    states: States = field(default_factory=States)
    acceptances: Acceptances = field(default_factory=Acceptances)
    clock: Callable[[], float] = anyio.current_time
    wall_clock: Callable[[], float] = time.time
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    jitter: Callable[[], float] = random.random
    delivery: Delivery = field(init=False)
    others: Mapping[str, Callable[..., Any]] = field(init=False)
    advertises: Mapping[str, Any] = field(init=False)

    def __post_init__(self) -> None:
        self.others = joint_handlers(self.handlers.extensions, self.handlers.others)
        self.advertises = joint_advertisement(self.handlers.extensions)
        for name in self.others:
            entry = self.methods.get(name)
            if entry is None or not entry.sent_by("server") or (name in METHODS and entry.extension in _SERVED):
                raise LocalProtocolError(f"{name} is not for a host's handlers")
        self.delivery = Delivery(
            EventQueue(self.settings.queue_limit, self.settings.queue_bytes),
            self.seen,
            self.handlers.on_event,
            clock=self.clock,
            report=_handler_failed,
        )


def _handler_failed(exc: BaseException) -> None:
    _logger.error("an event handler failed", exc_info=exc)


def host_manifest(hub: Hub, extensions: frozenset[str] = frozenset()) -> dict[str, Any]:
    """What the host supports, as the ``experimental.mcpl`` object of its ``initialize`` (SPEC 5.2). It is the same for
    every server, and says nothing of what one of them may do.

    Args:
        extensions: the paths of extensions that the vocabulary of its policy has.
    """
    manifest: dict[str, Any] = {
        "version": MCPL_VERSION,
        "pushEvents": True,
        "contextHooks": {"beforeInference": True},
        "inferenceLifecycle": True,
        "channels": True,
        "featureSets": True,
    }
    if hub.handlers.inference is not None:
        manifest["inferenceRequest"] = {"streaming": True}
    if hub.handlers.model_info is not None:
        manifest["modelInfo"] = True
    if "stateUpdate" in extensions:
        manifest["stateUpdate"] = True
    branches = [path.partition(".")[2] for path in sorted(extensions) if path.startswith("branches.")]
    if hub.handlers.branches is not None and branches:
        manifest["branches"] = dict.fromkeys(branches, True)
    return {**manifest, **hub.advertises}
