"""A server's own manifest: installed as a whole, and announced to each connection as far as it differs (SPEC 17).

Owns: the manifest in force with its revision, edits that belong together, and what each connection was told
last. Does not own: sending, a connection that fails or closes, or what a host makes of an announcement.

It is pure: ``set`` and transactions return the announcements to send, and count them as told. Nobody writes an
announcement by hand, so none can disagree with the manifest (SPEC 17.1).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from mcpl_core.protocol.manifest import ChangeDomain

from .diff import DomainTexts, differing_domains, domain_texts
from .digest import manifest_digest, normalized_manifest
from .jcs import copy_tree

__all__ = ("Announcement", "ManifestTracker", "ManifestTransaction", "ManifestUpdate")

C = TypeVar("C", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Announcement(Generic[C]):
    """One ``mcpl/manifestChanged`` to send (SPEC 17.3).

    Attributes:
        connection: to whom.
        revision: the manifest in force.
        domains: what differs from what this connection was told last; at least one.
    """

    connection: C
    revision: str
    domains: tuple[ChangeDomain, ...]

    @property
    def params(self) -> dict[str, Any]:
        """The params of the notification."""
        return {"revision": self.revision, "domains": list(self.domains)}


@dataclass(frozen=True, slots=True)
class ManifestUpdate(Generic[C]):
    """What became of one edit.

    Attributes:
        changed: another manifest is in force.
        revision: the revision in force.
        previous_revision: the one before; the same when nothing changed.
        domains: in which the two differ. A change of ``version`` alone is in none, and is not announced.
        announcements: to be sent now.
        pending: the edit joined an open transaction and will be installed with it.
    """

    changed: bool
    revision: str
    previous_revision: str
    domains: tuple[ChangeDomain, ...] = ()
    announcements: tuple[Announcement[C], ...] = ()
    pending: bool = False


class ManifestTransaction(Generic[C]):
    """Edits in progress.

    Attributes:
        update: pending until the block ends; then what became of the edits, or a pending one for ever when
            the block stood inside another.
    """

    __slots__ = ("_draft", "update")

    def __init__(self, draft: dict[str, Any], update: ManifestUpdate[C]) -> None:
        self._draft = draft
        self.update = update

    @property
    def manifest(self) -> dict[str, Any]:
        """The draft, to change in place. To put another manifest in its place call ``tracker.set``."""
        return self._draft


@dataclass(frozen=True, slots=True)
class _Told:
    """What a connection knows: a revision, and the domains behind it unless nobody remembers them."""

    revision: str
    texts: DomainTexts | None


class ManifestTracker(Generic[C]):
    """The manifest of one server and its connections. Not to be shared between threads.

    Args:
        manifest: the ``experimental.mcpl`` object. It is copied; a ``revision`` in it is replaced.

    Raises:
        InvalidValueError: it has no digest (as for ``manifest_digest``).
    """

    def __init__(self, manifest: dict[str, Any]) -> None:
        self._revision = manifest_digest(manifest)
        self._manifest = normalized_manifest(manifest)
        self._texts = domain_texts(self._manifest)
        self._connections: dict[C, _Told] = {}
        self._draft: dict[str, Any] | None = None

    @property
    def revision(self) -> str:
        """The revision in force. An open transaction does not show."""
        return self._revision

    @property
    def connections(self) -> tuple[C, ...]:
        """The attached connections, in order of attachment."""
        return tuple(self._connections)

    def snapshot(self) -> dict[str, Any]:
        """The complete manifest in force with its revision, for ``initialize`` and ``mcpl/manifest``.

        A copy: changing it changes nothing here. Set-valued arrays are in order.
        """
        return {**copy_tree(self._manifest), "revision": self._revision}

    def set(self, manifest: dict[str, Any]) -> ManifestUpdate[C]:
        """Put a manifest in the place of the one in force, or of the draft of an open transaction.

        Raises:
            InvalidValueError: it has no digest (as for ``manifest_digest``); nothing changed.
        """
        if self._draft is None:
            return self._install(manifest)
        manifest_digest(manifest)
        _replace(self._draft, manifest)
        return self._unchanged(pending=True)

    @contextmanager
    def transaction(self) -> Iterator[ManifestTransaction[C]]:
        """Edits that are installed and announced together when the block ends, or not at all when it raises.

        A transaction inside another joins it; when the inner one raises, its own edits are taken back. The
        block must not await: what other tasks edit meanwhile would join it.

        Raises:
            InvalidValueError: at the end of the block, when the draft has no digest; nothing changed.
        """
        draft = self._draft
        joined = draft is not None
        if draft is None:
            draft = self._draft = copy_tree(self._manifest)
        before = copy_tree(draft)
        transaction = ManifestTransaction(draft, self._unchanged(pending=True))
        complete = False
        try:
            yield transaction
            complete = True
        finally:
            if not joined:
                self._draft = None
            if not complete:
                _replace(draft, before)
                transaction.update = self._unchanged()
        if not joined:
            transaction.update = self._install(draft)

    def attach(self, connection: C, revision: str | None = None) -> None:
        """Begin to announce to a connection. Announces nothing by itself; attaching again forgets what was told.

        Args:
            connection: any hashable value that stands for it.
            revision: the one that its handshake carried; ``None`` for the one in force. A connection that
                knows another revision is told of all domains when it is told next.
        """
        if revision is None or revision == self._revision:
            self._connections[connection] = self._now()
        else:
            self._connections[connection] = _Told(revision, None)

    def detach(self, connection: C) -> bool:
        """Stop announcing to a connection. False when it was not attached."""
        return self._connections.pop(connection, None) is not None

    def catch_up(self, connection: C) -> Announcement[C] | None:
        """What a connection was not told yet: its handshake may be older than the manifest in force.

        Returns:
            The announcement to send, ``None`` when there is nothing to tell or the connection is not attached.
        """
        return self._announce(connection) if connection in self._connections else None

    def _now(self) -> _Told:
        return _Told(self._revision, self._texts)

    def _announce(self, connection: C) -> Announcement[C] | None:
        told, self._connections[connection] = self._connections[connection], self._now()
        if told.revision == self._revision:
            return None
        domains = differing_domains(told.texts, self._texts)
        return Announcement(connection, self._revision, domains) if domains else None

    def _install(self, manifest: dict[str, Any]) -> ManifestUpdate[C]:
        revision = manifest_digest(manifest)
        if revision == self._revision:
            return self._unchanged()
        before = self._now()
        self._manifest = normalized_manifest(manifest)
        self._texts = domain_texts(self._manifest)
        self._revision = revision
        announcements = (self._announce(connection) for connection in self._connections)
        return ManifestUpdate(
            True,
            revision,
            before.revision,
            differing_domains(before.texts, self._texts),
            tuple(announcement for announcement in announcements if announcement is not None),
        )

    def _unchanged(self, pending: bool = False) -> ManifestUpdate[C]:
        return ManifestUpdate(False, self._revision, self._revision, pending=pending)


def _replace(draft: dict[str, Any], manifest: dict[str, Any]) -> None:
    """The draft stays the object that its transaction handed out."""
    copy = normalized_manifest(manifest)
    draft.clear()
    draft.update(copy)
