"""One host at one connection of a server: handshake, policy, and the way of each message to its handler.

Owns: the connection's state and its routes. What changes how later messages are understood (the handshake, the policy)
is handled as its message is taken from the wire; everything else in workers. Does not own: what the server offers
(``offer``), the decisions (``policy``), how one tool is called (``calling``), and the wire.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

import anyio
from anyio.abc import TaskGroup

from ..connection import McplConnection
from ..dispatch import Router
from ..errors import (
    CapabilityDenied,
    ConnectionClosedError,
    ConnectionTimeoutError,
    FeatureSetNotEnabled,
    InternalError,
    InvalidParams,
    InvalidRequest,
    LocalProtocolError,
    McplError,
    MethodNotFound,
    RpcError,
    UnknownFeatureSet,
)
from ..manifest import Announcement
from ..protocol import (
    InferenceChunkParams,
    InferenceLifecycleParams,
    InitializeParams,
    MessageForm,
    Method,
    PushEventParams,
    ToolsListParams,
    decode_params,
    mcpl_manifest,
    method,
)
from ..receipts import RefusedReceipt
from ..transports.loop import TimerHandle, current_loop
from ..wire.messages import Notification, Request
from .calling import Caller
from .calls import IN_HOOK, HostCalls
from .context import Context
from .features import FeatureSet
from .hooks import hook_result, injections_of
from .lifecycle import LifecycleTracker
from .offer import Offer, ServerHandler
from .outbox import retry_delay
from .policy import ServerPolicy

__all__ = ("SUPPORTED_PROTOCOL_VERSIONS", "ServerSession")

#: The MCP versions of the handshake era, oldest first.
SUPPORTED_PROTOCOL_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

_HOOK: Final = method.CONTEXT_BEFORE_INFERENCE


class ServerSession:
    """A server's side of one connection.

    Args:
        offer: what the server declared.
        connection: an entered connection.
        principal: who is at the other end.
        caller: runs the functions of the application.
    """

    def __init__(self, offer: Offer, connection: McplConnection, principal: str, caller: Caller) -> None:
        self.offer = offer
        self.connection = connection
        self.principal = principal
        self.policy = ServerPolicy(offer.declared_feature_sets, offer.vocabulary, offer.receipt_hook)
        self.calls = HostCalls(connection, self.policy, offer.methods)
        self.host: dict[str, Any] = {}
        self.protocol_version = ""
        #: The host speaks MCPL; false until it said so.
        self.mcpl = False
        self.initialized = False
        self.state: dict[str, Any] = {}
        self._caller = caller
        self._lifecycle = LifecycleTracker(offer.settings.inference_timeout)
        self._tasks: TaskGroup | None = None
        self._timer: TimerHandle | None = None
        self._was_ready = False
        self._mail = anyio.Event()

    # ------------------------------------------------------------------------------------ life

    async def run(self) -> None:
        """Serves the connection until it closed."""
        settings = self.offer.settings
        async with anyio.create_task_group() as tasks:
            self._tasks = tasks
            self._loop = current_loop(tasks)
            try:
                await self._run_hooks(self.offer.on_connect)
                await self.connection.serve(self._router(), limit=settings.handler_limit, grace=settings.grace)
            finally:
                tasks.cancel_scope.cancel()
                self._end()
        with anyio.CancelScope(shield=True), anyio.move_on_after(settings.grace):
            for notice in self._lifecycle.end_all():
                await self._tell_lifecycle(notice)
            await self._run_hooks(self.offer.on_close)

    def _end(self) -> None:
        self.offer.tracker.detach(self)
        self.offer.outbox.release(self.principal, self)
        if self._timer is not None:
            self._timer.cancel()

    async def _run_hooks(self, hooks: list[ServerHandler]) -> None:
        for hook in tuple(hooks):
            try:
                await self._caller.call(partial(hook, self.context()))
            except Exception as exc:
                self.connection.report(exc)

    def spawn(self, function: Any, *args: Any) -> None:
        """Starts a task that ends with the session."""
        if self._tasks is not None:
            self._tasks.start_soon(function, *args)

    def context(self, request: Request | Notification | None = None, params: Any = None) -> Context:
        """The context of a call, or of the connection."""
        meta = getattr(params, "meta", None)
        return Context(
            self.calls,
            principal=self.principal,
            host=self.host,
            protocol_version=self.protocol_version,
            mcpl=self.mcpl,
            session_state=self.state,
            request_id=request.id if isinstance(request, Request) else None,
            meta=meta if isinstance(meta, dict) else {},
            params=params,
        )

    # ------------------------------------------------------------------------------------ routes

    def _router(self) -> Router:
        router = Router(methods=self.offer.methods)
        inline: dict[str, Any] = {
            method.INITIALIZE: self._initialize,
            method.INITIALIZED: self._initialized,
            method.PING: self._ping,
            method.CANCELLED: _nothing,
            method.PROGRESS: _nothing,
            method.FEATURE_SETS_UPDATE: self._update_policy,
            method.MCPL_MANIFEST: self._manifest,
            method.TOOLS_LIST: self._list_tools,
            method.INFERENCE_CHUNK: self._chunk,
        }
        for name, handler in inline.items():
            if name not in self.offer.handlers:
                router.add(name, handler, inline=True)
        workers: dict[str, Any] = {
            method.TOOLS_CALL: self._call_tool,
            _HOOK: self._before_inference,
            method.INFERENCE_LIFECYCLE: self._inference_lifecycle,
        }
        for name, worker in workers.items():
            if name not in self.offer.handlers:
                router.add(name, worker)
        for name in self.offer.handlers:
            router.add(name, partial(self._call_handler, name))
        return router

    def _require_handshake(self) -> None:
        if not self.protocol_version:
            raise InvalidRequest(message="initialize comes first")

    def _row(self, name: str) -> Method:
        """The row of a method that this host may use at all (SPEC 3.2, 6.6)."""
        self._require_handshake()
        entry = self.offer.methods[name]
        if (entry.capabilities or entry.extension) and not self._grants_needed and name != method.TOOLS_CALL:
            raise MethodNotFound(message=f"{name} needs a host that speaks MCPL")
        return entry

    @property
    def _grants_needed(self) -> bool:
        """Whether this host decides by a grant: a plain MCP host does not, and neither does one whose policy this
        server refused in favour of plain MCP."""
        return self.mcpl and not self.policy.refused

    # ------------------------------------------------------------------------------------ handshake

    def _initialize(self, request: Request) -> dict[str, Any]:
        if self.protocol_version:
            raise InvalidRequest(message="the handshake is done already")
        params: InitializeParams = decode_params(self.offer.methods[method.INITIALIZE], request.raw_params)
        wanted = params.protocol_version
        self.protocol_version = wanted if wanted in SUPPORTED_PROTOCOL_VERSIONS else SUPPORTED_PROTOCOL_VERSIONS[-1]
        self.host = request.params.get("clientInfo", {})
        self.mcpl = isinstance(mcpl_manifest(params.capabilities), dict)
        manifest = self.offer.tracker.snapshot()
        if self.mcpl:
            self.offer.tracker.attach(self, manifest["revision"])
        result: dict[str, Any] = {
            "protocolVersion": self.protocol_version,
            "capabilities": {**self._outer_capabilities(), "experimental": {"mcpl": manifest}},
            "serverInfo": self.offer.info,
        }
        if self.offer.instructions is not None:
            result["instructions"] = self.offer.instructions
        return result

    def _outer_capabilities(self) -> dict[str, Any]:
        tools = {"tools": {"listChanged": True}} if self.offer.tools else {}
        return {**tools, **self.offer.capabilities}

    def _initialized(self, message: Notification) -> None:
        self.initialized = True
        announcement = self.offer.tracker.catch_up(self)
        if announcement is not None:
            self.announce(announcement)

    def _ping(self, request: Request) -> dict[str, Any]:
        return {}

    def announce(self, announcement: Announcement[Any]) -> None:
        """Tells the host that the manifest changed; its failure is this connection's alone."""
        self.spawn(self._notify, method.MCPL_MANIFEST_CHANGED, announcement.params)

    def tools_changed(self) -> None:
        """Tells the host that the tool list changed."""
        if self.initialized:
            self.spawn(self._notify, method.TOOLS_LIST_CHANGED, None)

    async def _notify(self, name: str, params: Any) -> None:
        try:
            await self.connection.send_notification(name, params)
        except McplError as exc:
            self.connection.report(exc)

    def _manifest(self, request: Request) -> dict[str, Any]:
        self._require_handshake()
        return self.offer.tracker.snapshot()

    # ------------------------------------------------------------------------------------ policy

    def _update_policy(self, message: Request | Notification) -> dict[str, Any] | None:
        self._require_handshake()
        if not self.mcpl:
            raise MethodNotFound(message="this host did not advertise MCPL in its handshake")
        form = _form(message)
        outcome, receipt = self.policy.update(message.params, form)
        if outcome.malformed is not None:
            raise outcome.malformed.as_error()
        if outcome.discarded:
            dropped = ", ".join(outcome.discarded)
            self.connection.report(LocalProtocolError(f"a policy notification may only disable; ignored: {dropped}"))
        self._policy_changed(receipt)
        return None if receipt is None else receipt.to_wire()

    def _policy_changed(self, receipt: Any) -> None:
        if isinstance(receipt, RefusedReceipt):
            if receipt.fallback == "close":
                self.spawn(self._close_after_answer)
            return
        if self.policy.ready and not self._was_ready:
            self._was_ready = True
            self.offer.outbox.claim(self.principal, self)
            self.spawn(self._deliver)
            self.spawn(self._run_hooks, self.offer.on_ready)
        self.mail()

    async def _close_after_answer(self) -> None:
        # The refusal is on its way; closing flushes it first.
        await self.connection.aclose()

    # ------------------------------------------------------------------------------------ tools

    def _list_tools(self, request: Request) -> dict[str, Any]:
        self._require_handshake()
        params: ToolsListParams = decode_params(self.offer.methods[method.TOOLS_LIST], request.raw_params)
        tools = [tool.definition() for tool in self.offer.tools.values()]
        size = self.offer.settings.page_size
        if size is None:
            return {"tools": tools}
        start = _position(params.cursor, len(tools))
        page: dict[str, Any] = {"tools": tools[start : start + size]}
        return page if start + size >= len(tools) else {**page, "nextCursor": str(start + size)}

    async def _call_tool(self, request: Request) -> dict[str, Any]:
        entry = self._row(method.TOOLS_CALL)
        if self._grants_needed:
            self.policy.check(entry)
        params = decode_params(entry, request.raw_params)
        tool = self.offer.tools.get(params.name)
        if tool is None:
            raise InvalidParams(message=f"no such tool: {params.name}", data={"tool": params.name})
        feature_set = self.offer.tool_sets.get(tool.name)
        if self._grants_needed and feature_set is not None:
            self.policy.check(entry, feature_set.name)
        return await self._caller.call_tool(
            tool, params, self.context(request, params), self.offer.validate, self.connection.report
        )

    # ------------------------------------------------------------------------------------ hooks

    async def _before_inference(self, request: Request) -> Any:
        entry = self._row(_HOOK)
        self.policy.check(entry)
        params = decode_params(entry, request.raw_params)
        context = self.context(request, params)
        results = []
        mark = IN_HOOK.set(True)
        try:
            for feature_set, hook in tuple(self.offer.hooks):
                status = self.policy.statuses.get(feature_set.name)
                if status is not None and status.enabled:
                    results.append((feature_set, await self._one_hook(feature_set, hook, context, params)))
        finally:
            IN_HOOK.reset(mark)
        return hook_result(results, self.policy)

    async def _one_hook(self, feature_set: FeatureSet, hook: ServerHandler, context: Context, params: Any) -> Any:
        # One broken hook must not cost the turn what the others have to say.
        try:
            value = await self._caller.call(partial(hook, context, params))
            return injections_of(value, feature_set, str(self.offer.info["name"]))
        except Exception as exc:
            self.connection.report(exc)
            return []

    async def _inference_lifecycle(self, message: Notification) -> None:
        entry = self._row(method.INFERENCE_LIFECYCLE)
        self.policy.check(entry)
        notice: InferenceLifecycleParams = decode_params(entry, message.raw_params, "notification")
        defect = self._lifecycle.take(notice, self._loop.time())
        self._watch_inferences()
        if defect is not None:
            self.connection.report(LocalProtocolError(defect))
            return
        await self._tell_lifecycle(notice)

    async def _tell_lifecycle(self, notice: InferenceLifecycleParams) -> None:
        for handler in tuple(self.offer.lifecycle):
            try:
                await self._caller.call(partial(handler, self.context(params=notice), notice))
            except Exception as exc:
                self.connection.report(exc)

    def _watch_inferences(self) -> None:
        """Sets the timer for the inference that is overdue first."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self._lifecycle.deadline()
        if deadline is not None:
            self._timer = self._loop.call_at(deadline, self._expire_inferences)

    def _expire_inferences(self) -> None:
        self._timer = None
        for notice in self._lifecycle.expire(self._loop.time()):
            self.spawn(self._tell_lifecycle, notice)
        self._watch_inferences()

    def _chunk(self, message: Notification) -> None:
        entry = self._row(method.INFERENCE_CHUNK)
        self.policy.check(entry)
        chunk: InferenceChunkParams = decode_params(entry, message.raw_params, "notification")
        self.calls.take_chunk(chunk)

    # ------------------------------------------------------------------------------------ other handlers

    async def _call_handler(self, name: str, message: Request | Notification) -> Any:
        handler = self.offer.handlers[name]
        entry = self.offer.methods.get(name)
        if entry is None:
            self._require_handshake()
            return await self._caller.call(partial(handler, self.context(message), message.params))
        self._row(name)
        if self._grants_needed:
            self.policy.check(entry)
        form = _form(message)
        params = decode_params(entry, message.raw_params, form)
        return await self._caller.call(partial(handler, self.context(message, params), params))

    # ------------------------------------------------------------------------------------ events

    def mail(self) -> None:
        """Something changed for the outbox: an event came, or the policy is another."""
        self._mail.set()

    async def _deliver(self) -> None:
        """Sends what the outbox holds for this connection, one after the other, until it is answered."""
        attempt = 0
        while True:
            event = self.offer.outbox.next(self.principal, self)
            if event is None or not self._may_send(event):
                self._mail = anyio.Event()
                await self._mail.wait()
                continue
            attempt += 1
            if await self._attempt(event):
                self.offer.outbox.settle(self.principal, self, event.event_id)
                attempt = 0
            else:
                settings = self.offer.settings
                await anyio.sleep(retry_delay(attempt, settings.first_retry, settings.longest_retry))

    def _may_send(self, event: PushEventParams) -> bool:
        try:
            self.policy.check(self.offer.methods[method.PUSH_EVENT], event.feature_set)
        except RpcError:
            return False
        return True

    async def _attempt(self, event: PushEventParams) -> bool:
        """Whether the host answered, with whatever answer; false when it is to be tried again."""
        try:
            await self.calls.send_event(event, timeout=self.offer.settings.event_timeout)
        except (ConnectionTimeoutError, ConnectionClosedError, InternalError):
            return False
        except (CapabilityDenied, FeatureSetNotEnabled, UnknownFeatureSet) as exc:
            # Refused by the host, or by a reduction that came just now: then it waits for another policy.
            if not self._may_send(event):
                return False
            self.connection.report(exc)
        except McplError as exc:
            self.connection.report(exc)
        return True


def _form(message: Request | Notification) -> MessageForm:
    return "request" if isinstance(message, Request) else "notification"


def _nothing(message: Request | Notification) -> None:
    """For what the connection itself has dealt with."""


def _position(cursor: Any, count: int) -> int:
    """Where a page begins."""
    if not cursor:
        return 0
    if isinstance(cursor, str) and cursor.isascii() and cursor.isdigit() and len(cursor) < 10 and int(cursor) < count:
        return int(cursor)
    raise InvalidParams(message="no such cursor", data={"path": "$.cursor"})
