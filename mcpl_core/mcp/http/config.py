"""What a session over HTTP is made from.

Owns: reading and checking it all at construction, before anything is dialled. Does not own: the descriptions of
transports (``mcp.transports``), and dialling (``owner``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ...errors import InvalidValueError
from ...wire.framing import DEFAULT_MAX_MESSAGE_BYTES
from ..errors import McpExtraMissingError
from ..replay import Replay
from ..transports import CredentialProvider, CredentialRequest, GatewayTransport, HttpTransport, RequestHook
from .exchange import Timing
from .headers import refuse_reserved
from .retry import RetrySettings

if TYPE_CHECKING:
    import httpx2

__all__ = ("Era", "HttpConfig", "Sdk", "read_config", "read_sdk")

#: ``auto``: the modern era where the server speaks it, else the handshake; or one of both alone.
Era = Literal["auto", "handshake", "modern"]


class Sdk(Protocol):
    """The parts of the official SDK that are used, for callers who bring their own."""

    @property
    def Client(self) -> Any:
        """As ``mcp.Client``."""

    @property
    def streamable_http_client(self) -> Any:
        """As ``mcp.client.streamable_http.streamable_http_client``."""


@dataclass(frozen=True, slots=True)
class _LoadedSdk:
    Client: Any
    streamable_http_client: Any


@dataclass(frozen=True, slots=True, repr=False)
class HttpConfig:
    """See ``open_session`` for what the members mean."""

    url: str
    headers: Mapping[str, str]
    hook: RequestHook | None
    credentials: tuple[CredentialProvider, CredentialRequest] | None
    client_info: Mapping[str, Any]
    name: str
    timeout: float | None
    era: Era
    retry: RetrySettings | None
    replay: Replay
    sdk: Sdk
    carrier: Callable[[], httpx2.AsyncBaseTransport] | None
    timing: Timing
    max_message_bytes: int
    handlers: Mapping[str, Callable[[Any], Any]] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<HttpConfig {self.name}>"

    @property
    def may_repeat(self) -> bool:
        """Whether any request may have a second attempt."""
        if self.retry is not None:
            return self.retry.max_attempts > 1
        return any("network" in tool.on for tool in self.replay.tools.values())


def read_config(transport: HttpTransport | GatewayTransport, options: Mapping[str, Any]) -> HttpConfig:
    """Everything that was given, checked.

    Raises:
        InvalidValueError: something is outside its grammar.
        McpExtraMissingError: the SDK is not installed.
    """
    era = options["era"]
    if era not in ("auto", "handshake", "modern"):
        raise InvalidValueError("era", "the era is auto, handshake or modern")
    carrier = options["carrier"]
    if carrier is not None and not callable(carrier):
        raise InvalidValueError("carrier", "a function that makes the carrier is needed")
    _check_numbers(options)
    info, handlers = options["client_info"], options["handlers"] or {}
    if not isinstance(info, Mapping) or not all(isinstance(info.get(name), str) for name in ("name", "version")):
        raise InvalidValueError("client_info", "a client has a name and a version")
    if not isinstance(handlers, Mapping) or not all(callable(handler) for handler in handlers.values()):
        raise InvalidValueError("handlers", "handlers are a mapping of methods to functions")
    credentials = None
    if isinstance(transport, GatewayTransport):
        credentials = (transport.credentials, transport.credential_request)
    return HttpConfig(
        url=transport.url,
        headers=refuse_reserved(transport.headers),
        hook=transport.request_hook,
        credentials=credentials,
        client_info=dict(info),
        name=options["name"],
        timeout=options["timeout"],
        era=era,
        retry=RetrySettings.read(options["retry_on_throttle"]),
        replay=Replay.read(options["replay"]),
        sdk=read_sdk(options["sdk"]),
        carrier=carrier,
        timing=options["timing"] or Timing(),
        max_message_bytes=options["max_message_bytes"] or DEFAULT_MAX_MESSAGE_BYTES,
        handlers=dict(handlers),
    )


def _check_numbers(options: Mapping[str, Any]) -> None:
    timeout, limit = options["timeout"], options["max_message_bytes"]
    if timeout is not None and (isinstance(timeout, bool) or not isinstance(timeout, int | float) or not timeout > 0):
        raise InvalidValueError("timeout", "a time in seconds above 0, or nothing, is needed")
    if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
        raise InvalidValueError("max_message_bytes", "a number of bytes from 1, or nothing, is needed")


def read_sdk(sdk: Any = None) -> Sdk:
    """The parts of the SDK, read now: the caller's, else the installed one.

    Raises:
        InvalidValueError: the caller's lacks a part (``sdk``).
        McpExtraMissingError: none is installed.
    """
    if sdk is not None:
        names = ("Client", "streamable_http_client")
        missing = [name for name in names if not callable(getattr(sdk, name, None))]
        if missing:
            raise InvalidValueError("sdk", f"the SDK that was given lacks {' and '.join(missing)}")
        return _LoadedSdk(sdk.Client, sdk.streamable_http_client)
    failed = False
    try:
        from mcp import Client
        from mcp.client.streamable_http import streamable_http_client
    except ImportError:
        failed = True
    if failed:
        raise McpExtraMissingError("MCP over HTTP", "mcp")
    return _LoadedSdk(Client, streamable_http_client)
