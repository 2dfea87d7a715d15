"""All principals of a server, their connections, and what runs between calls.

Owns: who is connected, which of the connections an event or a question goes to, idle principals, the tasks of
instances, and the records of calls. Does not own: requests (``calling``), the steps of one instance (``instances``),
and the rules of one principal (``principal``, ``events``).
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import count
from threading import get_ident
from typing import Any, cast

import anyio
from anyio.abc import TaskGroup
from msgspec import UnsetType

from ..connection import McplConnection
from ..errors import LocalProtocolError, McplError
from ..protocol import AccessTokenResult, EndReason
from ..server import Context
from ..server.calling import contained
from ..server.events import event_params
from ..wire.values import encode_value
from .access import AccessDesk
from .attribution import CallRecord, current_call, running_call
from .clock import Clock
from .context import InstanceContext
from .events import ToolsetEvent
from .instances import Instances
from .keeping import Keeper
from .link import FeatureSetNames, Link
from .principal import OpenInstance, Principal
from .wire import Key, is_text, time_text

__all__ = ("Call", "Runtime")

_logger = logging.getLogger("mcpl_core")

#: The record of a call on one of our connections.
Call = CallRecord[Link, ToolsetEvent]


class Runtime:
    """What is there for all connections.

    Args:
        names: the server's feature sets.
        toolsets: the names of the toolsets with instances, and of those that are open by default.
        clock: what time it is.
        keeper: what outlives the process.
        idle_close: seconds; see ``ToolsetServer``.
        held_events, open_limit: see ``ToolsetServer``.

    Attributes:
        instances: set by the server once both are made.
        thread: the event loop's.
    """

    instances: Instances

    def __init__(
        self,
        names: FeatureSetNames,
        toolsets: tuple[Sequence[str], Sequence[str]],
        clock: Clock,
        keeper: Keeper,
        idle_close: float,
        held_events: int,
        open_limit: int,
    ) -> None:
        self.names = names
        self.clock = clock
        self.thread = get_ident()
        self._with_instances, self._defaults = toolsets
        self._keeper = keeper
        self._idle_close = idle_close
        self._bounds = (held_events, open_limit)
        self._principals: dict[str, Principal] = {}
        self._desks: dict[str, AccessDesk] = {}
        self._links: dict[McplConnection, Link] = {}
        self._links_of: dict[str, dict[Link, None]] = {}
        self._locks: dict[str, anyio.Lock] = {}
        self._ready = count(1)
        self._tasks: TaskGroup | None = None
        self._scopes: dict[tuple[str, Key], set[anyio.CancelScope]] = {}
        #: Tasks of instances that are still being made.
        self._waiting: dict[tuple[str, Key], list[Callable[[], Awaitable[Any]]]] = {}
        self._idle_changed = anyio.Event()
        for name, record in keeper.principals.items():
            principal = self._principal(name)
            principal.counters.update(record.counters)
            principal.defaults_opened.update(record.defaults_opened)
            for each in keeper.ended(name):
                principal.end(each)
            principal.idle_since = clock.time() if record.idle_since is None else record.idle_since

    # -- principals and connections

    def _principal(self, name: str) -> Principal:
        found = self._principals.get(name)
        if found is None:
            found = self._principals[name] = Principal(name, self._with_instances, *self._bounds)
            self._desks[name] = AccessDesk(self.clock.time)
        return found

    @property
    def principals(self) -> tuple[str, ...]:
        """Who is known."""
        return tuple(self._principals)

    def links(self, name: str) -> list[Link]:
        """The connections of a principal, in the order of their beginning."""
        return list(self._links_of.get(name, ()))

    def connect(self, connection: McplConnection, name: str) -> Link:
        """A connection of this principal begins."""
        if connection in self._links:
            raise LocalProtocolError("this connection is served already")
        if not is_text(name):
            raise LocalProtocolError("a principal is named by a text, without lone surrogates")
        self.thread = get_ident()
        principal = self._principal(name)
        principal.idle_since = None
        link = self._links[connection] = Link(principal, connection, self.names)
        self._links_of.setdefault(name, {})[link] = None
        return link

    async def welcome(self, link: Link) -> None:
        """What was kept of the principal is made again, and what is open by default is opened, once."""
        principal = link.principal
        async with self._locks.setdefault(principal.name, anyio.Lock()):
            await self.instances.make_again(principal)
            for name in self._defaults:
                if name not in principal.defaults_opened:
                    await self._open_default(principal, name)
                    principal.defaults_opened.add(name)
                    self.instances.note(principal)

    async def _open_default(self, principal: Principal, name: str) -> None:
        try:
            # The connection waits for it.
            with anyio.move_on_after(self.instances.grace) as scope:
                await self.instances.open(principal, name)
        except McplError as exc:
            self.report(exc)
        if scope.cancelled_caught:
            self.report(LocalProtocolError(f"toolset {name} stays closed: it took too long to open"))

    async def evict(self, name: str, key: Key) -> bool:
        """See ``ToolsetServer.evict``."""
        principal = self._principals.get(name)
        if principal is None:
            return False
        async with self._locks.setdefault(name, anyio.Lock()):
            await self.instances.make_again(principal)
        opened = principal.get(key)
        return opened is not None and await self.instances.end(principal, opened, "evicted")

    def disconnect(self, link: Link) -> None:
        """It ended. What it had on its way goes to other connections, or is held."""
        principal = link.principal
        del self._links[link.connection], self._links_of[principal.name][link]
        link.end()
        self._desks[principal.name].drop(link)
        if not self._links_of[principal.name]:
            del self._links_of[principal.name]
            principal.idle_since = self.clock.time()
            if principal.open() or self._keeper.active:
                self.instances.note(principal)
                self.spawn(self._write)
            self._idle_changed.set()

    def link(self, context: Context) -> Link:
        """The connection of a call, with what is known of its host now."""
        link = self._links[context.connection]
        link.see(context)
        return link

    def policy_changed(self, context: Context) -> None:
        """What a host allows changed."""
        link = self._links.get(context.connection)
        if link is None:
            return
        link.see(context)
        # Whether it took something away is not worth finding out: asking once more does no harm.
        link.grants += 1
        self._desks[link.principal.name].drop(link)
        if context.grant.ready and link.ready_order is None:
            link.ready_order = next(self._ready)
        elif not context.grant.ready:
            link.ready_order = None
        link.wake()

    # -- running

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """What runs beside the calls runs in this block. In a second one at the same time nothing more runs."""
        if self._tasks is not None:
            yield
            return
        self.thread = get_ident()
        # Those of another event loop are of no use in this one.
        self._locks.clear()
        failure: BaseException | None = None
        try:
            async with anyio.create_task_group() as tasks:
                self._tasks = tasks
                tasks.start_soon(self._watch_idle)
                try:
                    yield
                except BaseException as exc:
                    # Raised again outside of the group, which would wrap it.
                    failure = exc
                finally:
                    self._tasks = None
                tasks.cancel_scope.cancel()
        finally:
            with anyio.CancelScope(shield=True):
                await self._write()
        if failure is not None:
            raise failure

    async def shut_down(self) -> None:
        """The server stops for good: what is kept is stored as it stands, the rest is closed."""
        everything = [(principal, opened) for principal in self._principals.values() for opened in principal.open()]
        kept = [each for each in everything if self.instances.is_kept(each[1])]
        async with anyio.create_task_group() as keeping:
            for each in kept:
                keeping.start_soon(self.instances.keep, *each)
        await self._end_all([each for each in everything if each not in kept], "closed")

    async def _end_all(self, opened: Iterable[tuple[Principal, OpenInstance]], reason: EndReason) -> None:
        """Side by side: each may take the grace."""
        async with anyio.create_task_group() as ending:
            for principal, each in opened:
                ending.start_soon(self.instances.end, principal, each, reason)

    def close_store(self) -> None:
        """See ``ToolsetServer``."""
        self._keeper.close()

    def spawn(self, function: Callable[[], Awaitable[Any]]) -> None:
        """Starts a task beside the calls, while something runs."""
        if self._tasks is not None:
            self._tasks.start_soon(self._reported, function)

    async def _reported(self, function: Callable[[], Awaitable[Any]]) -> None:
        try:
            with contained():
                await function()
        except Exception as exc:
            self.report(exc)

    def report(self, error: BaseException) -> None:
        """Reports where the call that it belongs to is served, or to the logger."""
        record = running_call()
        if record is not None:
            cast("Call", record).link.connection.report(error)
        else:
            _logger.error("toolsets: %s: %s", type(error).__name__, error, exc_info=error)

    # -- idle

    async def _watch_idle(self) -> None:
        while True:
            self._idle_changed = anyio.Event()
            await self.close_idle()
            due = min(filter(None, (p.due(self._idle_close) for p in self._principals.values())), default=None)
            async with anyio.create_task_group() as waiting:
                if due is not None:
                    waiting.start_soon(self._sleep_until, due)
                await self._idle_changed.wait()
                waiting.cancel_scope.cancel()

    async def _sleep_until(self, due: float) -> None:
        await self.clock.sleep(max(due - self.clock.time(), 0.0))
        self._idle_changed.set()

    async def close_idle(self) -> None:
        """Closes what belongs to principals that were away for too long, and forgets them."""
        now = self.clock.time()
        idle = [principal for principal in self._principals.values() if self._is_due(principal, now)]
        for principal in idle:
            # At once: who connects from now on is new, and is welcome when the old one is gone.
            del self._principals[principal.name]
            principal.forgotten = True
            self._desks.pop(principal.name).drop()
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as closing:
                for principal in idle:
                    closing.start_soon(self._forget, principal)

    def _is_due(self, principal: Principal, now: float) -> bool:
        due = principal.due(self._idle_close)
        return due is not None and due <= now

    async def _forget(self, principal: Principal) -> None:
        name = principal.name
        async with self._locks.setdefault(name, anyio.Lock()):
            await self.instances.make_again(principal)
            self._keeper.forget(name)
            await self._end_all([(principal, opened) for opened in principal.open()], "idle")
        if name not in self._principals:
            del self._locks[name]
        await self._write()

    async def _write(self) -> None:
        try:
            await self._keeper.write()
        except McplError as exc:
            self.report(exc)

    # -- what instances and calls ask for (``Surroundings``)

    def place(self, principal: str, key: Key) -> InstanceContext:
        """The context of an instance."""
        return InstanceContext(self, principal, key)

    def raise_event(self, principal: str, key: Key | None, content: Any, tags: Iterable[str]) -> str:
        """See ``InstanceContext.event``."""
        origin = None if key is None else {"toolset": key[0]} | ({} if key[1] is None else {"instance": key[1]})
        timestamp = time_text(self.clock.time())
        params = event_params(self.names.events, content, tags=tags, origin=origin, timestamp=timestamp)
        encode_value(params)
        found = self._principals.get(principal)
        if found is None:
            # Forgotten: nobody is left to be told.
            return params.event_id
        record = cast("Call | None", current_call(principal))
        # Before anything is asked, which might raise another.
        heard = key is not None and not self.instances.questions.unheard(key[0])
        opened = found.get(key) if key is not None and heard else None
        seen = record is None and opened is not None and self.instances.look_now(found, opened)
        event = found.events.raise_event(params, self.links(principal), None if record is None else record.link)
        if record is not None:
            record.events.append(event)
        if key is not None and not (seen and not self._keeper.active):
            self.changed(principal, key)
        return params.event_id

    async def access(
        self,
        principal: str,
        audience: str,
        scopes: Sequence[str],
        reason: str | None,
        timeout: float | None | UnsetType,
    ) -> AccessTokenResult:
        """See ``InstanceContext.access``."""
        record = cast("Call | None", current_call(principal))
        link = record.link if record is not None else None
        if link is None or link.gone:
            ready = [link for link in self.links(principal) if link.ready_order is not None and not link.gone]
            link = max(ready, key=lambda each: each.ready_order or 0, default=None)
        desk = self._desks.get(principal) or AccessDesk(self.clock.time)
        return await desk.get(link, audience, scopes, reason, timeout)

    def changed(self, principal: str, key: Key) -> None:
        """See ``InstanceContext.changed``. In a call, the call's end sees to it."""
        if self.instances.questions.unheard(key[0]):
            return
        record = current_call(principal)
        if record is not None:
            record.touched.setdefault(key, False)
            return
        self.spawn(partial(self.settle, principal, [key]))

    async def settle(self, principal: str, keys: Iterable[Key]) -> None:
        """Stores how these stand, and asks what is visible of them."""
        found = self._principals.get(principal)
        if found is not None:
            keys = list(keys)
            await self.keep(found, keys)
            await self.look(found, keys)

    async def keep(self, principal: Principal, keys: Iterable[Key]) -> None:
        """Stores how these stand."""
        for key in keys:
            if (opened := principal.get(key)) is not None:
                await self.instances.keep(principal, opened)

    async def look(self, principal: Principal, keys: Iterable[Key]) -> None:
        """Asks what is visible of these."""
        for key in keys:
            if (opened := principal.get(key)) is not None:
                await self.instances.look(principal, opened)

    def start_soon(self, principal: str, key: Key, function: Callable[..., Awaitable[Any]], *args: Any) -> None:
        """See ``InstanceContext.start_soon``."""
        found = self._principals.get(principal)
        if self._tasks is None or found is None or not self.instances.alive(found, key):
            raise LocalProtocolError("the instance is not open, or the server does not run")
        task: Callable[[], Awaitable[Any]] = partial(function, *args)
        if found.get(key) is None:
            # What it does is about an instance that hosts know.
            self._waiting.setdefault((principal, key), []).append(task)
        else:
            self._start(self._tasks, (principal, key), task)

    def begin(self, principal: str, key: Key) -> None:
        """Starts the tasks that waited for this instance to be open."""
        for task in self._waiting.pop((principal, key), ()):
            if self._tasks is not None:
                self._start(self._tasks, (principal, key), task)

    def _start(self, tasks: TaskGroup, owner: tuple[str, Key], task: Callable[[], Awaitable[Any]]) -> None:
        scope = anyio.CancelScope()
        # It may end before the task begins.
        self._scopes.setdefault(owner, set()).add(scope)
        tasks.start_soon(self._run, owner, scope, task)

    async def _run(
        self, owner: tuple[str, Key], scope: anyio.CancelScope, function: Callable[[], Awaitable[Any]]
    ) -> None:
        try:
            with scope:
                await self._reported(function)
        finally:
            scopes = self._scopes[owner]
            scopes.discard(scope)
            if not scopes:
                del self._scopes[owner]

    async def end_own(self, principal: str, key: Key) -> bool:
        """See ``InstanceContext.close``. In a call of the principal, it ends with the call."""
        found = self._principals.get(principal)
        opened = None if found is None else found.get(key)
        if found is None or opened is None or opened.closing:
            return False
        record = current_call(principal)
        if record is not None:
            record.touched[key] = True
            return True
        return await self.instances.end(found, opened, "closed")

    def stop(self, principal: str, key: Key) -> None:
        """Cancels the tasks of an instance."""
        self._waiting.pop((principal, key), None)
        for scope in list(self._scopes.get((principal, key), ())):
            scope.cancel()
