"""An MCPL server under a host, seen as an MCP session.

Owns: the requests of MCP as calls of the host: each is checked against the grant of that moment, and its state and
records stay the host's. Does not own: the connection. It is the host's: nothing here opens, ends or closes it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import anyio
import msgspec
from msgspec import UNSET, Raw, UnsetType

from ..errors import ConnectionClosedError, InvalidResultError, LocalProtocolError
from ..host.hosted import HostedServer
from ..host.session import HostSession
from ..observers import Observers
from ..protocol import ProgressParams
from ..protocol.method import TOOLS_CALL, TOOLS_LIST
from ..wire.messages import Notification, Request
from ..wire.values import decode_value
from .outcomes import TerminateOutcome
from .session import DEFAULT_TERMINATE_BOUND

__all__ = ("HostedRawSession", "hosted_session")


class HostedRawSession:
    """A ``RawSession`` over a session of a host.

    Args:
        session: the session.
    """

    def __init__(self, session: HostSession) -> None:
        self._session = session
        self._callbacks: list[Callable[[str, Any], None]] = []
        self._unwatch = session.connection.on_message(self._arrived)

    @property
    def protocol_version(self) -> str:
        """The MCP version that both speak."""
        return self._session.protocol_version

    @property
    def server_info(self) -> dict[str, Any]:
        """Who the server says it is."""
        return self._session.info

    @property
    def capabilities(self) -> dict[str, Any]:
        """The server's ``capabilities``, as received."""
        return self._session.capabilities

    @property
    def instructions(self) -> str | None:
        """The server's words for the model, if any."""
        return self._session.instructions

    @property
    def may_repeat(self) -> bool:
        """Never."""
        return False

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
        """See ``RawSession.request``. Only tools hear of progress, as the host's own calls do.

        Raises:
            CapabilityDenied, LocalProtocolError: the host may not ask this of the server; nothing was sent.
        """
        if method == TOOLS_CALL:
            # Without progress that counts, the timeout is the cap as well.
            limit = timeout if not reset_on_progress and isinstance(timeout, int | float) else max_total
            return await self._call(params or {}, timeout, limit, on_progress)
        if method == TOOLS_LIST:
            link = self._session.link
            link.check_sending(method)
            result = await link.connection.send_request(method, params or {}, timeout=timeout)
        else:
            result = await self._session.request(method, params, timeout=timeout)
        if not isinstance(result, dict):
            raise InvalidResultError(method, "a result is an object")
        return result

    async def _call(
        self,
        params: dict[str, Any],
        timeout: float | None | UnsetType,
        limit: float | None,
        on_progress: Callable[[dict[str, Any]], None] | None,
    ) -> dict[str, Any]:
        answers: list[Raw] = []

        def progressed(progress: ProgressParams) -> None:
            if on_progress is not None:
                on_progress(msgspec.to_builtins(progress))

        await self._session.call_tool(
            params["name"],
            params.get("arguments"),
            timeout=timeout,
            limit=limit,
            meta=params.get("_meta"),
            on_progress=progressed,
            on_answer=answers.append,
        )
        result: dict[str, Any] = decode_value(answers[0])
        return result

    async def notify(self, method: str, params: dict[str, Any] | None = None) -> None:
        """See ``RawSession.notify``.

        Raises:
            LocalProtocolError: it is none that the host sends.
        """
        await self._session.notify(method, params)

    def on_notification(self, callback: Callable[[str, Any], None]) -> Callable[[], None]:
        """See ``RawSession.on_notification``."""
        return Observers.add(self._callbacks, callback)

    def _arrived(self, message: Request | Notification) -> None:
        if isinstance(message, Notification):
            for callback in tuple(self._callbacks):
                try:
                    callback(message.method, message.params)
                except Exception as exc:
                    self._session.connection.report(exc)

    @property
    def is_closed(self) -> bool:
        """Whether nothing can be asked any more."""
        return self._session.is_closed or not self._session.connection.can_ask

    async def wait_closed(self) -> BaseException | None:
        """See ``WatchedSession.wait_closed``."""
        connection = self._session.connection
        closed = anyio.Event()
        remove = connection.on_close(closed.set)
        try:
            if not connection.is_closed:
                await closed.wait()
        finally:
            remove()
        return connection.close_reason

    async def terminate(self, timeout: float = DEFAULT_TERMINATE_BOUND) -> TerminateOutcome:
        """Ends nothing: the session is the host's."""
        return TerminateOutcome("unavailable")

    async def aclose(self) -> None:
        """Closes nothing: the session is the host's. It only stops listening."""
        self._unwatch()


@asynccontextmanager
async def hosted_session(remote: HostSession | HostedServer) -> AsyncIterator[HostedRawSession]:
    """The session of the moment of a server under a host; of one that is being connected, when it is ready.

    Raises:
        ConnectionClosedError: it is over.
        LocalProtocolError: the host has given the server up.
    """
    if isinstance(remote, HostedServer):
        if await remote.wait("ready", "closed") == "closed":
            raise LocalProtocolError(f"the host has closed {remote.id}")
        remote = remote.session
    if remote.is_closed:
        raise ConnectionClosedError("not-sent", remote.connection.close_reason)
    session = HostedRawSession(remote)
    try:
        yield session
    finally:
        await session.aclose()
