"""What outlives the server process, and when it is written (SPEC_NOTES R-toolsets-9).

Owns: the records of a principal, of an instance, and of one that ended, as JSON; that writes happen one after the other
and never in the event loop; and that what could not be written is tried again with the next. Does not own: the file
(``store``), and making instances again (``instances``).
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, NamedTuple, Protocol, TypeAlias

import anyio
import anyio.to_thread
import msgspec
from anyio.lowlevel import RunVar

from ..errors import InvalidValueError
from ..protocol import EndedInstance
from ..wire.values import decode_value, encode_value
from .errors import ToolsetStoreError
from .wire import Key

__all__ = ("InstanceRecord", "Keeper", "PrincipalRecord", "Row", "ToolsetStore")

_logger = logging.getLogger("mcpl_core")

#: Seconds since the epoch that can be told as a date.
_Time: TypeAlias = Annotated[float, msgspec.Meta(ge=0, lt=253_402_300_800)]
_Number: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]

#: The id of the row that is about the principal itself. No key has it.
_OWN = ""
#: How the ids of the rows of what ended begin.
_ENDED = "ended "


class Row(NamedTuple):
    """One change of what is kept.

    Attributes:
        principal, id: of what.
        data: what is kept from now on; ``None``: nothing.
    """

    principal: str
    id: str
    data: bytes | None


class ToolsetStore(Protocol):
    """Where instances outlive the process. Calls come from any thread, one at a time."""

    def load(self) -> Iterable[tuple[str, str, bytes]]:
        """Everything kept, as ``(principal, id, data)``, in the order in which it was first kept."""

    def apply(self, rows: Sequence[Row]) -> None:
        """Makes all changes or none, and returns when they will survive.

        Raises:
            ToolsetStoreError: none was made.
        """

    def close(self) -> None:
        """Releases what the store holds."""


class PrincipalRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of a principal.

    Attributes:
        counters: toolset -> the highest number of an id that was used.
        defaults_opened: see ``Principal``; those alone that are kept themselves.
        idle_since: see ``Principal``; ``None``: it had a connection when this was written.
    """

    counters: dict[str, _Number] = {}
    defaults_opened: list[str] = []
    idle_since: float | None = None


class InstanceRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is kept of an instance.

    Attributes:
        toolset, instance: its key.
        title: as it was last.
        opened_at: seconds since the epoch.
        dump: what its ``dump()`` returned.
    """

    toolset: str
    instance: str | None
    title: str
    opened_at: _Time
    dump: str

    @property
    def key(self) -> Key:
        """Which."""
        return self.toolset, self.instance


class Keeper:
    """The writer and reader of one store.

    Args:
        store: what is written to; ``None``: nothing is kept.

    Raises:
        ToolsetStoreError: it cannot be read.
    """

    def __init__(self, store: ToolsetStore | None) -> None:
        self._store = store
        self._waiting: dict[tuple[str, str], bytes | None] = {}
        #: What is in the store, as far as it is not a principal's own row.
        self._kept: set[tuple[str, str]] = set()
        # One for each event loop: a server may be run again in another.
        self._lock: RunVar[anyio.Lock] = RunVar("mcpl_toolset_store_lock")
        self.principals: dict[str, PrincipalRecord] = {}
        self._instances: dict[str, list[InstanceRecord]] = {}
        self._ended: dict[str, list[EndedInstance]] = {}
        with _store_errors():
            rows = [] if store is None else [(principal, id, data) for principal, id, data in store.load()]
        for principal, id, data in rows:
            self._read(principal, id, data)

    def _read(self, principal: str, id: str, data: bytes) -> None:
        try:
            if id == _OWN:
                self.principals[principal] = decode_value(data, PrincipalRecord)
                return
            kind: type[EndedInstance | InstanceRecord] = EndedInstance if id.startswith(_ENDED) else InstanceRecord
            record: EndedInstance | InstanceRecord = decode_value(data, kind)
            if id != _row_id(record):
                raise InvalidValueError("id", "it stands in the row of another")
        except InvalidValueError as exc:
            _logger.warning("toolsets: a row of %s cannot be read and is dropped: %s", principal, exc)
            self._waiting[principal, id] = None
            return
        self._kept.add((principal, id))
        if isinstance(record, EndedInstance):
            self._ended.setdefault(principal, []).append(record)
        else:
            self._instances.setdefault(principal, []).append(record)
        self.principals.setdefault(principal, PrincipalRecord())

    @property
    def active(self) -> bool:
        """Whether anything is kept at all."""
        return self._store is not None

    def instances(self, principal: str) -> list[InstanceRecord]:
        """What was kept of a principal's instances when the server began, and is not made again yet."""
        return self._instances.get(principal, [])

    def ended(self, principal: str) -> list[EndedInstance]:
        """What was kept of a principal's instances that ended when the server began, oldest first."""
        return self._ended.get(principal, [])

    def made_again(self, principal: str, record: InstanceRecord) -> None:
        """An instance was made again from its record, or cannot be."""
        records = self._instances.get(principal, [])
        if record in records:
            records.remove(record)
        if not records:
            self._instances.pop(principal, None)

    # -- writing

    def note_principal(self, principal: str, record: PrincipalRecord) -> None:
        """This is to be kept; it is written with the next ``write``."""
        self._note(principal, _OWN, encode_value(record))

    def note_instance(self, principal: str, record: InstanceRecord) -> None:
        """As ``note_principal``, of an instance."""
        self._keep(principal, _row_id(record), record)

    def note_ended(self, principal: str, record: EndedInstance) -> None:
        """As ``note_principal``, of an instance that ended."""
        self._keep(principal, _row_id(record), record)

    def forget(self, principal: str, key: Key | None = None) -> None:
        """The instance is not kept any more; ``None``: nothing of the principal is."""
        if key is not None:
            self._drop(principal, _row_id_of(key))
            return
        self._instances.pop(principal, None)
        self._ended.pop(principal, None)
        self._note(principal, _OWN, None)
        for id in [id for name, id in self._kept if name == principal]:
            self._drop(principal, id)

    def forget_ended(self, principal: str, record: EndedInstance) -> None:
        """That it ended is not kept any more."""
        self._drop(principal, _row_id(record))

    def _keep(self, principal: str, id: str, record: EndedInstance | InstanceRecord) -> None:
        if self._store is not None:
            self._kept.add((principal, id))
            self._note(principal, id, encode_value(record))

    def _drop(self, principal: str, id: str) -> None:
        if (principal, id) in self._kept:
            self._kept.discard((principal, id))
            self._note(principal, id, None)

    def _note(self, principal: str, id: str, data: bytes | None) -> None:
        if self._store is not None:
            self._waiting[principal, id] = data

    async def write(self) -> None:
        """Returns when everything that was noted will survive. It is done or not when this is cancelled.

        Raises:
            ToolsetStoreError: nothing was written; it is tried again with the next.
        """
        if self._store is None or not self._waiting:
            return
        try:
            lock = self._lock.get()
        except LookupError:
            lock = anyio.Lock()
            self._lock.set(lock)
        async with lock:
            waiting, self._waiting = self._waiting, {}
            if not waiting:
                return
            rows = [Row(principal, id, data) for (principal, id), data in waiting.items()]
            try:
                # A thread of its own: those of the application may all be busy.
                with _store_errors(), anyio.CancelScope(shield=True):
                    await anyio.to_thread.run_sync(self._store.apply, rows, limiter=anyio.CapacityLimiter(1))
            except BaseException:
                self._waiting = {**waiting, **self._waiting}
                raise

    def close(self) -> None:
        """Writes what was noted and releases the store.

        Raises:
            ToolsetStoreError: the write failed; the store is released all the same.
        """
        if self._store is None:
            return
        waiting, self._waiting = self._waiting, {}
        try:
            if waiting:
                self._store.apply([Row(principal, id, data) for (principal, id), data in waiting.items()])
        finally:
            self._store.close()


@contextmanager
def _store_errors() -> Iterator[None]:
    """Whatever an application's store raises is a ``ToolsetStoreError``."""
    try:
        yield
    except ToolsetStoreError:
        raise
    except Exception as exc:
        raise ToolsetStoreError(f"{type(exc).__name__}: {exc}") from exc


def _row_id(record: EndedInstance | InstanceRecord) -> str:
    return f"{_ENDED}{record.instance}" if isinstance(record, EndedInstance) else _row_id_of(record.key)


def _row_id_of(key: Key) -> str:
    toolset, instance = key
    return f"toolset {toolset}" if instance is None else f"instance {instance}"
