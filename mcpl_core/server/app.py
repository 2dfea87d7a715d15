"""The server: what an application declares, and the connections it serves.

Owns: the declaring calls and decorators, serving many hosts at once, and what goes to all of them (manifest changes,
events). Does not own: one host's connection (``session``), and the facts themselves (``offer``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from threading import get_ident
from typing import Any, TypeVar, Unpack, overload

import anyio
from anyio.abc import TaskStatus

from ..capabilities import VOCABULARY, Vocabulary
from ..connection import McplConnection
from ..errors import LocalProtocolError
from ..manifest import ManifestTracker, ManifestUpdate
from ..options import ConnectionOptions
from ..protocol import MCPL_VERSION, METHODS, MethodTable
from .calling import ArgumentCheck, Caller
from .events import event_params
from .features import FeatureSet, advertise, declare, name_of
from .hooks import HOOK_PATHS
from .offer import DeclaredHandler, DeclaredTool, Offer, Settings
from .outbox import Outbox
from .policy import ReceiptHook
from .session import OWN_METHODS, ServerSession
from .tools import ServerTool, tool_from_function

__all__ = ("LOCAL_PRINCIPAL", "McplServer")

F = TypeVar("F", bound=Callable[..., Any])

#: Who is at the other end when the application does not say: this machine's user.
LOCAL_PRINCIPAL = "local"


class McplServer:
    """An MCPL server: it serves MCPL hosts by their grant, and plain MCP hosts as MCP.

    Declarations may change while hosts are served, from the thread of the event loop (elsewhere
    ``LocalProtocolError`` is raised); a plain function reaches it with ``anyio.from_thread.run_sync``.

    Args:
        name, version: its identity (``serverInfo``).
        title, instructions: for people, and for the model (MCP).
        capabilities: further capability paths to advertise than the feature sets use.
        mcp_capabilities: further members of MCP's ``capabilities``, for methods served with ``handler``.
        manifest_extra: further members of the manifest.
        vocabulary, methods: the paths and methods that are known; extend them for extensions of your own.
        outbox: where events wait for their answers; give one with a ``FileOutboxStore`` to keep them over restarts.
        receipt: may put a refusal in the place of the receipt for a policy (SPEC 6.7).
        validate: checks the arguments of every tool before they are read. Those of a tool whose schema was given, and
            not derived, nothing else checks.
        settings: see ``Settings``.

    Raises:
        InvalidValueError, UnencodableError, LocalProtocolError: something of it could not be told to a host.
    """

    def __init__(
        self,
        name: str,
        version: str,
        *,
        title: str | None = None,
        instructions: str | None = None,
        capabilities: Iterable[str] = (),
        mcp_capabilities: Mapping[str, Any] | None = None,
        manifest_extra: Mapping[str, Any] | None = None,
        vocabulary: Vocabulary = VOCABULARY,
        methods: MethodTable = METHODS,
        outbox: Outbox | None = None,
        receipt: ReceiptHook | None = None,
        validate: ArgumentCheck | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.name = name
        self._sessions: set[ServerSession] = set()
        manifest = {"version": MCPL_VERSION, **(manifest_extra or {})}
        advertise(manifest, capabilities, vocabulary)
        self._offer = Offer(
            info={"name": name, "version": version} | ({} if title is None else {"title": title}),
            instructions=instructions,
            capabilities=dict(mcp_capabilities or {}),
            tracker=ManifestTracker(manifest),
            outbox=outbox if outbox is not None else Outbox(),
            settings=settings if settings is not None else Settings(),
            vocabulary=vocabulary,
            methods=methods,
            receipt_hook=receipt,
            validate=validate,
        )
        self._caller = Caller(self._offer.settings.handler_limit)

    # ------------------------------------------------------------------------------------ declaring

    def feature_set(
        self,
        name: str,
        description: str,
        *,
        uses: Iterable[str],
        rollback: bool = False,
        tag_ontology: dict[str, Any] | None = None,
    ) -> FeatureSet:
        """Declares a feature set (SPEC 6.1); what it uses is advertised. Hosts already connected are told.

        Raises:
            LocalProtocolError: a host would find the declaration invalid, or the name is taken.
        """
        declared = FeatureSet(name, description, tuple(uses), rollback, tag_ontology)
        with self.edit_manifest() as manifest:
            declare(manifest, declared, self._offer.vocabulary)
        if "tools" in declared.uses:
            self._offer.capabilities.setdefault("tools", {"listChanged": True})
        return declared

    @overload
    def tool(self, function: F, /) -> F: ...
    @overload
    def tool(
        self,
        *,
        name: str | None = None,
        title: str | None = None,
        description: str | None = None,
        input_schema: dict[str, Any] | None = None,
        output_schema: dict[str, Any] | None = None,
        annotations: dict[str, Any] | None = None,
        meta: dict[str, Any] | None = None,
        feature_set: FeatureSet | str | None = None,
    ) -> Callable[[F], F]: ...
    def tool(  # type: ignore[misc]
        self, function: Any = None, /, *, feature_set: FeatureSet | str | None = None, **options: Any
    ) -> Any:
        """Declares a tool: ``@server.tool``, or with options ``@server.tool(name=...)``.

        A coroutine function runs in the event loop, a plain one in a worker thread (which nothing can stop: one that
        never returns keeps the process from ending). The parameter annotated as ``Context`` takes the call's context.
        A ``str`` or content blocks become the content; anything else becomes ``structuredContent``, with an output
        schema from the return hint; ``ToolResult`` says all. What a tool raises, be it what the host refused to it,
        becomes an error that the model reads.

        Args:
            function: what is called; its docstring is the description, its hints the schemas.
            feature_set: the set that the tool belongs to. It is listed in any case, and called while that set is on.
            options: ``name``, ``title``, ``description``, ``input_schema``, ``output_schema``, ``annotations`` and
                ``meta``, where they are not to follow from the function. With ``input_schema`` given, the first
                parameter takes the arguments object as it came; see ``validate``.

        Raises:
            LocalProtocolError: the name is taken or none that MCP allows, a parameter has no JSON Schema or cannot be
                given by name, or the feature set does not use ``tools``.
        """
        if function is None:
            return lambda function: self._declare_tool(function, feature_set, options)
        return self._declare_tool(function, feature_set, options)

    def _declare_tool(self, function: Any, feature_set: FeatureSet | str | None, options: dict[str, Any]) -> Any:
        self.add_tool(tool_from_function(function, **options), feature_set=feature_set)
        return function

    def add_tool(self, tool: ServerTool, *, feature_set: FeatureSet | str | None = None) -> None:
        """Declares a tool made with ``tool_from_function``. Hosts already connected learn that the list changed.

        Raises:
            LocalProtocolError: the name is taken, or the feature set does not use ``tools``.
        """
        offer = self._offer
        if tool.name in offer.tools:
            raise LocalProtocolError(f"tool {tool.name} is declared already")
        name = None if feature_set is None else self._using(feature_set, {"tools"})
        self._require_loop()
        offer.tools_declared += 1
        offer.tools[tool.name] = DeclaredTool(tool, offer.tools_declared, name)
        self._tools_changed()

    def remove_tool(self, name: str) -> None:
        """Takes a tool away; nothing happens when there is none of that name."""
        self._require_loop()
        if self._offer.tools.pop(name, None) is not None:
            self._tools_changed()

    def before_inference(self, feature_set: FeatureSet | str) -> Callable[[F], F]:
        """Declares a context hook (SPEC 10): ``async def hook(ctx, turn)``, with ``turn`` as
        ``ContextBeforeInferenceParams``. It returns a text or blocks for the set's own position, ``ContextInjection``
        objects, or ``None``. It runs while its set is enabled; no inference may be requested in it.

        Raises:
            LocalProtocolError: the feature set uses no context hook.
        """
        name = self._using(feature_set, HOOK_PATHS)

        def register(function: F) -> F:
            self._offer.hooks.append((name, function))
            return function

        return register

    def on_inference(self, function: F) -> F:
        """Declares a function for ``inference/lifecycle``: ``async def heard(ctx, notice)``; it is advertised. Each
        inference ends once; one that is never heard of again ends as ``failed`` with ``_meta["mcpl/synthetic"]``
        (SPEC 10.5)."""
        self._offer.lifecycle.append(function)
        self._advertise({"inferenceLifecycle"})
        return function

    def handler(
        self, method: str, *, ordered: bool | None = None, feature_set: FeatureSet | str | None = None
    ) -> Callable[[F], F]:
        """Declares a function for a method that a host sends: ``async def handle(ctx, params)``, with the params typed
        by the method table, or plain JSON for a method outside of it. What it returns is the result, and is checked
        against the table; ``None`` is an empty one. It is called only when the host's grant allows the method, and
        what that needs is advertised. Connections that are served already do not learn of it.

        Args:
            method: the method; with ``tools/list`` and ``tools/call`` the server's own tools are not served.
            ordered: whether messages behind it wait until it is done; left out, the method table says.
            feature_set: the set that the method belongs to: a host that decides by a grant and has the set switched off
                is refused (-32001), after the capability was looked at.

        Raises:
            LocalProtocolError: the method has a handler already, or is the connection's own affair; or the feature set
                uses nothing that the method needs.
        """
        entry = self._offer.methods.get(method)
        if method in self._offer.handlers:
            raise LocalProtocolError(f"{method} has a handler already")
        if method in OWN_METHODS or (entry is not None and not entry.sent_by("host")):
            raise LocalProtocolError(f"{method} is not for a server's handlers")
        needs = () if entry is None else entry.capabilities
        name = None if feature_set is None else self._using(feature_set, needs)

        def register(function: F) -> F:
            self._offer.handlers[method] = DeclaredHandler(function, ordered, name)
            if entry is not None:
                self._advertise(entry.capabilities)
            return function

        return register

    def _advertise(self, alternatives: Iterable[str]) -> None:
        """What a handler needs is advertised, since without it no host would ever call it."""
        with self.edit_manifest() as manifest:
            advertise(
                manifest, [path for path in alternatives if path in self._offer.vocabulary], self._offer.vocabulary
            )

    def _using(self, feature_set: FeatureSet | str, alternatives: Iterable[str]) -> str:
        """The name of a feature set that is declared and uses one of these paths (SPEC 6.4)."""
        name = name_of(feature_set)
        # Inside a batch of edits its declaration is not in force yet.
        uses = feature_set.uses if isinstance(feature_set, FeatureSet) else self._offer.uses(name)
        if not frozenset(alternatives) & frozenset(uses):
            raise LocalProtocolError(f"feature set {name} is not declared, or uses none of {sorted(alternatives)}")
        return name

    def on_connect(self, function: F) -> F:
        """Declares ``async def hook(ctx)``, called before a connection is served."""
        self._offer.on_connect.append(function)
        return function

    def on_ready(self, function: F) -> F:
        """Declares ``async def hook(ctx)``, called once a host's initial policy was answered (SPEC 5.3). It may go on
        for as long as the connection: it is cancelled when that closed."""
        self._offer.on_ready.append(function)
        return function

    def on_policy(self, function: F) -> F:
        """Declares ``def hook(ctx)``, a plain function, called at once whenever what a host allows may have changed: a
        policy came, or the declarations are other ones. The receipt is not sent yet. It must not wait."""
        self._offer.on_policy.append(function)
        return function

    def on_close(self, function: F) -> F:
        """Declares ``async def hook(ctx)``, called when a connection ended."""
        self._offer.on_close.append(function)
        return function

    # ------------------------------------------------------------------------------------ the manifest

    @property
    def manifest(self) -> dict[str, Any]:
        """The manifest in force, with its revision; a copy."""
        return self._offer.tracker.snapshot()

    def set_manifest(self, manifest: dict[str, Any]) -> ManifestUpdate[Any]:
        """Puts a manifest in the place of the one in force, for all that was declared. Every connected host is told
        what differs from what it knows (SPEC 17); ``mcpl/manifest`` answers with it from now on.

        Raises:
            InvalidValueError: it has no digest; nothing changed.
        """
        self._require_loop()
        return self._announce(self._offer.tracker.set(manifest))

    @contextmanager
    def edit_manifest(self) -> Iterator[dict[str, Any]]:
        """Edits that are announced together: change the yielded manifest in place. Nothing changes when the block
        raises. The block must not await.

        Raises:
            InvalidValueError: at the end of the block, when the result has no digest; nothing changed.
        """
        self._require_loop()
        with self._offer.tracker.transaction() as transaction:
            yield transaction.manifest
        self._announce(transaction.update)

    def _require_loop(self) -> None:
        """Hosts are told in the event loop that serves them: a change from another thread is refused, all of it."""
        if any(session.thread != get_ident() for session in self.sessions):
            raise LocalProtocolError("not from a worker thread: use anyio.from_thread.run_sync")

    def _announce(self, update: ManifestUpdate[Any]) -> ManifestUpdate[Any]:
        if update.changed:
            for session in self.sessions:
                session.redeclared()
        for announcement in update.announcements:
            announcement.connection.announce(announcement)
        return update

    def _tools_changed(self) -> None:
        for session in self.sessions:
            session.tools_changed()

    # ------------------------------------------------------------------------------------ events

    async def push_event(
        self,
        feature_set: FeatureSet | str,
        content: Any,
        *,
        principal: str | None = None,
        tags: Iterable[str] = (),
        origin: Mapping[str, Any] | None = None,
        event_id: str | None = None,
        timestamp: str | None = None,
    ) -> str:
        """Puts an event into the outbox and returns its id; it is kept when this returns, on the disk if the outbox
        has a store. It is sent to every connection that may take it now, again and again under the same id until the
        host answered; when there is none it waits for the next. (``Context.push_event`` sends to one host and waits
        for the answer.)

        Args:
            feature_set: the declared set that sends it.
            content: a text, a content block, or a list of both.
            principal: to this principal only, who need not be known; left out, to everyone who was connected since
                the server began or has events waiting (``Outbox.forget`` ends that).
            tags, origin, event_id, timestamp: as for ``Context.push_event``.

        Raises:
            InvalidValueError: a tag has no namespace, or the content is none.
            LocalProtocolError: no such feature set is declared, or it does not use ``pushEvents``.
            UnencodableError: the event has no JSON form.
            OutboxStoreError: the store failed; the event is not kept.
        """
        self._using(name_of(feature_set), {"pushEvents"})
        event = event_params(feature_set, content, tags=tags, origin=origin, event_id=event_id, timestamp=timestamp)
        outbox = self._offer.outbox
        await outbox.put([principal] if principal is not None else outbox.principals or [LOCAL_PRINCIPAL], event)
        return event.event_id

    @property
    def sessions(self) -> tuple[ServerSession, ...]:
        """The connections that are being served."""
        return tuple(self._sessions)

    # ------------------------------------------------------------------------------------ serving

    async def serve(self, connection: McplConnection, *, principal: str = LOCAL_PRINCIPAL) -> None:
        """Serves one host until its connection closed. Any number at once.

        Args:
            connection: an entered connection; it stays the caller's.
            principal: who is at the other end. The application says so, the peer never does; what is kept for a
                host (its events) is kept under this name.
        """
        session = ServerSession(self._offer, connection, principal, self._caller)
        self._sessions.add(session)
        try:
            await session.run()
        finally:
            self._sessions.discard(session)

    async def serve_stdio(self, **options: Unpack[ConnectionOptions]) -> None:
        """Serves the host that started this process, over standard input and output, until it is done.

        Args:
            options: of the connection.
        """
        async with McplConnection.stdio(**options) as connection:
            await self.serve(connection)

    async def listen(
        self,
        endpoint: str,
        *,
        principal: Callable[[McplConnection], str] | None = None,
        listener_options: dict[str, Any] | None = None,
        options: ConnectionOptions | None = None,
        task_status: TaskStatus[str] = anyio.TASK_STATUS_IGNORED,
    ) -> None:
        """Serves every host that connects, until cancelled. What goes wrong with one touches no other.

        Args:
            endpoint: ``ws:``, ``wss:``, ``tcp:``, ``tls:`` or ``unix:``; port 0 is replaced by a free one.
            principal: names who is at the other end of an accepted connection; left out: what the listener's
                ``authenticate`` returned, else ``"local"``.
            listener_options: passed to the listener (``origins``, ``authenticate``, ``max_connections``, ...).
            options: of each connection.
            task_status: with ``TaskGroup.start``: gives the endpoint with its real port.
        """
        listening = McplConnection.listen(endpoint, listener_options=listener_options, **(options or {}))
        async with listening as listener, anyio.create_task_group() as hosts:
            task_status.started(listener.endpoint)
            async for connection in listener:
                hosts.start_soon(self._serve_one, connection, principal or _principal_of)

    async def _serve_one(self, connection: McplConnection, principal: Callable[[McplConnection], str]) -> None:
        try:
            async with connection:
                await self.serve(connection, principal=principal(connection))
        except Exception as exc:
            connection.report(exc)


def _principal_of(connection: McplConnection) -> str:
    principal = getattr(connection.transport, "principal", None)
    # True is what an ``authenticate`` says that only lets in.
    return LOCAL_PRINCIPAL if principal is None or principal is True else str(principal)
