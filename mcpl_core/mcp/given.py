"""A connection that the caller brought along, of whatever library, as an MCP session.

Owns: its three calls, ``list_tools``, ``call_tool`` and ``close``, and what they return as plain JSON. Does not own:
connecting (it never is, here), the wire, and everything else that MCP has.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, Protocol, runtime_checkable

import anyio
import msgspec
from msgspec import UNSET, UnsetType

from ..errors import ConnectionTimeoutError, InvalidResultError, InvalidValueError, LocalProtocolError
from ..protocol.method import TOOLS_CALL, TOOLS_LIST
from ..transports.base import Transport
from ..wire.values import decode_value, encode_value
from .budgets import checked_seconds
from .outcomes import TerminateOutcome
from .session import DEFAULT_TERMINATE_BOUND
from .transports import TransportDescription

__all__ = ("GivenConnection", "GivenSession", "checked_connection")


@runtime_checkable
class GivenConnection(Protocol):
    """What a caller's connection has. The calls are coroutine functions, or functions that return awaitables.

    ``list_tools()``, later ``list_tools(cursor=...)``: a page, or a plain list of all tools. ``call_tool(name,
    arguments)``: a result. Both return mappings, or objects with ``model_dump`` (pydantic) or structs (msgspec).
    """

    def list_tools(self) -> Any:
        """A page of tools."""

    def call_tool(self, name: str, arguments: dict[str, Any]) -> Any:
        """The result of a call."""

    def close(self) -> Any:
        """Closes it; called once."""


def checked_connection(connection: Any) -> GivenConnection:
    """The connection, when it is one.

    Raises:
        InvalidValueError: it is a transport (``transport_given``), or lacks one of the calls (``connection``).
    """
    if isinstance(connection, TransportDescription | Transport):
        detail = "this is a transport, which says how to connect: pass it as transport="
        raise InvalidValueError("transport_given", detail, "$.connection")
    missing = [name for name in ("list_tools", "call_tool", "close") if not callable(getattr(connection, name, None))]
    if missing:
        detail = f"a connection has list_tools, call_tool and close; {', '.join(missing)} is missing"
        raise InvalidValueError("connection", detail, "$.connection")
    given: GivenConnection = connection
    return given


class GivenSession:
    """A ``RawSession`` over a ``GivenConnection``. ``aclose`` closes that, exactly once."""

    protocol_version = ""
    instructions = None
    #: Nobody knows what a connection of the caller's own does.
    may_repeat = True

    def __init__(self, connection: GivenConnection, timeout: float | None) -> None:
        self._connection = connection
        self._timeout = timeout
        self._closed = False
        self.server_info: dict[str, Any] = {}
        self.capabilities: dict[str, Any] = {}

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
        """See ``RawSession.request``. Progress is the connection's own matter: none is heard here.

        Raises:
            LocalProtocolError: neither ``tools/list`` nor ``tools/call``.
        """
        began = anyio.current_time()
        bounds = [
            checked_seconds("timeout", self._timeout if timeout is UNSET else timeout),
            checked_seconds("max_total", max_total),
        ]
        with anyio.move_on_after(min((bound for bound in bounds if bound is not None), default=float("inf"))):
            return _plain(method, await self._ask(method, params or {}))
        raise ConnectionTimeoutError(method, round(anyio.current_time() - began, 3))

    async def _ask(self, method: str, params: dict[str, Any]) -> Any:
        if method == TOOLS_LIST:
            options = {"cursor": params["cursor"]} if "cursor" in params else {}
            return await _awaited(self._connection.list_tools(**options))
        if method != TOOLS_CALL:
            raise LocalProtocolError(f"a connection of the caller's own has no {method} here")
        meta = {"meta": params["_meta"]} if params.get("_meta") else {}
        return await _awaited(self._connection.call_tool(params["name"], params["arguments"], **meta))

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """Does nothing: the connection has no call for it."""

    def on_notification(self, callback: Callable[[str, Any], None]) -> Callable[[], None]:
        """Nothing is heard of notifications."""
        return lambda: None

    async def terminate(self, timeout: float = DEFAULT_TERMINATE_BOUND) -> TerminateOutcome:
        """Closes the connection: ``unavailable``, since its session is the caller's to end."""
        began = anyio.current_time()
        error_class = None
        with anyio.move_on_after(timeout):
            try:
                await self.aclose()
            except Exception as exc:
                error_class = type(exc).__name__
        return TerminateOutcome("unavailable", anyio.current_time() - began, error_class=error_class)

    async def aclose(self) -> None:
        """Closes the connection, the first time; one that takes longer than five seconds is not waited for."""
        if not self._closed:
            self._closed = True
            with anyio.move_on_after(DEFAULT_TERMINATE_BOUND):
                await _awaited(self._connection.close())


def _plain(method: str, value: Any) -> dict[str, Any]:
    """What a call returned, as plain JSON."""
    try:
        # Through text: nothing else makes sure that it is what a server could have sent.
        plain = decode_value(encode_value(msgspec.to_builtins(value, enc_hook=_dumped)))
    except Exception as exc:
        raise InvalidResultError(method, f"a {type(value).__name__} has no JSON form") from exc
    if method == TOOLS_LIST and isinstance(plain, list):
        plain = {"tools": plain}
    if not isinstance(plain, dict):
        raise InvalidResultError(method, f"a result is an object, not a {type(value).__name__}")
    return plain


def _dumped(value: Any) -> Any:
    """A value of another library, wherever it stands in a result."""
    if hasattr(value, "model_dump"):
        # Members that nobody sent have defaults there, which would read as sent.
        return value.model_dump(mode="json", by_alias=True, exclude_unset=True)
    if isinstance(value, Mapping):
        return dict(value)
    raise NotImplementedError


async def _awaited(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value
