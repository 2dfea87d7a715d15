"""An MCP session over a connection of this package: standard input and output, WebSockets, sockets, memory.

Owns: the handshake (MCP 2024-11-05 to 2025-11-25, always beginning with ``initialize``: some servers settle on the era
of the first request), the time of each request, progress, and the peer's own requests. Does not own: the connection's
wire, dialling (``opening``), and what results mean (``results``).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias

import anyio
from msgspec import UNSET, Raw, UnsetType

from ..connection import McplConnection
from ..dispatch import Router
from ..errors import ConnectionTimeoutError, InvalidParams, InvalidResultError, McplError
from ..host.handshake import PROTOCOL_VERSION, SUPPORTED_VERSIONS
from ..observers import Observers, kinds_only
from ..protocol import METHODS, ProgressParams, decode_params, method
from ..wire.messages import Notification, Request
from .outcomes import TerminateOutcome
from .session import DEFAULT_TERMINATE_BOUND
from .waiting import WaitingRequests

__all__ = ("ASKS_A_PERSON", "NativeSession", "PeerHandler", "client_capabilities", "native_session")

_logger = logging.getLogger("mcpl_core.mcp")

#: Answers a request of the server: takes its params (plain JSON), returns the result, or an awaitable of it.
PeerHandler: TypeAlias = Callable[[Any], Any]

#: Requests of a server behind which a person may be; while one is open, no request of ours runs out of time.
ASKS_A_PERSON: Final = frozenset({"elicitation/create", "sampling/createMessage"})

#: What a client that answers a method says of itself.
_CAPABILITIES: Final[dict[str, str]] = {
    "elicitation/create": "elicitation",
    "sampling/createMessage": "sampling",
    "roots/list": "roots",
}


def client_capabilities(handlers: Mapping[str, PeerHandler]) -> dict[str, Any]:
    """The ``capabilities`` of a client that has these handlers."""
    return {name: {} for each, name in _CAPABILITIES.items() if each in handlers}


class NativeSession:
    """A ``RawSession`` over a connection. ``native_session`` makes them.

    Args:
        connection: entered; nobody else takes its messages.
        timeout: seconds that a request waits unless it says otherwise; ``None``: without end.
        handlers: method -> what answers a request of the server; others are refused with -32601.
    """

    def __init__(
        self, connection: McplConnection, timeout: float | None, handlers: Mapping[str, PeerHandler] | None = None
    ) -> None:
        self.connection = connection
        self._timeout = timeout
        self._handlers = dict(handlers or {})
        self._answer: dict[str, Any] = {}
        self._callbacks: list[Callable[[str, Any], None]] = []
        self._waiting = WaitingRequests()
        self._closed = anyio.Event()
        connection.on_message(self._arrived)
        connection.on_close(self._closed.set)
        connection.on_error(kinds_only(_logger, "an MCP session"))

    # -- who is there

    @property
    def protocol_version(self) -> str:
        """The MCP version that both speak."""
        return str(self._answer.get("protocolVersion", ""))

    @property
    def server_info(self) -> dict[str, Any]:
        """``serverInfo``, as received."""
        return _object(self._answer.get("serverInfo"))

    @property
    def capabilities(self) -> dict[str, Any]:
        """``capabilities``, as received."""
        return _object(self._answer.get("capabilities"))

    @property
    def instructions(self) -> str | None:
        """``instructions``."""
        text = self._answer.get("instructions")
        return text if isinstance(text, str) else None

    @property
    def may_repeat(self) -> bool:
        """Never."""
        return False

    async def initialize(self, client_info: Mapping[str, Any]) -> None:
        """The handshake.

        Raises:
            InvalidResultError: the server speaks another version; none of the later ones has a handshake.
        """
        params = {
            "protocolVersion": PROTOCOL_VERSION,
            "capabilities": client_capabilities(self._handlers),
            "clientInfo": dict(client_info),
        }
        answer = await self.request(method.INITIALIZE, params)
        if answer.get("protocolVersion") not in SUPPORTED_VERSIONS:
            wanted = f"expected one of {', '.join(SUPPORTED_VERSIONS)}"
            raise InvalidResultError(method.INITIALIZE, wanted, "$.protocolVersion")
        self._answer = answer
        await self.connection.send_notification(method.INITIALIZED)

    # -- what is sent

    async def request(
        self,
        method: str,
        params: dict[str, Any] | None = None,
        *,
        timeout: float | None | UnsetType = UNSET,
        on_progress: Callable[[dict[str, Any]], None] | None = None,
        reset_on_progress: bool = False,
        max_total: float | None = None,
    ) -> dict[str, Any]:
        """See ``RawSession.request``."""
        waiting = self._waiting.begin(
            self._timeout if timeout is UNSET else timeout, max_total, reset_on_progress, on_progress
        )

        def answered(raw: Raw) -> None:
            # As it is taken from the wire: what stands behind it is no progress of this request.
            self._waiting.answered(waiting)

        try:
            with waiting.scope:
                params = waiting.with_token(params)
                answer = await self.connection.send_request(method, params, timeout=None, on_answer=answered)
                return _result(method, answer)
        finally:
            self._waiting.end(waiting)
        raise ConnectionTimeoutError(method, round(anyio.current_time() - waiting.began, 3))

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """See ``RawSession.notify``."""
        await self.connection.send_notification(method, params)

    # -- what comes

    def on_notification(self, callback: Callable[[str, Any], None]) -> Callable[[], None]:
        """See ``RawSession.on_notification``."""
        return Observers.add(self._callbacks, callback)

    def _arrived(self, message: Request | Notification) -> None:
        """As a message is taken from the wire."""
        if isinstance(message, Request):
            return
        if message.method == method.PROGRESS:
            self._progressed(message)
        for callback in tuple(self._callbacks):
            self._tell(callback, message.method, message.params)

    def _tell(self, callback: Callable[..., Any], *arguments: Any) -> None:
        """Calls a function of the application's; what it raises costs nobody else anything."""
        try:
            callback(*arguments)
        except Exception as exc:
            self.connection.report(exc)

    def _progressed(self, message: Notification) -> None:
        try:
            params: ProgressParams = decode_params(METHODS[method.PROGRESS], message.raw_params, "notification")
        except InvalidParams:
            return
        handler = self._waiting.progressed(params.progress_token, params.progress)
        if handler is not None:
            self._tell(handler, message.params)

    async def serve(self) -> None:
        """Answers the server's requests until the connection closed."""
        router = Router({method.PING: lambda request: {}})
        for name, handler in self._handlers.items():
            router.add(name, self._route(name, handler))
        try:
            await self.connection.serve(router)
        except McplError as exc:
            self.connection.report(exc)
        await self.connection.aclose()

    def _route(self, name: str, handler: PeerHandler) -> Callable[[Request], Awaitable[Any]]:
        async def answer(request: Request) -> Any:
            if name not in ASKS_A_PERSON:
                return await _called(handler, request.params)
            self._waiting.ask(1)
            try:
                return await _called(handler, request.params)
            finally:
                self._waiting.ask(-1)

        return answer

    # -- how it ends

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be asked any more."""
        return not self.connection.can_ask

    async def wait_closed(self) -> BaseException | None:
        """See ``WatchedSession.wait_closed``."""
        if not self.connection.is_closed:
            await self._closed.wait()
        return self.connection.close_reason

    async def terminate(self, timeout: float = DEFAULT_TERMINATE_BOUND) -> TerminateOutcome:
        """Closes the connection, which is the session: ``no-session``, since there is no other one to end."""
        began = anyio.current_time()
        with anyio.move_on_after(timeout):
            await self.aclose()
        return TerminateOutcome("no-session", anyio.current_time() - began)

    async def aclose(self) -> None:
        """See ``RawSession.aclose``."""
        await self.connection.aclose()


@asynccontextmanager
async def native_session(
    dial: Callable[[], Awaitable[McplConnection]],
    *,
    client_info: Mapping[str, Any],
    timeout: float | None,
    handlers: Mapping[str, PeerHandler] | None = None,
    kind: type[NativeSession] = NativeSession,
) -> AsyncIterator[NativeSession]:
    """A session over a connection that is dialled now, and closed at the end.

    Args:
        dial: returns a connection that was not entered.
        client_info: ``name`` and ``version`` of this client.
        timeout, handlers: see ``NativeSession``.
        kind: the class of the session, which knows how it begins.

    Raises:
        McplError: nobody is there, or the handshake failed.
    """
    connection = await dial()
    failure: BaseException | None = None
    async with connection:
        session = kind(connection, timeout, handlers)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.serve, name="mcp session")
            try:
                await session.initialize(client_info)
                yield session
            except Exception as exc:
                # Raised again outside the group, which would wrap it.
                failure = exc
            finally:
                tasks.cancel_scope.cancel()
    if failure is not None:
        raise failure


def _result(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise InvalidResultError(name, "a result is an object")
    return value


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


async def _called(handler: PeerHandler, params: Any) -> Any:
    result = handler(params)
    return await result if inspect.isawaitable(result) else result
