"""The streams of the SDK, shared: the SDK speaks while versions are negotiated, we speak afterwards.

Owns: our own ids and what waits for them, notifications in the order of the wire, the answers to the server's own
requests, and telling the server that nobody waits any longer. Does not own: what was really answered (``watching``),
how long somebody waits, and further attempts (``calls``).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp.shared.message import ClientMessageMetadata, SessionMessage
from mcp_types import (
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCNotification,
    JSONRPCRequest,
    JSONRPCResponse,
)

from ...errors import (
    ERR_INTERNAL_ERROR,
    ERR_METHOD_NOT_FOUND,
    ConnectionClosedError,
    MessageTooLargeError,
    RpcError,
    UnencodableError,
    rpc_error,
)
from ...observers import Observers
from ...wire.messages import Notification, Request, encode_failure, encode_notification, encode_request, encode_response
from ...wire.values import depth_exceeds, has_surrogate_escape
from .exchange import Exchange
from .quiet import ours
from .watching import FIRST_ID, Spawn, WatchingTransport

__all__ = ("Channel",)

#: Deeper than this the SDK's serialiser gives up.
_SDK_DEPTH = 200
#: So many requests of the server may be open at a time. Each is a task; a server cannot make any number of them.
_MOST_ANSWERING = 256
#: Seconds that telling a server of a cancellation may take.
_NOTICE_BOUND = 1.0

_logger = logging.getLogger("mcpl_core")


class _Waiting:
    __slots__ = ("done", "told")

    def __init__(self) -> None:
        self.done = anyio.Event()
        self.told: dict[str, Any] | RpcError | None = None


class Channel:
    """See the module.

    Args:
        read, write: the streams of the SDK's transport.
        watch: what observes the requests.
        spawn: starts a task of the session.
        handlers: method -> what answers a request of the server.
        limit: the most bytes of a message.
    """

    def __init__(
        self,
        read: Any,
        write: Any,
        watch: WatchingTransport,
        spawn: Spawn,
        handlers: Mapping[str, Callable[[Any], Any]],
        limit: int,
    ) -> None:
        self._read = read
        self._write = write
        self._watch = watch
        self._spawn = spawn
        self._handlers = handlers
        self._limit = limit
        self._ids = count(FIRST_ID)
        self._waiting: dict[int | str, _Waiting] = {}
        self._callbacks: list[Callable[[str, Any], None]] = []
        #: The server's requests that are being handled, by type and id: 1 is not "1".
        self._asked: dict[tuple[type, int | str], anyio.CancelScope] = {}
        self._answering = 0
        self._to_sdk: MemoryObjectSendStream[SessionMessage | Exception]
        self.for_sdk: MemoryObjectReceiveStream[SessionMessage | Exception]
        self._to_sdk, self.for_sdk = anyio.create_memory_object_stream[SessionMessage | Exception](16)
        self._over = False
        #: Called as each progress notification is taken from the wire.
        self.on_progress: Callable[[dict[str, Any]], None] = lambda params: None
        #: Called when a handler begins (1) and ends (-1).
        self.on_handling: Callable[[str, int], None] = lambda method, change: None

    # -- what comes

    async def pump(self) -> None:
        """Takes what the SDK's transport delivers, until it ends. Then nothing waits any longer."""
        try:
            async for item in self._read:
                if isinstance(item, SessionMessage):
                    await self._take(item)
                else:
                    _logger.warning("MCP over HTTP: a message could not be read: %s", type(item).__name__)
        finally:
            self.close()
            self._to_sdk.close()

    def close(self) -> None:
        """Whoever still waits is told that nothing will come."""
        self._over = True
        for waiting in self._waiting.values():
            waiting.done.set()

    def _arrived(self, message: Request | Notification) -> None:
        """A message of the server's, on the way of an answer."""
        try:
            params = message.params
        except RpcError:
            return
        if isinstance(message, Notification):
            self._notified(message.method, params)
        else:
            self._asked_for(message.id, message.method, params)

    async def _take(self, item: SessionMessage) -> None:
        match item.message:
            case JSONRPCNotification(method=method, params=params):
                self._notified(method, params)
            case JSONRPCRequest() as request:
                self._asked_for(request.id, request.method, request.params)
            case JSONRPCResponse(id=id, result=result):
                await self._answered(id, result, item)
            case JSONRPCError(id=id, error=error):
                told = rpc_error(error.code, error.message, error.data)
                await self._answered(id, told, item)

    async def _answered(self, id: int | str | None, told: dict[str, Any] | RpcError, item: SessionMessage) -> None:
        if isinstance(id, int) and id < FIRST_ID:
            await self._to_sdk.send(item)
        elif id is not None and (waiting := self._waiting.get(id)) is not None:
            waiting.told = told
            waiting.done.set()

    def _notified(self, method: str, params: Any) -> None:
        if method == "notifications/progress" and isinstance(params, dict):
            self.on_progress(params)
        elif method == "notifications/cancelled" and isinstance(params, dict):
            id = params.get("requestId")
            scope = self._asked.get((type(id), id)) if isinstance(id, int | str) else None
            if scope is not None:
                scope.cancel()
        for callback in tuple(self._callbacks):
            try:
                callback(method, params)
            except Exception as exc:
                _logger.warning("MCP over HTTP: an observer of notifications failed: %s", type(exc).__name__)

    def on_notification(self, callback: Callable[[str, Any], None]) -> Callable[[], None]:
        """See ``RawSession.on_notification``."""
        return Observers.add(self._callbacks, callback)

    def _asked_for(self, id: int | str, method: str, params: Any) -> None:
        if self._answering >= _MOST_ANSWERING:
            _logger.warning("MCP over HTTP: the server has too many requests open; one is not answered")
            return
        self._answering += 1
        self._spawn(lambda: self._answer(id, method, params))

    async def _answer(self, id: int | str, method: str, params: Any) -> None:
        """Answers a request of the server's, unless the server takes it back."""
        key = (type(id), id)
        with anyio.CancelScope() as scope:
            self._asked[key] = scope
            try:
                answer = await self._answer_of(id, method, params)
            finally:
                self._answering -= 1
                if self._asked.get(key) is scope:
                    del self._asked[key]
        if not scope.cancelled_caught:
            await self._deliver(answer, {})

    async def _answer_of(self, id: int | str, method: str, params: Any) -> JSONRPCMessage:
        handler = self._handlers.get(method)
        try:
            if handler is not None:
                result = await self._handled(method, handler, params)
            elif method == "ping":
                result = {}
            else:
                raise RpcError(ERR_METHOD_NOT_FOUND, "Method not found")
            self._check(encode_response(id, result))
            return JSONRPCResponse(jsonrpc="2.0", id=id, result=result)
        except RpcError as exc:
            return self._refusal(id, exc)
        except Exception:
            return self._refusal(id, RpcError(ERR_INTERNAL_ERROR, "Internal error"))

    def _refusal(self, id: int | str, exc: RpcError) -> JSONRPCError:
        shown = {} if exc.data is None else {"data": exc.data}
        try:
            self._check(encode_failure(id, exc.code, exc.message, exc.data))
        except (UnencodableError, MessageTooLargeError):
            shown = {}
        error = ErrorData(code=exc.code, message=exc.message, **shown)
        return JSONRPCError(jsonrpc="2.0", id=id, error=error)

    async def _handled(self, method: str, handler: Callable[[Any], Any], params: Any) -> dict[str, Any]:
        self.on_handling(method, 1)
        try:
            result = handler(params)
            value: dict[str, Any] = dict(await result if inspect.isawaitable(result) else result)
            return value
        finally:
            self.on_handling(method, -1)

    # -- what goes

    async def attempt(
        self, method: str, params: dict[str, Any] | None, headers: dict[str, str], exchange: Exchange
    ) -> dict[str, Any] | RpcError | None:
        """Sends a request under a new id and waits until its exchange is over. Cancelled, it tells the server, if the
        request was sent at all.

        Args:
            method: the method.
            params: its params.
            headers: of the request.
            exchange: what will be observed of it.

        Returns:
            What the SDK said was the answer; ``None`` when the session ended meanwhile.

        Raises:
            ConnectionClosedError: the session is over; nothing was sent.
            UnencodableError: the params have no JSON form; nothing was sent.
            MessageTooLargeError: the message is over the limit; nothing was sent.
        """
        id = next(self._ids)
        exchange.method, exchange.id = method, id
        exchange.body = encode_request(id, method) if params is None else encode_request(id, method, params)
        if len(exchange.body) > self._limit:
            raise MessageTooLargeError(len(exchange.body), self._limit)
        # What is sent is our own text in any case; the SDK is shown what it can write.
        shown = {} if params is None or _is_odd(exchange.body) else {"params": params}
        message = JSONRPCRequest(jsonrpc="2.0", id=id, method=method, **shown)
        waiting = self._waiting[id] = _Waiting()
        exchange.on_answer = waiting.done.set
        exchange.on_message = self._arrived
        self._watch.expect(id, exchange)
        try:
            await self._send(message, headers)
            await waiting.done.wait()
        except anyio.get_cancelled_exc_class():
            await self._give_up(id, exchange)
            raise
        finally:
            del self._waiting[id]
            self._watch.forget(id)
        return waiting.told

    async def notify(self, method: str, params: dict[str, Any] | None, headers: dict[str, str]) -> None:
        """Sends a notification; nothing after the session is over.

        Raises:
            UnencodableError: the params have no JSON form, or one that the SDK cannot write.
            MessageTooLargeError: the message is over the limit.
        """
        self._check(encode_notification(method) if params is None else encode_notification(method, params))
        shown = {} if params is None else {"params": params}
        await self._deliver(JSONRPCNotification(jsonrpc="2.0", method=method, **shown), headers)

    def _check(self, text: bytes) -> None:
        """Whether a message that the SDK writes can be written by it. In its own tasks that would end the session."""
        if _is_odd(text):
            raise UnencodableError("lone surrogates, and nesting as deep as that, cannot be written here")
        if len(text) > self._limit:
            raise MessageTooLargeError(len(text), self._limit)

    async def _deliver(self, message: JSONRPCMessage, headers: dict[str, str]) -> None:
        try:
            await self._send(message, headers)
        except ConnectionClosedError:
            return

    async def _give_up(self, id: int, exchange: Exchange) -> None:
        # A request on its way to where it is watched is stopped there.
        arrived = exchange.sent if exchange.seen else not self._watch.watched.matched
        try:
            if arrived and not self._over:
                # In the modern era the SDK turns this into the end of the request's stream.
                with anyio.move_on_after(_NOTICE_BOUND, shield=True):
                    notice = {"requestId": id, "reason": "nobody waits for it any longer"}
                    await self.notify("notifications/cancelled", notice, {})
        finally:
            exchange.abort()

    async def _send(self, message: JSONRPCMessage, headers: dict[str, str]) -> None:
        metadata = ClientMessageMetadata(headers=headers) if headers else None
        with ours():
            try:
                if self._over:
                    raise anyio.ClosedResourceError
                await self._write.send(SessionMessage(message, metadata))
                return
            except (anyio.ClosedResourceError, anyio.BrokenResourceError):
                pass
        raise ConnectionClosedError("not-sent")


def _is_odd(text: bytes) -> bool:
    """Whether a text holds what the SDK cannot write, though JSON can."""
    return has_surrogate_escape(text) or depth_exceeds(text, _SDK_DEPTH)
