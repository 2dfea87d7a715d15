"""Sending to one host what no call of it carries: events, and changes that travel alone (SPEC_NOTES R-toolsets-3,
R-toolsets-5).

Owns: attempts and their answers, the order of events, and which changes ride on an event. Does not own: who is to get
what (``events``, ``presence``).

Events go out one after the other, each when the one before was answered: a host gets them in order. A change that would
have to wait behind an event that is under way travels alone.
"""

from __future__ import annotations

from typing import Any

import anyio
import msgspec
from anyio.abc import TaskGroup, TaskStatus
from msgspec import UNSET

from ..errors import (
    CapabilityDenied,
    ConnectionClosedError,
    ConnectionTimeoutError,
    FeatureSetNotEnabled,
    InternalError,
    McplError,
    UnknownFeatureSet,
)
from ..protocol import method
from ..server import Settings
from ..server.outbox import retry_delay
from .events import ToolsetEvent
from .link import Link
from .wire import changed_params

__all__ = ("Delivery",)


class Delivery:
    """What goes to one host.

    Args:
        link: the connection.
        settings: how often, how long.
    """

    def __init__(self, link: Link, settings: Settings) -> None:
        self._link = link
        self._settings = settings
        self._pushing = False

    async def run(self) -> None:
        """Sends what there is, until cancelled."""
        link = self._link
        async with anyio.create_task_group() as tasks:
            while True:
                await link.news.wait()
                link.news = anyio.Event()
                await self._begin(tasks)
                await self._tell()

    async def _begin(self, tasks: TaskGroup) -> None:
        if self._link.queue and not self._pushing:
            self._pushing = True
            # Returns when the first event was handed to the transport: it takes the changes along.
            await tasks.start(self._push)

    async def _tell(self) -> None:
        """Tells changes that nothing else carried."""
        view = self._link.may_hint()
        changes = view.changes() if view is not None else []
        if view is not None and changes:
            # Told with the bytes, which are made and handed over before anything else can run.
            view.tell(changes)
            try:
                await self._link.connection.send_notification(method.TOOLSETS_CHANGED, changed_params(changes))
            except McplError as exc:
                self._link.connection.report(exc)

    # -- events

    async def _push(self, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        book, link = self._link.principal.events, self._link
        count = 0
        started = False

        def on_sent() -> None:
            nonlocal started
            if not started:
                started = True
                task_status.started()

        try:
            while link.queue:
                event = link.queue[0]
                count += 1
                if await self._is_done(event, count, on_sent):
                    count = 0
                    book.answered(event, link)
                elif not link.may_take_events():
                    count = 0
                    book.given_back(event, link)
                else:
                    await anyio.sleep(retry_delay(count, self._settings.first_retry, self._settings.longest_retry))
        finally:
            self._pushing = False
            on_sent()

    async def _is_done(self, event: ToolsetEvent, count: int, on_sent: Any) -> bool:
        """Whether the host answered, or is not to be asked again; false when the event is still to be delivered."""
        try:
            await self._attempt(event, on_sent)
        except (ConnectionTimeoutError, InternalError) as exc:
            if count < self._settings.event_attempts:
                return False
            self._link.connection.report(exc)
        except ConnectionClosedError:
            self._link.gone = True
            return False
        except (CapabilityDenied, FeatureSetNotEnabled, UnknownFeatureSet) as exc:
            if not self._link.may_take_events():
                return False
            self._link.connection.report(exc)
        except McplError as exc:
            self._link.connection.report(exc)
        return True

    async def _attempt(self, event: ToolsetEvent, on_sent: Any) -> None:
        # A retry has no changes: a host that knows the event does not look at it again.
        view = None if event.tried else self._link.may_hint()
        changes = view.changes() if view is not None else []
        params = msgspec.structs.replace(event.params, hints=changes or UNSET)

        sent = False

        def handed_over(_: object) -> None:
            nonlocal sent
            sent = True
            if view is not None:
                view.tell(changes)
            on_sent()

        try:
            await self._link.calls.send_event(params, timeout=self._settings.event_timeout, on_sent=handed_over)
        except BaseException:
            event.tried = event.tried or sent
            raise
