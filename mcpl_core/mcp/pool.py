"""Clients that several conversations use, as long as they mean the same server in the same way.

Owns: when two descriptions are the same configuration, who shares a client, and when one is closed. Does not own: the
clients. A principal is always named: nobody gets a client that was opened for somebody else.

What is compared to tell configurations apart is their place, the names of their headers and variables, and their
settings: plain things, that may be kept. Whether the secret parts are the same too is asked of the descriptions
themselves; where they are not, the client of the old ones is replaced and ends with its last lease.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self, TypeAlias

import anyio
from anyio.abc import TaskGroup, TaskStatus

from ..errors import InvalidValueError, LocalProtocolError
from .client import McpClient
from .connecting import mcp_client
from .settings import SettingValue
from .transports import GatewayTransport, HttpTransport, StdioTransport, TransportDescription

__all__ = ("Configuration", "McpClientPool", "configuration_of")


@dataclass(frozen=True, slots=True, repr=False)
class Configuration:
    """What tells two descriptions of transports apart. It is compared, and shows nothing of itself.

    Attributes:
        kind: ``stdio``, ``http``, ``gateway`` or ``websocket``.
        place: the command and its directory, or the URL and what belongs to it.
        names: the names of headers, in lower case, or of variables; never a value.
        settings: see ``Settings``.
    """

    kind: str
    place: tuple[Any, ...]
    names: tuple[str, ...]
    settings: tuple[tuple[str, SettingValue], ...]

    def __repr__(self) -> str:
        return f"<Configuration {self.kind}>"


def configuration_of(transport: TransportDescription) -> Configuration:
    """The configuration of a description."""
    settings = tuple(sorted(transport.settings.items()))
    if isinstance(transport, StdioTransport):
        words = tuple(os.fspath(word) for word in transport.command)
        cwd = None if transport.cwd is None else os.fspath(transport.cwd)
        replaced = transport.replace_env is not None
        names = tuple(sorted(transport.replace_env or transport.env or ()))
        return Configuration("stdio", (words, cwd, replaced), names, settings)
    # A function that makes headers has no names to compare; there is one name for it.
    names = ("*",) if callable(transport.headers) else tuple(sorted(map(str.lower, transport.headers)))
    if isinstance(transport, GatewayTransport):
        scopes = None if transport.scopes is None else tuple(transport.scopes)
        place = (transport.url, transport.service, scopes, transport.mode)
        return Configuration("gateway", place, names, settings)
    kind = "http" if isinstance(transport, HttpTransport) else "websocket"
    return Configuration(kind, (transport.url,), names, settings)


#: Name, principal, configuration.
_Key: TypeAlias = tuple[str, str, Configuration]


class _Entry:
    """A client of the pool, and how many use it."""

    def __init__(self, client: McpClient, transport: TransportDescription, principal: str) -> None:
        self.client = client
        self.transport = transport
        self.principal = principal
        self.leases = 0
        self.retired = False
        self.opening = True
        self.done = anyio.Event()

    def settle(self) -> None:
        """Ends it once nobody uses it, if nobody else will get it."""
        if self.retired and not self.leases:
            self.done.set()


class McpClientPool:
    """An async context manager; its clients end with it.

    Args:
        options: of every client, as for ``mcp_client``.
    """

    def __init__(self, **options: Any) -> None:
        self._options = options
        self._make: Callable[..., McpClient] = mcp_client
        self._entries: dict[_Key, _Entry] = {}
        self._locks: dict[_Key, anyio.Lock] = {}
        #: Those too that nobody else will get.
        self._all: set[_Entry] = set()
        self._tasks: TaskGroup | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            raise LocalProtocolError("a pool is entered once")
        self._tasks = anyio.create_task_group()
        await self._tasks.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        assert self._tasks is not None
        self._closed = True
        try:
            for entry in tuple(self._all):
                entry.done.set()
                if entry.opening:
                    await entry.client.close()
        finally:
            if exc_type is not None:
                # The caller's exception is not handed to the group: it would come back wrapped in an ExceptionGroup.
                self._tasks.cancel_scope.cancel()
            await self._tasks.__aexit__(None, None, None)

    def __len__(self) -> int:
        return len(self._entries)

    @asynccontextmanager
    async def client(self, name: str, transport: TransportDescription, *, principal: str) -> AsyncIterator[McpClient]:
        """The client of a server for somebody: the one that is there for the same name, principal and configuration,
        else a new one. It stays open when the block is left, for the next one.

        Args:
            name: of the client.
            transport: a description; functions that make connections cannot be compared.
            principal: on whose behalf. Clients are never shared between two.

        Raises:
            InvalidValueError: the transport is no description, or nobody is named.
            LocalProtocolError: the pool is not open.
            Exception: what entering the client raised.
        """
        if not isinstance(transport, TransportDescription):
            raise InvalidValueError("transport", "a pool compares descriptions of transports", "$.transport")
        if not isinstance(principal, str) or not principal:
            raise InvalidValueError("principal", "a principal has to be named", "$.principal")
        key = (name, principal, configuration_of(transport))
        entry = await self._lease(key, transport)
        try:
            yield entry.client
        finally:
            entry.leases -= 1
            if entry.client.is_closed and self._entries.get(key) is entry:
                self._retire(key)
            entry.settle()

    def forget(self, principal: str) -> None:
        """Gives nobody the clients of a principal any more, those that are being opened among them. Each ends once
        nobody uses it."""
        for key in [key for key in self._entries if key[1] == principal]:
            self._retire(key)
        for entry in self._all:
            # Whoever waits for it gets it, and nobody after.
            entry.retired = entry.retired or entry.principal == principal

    async def _lease(self, key: _Key, transport: TransportDescription) -> _Entry:
        lock = self._locks.setdefault(key, anyio.Lock())
        try:
            async with lock:
                entry = self._usable(key, transport)
                if entry is None:
                    entry = await self._open(key, transport)
                entry.leases += 1
                return entry
        finally:
            if not lock.locked() and self._locks.get(key) is lock:
                del self._locks[key]

    def _usable(self, key: _Key, transport: TransportDescription) -> _Entry | None:
        entry = self._entries.get(key)
        if entry is None or (entry.transport == transport and not entry.client.is_closed):
            return entry
        self._retire(key)
        return None

    def _retire(self, key: _Key) -> None:
        entry = self._entries.pop(key)
        entry.retired = True
        entry.settle()

    async def _open(self, key: _Key, transport: TransportDescription) -> _Entry:
        if self._tasks is None or self._closed:
            raise LocalProtocolError("the pool is not open (async with)")
        entry = _Entry(self._make(key[0], transport=transport, **self._options), transport, key[1])
        self._all.add(entry)
        await self._tasks.start(self._hold, entry, name=f"mcp pool: {key[0]}")
        if not entry.retired:
            self._entries[key] = entry
        return entry

    async def _hold(self, entry: _Entry, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        try:
            async with entry.client:
                entry.opening = False
                task_status.started()
                await entry.done.wait()
        finally:
            self._all.discard(entry)
