"""A session over Streamable HTTP, and the one task that owns what the SDK makes of it.

Owns: entering and leaving the SDK in one task, one typed end whatever failed inside, ending the remote session, and the
``RawSession`` that callers see. Does not own: requests (``calls``), versions (the SDK), and when to connect again.

This module and those it imports need the SDK; ``opening`` imports it where it is needed.
"""

from __future__ import annotations

import math
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2
from anyio.abc import TaskGroup
from mcp_types import SERVER_INFO_META_KEY, Implementation
from msgspec import UNSET, UnsetType

from ...errors import (
    ConnectionClosedError,
    ConnectionTimeoutError,
    InvalidResultError,
    McplError,
    RemoteProtocolError,
    TransportError,
    rpc_error,
)
from ...wire.messages import Success
from ...wire.values import decode_value
from ..errors import UnknownEffectError
from ..native import client_capabilities
from ..outcomes import TerminateKind, TerminateOutcome, outcome_of_status
from ..session import DEFAULT_TERMINATE_BOUND
from .calls import CallRunner
from .channel import Channel
from .config import HttpConfig
from .errors import SessionEndedError
from .exchange import Exchange
from .quiet import ours, quiet
from .retry import RetrySettings
from .retrying import RetryingTransport
from .signing import SigningTransport
from .stamp import Stamp, is_modern
from .verdict import judge
from .watching import SESSION_HEADER, Spawn, WatchingTransport

__all__ = ("HttpSession", "http_session")

_MODES = {"auto": "auto", "handshake": "legacy", "modern": "auto"}
#: Seconds that reaching the server may take. How long an answer may take is the request's own matter.
_CONNECT_TIMEOUT = 30.0
#: A request that waits for its answer has a connection of its own. How many there are is the caller's matter; one that
#: had to wait for a connection would fail without having been sent, and nobody could be told that it was given up.
_LIMITS = httpx2.Limits(max_connections=None, max_keepalive_connections=20)
#: The SDK says that a client has a capability when it has the callback for it.
_CALLBACKS = {
    "elicitation/create": "elicitation_callback",
    "sampling/createMessage": "sampling_callback",
    "roots/list": "list_roots_callback",
}


class HttpSession:
    """A ``RawSession`` over Streamable HTTP; ``open_session`` makes them.

    Args:
        config: what it is made from.
    """

    def __init__(self, config: HttpConfig) -> None:
        self._config = config
        self._ready = anyio.Event()
        self._closing = anyio.Event()
        self._ended = anyio.Event()
        self._scope = anyio.CancelScope()
        self._failure: Exception | None = None
        self._closed_here = False
        self._terminating = anyio.Lock()
        self._outcome: TerminateOutcome | None = None
        self._facts: dict[str, Any] = {}
        self._http: httpx2.AsyncClient
        self._watch: WatchingTransport
        self._channel: Channel
        self._calls: CallRunner
        self._stamp: Stamp

    def __repr__(self) -> str:
        return f"<HttpSession {self._config.name}>"

    # -- who is there

    @property
    def protocol_version(self) -> str:
        """The MCP version that both speak."""
        return self._stamp.version

    @property
    def server_info(self) -> dict[str, Any]:
        """Who the server says it is, as received; in the modern era it need not say."""
        found = self._facts.get("serverInfo")
        if found is None:
            found = _object(self._facts.get("_meta")).get(SERVER_INFO_META_KEY)
        return _object(found)

    @property
    def capabilities(self) -> dict[str, Any]:
        """The server's ``capabilities``, as received."""
        return _object(self._facts.get("capabilities"))

    @property
    def instructions(self) -> str | None:
        """The server's words for the model, if any."""
        text = self._facts.get("instructions")
        return text if isinstance(text, str) else None

    @property
    def may_repeat(self) -> bool:
        """See ``RawSession.may_repeat``: unless ``retry_on_throttle`` is off and ``replay`` declares no tool for lost
        answers. A carrier of the caller's own answers for itself."""
        return self._config.may_repeat

    # -- requests

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
        """See ``RawSession.request``.

        Raises:
            HttpStatusError: the server answered with an HTTP status and no JSON-RPC error.
            SessionEndedError: the server does not know the session any more; this one is over.
            RedirectRefusedError: the server redirected the request where it is not followed.
            CredentialsUnavailableError: no credentials (``ConsentRequiredError``: a person has to agree); nothing was
                sent.
            McpReplayUnavailableError: a tool call cannot be made under the declared policy; nothing was sent.
            UnknownEffectError: a call of a tool whose repetition is declared failed, and may have run.
            Exception: what a request hook raised; nothing was sent.
        """
        if self._closing.is_set():
            raise ConnectionClosedError("not-sent", self._failure)
        try:
            return await self._calls.run(
                method,
                params,
                timeout=self._config.timeout if isinstance(timeout, UnsetType) else timeout,
                on_progress=on_progress,
                reset_on_progress=reset_on_progress,
                max_total=max_total,
            )
        except UnknownEffectError as exc:
            if isinstance(exc.__cause__, SessionEndedError):
                self._end(exc.__cause__)
            raise
        except ConnectionClosedError as exc:
            failed = exc
        if isinstance(failed, SessionEndedError):
            self._end(failed)
        elif failed.reason is None:
            # Nobody says so but a session that is being taken apart, which knows the reason when it is done.
            await self._ended.wait()
            failed = ConnectionClosedError(failed.outcome, self._failure)
        raise failed

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """See ``RawSession.notify``. A failure to deliver it is logged."""
        if not self._closing.is_set():
            stamped = self._stamp.params(params)
            await self._channel.notify(method, stamped, self._stamp.headers(method, stamped))

    def on_notification(self, callback: Callable[[str, Any], None]) -> Callable[[], None]:
        """See ``RawSession.on_notification``."""
        return self._channel.on_notification(callback)

    # -- the end

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be asked any more."""
        return self._closing.is_set()

    async def wait_closed(self) -> BaseException | None:
        """See ``WatchedSession.wait_closed``."""
        await self._closing.wait()
        return self._failure

    async def terminate(self, timeout: float = DEFAULT_TERMINATE_BOUND) -> TerminateOutcome:
        """Ends the session at the server with a ``DELETE``, and closes this side whatever came of it. A second call
        returns the first outcome.

        Raises:
            ConnectionClosedError: ``aclose`` was called before; nothing was sent.
        """
        async with self._terminating:
            return self._outcome or await self._terminate(timeout)

    async def _terminate(self, timeout: float) -> TerminateOutcome:
        if self._closed_here:
            raise ConnectionClosedError("not-sent")
        clock = self._config.timing.clock
        began = clock()
        status: int | None = None
        kind: TerminateKind = "timed-out"
        error: str | None = None
        try:
            with anyio.move_on_after(timeout):
                kind, status, error = await self._end_remote()
        finally:
            # Whatever came of it, a cancellation included.
            spent = clock() - began
            known = outcome_of_status(status, spent) if status is not None else None
            self._outcome = known or TerminateOutcome(kind, spent, None, error)
            with anyio.CancelScope(shield=True):
                await self.aclose()
        return self._outcome

    async def _end_remote(self) -> tuple[TerminateKind, int | None, str | None]:
        id = self._watch.session_id
        if isinstance(self._failure, SessionEndedError):
            return "already-gone", self._failure.status, None
        if id is None:
            return "no-session", None, None
        if self._closing.is_set():
            return "handle-lost", None, "LocalSessionHandleLostError"
        headers = {SESSION_HEADER: id, **self._stamp.headers("", None)}
        exchange = Exchange(self._watch.new_log(), "DELETE")
        with ours():
            request = self._http.build_request("DELETE", self._config.url, headers=headers)
            response = await self._watch.send(request, exchange)
            await response.aclose()
        if exchange.failure is not None:
            return "failed", None, type(exchange.failure).__name__
        return "failed", exchange.status, None

    async def aclose(self) -> None:
        """See ``RawSession.aclose``. The session at the server is left as it is."""
        self._closed_here = True
        self._end(None)
        await self._ended.wait()

    def _end(self, failure: Exception | None) -> None:
        if not self._closing.is_set():
            self._failure = failure
            self._closing.set()
            self._scope.cancel()

    # -- the owner

    async def own(self) -> None:
        """Makes the session, keeps it until it is closed or breaks, and takes it apart, all in this task. Never raises
        but for being cancelled; ``wait_ready`` tells what went wrong."""
        failure: Exception | None = None
        try:
            with quiet(), ours(), self._scope:
                async with anyio.create_task_group() as tasks:
                    await self._run(tasks)
        except Exception as exc:
            failure = exc
        finally:
            if not self._closing.is_set():
                self._failure = self._explain(failure)
                self._closing.set()
            if hasattr(self, "_channel"):
                self._channel.close()
            self._ended.set()
            self._ready.set()

    async def wait_ready(self) -> None:
        """Returns once versions were agreed on.

        Raises:
            McplError: what kept it from that.
        """
        await self._ready.wait()
        if self._closing.is_set():
            raise self._failure or ConnectionClosedError("not-sent")

    async def _run(self, tasks: TaskGroup) -> None:
        config = self._config
        self._watch = watch = _stack(config, tasks.start_soon)
        watch.on_lost = self._scope.cancel
        timeout = httpx2.Timeout(_CONNECT_TIMEOUT, read=None)
        headers = {"accept-encoding": "identity"}
        async with httpx2.AsyncClient(transport=watch, timeout=timeout, headers=headers) as self._http:
            info = Implementation.model_validate(config.client_info)
            callbacks = {name: _never for method, name in _CALLBACKS.items() if method in config.handlers}
            client = config.sdk.Client(
                self._streams(tasks), mode=_MODES[config.era], client_info=info, cache=None, **callbacks
            )
            async with client:
                self._agreed(client)
                self._ready.set()
                await anyio.sleep_forever()

    @asynccontextmanager
    async def _streams(self, tasks: TaskGroup) -> AsyncIterator[tuple[Any, Any]]:
        """The streams that the SDK's client gets: its own share of what comes, and the way out."""
        config = self._config
        carrier = config.sdk.streamable_http_client(
            config.url,
            http_client=self._http,
            terminate_on_close=False,
            max_sse_event_size=config.max_message_bytes,
        )
        async with carrier as (read, write):
            self._channel = channel = Channel(
                read, write, self._watch, tasks.start_soon, config.handlers, config.max_message_bytes
            )
            async with anyio.create_task_group() as pumping:
                pumping.start_soon(self._pump, channel)
                try:
                    yield channel.for_sdk, write
                finally:
                    pumping.cancel_scope.cancel()

    async def _pump(self, channel: Channel) -> None:
        await channel.pump()
        if self._ready.is_set():
            # The SDK's transport ended by itself. Before, the SDK says why.
            self._end(TransportError("the HTTP transport ended"))

    def _agreed(self, client: Any) -> None:
        version = str(client.protocol_version)
        config = self._config
        if config.era == "modern" and not is_modern(version):
            raise RemoteProtocolError(f"the server speaks MCP {version}, which begins with a handshake")
        self._stamp = Stamp(version, config.client_info, client_capabilities(config.handlers))
        self._watch.resumes = not self._stamp.modern
        self._calls = CallRunner(config, self._channel, self._watch, self._stamp)
        seen = self._watch.negotiation.get("server/discover" if self._stamp.modern else "initialize")
        if seen is not None and isinstance(seen.answer, Success):
            self._facts = _object(decode_value(seen.answer.result))
        else:
            session = client.session
            told = session.discover_result if self._stamp.modern else session.initialize_result
            self._facts = told.model_dump(by_alias=True, mode="json", exclude_none=True)

    def _explain(self, failure: Exception | None) -> Exception:
        """Why the session ended, in our own terms; other libraries' exceptions hold requests, headers and bodies."""
        lost = self._lost_negotiation() if not self._ready.is_set() else None
        if lost is not None:
            return lost
        leaf: BaseException | None = failure
        while isinstance(leaf, BaseExceptionGroup):
            leaf = leaf.exceptions[0]
        if isinstance(leaf, McplError):
            return leaf
        error = getattr(leaf, "error", None)
        if type(leaf).__name__ == "MCPError" and error is not None:
            return rpc_error(error.code, error.message, error.data)
        if not self._ready.is_set() and self._negotiated("initialize"):
            return InvalidResultError("initialize", f"the answer is not understood ({type(leaf).__name__})")
        what = "was cancelled" if leaf is None else f"failed ({type(leaf).__name__})"
        return TransportError(f"the HTTP transport {what}")

    def _negotiated(self, method: str) -> bool:
        """Whether the server answered this message of the negotiation with a result."""
        seen = self._watch.negotiation.get(method) if hasattr(self, "_watch") else None
        return seen is not None and isinstance(seen.answer, Success)

    def _lost_negotiation(self) -> Exception | None:
        """What became of the message of the negotiation that failed, where that says more than the SDK."""
        if not hasattr(self, "_watch"):
            return None
        for method in ("initialize", "server/discover"):
            seen = self._watch.negotiation.get(method)
            if seen is not None:
                error = judge(method, seen, None, False).error
                known = seen.status is not None or seen.failure is not None
                return error if known and seen.answer is None else None
        return None


@asynccontextmanager
async def http_session(config: HttpConfig) -> AsyncIterator[HttpSession]:
    """A session that is opened now, and closed at the end."""
    session = HttpSession(config)
    failure: Exception | None = None
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(session.own, name=f"mcp http: {config.name}")
        try:
            with anyio.CancelScope(deadline=_deadline(config.timeout)) as scope:
                await session.wait_ready()
            if scope.cancelled_caught:
                raise ConnectionTimeoutError("initialize", config.timeout or 0.0)
            yield session
        except Exception as exc:
            # Raised again outside the group, which would wrap it.
            failure = exc
        finally:
            with anyio.CancelScope(shield=True):
                await session.aclose()
    if failure is not None:
        raise failure


def _deadline(timeout: float | None) -> float:
    return math.inf if timeout is None else anyio.current_time() + timeout


def _stack(config: HttpConfig, spawn: Spawn) -> WatchingTransport:
    """The transports of a session, from the network outwards."""
    network = _network(config.url) if config.carrier is None else config.carrier()
    inner: httpx2.AsyncBaseTransport = SigningTransport(network, config.headers, config.hook, config.credentials)
    if config.retry is not None:
        inner = RetryingTransport(inner, config.retry, config.timing)
    settings = config.retry or RetrySettings()
    return WatchingTransport(inner, settings, config.retry is not None, config.timing, config.max_message_bytes, spawn)


def _network(url: str) -> httpx2.AsyncBaseTransport:
    if url.lower().startswith("https:"):
        return httpx2.AsyncHTTPTransport(limits=_LIMITS)
    # No redirect leads from here to TLS. A context that trusts nobody spares reading the system's certificates.
    return httpx2.AsyncHTTPTransport(verify=ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), limits=_LIMITS)


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


async def _never(*arguments: Any) -> Any:
    """Stands for a handler of ours, which answers before the SDK could."""
    raise NotImplementedError
