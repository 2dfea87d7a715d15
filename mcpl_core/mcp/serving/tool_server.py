"""A server for the tools of an application's runtime.

Owns: one class that is constructed, started and stopped: what it projects, what was registered by hand and wins, whom
it serves which runtime, and the same surface for callers in this process. Does not own: any of these by itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from ..._version import __version__
from ...errors import LocalProtocolError
from ...server.calling import Caller
from ...wire.values import decode_value
from .answers import Answers, Identity
from .call import Peer, ToolCall
from .calling import CallRunner, unknown_tool
from .choosing import TransportChoice, choose_endpoint
from .credentials import CallCredentials
from .errors import ServingRefusedError
from .ledger import Capability, McpRuntime, Offer, Prompt, Resource
from .middleware import MiddlewareChain
from .projection import DEFAULT_MAX_TOOLS, Executor, adapt_tools
from .running import Runner
from .sessions import Session, SessionRegistry, TenantResolver
from .tools import ServableTool, needs_of, tool_entry

__all__ = ("DEFAULT_SERVER_NAME", "WORKER_THREADS", "McpToolServer", "MergedOffer", "refuse_unservable")

#: The name in ``serverInfo`` when the application gives none.
DEFAULT_SERVER_NAME: Final = "mcp-live-core"

#: Worker threads for plain functions, of all calls together.
WORKER_THREADS: Final = 100


class MergedOffer:
    """What one runtime has to offer, under what was registered by hand.

    Args:
        projected: the tools of its registry, in their order.
        under: its ledger, if it has one.
        over: what was registered by hand; wins in each kind, in the place of what it takes the name of.
    """

    def __init__(self, projected: Mapping[str, ServableTool], under: Offer | None, over: Offer) -> None:
        self._projected = projected
        self._under: Offer = McpRuntime() if under is None else under
        self._over = over

    @property
    def tools(self) -> Mapping[str, ServableTool]:
        """The tools by name."""
        return {**self._projected, **self._under.tools, **self._over.tools}

    @property
    def resources(self) -> Mapping[str, Resource]:
        """The resources by name."""
        return {**self._under.resources, **self._over.resources}

    @property
    def prompts(self) -> Mapping[str, Prompt]:
        """The prompts by name."""
        return {**self._under.prompts, **self._over.prompts}


class McpToolServer:
    """Serves the tools of a runtime over MCP, and in this process.

    ``async with`` it and ``start`` it to be reached over a transport; what it began ends with the block. The surface in
    process (``list_tools``, ``call_tool``) needs neither.

    Args:
        runtime: whose tools are served: anything with ``tools``, or an ``McpRuntime``; ``None``: none.
        executor: runs the tools of a registry; see ``Executor``. Without one they are listed, and calls say so.
        name, version, title, instructions: as in MCP's ``serverInfo`` and handshake.
        auto_adapt_tools: whether the registry is projected at construction; otherwise only ``register`` counts.
        max_tools: how many tools of a registry are projected. Tools registered by hand come on top.
        middleware: links that each call passes; see ``middleware``.
        credentials: gives tools what they need.
        resolver: tells callers apart; see ``TenantResolver``. With one, or with registered sessions, a caller is served
            the runtime of his session or nothing.

    Raises:
        ServingRefusedError: a tool of the registry cannot be served.
    """

    def __init__(
        self,
        runtime: Any = None,
        *,
        executor: Executor | None = None,
        name: str = DEFAULT_SERVER_NAME,
        version: str = __version__,
        title: str | None = None,
        instructions: str | None = None,
        auto_adapt_tools: bool = True,
        max_tools: int = DEFAULT_MAX_TOOLS,
        middleware: Sequence[Any] = (),
        credentials: CallCredentials | None = None,
        resolver: TenantResolver | None = None,
    ) -> None:
        self.identity = Identity(name, version, title, instructions)
        self._executor = executor
        self._max_tools = max_tools
        self._auto_adapt = auto_adapt_tools
        self._ledger = McpRuntime()
        self._sessions = SessionRegistry(resolver)
        self._offers: dict[str, Offer] = {}
        self._call_runner = CallRunner(MiddlewareChain(middleware), Caller(WORKER_THREADS), credentials)
        self._offer = self._offer_of(runtime)
        # With sessions the schema of a tool depends on who asks.
        alone = self._input_schema if resolver is None else None
        self._answers = Answers(self.identity, self._offer_for, self._kinds, self._call_runner, alone)
        self._runner = Runner()

    # -- registering

    def register(self, capability: Capability) -> None:
        """Registers a tool (also a plain function), a resource or a prompt. It wins over one of its kind and name that
        a runtime has, whichever came first.

        Raises:
            ServingRefusedError, LocalProtocolError: it cannot be served.
        """
        self._ledger.register_capability(capability)

    register_tool = register

    def register_session(self, id: str, runtime: Any, *, tenant_id: str | None = None) -> Session:
        """Registers a session, and its runtime for the callers that the resolver finds for it; the last one of an id
        wins.

        Raises:
            ServingRefusedError: a tool of the runtime cannot be served.
        """
        self._offers[id] = self._offer_of(runtime)
        self._answers.input_schema = None
        return self._sessions.register(id, runtime, tenant_id=tenant_id)

    def get_session(self, id: str) -> Session | None:
        """The session with this id, or ``None``."""
        return self._sessions.get(id)

    def list_sessions(self) -> tuple[Session, ...]:
        """All sessions."""
        return self._sessions.list()

    def unregister_session(self, id: str) -> bool:
        """Forgets a session; whether there was one."""
        self._offers.pop(id, None)
        return self._sessions.unregister(id)

    # -- in process

    def list_tools(self, *, session: str | None = None) -> list[dict[str, Any]]:
        """The tools as ``tools/list`` shows them.

        Args:
            session: of which session; ``None``: of the runtime given at construction.

        Raises:
            LocalProtocolError: there is no such session.
        """
        return [tool_entry(tool) for tool in self._local(session).tools.values()]

    async def call_tool(self, name: str, arguments: Any = None, *, session: str | None = None) -> dict[str, Any]:
        """Calls a tool as a client would, with middleware, credentials and all, and gives the ``tools/call`` result.
        What goes wrong is in it (``isError``), a tool that there is not included.

        Args:
            name: the tool's name.
            arguments: its arguments.
            session: as for ``list_tools``.

        Raises:
            LocalProtocolError: there is no such session.
        """
        tools = self._local(session).tools
        tool = tools.get(name)
        raw = unknown_tool(name, tuple(tools)) if tool is None else await self._run(tool, arguments)
        result: dict[str, Any] = decode_value(raw)
        return result

    async def _run(self, tool: ServableTool, arguments: Any) -> Any:
        return await self._call_runner.run(ToolCall(tool, arguments))

    def _local(self, session: str | None) -> Offer:
        if session is None:
            return self._offer
        if (offer := self._offers.get(session)) is None:
            raise LocalProtocolError(f"there is no session {session!r}")
        return offer

    # -- over a transport

    async def __aenter__(self) -> Self:
        await self._runner.__aenter__()
        return self

    async def __aexit__(self, *exc_info: Any) -> None:
        await self._runner.__aexit__(*exc_info)

    async def start(self, transport: TransportChoice = "stdio", **options: Any) -> None:
        """Starts serving over ``transport``; returns when it can be reached. Once: one server is one transport.

        Args:
            transport: see ``TransportChoice``.
            options: of a named transport: those of ``http_transport``, ``websocket_transport``, ``stdio_transport``.

        Raises:
            LocalProtocolError: it was not entered, or it was started already (the first one keeps serving).
            McpUnsupportedError, McpExtraMissingError, InvalidValueError, TypeError: the transport is refused.
            ServingRefusedError: a tool needs credentials and there is no provider (``no-credentials``), or a person's
                consent to each call (``needs-consent``).
        """
        for offer in (self._offer, *self._offers.values()):
            refuse_unservable(tuple(offer.tools.values()), self._call_runner.credentials is not None)
        await self._runner.start(choose_endpoint(transport, options), self._answers)

    async def stop(self) -> None:
        """Stops serving. Any number of times, from any task; without a start it does nothing."""
        await self._runner.stop()

    async def wait(self) -> None:
        """Returns when it has stopped serving, or the only client is gone (``stdio``).

        Raises:
            McplError: what it ended of, if it failed.
        """
        await self._runner.wait()

    async def _offer_for(self, peer: Peer) -> Offer:
        if not self._sessions.tells_apart:
            return self._offer
        session = await self._sessions.resolve(peer, self._call_runner.call)
        return self._offers[session.id]

    def _kinds(self) -> frozenset[str]:
        offers = (self._offer, *self._offers.values())
        kinds = {"tools"}
        kinds.update(kind for kind in ("resources", "prompts") if any(getattr(offer, kind) for offer in offers))
        return frozenset(kinds)

    def _input_schema(self, name: str) -> Mapping[str, Any] | None:
        tool = self._offer.tools.get(name)
        schema: Mapping[str, Any] | None = None if tool is None else tool_entry(tool)["inputSchema"]
        return schema

    def _offer_of(self, runtime: Any) -> Offer:
        if isinstance(runtime, McpRuntime):
            return MergedOffer({}, runtime, self._ledger)
        projected = adapt_tools(runtime, self._executor, self._max_tools) if self._auto_adapt else {}
        return MergedOffer(projected, None, self._ledger)


def refuse_unservable(tools: Sequence[ServableTool], has_provider: bool) -> None:
    """Refuses tools that could never run over MCP.

    Raises:
        ServingRefusedError: ``needs-consent`` or ``no-credentials``.
    """
    asking = tuple(tool.name for tool in tools if getattr(tool, "requires_consent", False))
    if asking:
        raise ServingRefusedError("needs-consent", asking, "over MCP there is nobody to agree to each call of")
    needing = tuple(tool.name for tool in tools if needs_of(tool))
    if needing and not has_provider:
        raise ServingRefusedError("no-credentials", needing, "credentials are needed, and there is no provider, for")
