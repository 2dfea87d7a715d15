"""Opening, looking at, and ending instances: where the functions of the application are called.

Owns: the order of these steps, and one defined outcome for each way in which they can fail. Does not own: the state
(``principal``), what is kept (``keeping``), and telling hosts of it.

What becomes true, becomes true in the last step of a coroutine that does not wait any more, so that a caller can put it
into its answer before anybody else hears of it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import anyio

from ..content import ContentBlock
from ..errors import InternalError, InvalidParams, InvalidValueError, LocalProtocolError, McplError, RpcError
from ..protocol import EndedInstance, EndReason
from ..schemas import Checker
from ..server import ToolError
from ..server.calling import Caller
from .asking import Questions, may_wait
from .checking import checked_object
from .clock import Clock
from .context import InstanceContext
from .declaration import Toolset
from .errors import ToolsetStoreError
from .keeping import InstanceRecord, Keeper, PrincipalRecord
from .principal import OpenInstance, Principal
from .wire import Key

__all__ = ("Before", "DeclaredToolset", "Instances", "InstancesSettings", "Opened")


class DeclaredToolset(NamedTuple):
    """A toolset in its place.

    Attributes:
        name: its name.
        facts: as declared.
        options: checks its options; ``None``: it takes none.
    """

    name: str
    facts: Toolset
    options: Checker | None


class Opened(NamedTuple):
    """What was opened, and its content."""

    instance: OpenInstance
    content: list[ContentBlock]


#: A step that is put between the making of something and its becoming true.
Before: TypeAlias = Callable[[], Awaitable[None]]


class InstancesSettings(NamedTuple):
    """What ``Instances`` works with.

    Attributes:
        toolsets: by name, in order.
        caller: runs functions of the application.
        clock: what time it is.
        keeper: what outlives the process.
        place: makes the context of an instance.
        begin, stop: starts what waited for an instance to be open, and ends its tasks.
        report: what goes wrong.
        grace: seconds that an end which no host asked for may take, and that ``visible()``, ``content()``, ``title()``,
            ``dump()`` and ``load`` may take.
    """

    toolsets: Mapping[str, DeclaredToolset]
    caller: Caller
    clock: Clock
    keeper: Keeper
    place: Callable[[str, Key], InstanceContext]
    begin: Callable[[str, Key], object]
    stop: Callable[[str, Key], object]
    report: Callable[[BaseException], object]
    grace: float


class _TooLongError(LocalProtocolError):
    pass


class Instances:
    """The life of instances.

    Attributes:
        grace: see ``InstancesSettings``.
        questions: asks instances.
    """

    def __init__(self, settings: InstancesSettings) -> None:
        self._toolsets = settings.toolsets
        self._caller = settings.caller
        self._clock = settings.clock
        self._keeper = settings.keeper
        self._place = settings.place
        self._begin, self._stop = settings.begin, settings.stop
        self._report = settings.report
        self.grace = settings.grace
        self.questions = Questions(settings.report, settings.grace)
        #: Toolsets without instances that are being opened: nobody opens them twice.
        self._opening: dict[tuple[str, str], anyio.Event] = {}
        #: What is being made and is not open yet.
        self._making: set[tuple[str, Key]] = set()

    def alive(self, principal: Principal, key: Key) -> bool:
        """Whether it is open, or about to be."""
        return principal.get(key) is not None or (principal.name, key) in self._making

    # -- opening

    def declared(self, name: str) -> DeclaredToolset:
        """The toolset of this name.

        Raises:
            InvalidParams: there is none.
        """
        found = self._toolsets.get(name)
        if found is None:
            raise InvalidParams(message=f"no such toolset: {name:.80}", data={"path": "$.toolset", "toolset": name})
        return found

    async def open(
        self,
        principal: Principal,
        name: str,
        options: dict[str, Any] | None = None,
        proposed: str | None = None,
        before: Before | None = None,
    ) -> Opened:
        """Opens a toolset, or a new instance of it. One without instances that is open already stays as it is.

        Args:
            before: what is to be done when all is made and nobody knows of it yet.

        Raises:
            InvalidParams: there is no such toolset, its options do not fit (``data.path``), or the id is taken.
            InternalError: the application's function failed, or the store did; nothing is open then.
        """
        toolset = self.declared(name)
        if not toolset.facts.instances:
            return await self._open_single(principal, toolset, options, proposed, before)
        filled = self._options(toolset, options)
        key = (name, principal.reserve(name, proposed))
        try:
            return await self._make(principal, toolset, key, filled, before)
        finally:
            principal.release(key[1])

    async def _open_single(
        self,
        principal: Principal,
        toolset: DeclaredToolset,
        options: dict[str, Any] | None,
        proposed: str | None,
        before: Before | None,
    ) -> Opened:
        if proposed is not None:
            raise InvalidParams(message=f"{toolset.name} has no instances", data={"path": "$.instance"})
        filled = self._options(toolset, options)
        key: Key = (toolset.name, None)
        place = (principal.name, toolset.name)
        while (opened := principal.get(key)) is None or opened.closing:
            if opened is not None or place in self._opening:
                await self._opening.setdefault(place, anyio.Event()).wait()
                continue
            done = self._opening[place] = anyio.Event()
            try:
                return await self._make(principal, toolset, key, filled, before)
            finally:
                self._opening.pop(place, None)
                done.set()
        return Opened(opened, await self.questions.content(opened.body))

    def _options(self, toolset: DeclaredToolset, options: dict[str, Any] | None) -> dict[str, Any]:
        given = {} if options is None else options
        try:
            if toolset.options is not None:
                return checked_object(toolset.options, given)
        except InvalidValueError as exc:
            path = "$.options" + exc.path[1:]
            raise InvalidParams(message=f"options at {path}: {exc.detail}", data={"path": path}) from exc
        except Exception as exc:
            raise self._not_opened(toolset, exc) from exc
        if given:
            raise InvalidParams(message=f"{toolset.name} takes no options", data={"path": "$.options"})
        return given

    async def _make(
        self,
        principal: Principal,
        toolset: DeclaredToolset,
        key: Key,
        options: dict[str, Any],
        before: Before | None,
    ) -> Opened:
        body: Any = None
        self._making.add((principal.name, key))
        try:
            body = await self._caller.call(toolset.facts.open, self._place(principal.name, key), options)
            opened = await self._read(toolset, key, body, self._clock.time())
            await self._keep(principal, opened, required=True)
            content = await self.questions.content(opened.body)
            if before is not None:
                await before()
            visible = await self.questions.visible(toolset.name, toolset.facts, body)
        except BaseException as exc:
            self._keeper.forget(principal.name, key)
            self._stop(principal.name, key)
            with anyio.CancelScope(shield=True):
                await self._discard(body)
            if not isinstance(exc, Exception):
                raise
            raise self._not_opened(toolset, exc) from exc
        finally:
            self._making.discard((principal.name, key))
        principal.add(opened, visible)
        self._begin(principal.name, key)
        return Opened(opened, content)

    async def _read(self, toolset: DeclaredToolset, key: Key, body: Any, opened_at: float) -> OpenInstance:
        if not callable(getattr(body, "call", None)):
            raise LocalProtocolError(f"{toolset.name}: what open() returned has no call(tool, args)")
        return OpenInstance(key, body, await self.questions.title(toolset.facts, body), opened_at)

    def _not_opened(self, toolset: DeclaredToolset, exc: Exception) -> RpcError:
        """What a host is told: the words that the application has for it, and no others."""
        if isinstance(exc, RpcError):
            return exc
        if isinstance(exc, ToolError):
            return InternalError(message=str(exc), data={"toolset": toolset.name})
        self._report(exc)
        reason = {"reason": "store"} if isinstance(exc, ToolsetStoreError) else {}
        return InternalError(message=f"{toolset.name} could not be opened", data={"toolset": toolset.name, **reason})

    async def _discard(self, body: Any) -> None:
        """Something was made and is not needed."""
        try:
            with anyio.move_on_after(self.grace):
                await self._close_body(body)
        except Exception as exc:
            self._report(exc)

    # -- looking

    async def look(self, principal: Principal, opened: OpenInstance) -> None:
        """Asks what is visible now, and makes it so. What fails, or takes longer than a later look, changes nothing."""
        toolset = self._toolsets[opened.key[0]]
        opened.asked = asked = opened.asked + 1
        try:
            title = await self.questions.title(toolset.facts, opened.body)
            visible = await self.questions.visible(toolset.name, toolset.facts, opened.body)
        except Exception as exc:
            self._report(exc)
            return
        if asked > opened.answered and principal.get(opened.key) is opened:
            opened.answered = asked
            opened.title = title
            principal.presence.set(opened.key, visible)

    async def look_at_all(self, principal: Principal) -> None:
        """As ``look``, at everything that is open, side by side."""
        waiting = [opened for opened in principal.open() if not self.look_now(principal, opened)]
        if waiting:
            async with anyio.create_task_group() as tasks:
                for opened in waiting:
                    tasks.start_soon(self.look, principal, opened)

    def look_now(self, principal: Principal, opened: OpenInstance) -> bool:
        """As ``look``, where it can be done without waiting; false when it cannot."""
        if may_wait(opened.body):
            return False
        looking = self.look(principal, opened)
        try:
            looking.send(None)
        except StopIteration:
            return True
        # It waits for something after all, and is asked again where it may.
        looking.close()
        return False

    # -- keeping

    async def keep(self, principal: Principal, opened: OpenInstance) -> None:
        """Stores how it stands. A failure is reported, and it is tried again with the next."""
        await self._keep(principal, opened, required=False)

    async def _keep(self, principal: Principal, opened: OpenInstance, *, required: bool) -> None:
        if not self._keeper.active:
            return
        self.note(principal)
        try:
            if self.is_kept(opened):
                name, id = opened.key
                text = await self.questions.dump(name, opened.body)
                record = InstanceRecord(
                    toolset=name, instance=id, title=opened.title, opened_at=opened.opened_at, dump=text
                )
                # What began to end meanwhile is not stored again.
                if required or (principal.get(opened.key) is opened and not opened.closing):
                    self._keeper.note_instance(principal.name, record)
            await self._keeper.write()
        except Exception as exc:
            if required:
                self._keeper.forget(principal.name, opened.key)
                raise
            self._report(exc)

    def note(self, principal: Principal) -> None:
        """What is to be kept of a principal, beside its instances; it is written with the next write."""
        opened = [self._toolsets[name] for name in sorted(principal.defaults_opened) if name in self._toolsets]
        defaults = [toolset.name for toolset in opened if toolset.facts.load is not None]
        record = PrincipalRecord(
            counters=dict(principal.counters), defaults_opened=defaults, idle_since=principal.idle_since
        )
        self._keeper.note_principal(principal.name, record)

    def is_kept(self, opened: OpenInstance) -> bool:
        """Whether it outlives the process."""
        facts = self._toolsets[opened.key[0]].facts
        return self._keeper.active and facts.load is not None and hasattr(opened.body, "dump")

    async def make_again(self, principal: Principal) -> None:
        """What was kept of a principal's instances is open again; what cannot be has failed. What takes too long, and
        the rest when this is cancelled, is made again another time."""
        for record in list(self._keeper.instances(principal.name)):
            try:
                opened, visible = await self._made_again(principal, record)
            except _TooLongError as exc:
                self._report(exc)
                continue
            except Exception as exc:
                self._report(exc)
                lost = OpenInstance(record.key, None, record.title, record.opened_at)
                self._keeper.forget(principal.name, record.key)
                self._tell_end(principal, lost.ended("failed", self._clock.time()))
            else:
                principal.add(opened, visible)
                self._begin(principal.name, record.key)
            self._keeper.made_again(principal.name, record)

    async def _made_again(self, principal: Principal, record: InstanceRecord) -> tuple[OpenInstance, tuple[str, ...]]:
        toolset = self._toolsets.get(record.toolset)
        if (
            toolset is None
            or toolset.facts.load is None
            or toolset.facts.instances is not (record.instance is not None)
        ):
            raise LocalProtocolError(f"toolset {record.toolset} cannot make {record.instance} again")
        body: Any = None
        self._making.add((principal.name, record.key))
        try:
            place = self._place(principal.name, record.key)
            with anyio.move_on_after(self.grace) as scope:
                body = await self._caller.call(toolset.facts.load, place, record.dump)
            if scope.cancelled_caught:
                raise _TooLongError(f"{record.toolset}: load() took too long")
            opened = await self._read(toolset, record.key, body, record.opened_at)
            return opened, await self.questions.visible(toolset.name, toolset.facts, body)
        except BaseException:
            self._stop(principal.name, record.key)
            with anyio.CancelScope(shield=True):
                await self._discard(body)
            raise
        finally:
            self._making.discard((principal.name, record.key))

    # -- ending

    async def end(
        self,
        principal: Principal,
        opened: OpenInstance,
        reason: EndReason,
        *,
        bounded: bool = True,
        before: Before | None = None,
    ) -> bool:
        """Calls its ``close()``; then it is open no more. False when its end had begun already.

        Args:
            reason: why; it becomes ``failed`` when ``close()`` raises, is cancelled, or takes too long.
            bounded: no host waits for it, so it may take the grace alone.
            before: what is to be done when all is done and nobody knows of it yet.
        """
        if opened.closing or principal.get(opened.key) is not opened:
            return False
        opened.closing = True
        why: EndReason = "failed"
        cancelled = True
        try:
            with anyio.move_on_after(self.grace if bounded else None):
                await self._close_body(opened.body)
                why = reason
            cancelled = False
        except Exception as exc:
            self._report(exc)
            cancelled = False
        finally:
            record = opened.ended(why, self._clock.time())
            self._keeper.forget(principal.name, opened.key)
            self._keep_end(principal, record)
            if cancelled:
                self._gone(principal, opened, record)
        try:
            if before is not None:
                await before()
            await self._keeper.write()
        except McplError as exc:
            self._report(exc)
        finally:
            self._gone(principal, opened, record)
        return True

    def _keep_end(self, principal: Principal, record: EndedInstance | None) -> None:
        if record is not None and not principal.forgotten:
            self._keeper.note_ended(principal.name, record)

    def _tell_end(self, principal: Principal, record: EndedInstance | None) -> None:
        if record is None:
            return
        self._keep_end(principal, record)
        oldest = principal.end(record)
        if oldest is not None:
            self._keeper.forget_ended(principal.name, oldest)

    def _gone(self, principal: Principal, opened: OpenInstance, record: EndedInstance | None) -> None:
        if principal.remove(opened.key) is not None:
            self._tell_end(principal, record)
            self._stop(principal.name, opened.key)
            toolset, id = opened.key
            waiting = self._opening.pop((principal.name, toolset), None) if id is None else None
            if waiting is not None:
                waiting.set()

    async def _close_body(self, body: Any) -> None:
        close = getattr(body, "close", None)
        if close is not None:
            await self._caller.call(close)
