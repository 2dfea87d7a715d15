"""``mcp_client``: what a caller says, and what client that makes.

Owns: which arguments go together, and the error for each pair that does not, which says where the behaviour is to be
had. Everything is checked here, before anything is dialled. Does not own: the client (``client``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, TypeAlias

from msgspec import UNSET, UnsetType

from .._version import __version__
from ..errors import InvalidValueError
from ..host.hosted import HostedServer
from ..host.session import HostSession
from ..options import DEFAULT_REQUEST_TIMEOUT
from ..protocol.method import PING
from .asking import is_plain_function
from .budgets import checked_seconds
from .checks import BoundedValidator, JsonSchemaValidator
from .client import DEFAULT_MAX_TOTAL, ClientSettings, McpClient
from .given import GivenConnection, GivenSession, checked_connection
from .hosted import hosted_session
from .http.config import Era
from .http.opening import open_session
from .keeper import Reconnect
from .native import PeerHandler
from .observing import CallObserver
from .opening import ConnectionMaker, borrowed_session, connection_opener
from .replay import Replay, replay_unavailable
from .results import RESULT_MODES, ResultMode
from .session import RawSession, SessionOpener
from .tracing import TraceSource
from .transports import GatewayTransport, HttpTransport, TransportDescription

__all__ = ("CLIENT_INFO", "AnyTransport", "Connecting", "mcp_client")

#: What a server is told unless the caller says something else.
CLIENT_INFO: Final[Mapping[str, Any]] = {"name": "mcp-live-core", "version": __version__}

AnyTransport: TypeAlias = TransportDescription | ConnectionMaker

#: Of what belongs to a connection that is made here: where it is to be had with one that the caller made.
_MOVED: Final[dict[str, str]] = {
    "transport": "the connection has one already",
    "sdk": "the connection was made without it",
    "http_options": "they belong to the transport of the connection",
    "era": "both sides have settled on one",
    "client_info": "say who you are where the connection is made",
    "retry_on_throttle": "retries belong to the transport of the connection",
    "replay": "attempts are not seen from outside the connection",
    "handlers": "what the server asks is answered where the connection is made",
    "session": "one of both is used",
    "reconnect": "only who made the connection can make another",
}


def mcp_client(
    name: str = "mcp",
    *,
    transport: AnyTransport | None = None,
    connection: GivenConnection | None = None,
    session: RawSession | HostSession | HostedServer | None = None,
    result_mode: ResultMode = "text",
    json_schema_validator: JsonSchemaValidator | None = None,
    prefix: str | None = None,
    client_info: Mapping[str, Any] | None = None,
    retry_on_throttle: Any = UNSET,
    replay: Replay | Mapping[str, Any] | None = None,
    era: Era | None = None,
    sdk: Any = None,
    http_options: Mapping[str, Any] | None = None,
    handlers: Mapping[str, PeerHandler] | None = None,
    reconnect: Reconnect | None | UnsetType = UNSET,
    timeout: float | None | UnsetType = UNSET,
    max_total: float = DEFAULT_MAX_TOTAL,
    reset_on_progress: bool = False,
    observer: CallObserver | None = None,
    trace: TraceSource | None = None,
) -> McpClient:
    """A client of one MCP server. A plain call that returns an async context manager; nothing is dialled before it is
    entered. One of ``transport``, ``connection`` and ``session`` is given.

    Args:
        name: stands for the server in errors, events and tools.
        transport: how to get there: ``StdioTransport``, ``HttpTransport``, ``GatewayTransport``,
            ``WebSocketTransport``, or a function that makes a connection of this package each time.
        connection: somebody else's, open already; see ``GivenConnection``. Closed once, with the client.
        session: a server of an ``McplHost``, its session, or any ``RawSession``. It stays its owner's, and open;
            only ``terminate`` ends a ``RawSession``, as that one does it itself.
        result_mode: how results are read; see ``ResultMode``.
        json_schema_validator: compiles output schemas; left out, one with bounds that fetches nothing.
        prefix: tools are called ``<prefix>__<tool>``, made fit for models; left out, as the server calls them.
        client_info: ``name`` and ``version`` that the server is told.
        retry_on_throttle: whether and how HTTP 429 is answered with patience; without HTTP it has no meaning.
        replay: what may be sent again; see ``Replay``.
        era: ``handshake``, ``modern`` (2026-07-28), or ``auto``, which tries the modern one first. Left out: ``auto``
            over HTTP, and ``handshake`` elsewhere, where some servers settle on the era of the first request.
        sdk: an object with ``Client`` and ``streamable_http_client``, in the place of the installed SDK; over HTTP.
        http_options: ``carrier``, ``timing`` and ``max_message_bytes`` of ``mcpl_core.mcp.http.open_session``.
        handlers: method -> what answers a request of the server (``elicitation/create``, ...), or such a question in
            a result.
        reconnect: how a broken session is made anew; ``None``: not at all.
        timeout: seconds that a request waits unless it says otherwise; ``None``: without end. Left out: 60, and over a
            ``session`` what that one says.
        max_total: seconds that a call takes in all where progress extends its timeout.
        reset_on_progress: whether progress extends timeouts, unless a call says otherwise.
        observer: hears of the beginning and the end of each call.
        trace: returns the trace context of the moment, for ``_meta``.

    Raises:
        InvalidValueError: an argument makes no sense, or does not go with another (``combination``).
        McpExtraMissingError: it needs a library that is not installed.
    """
    told = CLIENT_INFO if client_info is None else client_info
    _check(
        name=isinstance(name, str) and bool(name),
        result_mode=result_mode in RESULT_MODES,
        prefix=prefix is None or (isinstance(prefix, str) and bool(prefix)),
        client_info=isinstance(told, Mapping) and all(isinstance(told.get(word), str) for word in ("name", "version")),
        http_options=http_options is None
        or (isinstance(http_options, Mapping) and set(http_options) <= {"carrier", "timing", "max_message_bytes"}),
        handlers=handlers is None or (isinstance(handlers, Mapping) and all(map(_is_handler, handlers.items()))),
        reconnect=reconnect is None or isinstance(reconnect, Reconnect | UnsetType),
        json_schema_validator=json_schema_validator is None or isinstance(json_schema_validator, JsonSchemaValidator),
        max_total=max_total is not None,
        observer=observer is None or is_plain_function(observer),
        trace=trace is None or is_plain_function(trace),
    )
    checked_seconds("max_total", max_total)
    waits = DEFAULT_REQUEST_TIMEOUT if isinstance(timeout, UnsetType) else checked_seconds("timeout", timeout)
    declared = Replay.read(replay)
    connecting = Connecting(
        name=name,
        client_info=dict(told),
        timeout=waits,
        retry_on_throttle=True if retry_on_throttle is UNSET else retry_on_throttle,
        replay=declared,
        handlers=handlers,
        http_options={**(http_options or {}), "sdk": sdk, "era": "auto" if era is None else era},
    )
    with_reconnect = Reconnect() if isinstance(reconnect, UnsetType) else reconnect
    unavailable = None
    if connection is not None or session is not None:
        _refuse_together(
            "connection" if connection is not None else "session",
            transport=transport,
            session=None if connection is None else session,
            client_info=client_info,
            era=era,
            sdk=sdk,
            http_options=http_options,
            retry_on_throttle=None if retry_on_throttle is UNSET else retry_on_throttle,
            replay=replay,
            handlers=handlers,
            reconnect=None if isinstance(reconnect, UnsetType) else reconnect,
        )
        opener = connecting.given(connection) if connection is not None else connecting.borrowed(session)
        # The host connects again, and takes its time; here its next session is waited for.
        with_reconnect = Reconnect(first_delay=0.01, longest_delay=1.0) if isinstance(session, HostedServer) else None
    elif transport is None:
        raise InvalidValueError("combination", "a client needs a transport, a connection or a session")
    elif isinstance(transport, HttpTransport | GatewayTransport):
        opener = connecting.http(transport)
    else:
        _refuse_http(sdk=sdk, http_options=http_options)
        opener = connecting.native(transport, "handshake" if era is None else era)
        unavailable = replay_unavailable(declared, None)
    settings = ClientSettings(
        result_mode=result_mode,
        validator=BoundedValidator() if json_schema_validator is None else json_schema_validator,
        prefix=prefix,
        timeout=timeout if session is not None else UNSET,
        max_total=max_total,
        reset_on_progress=reset_on_progress,
        reconnect=with_reconnect,
        observer=observer,
        trace=trace,
        handlers=dict(handlers or {}),
        unavailable=unavailable,
    )
    return McpClient(name, opener, settings)


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Connecting:
    """What the openers of the several ways to a server need.

    Attributes:
        name, client_info, timeout, retry_on_throttle, replay, handlers, http_options: as for ``mcp_client``.
    """

    name: str
    client_info: dict[str, Any]
    timeout: float | None
    retry_on_throttle: Any
    replay: Replay
    handlers: Mapping[str, PeerHandler] | None
    http_options: dict[str, Any]

    def native(self, transport: Any, era: Era) -> SessionOpener:
        """Over a connection of this package."""
        return connection_opener(
            transport, client_info=self.client_info, timeout=self.timeout, handlers=self.handlers, era=era
        )

    def http(self, transport: HttpTransport | GatewayTransport) -> SessionOpener:
        """Over Streamable HTTP."""
        opener: SessionOpener = partial(
            open_session,
            transport,
            name=self.name,
            client_info=self.client_info,
            timeout=self.timeout,
            retry_on_throttle=self.retry_on_throttle,
            replay=self.replay,
            handlers=self.handlers,
            **self.http_options,
        )
        # Everything is checked when it is called, and nothing runs: what is wrong or missing is told now.
        opener()
        return opener

    def given(self, connection: Any) -> SessionOpener:
        """A connection of the caller's own: closed with the client, exactly once."""
        session = GivenSession(checked_connection(connection), self.timeout)
        return partial(_owned, session)

    def borrowed(self, session: Any) -> SessionOpener:
        """A session that stays its owner's."""
        if isinstance(session, HostSession | HostedServer):
            return partial(hosted_session, session)
        if not isinstance(session, RawSession):
            raise InvalidValueError("session", f"a {type(session).__name__} is no session", "$.session")
        return partial(borrowed_session, session)


@asynccontextmanager
async def _owned(session: GivenSession) -> AsyncIterator[GivenSession]:
    try:
        yield session
    finally:
        await session.aclose()


#: What an argument has to be.
_WANTED: Final[dict[str, str]] = {
    "name": "a text",
    "result_mode": f"one of {', '.join(RESULT_MODES)}",
    "prefix": "a text, or left out",
    "client_info": "a mapping with name and version",
    "http_options": "carrier, timing and max_message_bytes, and nothing else",
    "handlers": "functions by method; ping is answered here",
    "reconnect": "a Reconnect, or None",
    "json_schema_validator": "an object with get_validator",
    "max_total": "seconds",
    "observer": "a function that is not async",
    "trace": "a function that is not async",
}


def _check(**fine: bool) -> None:
    for name, is_fine in fine.items():
        if not is_fine:
            raise InvalidValueError(name, f"what is needed is {_WANTED[name]}", f"$.{name}")


def _is_handler(item: tuple[Any, Any]) -> bool:
    method, handler = item
    return isinstance(method, str) and method not in ("", PING) and callable(handler)


def _refuse_together(arm: str, **given: Any) -> None:
    """Refuses what has no meaning with a connection or session that somebody else made."""
    for name, value in given.items():
        if value is not None:
            why = _MOVED[name]
            raise InvalidValueError("combination", f"{name} does not go with {arm}: {why}", f"$.{name}")


def _refuse_http(**given: Any) -> None:
    for name, value in given.items():
        if value is not None:
            raise InvalidValueError("combination", f"{name} is for HTTP alone", f"$.{name}")
