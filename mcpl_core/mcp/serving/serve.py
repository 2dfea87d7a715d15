"""Serving a list of tools.

Owns: the one call, what it refuses before anything listens, and the handle of what serves. Does not own: serving.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractAsyncContextManager
from types import TracebackType
from typing import Any, Final, Literal, TypeVar, overload

from ...errors import LocalProtocolError
from ...server.calling import Caller
from .answers import Answers, Identity
from .call import Peer
from .calling import CallRunner
from .choosing import TransportChoice, choose_endpoint
from .credentials import CallCredentials
from .endpoints import Endpoint
from .errors import ServingRefusedError
from .http_endpoint import HttpEndpoint
from .ledger import McpRuntime, Offer, Prompt, Resource, as_tool
from .middleware import MiddlewareChain
from .running import Runner
from .tool_server import DEFAULT_SERVER_NAME, WORKER_THREADS, refuse_unservable
from .tools import ServableTool, tool_entry
from .websocket_endpoint import WebSocketEndpoint

__all__ = ("DEFAULT_VERSION", "ListeningHandle", "ServingHandle", "ToolServing", "serve_tools")

K = TypeVar("K")

#: The version in ``serverInfo`` when the application gives none.
DEFAULT_VERSION: Final = "0.0.0"


class ServingHandle:
    """What serves, while it does.

    Attributes:
        name: the name in ``serverInfo``.
        tool_names: the tools' names, in the order of ``tools/list``.
        tools: the tools themselves: the objects that were handed over.
    """

    def __init__(self, name: str, tools: Sequence[ServableTool], runner: Runner) -> None:
        self.name = name
        self.tools = tuple(tools)
        self.tool_names = tuple(tool.name for tool in tools)
        self._runner = runner

    async def close(self) -> None:
        """Stops serving: the transport first, then what it led to. Any number of times, from any task."""
        await self._runner.stop()

    async def wait_closed(self) -> None:
        """Returns when nothing is served any more: somebody closed it, or the only client is gone (``stdio``).

        Raises:
            McplError: what it ended of, if it failed.
        """
        await self._runner.wait()


class ListeningHandle(ServingHandle):
    """What serves at an address.

    Attributes:
        port: the real port.
        address: host and port as the operating system says them.
    """

    def __init__(self, name: str, tools: Sequence[ServableTool], runner: Runner, address: tuple[str, int]) -> None:
        super().__init__(name, tools, runner)
        self.address = address
        self.port = address[1]


class ToolServing(AbstractAsyncContextManager[Any]):
    """What ``serve_tools`` returns: nothing runs before it is entered, and all of it ends with the block."""

    def __init__(self, answers: Answers, tools: Sequence[ServableTool], endpoint: Endpoint) -> None:
        self._answers = answers
        self._tools = tools
        self._endpoint = endpoint
        self._runner = Runner()

    async def __aenter__(self) -> Any:
        await self._runner.__aenter__()
        try:
            await self._runner.start(self._endpoint, self._answers)
        except BaseException:
            await self._runner.__aexit__(None, None, None)
            raise
        name = self._answers.identity.name
        address = getattr(self._endpoint, "address", None)
        if address is None:
            return ServingHandle(name, self._tools, self._runner)
        return ListeningHandle(name, self._tools, self._runner, address)

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        await self._runner.__aexit__(exc_type, exc, tb)


@overload
def serve_tools(
    tools: Iterable[Any],
    transport: Literal["http", "websocket"] | HttpEndpoint | WebSocketEndpoint,
    *,
    name: str = ...,
    version: str = ...,
    title: str | None = ...,
    instructions: str | None = ...,
    middleware: Sequence[Any] = ...,
    credentials: CallCredentials | None = ...,
    resources: Iterable[Resource] = ...,
    prompts: Iterable[Prompt] = ...,
    **options: Any,
) -> AbstractAsyncContextManager[ListeningHandle]: ...
@overload
def serve_tools(
    tools: Iterable[Any],
    transport: TransportChoice = ...,
    *,
    name: str = ...,
    version: str = ...,
    title: str | None = ...,
    instructions: str | None = ...,
    middleware: Sequence[Any] = ...,
    credentials: CallCredentials | None = ...,
    resources: Iterable[Resource] = ...,
    prompts: Iterable[Prompt] = ...,
    **options: Any,
) -> AbstractAsyncContextManager[ServingHandle]: ...
def serve_tools(
    tools: Iterable[Any],
    transport: TransportChoice = "stdio",
    *,
    name: str = DEFAULT_SERVER_NAME,
    version: str = DEFAULT_VERSION,
    title: str | None = None,
    instructions: str | None = None,
    middleware: Sequence[Any] = (),
    credentials: CallCredentials | None = None,
    resources: Iterable[Resource] = (),
    prompts: Iterable[Prompt] = (),
    **options: Any,
) -> AbstractAsyncContextManager[Any]:
    """Serves tools over MCP: ``async with serve_tools([...], "http", port=0) as handle``.

    Args:
        tools: objects with a tool's shape (``ServableTool``), or functions. Each is served as the object that it is.
        transport: ``"stdio"``, ``"http"`` or ``"websocket"``, or see ``TransportChoice``.
        name, version, title, instructions: as in MCP's ``serverInfo`` and handshake.
        middleware: links that each call passes, in order; see ``middleware``. There are no others.
        credentials: gives tools what they need; asked before each call, after the middleware.
        resources, prompts: served beside the tools.
        options: of a named transport: those of ``http_transport``, ``websocket_transport``, ``stdio_transport``.

    Raises:
        ServingRefusedError: there are no tools, two of one name, one that is none, one that a person would have to
            agree to, or one that needs credentials without a provider; ``code`` says which.
        LocalProtocolError: a function cannot be made a tool, or one of ``resources`` or ``prompts`` is none.
        McpUnsupportedError, McpExtraMissingError, InvalidValueError, TypeError: the transport is refused.
    """
    served = [as_tool(tool) for tool in tools]
    _refuse(served, credentials is not None)
    offer = McpRuntime(*served, *_each(Resource, resources), *_each(Prompt, prompts))
    kinds = frozenset(kind for kind in ("tools", "resources", "prompts") if getattr(offer, kind))
    runner = CallRunner(MiddlewareChain(middleware), Caller(WORKER_THREADS), credentials)

    async def everybody(peer: Peer) -> Offer:
        return offer

    schemas = {tool.name: tool_entry(tool)["inputSchema"] for tool in served}
    answers = Answers(Identity(name, version, title, instructions), everybody, lambda: kinds, runner, schemas.get)
    return ToolServing(answers, served, choose_endpoint(transport, options))


def _each(kind: type[K], given: Iterable[K]) -> list[K]:
    members = list(given)
    for member in members:
        if not isinstance(member, kind):
            raise LocalProtocolError(f"a {type(member).__name__} is no {kind.__name__}")
    return members


def _refuse(tools: Sequence[ServableTool], has_provider: bool) -> None:
    if not tools:
        raise ServingRefusedError("no-tools", (), "there is no tool to serve")
    names = [tool.name for tool in tools]
    twice = tuple(dict.fromkeys(name for name in names if names.count(name) > 1))
    if twice:
        raise ServingRefusedError("duplicate-name", twice, "several tools have one name")
    refuse_unservable(tools, has_provider)
