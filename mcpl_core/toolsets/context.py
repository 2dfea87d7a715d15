"""What the functions of an application are given: the call, and the place of an instance that outlives calls.

Owns: the two views, and that a plain function in a worker thread may use them. Does not own: what they ask for
(``runtime``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from threading import get_ident
from typing import Any, Protocol, TypeVar

import anyio.from_thread
from msgspec import UNSET, UnsetType

from ..errors import LocalProtocolError
from ..protocol import AccessTokenResult
from ..server import Context
from ..transports.loop import name_library
from .wire import Key

__all__ = ("InstanceContext", "Surroundings", "ToolsetContext")

T = TypeVar("T")


class Surroundings(Protocol):
    """What the views need of the server. ``key``: of which instance; ``None``: of none."""

    thread: int

    def raise_event(self, principal: str, key: Key | None, content: Any, tags: Iterable[str]) -> str: ...
    async def access(
        self,
        principal: str,
        audience: str,
        scopes: Sequence[str],
        reason: str | None,
        timeout: float | None | UnsetType,
    ) -> AccessTokenResult: ...
    def changed(self, principal: str, key: Key) -> None: ...
    def start_soon(self, principal: str, key: Key, function: Callable[..., Awaitable[Any]], *args: Any) -> None: ...
    async def end_own(self, principal: str, key: Key) -> bool: ...


class _View:
    """Events and access, for both."""

    principal: str
    _surroundings: Surroundings
    _key: Key | None

    def event(
        self, content: Any, *, tags: Iterable[str] = (), toolset: str | None = None, instance: str | None = None
    ) -> str:
        """Tells this principal's hosts that something happened; returns the event's id and does not wait.

        Raised while a call of the principal is handled, by its handler or a task or thread that it began, the event
        stands in the call's result. Otherwise it is pushed, or held for a principal that is away. From any thread that
        AnyIO began.

        Args:
            content: a text, a content block, or a list of both.
            tags: ``namespace:value`` labels (SPEC 16).
            toolset, instance: what it is about; left out: this instance, if there is one.

        Raises:
            InvalidValueError: a tag has no namespace, or the content is none.
            UnencodableError: it has no JSON form.
        """
        key = self._key if toolset is None else (toolset, instance)
        return self._in_loop(lambda: self._surroundings.raise_event(self.principal, key, content, tags))

    async def access(
        self,
        audience: str,
        *,
        scopes: Sequence[str] = (),
        reason: str | None = None,
        timeout: float | None | UnsetType = UNSET,
    ) -> AccessTokenResult:
        """A short-lived credential from the host of the call that is handled, or else from the principal's host that
        became ready last. It is kept until 30 seconds before it expires.

        Args:
            audience: for what, as a URL.
            scopes: how far it reaches.
            reason: for the person who decides.
            timeout: as for ``McplConnection.send_request``; a person may have to be asked.

        Raises:
            AccessDenied: the host refused, does not know of credentials, or is not there.
            InvalidResultError: the host's answer is no credential.
        """
        return await self._surroundings.access(self.principal, audience, scopes, reason, timeout)

    def _in_loop(self, function: Callable[[], T]) -> T:
        if get_ident() == self._surroundings.thread:
            name_library()
            return function()
        try:
            return anyio.from_thread.run_sync(function)
        except RuntimeError as exc:
            raise LocalProtocolError(f"not from this thread: {exc}") from exc


class ToolsetContext(_View, Context):
    """The context of a call, with what toolsets add. ``Context`` says the rest.

    A parameter annotated as ``Context`` or ``ToolsetContext`` gets it.
    """

    def __init__(self, call: Context, surroundings: Surroundings) -> None:
        super().__init__(
            call,
            principal=call.principal,
            host=call.host,
            protocol_version=call.protocol_version,
            mcpl=call.mcpl,
            session_state=call.session_state,
            request_id=call.request_id,
            params=call.params,
        )
        self._surroundings = surroundings
        self._key = None


class InstanceContext(_View):
    """The place of one instance, or of a toolset without instances. It belongs to the principal and no connection: it
    may be kept as long as the instance lives.

    Attributes:
        principal: whose it is.
        toolset: the name of its toolset.
        instance: its id; ``None`` where the toolset has no instances.
    """

    def __init__(self, surroundings: Surroundings, principal: str, key: Key) -> None:
        self._surroundings = surroundings
        self._key = key
        self._own: Key = key
        self.principal = principal
        self.toolset, self.instance = key

    def __repr__(self) -> str:
        return f"InstanceContext(principal={self.principal!r}, toolset={self.toolset!r}, instance={self.instance!r})"

    def changed(self) -> None:
        """The instance is another than before: ``visible()`` is asked again, hosts are told what differs, and its
        ``dump()`` is stored. Not needed for what a call or an event of the instance changed, and not heard from
        ``title``, ``visible()`` and ``dump()`` themselves. From any thread that AnyIO began."""
        self._in_loop(lambda: self._surroundings.changed(self.principal, self._own))

    def start_soon(self, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """Starts a coroutine function beside everything else; one that is given while the instance is made, once it is
        open. It is cancelled when the instance ends or the server stops; what it raises is reported. From any thread
        that AnyIO began.

        Raises:
            LocalProtocolError: the instance is not open, or the server does not run.
        """
        self._in_loop(lambda: self._surroundings.start_soon(self.principal, self._own, function, *args))

    async def close(self) -> bool:
        """The instance is over, by its own doing: its ``close()`` is called, and hosts are told. False when it was
        not open."""
        return await self._surroundings.end_own(self.principal, self._own)
