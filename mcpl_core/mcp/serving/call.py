"""One served call, as the tool and the middleware see it.

Owns: who calls, with what, and the few things that a call can do besides returning: report progress and leave cleanups.
Does not own: running it (``calling``), and how a notification travels.
"""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, Final

from ...errors import InvalidValueError, LocalProtocolError
from .errors import McpUnsupportedError

__all__ = ("LOCAL_PRINCIPAL", "TIME_META", "Notify", "Peer", "ToolCall", "call_here")

#: Who calls when nobody says who: this machine's user.
LOCAL_PRINCIPAL: Final = "local"

#: Sends one notification to the caller: method and params.
Notify = Callable[[str, dict[str, Any]], Awaitable[None]]

#: The member of a request's ``_meta`` that says what time it is for the caller.
TIME_META: Final = "mcpl/time"


@dataclass(frozen=True, slots=True)
class Peer:
    """Who calls.

    Attributes:
        principal: what ``authenticate`` said, or who the application says it is; ``"local"`` without either.
        transport: ``stdio``, ``http``, ``websocket``, ``connection``, ``custom`` or ``process``.
        protocol_version: the MCP version of this request; empty in process.
        client: its ``clientInfo``, as received; ``None`` where it is not known (stateless HTTP of the handshake era).
        headers: of the HTTP request or the WebSocket's upgrade, by lower-case name.
    """

    principal: Any = LOCAL_PRINCIPAL
    transport: str = "process"
    protocol_version: str = ""
    client: Mapping[str, Any] | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)


async def call_here(function: Callable[..., Any], /, *args: Any) -> Any:
    """The result of a function, sync or async, in this task."""
    result = function(*args)
    return await result if isawaitable(result) else result


async def _to_nobody(method: str, params: dict[str, Any]) -> None:
    """For calls from this process."""


@dataclass(slots=True, eq=False)
class ToolCall:
    """One call. Its life is the call's own: there is no run and no session behind it.

    Attributes:
        tool: the tool, the very object that is served.
        arguments: what the client sent, unchanged.
        peer: who calls.
        meta: the ``_meta`` of the request.
        credentials: service -> what the provider gave for it. Empty until the middleware has let the call pass.
        runtime: what the tool was projected from, if anything.
        run: ``await run(function, *args)`` runs a function, sync or async; a plain one in a worker thread.
    """

    tool: Any
    arguments: Any = None
    peer: Peer = field(default_factory=Peer)
    meta: Mapping[str, Any] = field(default_factory=dict)
    credentials: Mapping[str, Any] = field(default_factory=dict, repr=False)
    runtime: Any = None
    run: Callable[..., Awaitable[Any]] = field(default=call_here, repr=False)
    _notify: Notify = field(default=_to_nobody, repr=False)
    _cleanups: list[Callable[[], Any]] = field(default_factory=list, repr=False)
    _progress: float | None = field(default=None, repr=False)
    _ended: bool = field(default=False, repr=False)
    _cleaned: bool = field(default=False, repr=False)

    @property
    def name(self) -> str:
        """The tool's name."""
        return str(self.tool.name)

    @property
    def time(self) -> Any:
        """The caller's time, ``_meta["mcpl/time"]``; ``None`` when it sent none."""
        return self.meta.get(TIME_META)

    async def report_progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        """Tells the caller how far this call is, if it asked to be told. A progress that does not grow, and one after
        the call's end, is not sent (MCP, progress).

        Raises:
            InvalidValueError: ``progress`` or ``total`` is no finite number, or ``message`` no text; the code is its
                name.
        """
        _check_progress(progress, total, message)
        token = self.meta.get("progressToken")
        if not isinstance(token, str | int) or isinstance(token, bool) or self._ended:
            return
        if self._progress is not None and progress <= self._progress:
            return
        self._progress = progress
        optional = {"total": total, "message": message}
        given = {name: value for name, value in optional.items() if value is not None}
        await self._notify("notifications/progress", {"progressToken": token, "progress": progress, **given})

    def on_cleanup(self, cleanup: Callable[[], Any], *, scope: str = "call") -> None:
        """Has ``cleanup``, sync or async, run when this call is over: it succeeded, failed or was cancelled.

        Raises:
            McpUnsupportedError: ``scope`` is not ``call`` (``cleanup-scope``): nothing else begins and ends here.
            LocalProtocolError: the call is over, its cleanups have run.
        """
        if scope != "call":
            raise McpUnsupportedError(
                "cleanup-scope", f"a served call of {self.name} has no scope {scope!r}; its cleanups are the call's own"
            )
        if self._cleaned:
            raise LocalProtocolError(f"the call of {self.name} is over: nothing would run the cleanup")
        self._cleanups.append(cleanup)


def _check_progress(progress: Any, total: Any, message: Any) -> None:
    for name, value in (("progress", progress), ("total", 0 if total is None else total)):
        if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value):
            raise InvalidValueError(name, "a finite number is wanted")
    if not isinstance(message, str | None):
        raise InvalidValueError("message", "a text is wanted")
