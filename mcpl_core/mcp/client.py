"""A client of one MCP server: its tools as local ones.

Owns: the catalogue of the moment, the call with its checks and its events, and closing. Does not own: how the server is
reached (``connecting``, ``opening``, ``http``), the session's life (``keeper``), and the reading of results
(``results``).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from types import TracebackType
from typing import Any, Self

import anyio
from msgspec import UNSET, UnsetType

from ..errors import ConnectionClosedError, InvalidValueError, LocalProtocolError
from ..observers import Observers
from ..protocol.method import TOOLS_CALL, TOOLS_LIST
from ..transports.tasks import OwnTasks
from .asking import call_params, request_options
from .catalogue import Catalogue, CatalogueMaker
from .checks import JsonSchemaValidator
from .errors import (
    LocalSessionHandleLostError,
    McpOutputUncheckedError,
    McpRediscoveryRequiredError,
    McpReplayUnavailableError,
    ReplayUnavailableReason,
)
from .inputs import INPUT_METHODS, with_inputs
from .keeper import Reconnect, SessionKeeper
from .listing import list_all_tools
from .observing import CallObserver, ToolCallEnded, ToolCallStarted, outcome_of, tell
from .outcomes import TerminateKind, TerminateOutcome
from .results import McpAnswer, ResultMode, read_answer
from .session import DEFAULT_TERMINATE_BOUND, RawSession, SessionOpener
from .tools import McpTool
from .tracing import TraceSource

__all__ = ("DEFAULT_MAX_TOTAL", "ClientSettings", "McpClient", "ProgressCallback")

_logger = logging.getLogger("mcpl_core.mcp")

#: Called with the params of a progress notification.
ProgressCallback = Callable[[dict[str, Any]], None]

#: Seconds that a call takes in all where progress extends its timeout.
DEFAULT_MAX_TOTAL = 600.0

#: Seconds past its own bound, after which a session that is being ended is not waited for any more.
_END_GRACE = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSettings:
    """What a client does by itself.

    Attributes:
        result_mode: how results are read; see ``ResultMode``.
        validator: what output schemas are compiled with; ``None``: tools that have one are refused.
        prefix: see ``CatalogueMaker``.
        timeout: seconds that a request waits unless it says otherwise; ``UNSET``: as the session does.
        max_total: seconds that a call takes in all where progress extends its timeout.
        reset_on_progress: whether progress extends timeouts, unless a call says otherwise.
        reconnect: see ``SessionKeeper``.
        observer: hears of the beginning and the end of each call.
        trace: returns the trace context of the moment.
        handlers: method -> what answers a question of the server that stands in a result; see ``with_inputs``.
        unavailable: why no call may be sent at all under the replay policy; ``None``: it can be kept.
    """

    result_mode: ResultMode = "text"
    validator: JsonSchemaValidator | None = None
    prefix: str | None = None
    timeout: float | None | UnsetType = UNSET
    max_total: float = DEFAULT_MAX_TOTAL
    reset_on_progress: bool = False
    reconnect: Reconnect | None = field(default_factory=Reconnect)
    observer: CallObserver | None = None
    trace: TraceSource | None = None
    handlers: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)
    unavailable: ReplayUnavailableReason | None = None


class McpClient:
    """A client of one server; ``mcp_client`` makes them. An async context manager: entering it connects, leaving it
    closes. All its calls work from any task.

    Args:
        name: stands for the server in errors, events and tools.
        opener: makes its sessions.
        settings: see there.
    """

    def __init__(self, name: str, opener: SessionOpener, settings: ClientSettings) -> None:
        self.name = name
        self._settings = settings
        self._opener = opener
        self._keeper = SessionKeeper(self._open, settings.reconnect)
        self._maker = CatalogueMaker(name, settings.prefix, settings.validator, self.call)
        self._catalogue: Catalogue | None = None
        #: The number of the session that the catalogue was listed in.
        self._listed_in = 0
        self._listing = anyio.Lock()
        self._ending = anyio.Lock()
        self._outcome: TerminateOutcome | None = None
        self._numbers = count(1)
        self._callbacks: list[Callable[[str, Any], None]] = []
        self._tasks = OwnTasks()

    def __repr__(self) -> str:
        return f"<McpClient {self.name}>"

    # ------------------------------------------------------------------------------------ life

    async def __aenter__(self) -> Self:
        if self._tasks.group is not None or self._keeper.is_closed:
            raise LocalProtocolError("a client is entered once")
        tasks = (await self._tasks.begin()).tasks
        try:
            await tasks.start(self._keeper.run, name=f"mcp client: {self.name}")
        except BaseException:
            await self._tasks.end()
            raise
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        try:
            await self.close()
        finally:
            await self._tasks.end()

    async def close(self) -> None:
        """Closes this side; a session that the server keeps stays there. From any task, any number of times. Nothing
        else can be done with the client afterwards."""
        await self._keeper.aclose()

    async def terminate(self, timeout: float = DEFAULT_TERMINATE_BOUND) -> TerminateOutcome:
        """Ends the session at the server, where there is one, and closes this side whatever comes of it. A second call
        returns what the first one did.

        Args:
            timeout: seconds for the server.

        Raises:
            ConnectionClosedError: ``close`` was called before.
        """
        async with self._ending:
            if self._outcome is None:
                self._check_open()
                try:
                    self._outcome = await self._end_session(timeout)
                finally:
                    await self.close()
            return self._outcome

    async def _end_session(self, timeout: float) -> TerminateOutcome:
        """What became of it; a session of whatever make raises nothing here, and takes no longer than it may."""
        began = anyio.current_time()
        kind: TerminateKind = "timed-out"
        error_class = None
        # Sessions keep the bound themselves, and know better what was sent.
        with anyio.move_on_after(timeout + _END_GRACE):
            try:
                return await self._keeper.session.terminate(timeout)
            except ConnectionClosedError:
                kind, error_class = "handle-lost", LocalSessionHandleLostError.__name__
            except Exception as exc:
                kind, error_class = "failed", type(exc).__name__
        return TerminateOutcome(kind, anyio.current_time() - began, error_class=error_class)

    @property
    def is_closed(self) -> bool:
        """Whether it is closed for good."""
        return self._keeper.is_closed

    @property
    def session(self) -> RawSession:
        """The session of the moment.

        Raises:
            ConnectionClosedError: there is none.
        """
        self._check_open()
        return self._keeper.session

    async def connected(self) -> None:
        """Returns once there is a session.

        Raises:
            ConnectionClosedError: there will be none.
        """
        await self._keeper.connected()

    def on_notification(self, callback: Callable[[str, Any], None]) -> Callable[[], None]:
        """Calls ``callback(method, params)`` with each notification of the server, over all its sessions. Nothing is
        listed again because of one. Returns the call that ends it."""
        return Observers.add(self._callbacks, callback)

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[RawSession]:
        async with self._opener() as session:
            remove = session.on_notification(self._notified)
            try:
                yield session
            finally:
                remove()

    def _notified(self, method: str, params: Any) -> None:
        for callback in tuple(self._callbacks):
            try:
                callback(method, params)
            except Exception as exc:
                # The others hear of it nevertheless.
                _logger.error("%s: a callback failed: %s", self.name, type(exc).__name__)

    def _check_open(self) -> None:
        if self._tasks.group is None:
            raise LocalProtocolError("the client was not entered (async with)")
        if self._keeper.is_closed:
            raise ConnectionClosedError("not-sent", self._keeper.failure)

    # ------------------------------------------------------------------------------------ tools

    async def tools(self) -> list[McpTool]:
        """The tools, in the server's order. They are listed the first time, and kept until ``refresh``.

        Raises:
            McpToolListIncompleteError, InvalidResultError: the list cannot be read to its end.
            RpcError, ConnectionTimeoutError, ConnectionClosedError: as for every request.
        """
        self._check_open()
        if self._catalogue is None:
            async with self._listing:
                if self._catalogue is None:
                    await self._list()
        assert self._catalogue is not None
        return list(self._catalogue)

    async def refresh(self) -> list[McpTool]:
        """Lists the tools anew, all pages. When that fails, what was known stays, with its checks. Raises as ``tools``
        does."""
        self._check_open()
        async with self._listing:
            await self._list()
        assert self._catalogue is not None
        return list(self._catalogue)

    async def _list(self) -> None:
        session, number = self._keeper.session, self._keeper.number

        async def ask(params: dict[str, Any] | None) -> dict[str, Any]:
            self._check_open()
            return await self._request(session, TOOLS_LIST, params)

        listing = await list_all_tools(self.name, ask)
        # In one piece, and only now: nobody ever sees half a list.
        self._catalogue = self._maker.make(listing)
        self._listed_in = number

    # ------------------------------------------------------------------------------------ calls

    async def call(
        self, tool: str | McpTool, arguments: Mapping[str, Any] | None = None, **options: Any
    ) -> str | dict[str, Any]:
        """Calls a tool and reads its result in the client's mode; what ``answer`` takes and raises, and of it the
        ``value``."""
        return (await self.answer(tool, arguments, **options)).value

    async def answer(
        self,
        tool: str | McpTool,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None | UnsetType = UNSET,
        max_total: float | None | UnsetType = UNSET,
        reset_on_progress: bool | None = None,
        on_progress: ProgressCallback | None = None,
        time: Any = UNSET,
        meta: Mapping[str, Any] | None = None,
        input_responses: Mapping[str, Any] | None = None,
        request_state: str | None = None,
    ) -> McpAnswer:
        """Calls a tool. A caller that is cancelled, or runs out of time, tells the server.

        Args:
            tool: a name as ``tools`` has it, or a tool: that one is called with the checks of its own listing.
            arguments: a mapping; anything else is sent as ``{}``.
            timeout: seconds to wait; ``None``: without end; left out: the client's.
            max_total: seconds in all, however much progress there is; left out: the client's, and none when
                ``timeout`` is ``None``.
            reset_on_progress: whether progress lets it wait anew; left out: as the client does.
            on_progress: called with the params of each progress notification.
            time: what time it is for the tool (``_meta["mcpl/time"]``).
            meta: further members of ``_meta``. Without any member there is no ``_meta``.
            input_responses, request_state: go on with a call that ended in ``McpInputRequiredError``.

        Raises:
            InvalidValueError: no such tool is listed (``unknown_tool``), it is another client's (``foreign_tool``), or
                an option makes no sense (its name); nothing was sent.
            McpTaskRequiredError, McpOutputUncheckedError, McpReplayUnavailableError, McpRediscoveryRequiredError:
                nothing was sent.
            McpInputRequiredError: the server wants to know something first.
            McpToolError: the tool failed.
            McpResultError, McpOutputMismatchError: the result is not what it should be.
            UnknownEffectError: under a replay policy: it may have run.
            RpcError, ConnectionTimeoutError, ConnectionClosedError: as for every request; ``outcome`` of the last two
                says whether it was sent.
        """
        self._check_open()
        known = self._own(tool) if isinstance(tool, McpTool) else await self._find(tool)
        number, began = next(self._numbers), anyio.current_time()
        observer = self._settings.observer
        tell(observer, ToolCallStarted(self.name, known.tool, number))
        failure: BaseException | None = None
        asked = False
        try:
            self._check_callable(known)
            options = request_options(
                timeout=timeout,
                max_total=max_total,
                reset_on_progress=self._settings.reset_on_progress if reset_on_progress is None else reset_on_progress,
                on_progress=on_progress,
                default_max_total=self._settings.max_total,
            )
            params = call_params(
                known.tool,
                arguments,
                time=time,
                meta=meta,
                trace=self._settings.trace,
                input_responses=input_responses,
                request_state=request_state,
            )
            session = self._keeper.session
            asked = True
            result = await self._request(session, TOOLS_CALL, params, **options)
            self._check_result(known, result)
            return read_answer(self.name, known.tool, result, self._settings.result_mode)
        except BaseException as exc:
            failure = exc
            raise
        finally:
            duration = anyio.current_time() - began
            error_class = None if failure is None else type(failure).__name__
            outcome = outcome_of(failure, asked)
            # It holds the frames of this call.
            del failure
            tell(observer, ToolCallEnded(self.name, known.tool, number, outcome, duration, error_class))

    async def request(self, method: str, params: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
        """Sends a request of another kind (resources, prompts, ...); ``options`` as for ``RawSession.request``.

        Raises:
            LocalProtocolError: tools have calls of their own, which no request goes around.
        """
        self._check_open()
        if method in (TOOLS_CALL, TOOLS_LIST):
            raise LocalProtocolError(f"{method} has a call of its own")
        return await self._request(self._keeper.session, method, params, **options)

    async def _find(self, name: str) -> McpTool:
        if self._catalogue is None:
            await self.tools()
        assert self._catalogue is not None
        return self._catalogue.find(name)

    def _own(self, tool: McpTool) -> McpTool:
        if tool._call != self.call:
            raise InvalidValueError("foreign_tool", f"{tool.name[:80]!r} was listed by another client")
        return tool

    def _check_callable(self, tool: McpTool) -> None:
        """Everything that refuses a call before a byte of it is sent."""
        if self._settings.unavailable is not None:
            raise McpReplayUnavailableError(self.name, self._settings.unavailable)
        tool.checks.before()
        # Without a session there is nothing to discover yet; the request says so.
        if self._listed_in != self._keeper.number:
            raise McpRediscoveryRequiredError(self.name)

    def _check_result(self, tool: McpTool, result: dict[str, Any]) -> None:
        tool.checks.after(result)
        # A list that was read while the call was out may say that its results have to be checked.
        now = None if self._catalogue is None else self._catalogue.of_server(tool.tool)
        if now is not None and now is not tool and not tool.checks.declares_output and now.checks.unchecked:
            raise McpOutputUncheckedError(self.name, tool.tool, sent=True)

    async def _request(
        self, session: RawSession, method: str, params: dict[str, Any] | None, **options: Any
    ) -> dict[str, Any]:
        if options.get("timeout", UNSET) is UNSET:
            options["timeout"] = self._settings.timeout

        async def send(params: dict[str, Any] | None) -> dict[str, Any]:
            return await session.request(method, params, **options)

        try:
            if method in INPUT_METHODS and params is not None:
                return await with_inputs(self.name, method, params, send, self._settings.handlers)
            return await send(params)
        except ConnectionClosedError as exc:
            self._keeper.lost(session, exc)
            raise
