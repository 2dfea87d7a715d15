"""One host at one connection of a server: its life, the handshake, the policy.

Owns: the connection's state, and what is handled as its message is taken from the wire, because it changes how later
messages are understood. Does not own: what the server offers (``offer``), what takes time (``serving``), the decisions
(``policy``), and the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from threading import get_ident
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup
from msgspec import UNSET

from ..connection import McplConnection
from ..dispatch import Router
from ..errors import InvalidParams, InvalidRequest, LocalProtocolError, MethodNotFound, RpcError
from ..manifest import Announcement
from ..protocol import (
    InferenceChunkParams,
    InferenceLifecycleParams,
    InitializeParams,
    MessageForm,
    Method,
    ToolsListParams,
    decode_params,
    mcpl_manifest,
    method,
)
from ..transports.loop import current_loop, name_library
from ..wire.messages import Notification, Request
from .announcing import Announcer
from .calling import Caller
from .calls import HostCalls
from .context import Context
from .delivery import Delivery
from .observing import InferenceFeed
from .offer import Offer, ServerHandler
from .policy import ServerPolicy
from .routing import GatedRouter
from .serving import Serving

__all__ = ("OWN_METHODS", "SUPPORTED_PROTOCOL_VERSIONS", "ServerSession")

#: The MCP versions of the handshake era, oldest first.
SUPPORTED_PROTOCOL_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

#: Methods that the session answers itself, always.
OWN_METHODS: Final = frozenset(
    {
        method.INITIALIZE,
        method.INITIALIZED,
        method.CANCELLED,
        method.PING,
        method.FEATURE_SETS_UPDATE,
        method.MCPL_MANIFEST,
        method.CONTEXT_BEFORE_INFERENCE,
        method.INFERENCE_LIFECYCLE,
        method.INFERENCE_CHUNK,
    }
)


class ServerSession:
    """A server's side of one connection.

    Args:
        offer: what the server declared.
        connection: an entered connection.
        principal: who is at the other end.
        caller: runs the functions of the application.

    Attributes:
        host: the host's ``clientInfo`` as received.
        protocol_version: the MCP version of the handshake; empty before it.
        mcpl: the host speaks MCPL; false until it said so.
        advertised: the host's ``experimental.mcpl`` object as received (SPEC 5.2); empty without one.
        state: the application's own, for this connection.
    """

    def __init__(self, offer: Offer, connection: McplConnection, principal: str, caller: Caller) -> None:
        self.offer = offer
        self.connection = connection
        self.principal = principal
        self.caller = caller
        self.policy = ServerPolicy(offer.declared_feature_sets, offer.vocabulary, offer.receipt_hook)
        self.calls = HostCalls(connection, self.policy, offer.methods)
        self.host: dict[str, Any] = {}
        self.protocol_version = ""
        self.mcpl = False
        self.advertised: dict[str, Any] = {}
        self.state: dict[str, Any] = {}
        #: The event loop's thread: what changes what is offered must be called from it.
        self.thread = get_ident()
        self._tasks: TaskGroup | None = None
        self._was_ready = False
        self._announcer = Announcer(connection, self._spawn)

    # ------------------------------------------------------------------------------------ life

    async def run(self) -> None:
        """Serves the connection until it closed."""
        settings = self.offer.settings
        failure: Exception | None = None
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                loop = current_loop(tasks)
                self._feed = InferenceFeed(
                    settings.inference_timeout, loop, self._spawn, self._tell_inference, self.connection.report
                )
                self._delivery = Delivery(
                    self.offer.outbox, self.principal, self.calls, settings, loop.time, self._spawn
                )
                try:
                    await self._run_hooks(self.offer.on_connect)
                    await self.connection.serve(self._router(), limit=settings.handler_limit, grace=settings.grace)
                    with anyio.move_on_after(settings.grace):
                        await self._feed.close()
                except Exception as exc:
                    # Raised again outside of the group, which would wrap it.
                    failure = exc
                finally:
                    # While the group ends it takes no more tasks, and whoever changes the manifest must not learn it.
                    self._tasks = None
                tasks.cancel_scope.cancel()
        finally:
            self.offer.tracker.detach(self)
            self.offer.outbox.detach(self.principal, self._delivery)
            with anyio.move_on_after(settings.grace, shield=True):
                await self._feed.close()
            # Seconds of their own: who is slow to hear of inferences does not cost the closing hooks theirs.
            with anyio.move_on_after(settings.grace, shield=True):
                await self._run_hooks(self.offer.on_close)
        if failure is not None:
            raise failure

    async def _run_hooks(self, hooks: list[ServerHandler]) -> None:
        for hook in tuple(hooks):
            await self._run_hook(hook)

    async def _run_hook(self, hook: ServerHandler, *args: Any) -> None:
        try:
            await self.caller.call(hook, self.context(params=args[0] if args else None), *args)
        except Exception as exc:
            self.connection.report(exc)

    async def _tell_inference(self, notice: InferenceLifecycleParams) -> None:
        for function in tuple(self.offer.lifecycle):
            await self._run_hook(function, notice)

    def _spawn(self, function: Callable[[], Coroutine[Any, Any, Any]]) -> None:
        """Starts a task that ends with the session."""
        if self._tasks is not None:
            name_library()
            self._tasks.start_soon(function)

    def context(self, request: Request | Notification | None = None, params: Any = None) -> Context:
        """The context of a call, or of the connection."""
        return Context(
            self.calls,
            principal=self.principal,
            host=self.host,
            protocol_version=self.protocol_version,
            mcpl=self.mcpl,
            advertised=self.advertised,
            session_state=self.state,
            request_id=request.id if isinstance(request, Request) else None,
            params=params,
        )

    # ------------------------------------------------------------------------------------ routes

    def _router(self) -> Router:
        router = GatedRouter(self.offer.methods, self.denial)
        inline: dict[str, Any] = {
            method.INITIALIZE: self._initialize,
            method.INITIALIZED: self._initialized,
            method.PING: lambda request: {},
            method.CANCELLED: _nothing,
            method.PROGRESS: _nothing,
            method.FEATURE_SETS_UPDATE: self._update_policy,
            method.MCPL_MANIFEST: self._manifest,
            method.TOOLS_LIST: self._list_tools,
            method.INFERENCE_CHUNK: self._inference_chunk,
        }
        for name, handler in inline.items():
            if name not in self.offer.handlers:
                router.add(name, handler, inline=True)
        router.add_gated(method.INFERENCE_LIFECYCLE, self._inference_lifecycle)
        for name, (handler, ordered) in Serving(self).handlers().items():
            router.add_gated(name, handler, ordered=ordered)
        return router

    def denial(self, name: str) -> RpcError | None:
        """Why this host may not use a method now; ``None`` when it may. Asked before params are read (SPEC 5.4)."""
        if not self.protocol_version:
            return InvalidRequest(message="initialize comes first")
        entry = self.offer.methods.get(name)
        if entry is None:
            return None
        if self.by_grant:
            handler = self.offer.handlers.get(name)
            return self.policy.denial(entry, None if handler is None else handler.feature_set)
        # Without MCPL there is no grant: tools are MCP's own, the rest does not exist (SPEC 3.2).
        if name != method.TOOLS_CALL and (entry.capabilities or entry.extension):
            return MethodNotFound(message=f"{name} needs a host that speaks MCPL")
        return None

    def admit(self, name: str) -> Method | None:
        """The row of a method that this host may use now; ``None`` for a method outside of the table.

        Raises:
            RpcError: it may not.
        """
        denied = self.denial(name)
        if denied is not None:
            raise denied
        return self.offer.methods.get(name)

    @property
    def by_grant(self) -> bool:
        """Whether this host decides by a grant: a plain MCP host does not, and neither does one whose policy this
        server refused in favour of plain MCP (SPEC 6.7)."""
        return self.mcpl and not self.policy.refused

    # ------------------------------------------------------------------------------------ handshake

    def _initialize(self, request: Request) -> dict[str, Any]:
        if self.protocol_version:
            raise InvalidRequest(message="the handshake is done already")
        params: InitializeParams = decode_params(self.offer.methods[method.INITIALIZE], request.raw_params)
        wanted = params.protocol_version
        self.protocol_version = wanted if wanted in SUPPORTED_PROTOCOL_VERSIONS else SUPPORTED_PROTOCOL_VERSIONS[-1]
        self.host = request.params["clientInfo"]
        advertised = mcpl_manifest(params.capabilities)
        self.mcpl = isinstance(advertised, dict)
        self.advertised = advertised if isinstance(advertised, dict) else {}
        manifest = self.offer.tracker.snapshot()
        if self.mcpl:
            # It knows this manifest from the handshake: only a later one is announced (SPEC 17.10).
            self.offer.tracker.attach(self)
            self.offer.outbox.attach(self.principal, self._delivery)
        result = {
            "protocolVersion": self.protocol_version,
            "capabilities": self.offer.outer_capabilities(manifest),
            "serverInfo": self.offer.info,
        }
        return result if self.offer.instructions is None else {**result, "instructions": self.offer.instructions}

    def _initialized(self, message: Notification) -> None:
        if self.protocol_version:
            self._announcer.open()

    def _require_handshake(self) -> None:
        if not self.protocol_version:
            raise InvalidRequest(message="initialize comes first")

    def _manifest(self, request: Request) -> dict[str, Any]:
        self._require_handshake()
        return self.offer.tracker.snapshot()

    def announce(self, announcement: Announcement[Any]) -> None:
        """Tells the host that the manifest changed."""
        self._announcer.manifest_changed(announcement)

    def redeclared(self) -> None:
        """The declarations changed, and with them what the grant amounts to."""
        self.policy.redeclared()
        self._policy_changed()

    def tools_changed(self) -> None:
        """Tells the host that the tool list changed."""
        if self.protocol_version:
            self._announcer.tools_changed()

    # ------------------------------------------------------------------------------------ policy

    def _update_policy(self, message: Request | Notification) -> Any:
        self._require_handshake()
        if not self.mcpl:
            raise MethodNotFound(message="this host did not advertise MCPL in its handshake")
        form: MessageForm = "request" if isinstance(message, Request) else "notification"
        try:
            update = self.policy.update(_policy_params(message), form)
        finally:
            self._policy_changed()
        outcome = update.outcome
        if outcome.discarded:
            dropped = ", ".join(outcome.discarded)
            self.connection.report(LocalProtocolError(f"a policy notification may only disable; ignored: {dropped}"))
        if outcome.malformed is not None:
            raise outcome.malformed.as_error()
        if update.close:
            # The refusal goes out first: closing flushes what was handed over.
            self._spawn(self.connection.aclose)
        if self.policy.ready and not self._was_ready:
            self._was_ready = True
            self._announcer.open()
            for hook in self.offer.on_ready:
                self._spawn(partial(self._run_hook, hook))
        return update.answer

    def _policy_changed(self) -> None:
        self.calls.policy_changed()
        self.offer.outbox.reassign(self.principal)
        for hook in tuple(self.offer.on_policy):
            try:
                hook(self.context())
            except Exception as exc:
                self.connection.report(exc)

    # ------------------------------------------------------------------------------------ what the session knows itself

    def _list_tools(self, request: Request) -> dict[str, Any]:
        self._require_handshake()
        params: ToolsListParams = decode_params(self.offer.methods[method.TOOLS_LIST], request.raw_params)
        after = _cursor(params.cursor, self.offer.tools_declared)
        rest = [declared for declared in self.offer.tools.values() if declared.number > after]
        page = rest[: self.offer.settings.page_size]
        result: dict[str, Any] = {"tools": [declared.tool.definition() for declared in page]}
        return result if len(page) == len(rest) else {**result, "nextCursor": str(page[-1].number)}

    async def _inference_lifecycle(self, message: Notification) -> None:
        self.admit(method.INFERENCE_LIFECYCLE)
        entry = self.offer.methods[method.INFERENCE_LIFECYCLE]
        notice: InferenceLifecycleParams = decode_params(entry, message.raw_params, "notification")
        if self._feed.take(notice):
            await self._feed.heard()

    def _inference_chunk(self, message: Notification) -> None:
        self._require_handshake()
        entry = self.offer.methods[method.INFERENCE_CHUNK]
        chunk: InferenceChunkParams = decode_params(entry, message.raw_params, "notification")
        self.calls.take_chunk(chunk)


def _policy_params(message: Request | Notification) -> Any:
    try:
        # Absent params say no more than an empty object.
        return UNSET if message.params is None else message.params
    except InvalidParams:
        # No JSON object: as malformed as any, and what is malformed leaves no grant (SPEC 5.4).
        return []


def _nothing(message: Request | Notification) -> None:
    """For what the connection itself has dealt with."""


def _cursor(cursor: Any, last: int) -> int:
    """The number of the declaration that the page before ended with."""
    if not cursor:
        return 0
    if cursor.isascii() and cursor.isdigit() and len(cursor) < 10 and 0 < int(cursor) <= last:
        return int(cursor)
    raise InvalidParams(message="no such cursor", data={"path": "$.cursor"})
