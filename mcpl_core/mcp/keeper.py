"""One task that owns the session of a client, and makes a new one when it breaks.

Owns: entering and leaving sessions, always in that one task; when to try again; and whether what was listed before is
still to be trusted. Does not own: how a session is made (``opening``, ``http``), and calls: what was on its way when a
session broke is over, as sent without an answer or as not sent, and is never sent again here.
"""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import anyio
from anyio.abc import TaskStatus

from ..errors import ConnectionClosedError, InvalidValueError, LocalProtocolError
from ..host.host import drop_frames
from ..host.hosted import reconnect_delay
from .session import RawSession, SessionOpener, WatchedSession

__all__ = ("Reconnect", "SessionKeeper")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconnect:
    """How a broken session is made anew.

    Attributes:
        first_delay, longest_delay: seconds between attempts; doubled each time, with jitter over the upper half.
        attempts: how many are made in a row; ``None``: without end.
        stable_after: a session that lasted so many seconds starts the series anew.
        sleep, jitter: of the waiting; ``jitter`` gives a number from 0 to 1.

    Raises:
        InvalidValueError: a number makes no sense.
    """

    first_delay: float = 0.5
    longest_delay: float = 60.0
    attempts: int | None = None
    stable_after: float = 30.0
    sleep: Callable[[float], Awaitable[None]] = anyio.sleep
    jitter: Callable[[], float] = random.random

    def __post_init__(self) -> None:
        for name in ("first_delay", "longest_delay", "stable_after"):
            if not getattr(self, name) >= 0:
                raise InvalidValueError(name, "a number of seconds is needed")
        if self.attempts is not None and self.attempts < 0:
            raise InvalidValueError("attempts", "a number of attempts is needed")

    def delay(self, attempt: int) -> float:
        """Seconds before an attempt, counted from 1."""
        return reconnect_delay(attempt, self.jitter(), self.first_delay, self.longest_delay)


#: What would fail again the next time, too: our own side asked for something that makes no sense, or is gone.
_FINAL = (InvalidValueError, LocalProtocolError)


class SessionKeeper:
    """See the module.

    Args:
        opener: makes a session each time.
        reconnect: ``None``: a session that broke stays broken. It also does where opening one fails with an
            ``InvalidValueError`` or a ``LocalProtocolError``.

    Attributes:
        failure: why there is no session; ``None`` after an ordinary end.
        number: counts the sessions; 0 before the first.
    """

    def __init__(self, opener: SessionOpener, reconnect: Reconnect | None) -> None:
        self._opener = opener
        self._reconnect = reconnect
        self._session: RawSession | None = None
        #: Whether that one tells when it is over.
        self._watched = False
        self._stopped = anyio.Event()
        self._over: anyio.Event | None = None
        self._ended = anyio.Event()
        self._changed = anyio.Event()
        #: Of the task that keeps; made there, where there is a loop.
        self._scope: anyio.CancelScope | None = None
        self.failure: BaseException | None = None
        self.number = 0

    @property
    def session(self) -> RawSession:
        """The session of the moment.

        Raises:
            ConnectionClosedError: there is none; nothing was sent.
        """
        session = self._alive()
        if session is None:
            raise ConnectionClosedError("not-sent", self.failure)
        return session

    def _alive(self) -> RawSession | None:
        """The session of the moment, unless it is one that tells of its end by itself and has done so."""
        over = self._watched and getattr(self._session, "is_closed", False)
        return None if over else self._session

    @property
    def is_closed(self) -> bool:
        """Whether it is closed for good."""
        return self._stopped.is_set()

    async def connected(self) -> RawSession:
        """Returns the session of the moment, once there is one.

        Raises:
            ConnectionClosedError: there will be none.
        """
        while self._alive() is None and not self._stopped.is_set():
            await self._changed.wait()
        return self.session

    def lost(self, session: RawSession, error: BaseException) -> None:
        """A request found that this session is over. Of one that tells by itself only its own word counts: over HTTP a
        request can be lost and the session live on."""
        believed = not self._watched or getattr(session, "is_closed", False)
        if session is self._session and self._over is not None and believed:
            self.failure = error
            # From now on nobody gets it, however long the task takes to notice.
            self._session = None
            self._over.set()

    async def aclose(self) -> None:
        """Ends the session and the keeping. From any task, any number of times; returns when it is done."""
        self._stopped.set()
        if self._over is not None:
            self._over.set()
        elif self._scope is not None:
            self._scope.cancel()
        if self._scope is not None:
            await self._ended.wait()

    # ------------------------------------------------------------------------------------ the task

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Opens the first session, tells ``task_status``, and keeps one until ``aclose``.

        Raises:
            Exception: what opening the first session raised.
        """
        attempt = 0
        try:
            with anyio.CancelScope() as self._scope:
                while True:
                    lasted = await self._keep(task_status)
                    if self._stopped.is_set() or self._reconnect is None or isinstance(self.failure, _FINAL):
                        break
                    attempt = 1 if lasted >= self._reconnect.stable_after else attempt + 1
                    if self._reconnect.attempts is not None and attempt > self._reconnect.attempts:
                        break
                    await self._reconnect.sleep(self._reconnect.delay(attempt))
        finally:
            self._stopped.set()
            self._ended.set()
            self._tell()
        if not self.number:
            # Closed by another task while the first session was being opened.
            raise ConnectionClosedError("not-sent")

    async def _keep(self, task_status: TaskStatus[None]) -> float:
        """One session from its beginning to its end; seconds that it lasted. Raises only for the first one."""
        began = None
        first = self.number == 0
        try:
            async with self._opener() as session:
                began = anyio.current_time()
                self.number += 1
                self.failure = None
                self._over = anyio.Event()
                self._session = session
                self._watched = isinstance(session, WatchedSession)
                self._tell()
                if first:
                    task_status.started()
                    first = False
                await self._watch(session, self._over)
        except Exception as exc:
            if first:
                raise
            drop_frames(exc)
            self.failure = exc
        finally:
            self._session = self._over = None
        return 0.0 if began is None else anyio.current_time() - began

    async def _watch(self, session: RawSession, over: anyio.Event) -> None:
        """Returns when the session is over, or is to be. From then on nobody gets it."""

        async def wait() -> None:
            if isinstance(session, WatchedSession):
                self.failure = await session.wait_closed()
                over.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(wait)
            await over.wait()
            self._session = None
            tasks.cancel_scope.cancel()

    def _tell(self) -> None:
        changed, self._changed = self._changed, anyio.Event()
        changed.set()
