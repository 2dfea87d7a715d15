"""A server's manifest while it is connected: announced, fetched, compared, told of (SPEC 17).

Owns: when a manifest is fetched, what a fetched one does, and the one receipt for each change, which tells of tools and
channels along with it. Does not own: reading and comparing manifests (``mcpl_core.manifest``), the grant
(``authority``), and telling the server of the policy that follows (``session``).

An announcement is a hint that costs a fetch, so fetches keep their distance however many announcements come; what a
server says of its change is not looked at. A fetched manifest is in force when its answer is taken from the wire.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace

import anyio
from msgspec import Raw

from ..errors import InvalidParams, InvalidValueError, McplError, MethodNotFound
from ..manifest import HostFacts, Impact, ManifestChange, ManifestReading, validate_manifest
from ..protocol import decode_params, method
from ..treatment import Mute
from ..wire.messages import Notification
from ..wire.values import decode_value
from .events import ManifestReceipt
from .hub import HostSettings
from .link import Effect, ServerLink

__all__ = ("FetchSchedule", "ManifestDesk", "note_problems")

_SURFACES = {
    method.TOOLS_LIST_CHANGED: "tools",
    "notifications/resources/list_changed": "resources",
    "notifications/prompts/list_changed": "prompts",
}


class FetchSchedule:
    """When to fetch (SPEC 17.8). Pure; times in seconds on any clock.

    Args:
        settings: the numbers.
        now: the manifest of the handshake is of this time.

    Attributes:
        dropped: announcements past the burst since the last fetch.
    """

    def __init__(self, settings: HostSettings, now: float) -> None:
        self._settings = settings
        self._interval = settings.manifest_interval
        self._last = now
        self._earliest = now
        self._announced = 0
        self.dropped = 0

    def announce(self) -> bool:
        """An announcement came; false when it is past the burst. Either way one fetch follows, not one for each."""
        self._announced += 1
        if self._announced > self._settings.manifest_burst:
            self.dropped += 1
            return False
        return True

    def due(self) -> float | None:
        """When to fetch next, ``None`` when there is no reason to."""
        schedule = self._settings.manifest_schedule
        reasons = [self._last + schedule] if schedule is not None else []
        if self._announced:
            reasons.append(self._earliest)
        return max(min(reasons), self._earliest) if reasons else None

    def begin(self, now: float) -> None:
        """A fetch begins; what is announced from now on is a reason for another one."""
        self._announced = self.dropped = 0
        self._last = now
        self._earliest = now + self._interval

    def end(self, news: bool) -> None:
        """The fetch is over. One that brought nothing puts the next one further off."""
        settings = self._settings
        self._interval = settings.manifest_interval if news else min(2 * self._interval, settings.manifest_longest)
        self._earliest = self._last + self._interval


class ManifestDesk:
    """The manifest of one server.

    Args:
        link: the session's facts.
        installed: is called when another manifest, or another grant because of one, is in force.
        negotiate: tells the server of the policy that follows.
    """

    def __init__(
        self, link: ServerLink, installed: Callable[[], object], negotiate: Callable[[], Awaitable[object]]
    ) -> None:
        self._link = link
        self._installed = installed
        self._negotiate = negotiate
        self._schedule = FetchSchedule(link.hub.settings, link.hub.clock())
        self._surfaces: set[str] = set()
        self._tell_at: float | None = None
        self._failures = 0
        #: The server announced and does not serve ``mcpl/manifest``.
        self._unserved = False
        self._nudge = anyio.Event()
        #: Receipts that the application's handler was not called with yet.
        self._receipts: deque[ManifestReceipt] = deque()
        self._arrived = anyio.Event()

    def effects(self) -> dict[str, Effect]:
        """What its messages do."""
        changes: dict[str, Effect] = dict.fromkeys(_SURFACES, self._listed)
        return {method.MCPL_MANIFEST_CHANGED: self._announced, **changes}

    def _announced(self, message: Notification) -> None:
        link = self._link
        try:
            decode_params(link.row(method.MCPL_MANIFEST_CHANGED), message.raw_params, "notification")
        except InvalidParams as exc:
            link.audit.note(method.MCPL_MANIFEST_CHANGED, "invalid_params", exc.data["path"])
            return
        if not link.is_mcpl or self._unserved:
            return
        if not self._schedule.announce() and self._schedule.dropped == 1:
            link.audit.note(method.MCPL_MANIFEST_CHANGED, "manifest_flood", "more announcements than are looked at")
        self._nudge.set()

    def _listed(self, message: Notification) -> None:
        self.surface_changed(_SURFACES[message.method])

    def surface_changed(self, surface: str) -> None:
        """Tools, resources, prompts or channels are others now (SPEC 17.7)."""
        self._surfaces.add(surface)
        if self._tell_at is None:
            self._tell_at = self._link.hub.clock() + self._link.hub.settings.changelog_delay
            self._nudge.set()

    async def run(self) -> None:
        """Fetches and tells when it is time, until cancelled."""
        clock = self._link.hub.clock
        while True:
            nudge = self._nudge = anyio.Event()
            now = clock()
            due = self._schedule.due() if self._link.is_mcpl else None
            if due is not None and due <= now:
                await self.fetch()
            elif self._tell_at is not None and self._tell_at <= now:
                await self._tell(None)
            else:
                times = [time for time in (due, self._tell_at) if time is not None]
                with anyio.move_on_after(min(times) - now if times else float("inf")):
                    await nudge.wait()

    async def fetch(self) -> ManifestReading | None:
        """Fetches the manifest now, and lets it have its consequences. ``None`` when that brought nothing readable."""
        link = self._link
        self._schedule.begin(link.hub.clock())
        changes: list[ManifestChange] = []
        try:
            await link.connection.send_request(
                method.MCPL_MANIFEST, {}, on_answer=lambda raw: changes.append(self._answered(raw))
            )
        except MethodNotFound:
            self._unserved = True
            link.audit.note("manifest", "manifest_not_served", "it announces changes and does not serve the manifest")
        except InvalidValueError as exc:
            await self._unreadable(exc)
        except McplError as exc:
            # Nothing was learned, and that is no defect of a manifest.
            link.audit.record("manifest", "failure", code="fetch_failed", detail=type(exc).__name__)
        self._schedule.end(news=any(change.domains for change in changes))
        if not changes:
            return None
        await self._negotiate()
        await self._tell(changes[0])
        return link.authority.reading

    def _answered(self, raw: Raw) -> ManifestChange:
        """The answer is taken from the wire: what it takes away is gone before anything behind it is looked at."""
        link = self._link
        reading = validate_manifest(decode_value(raw), link.authority.policy.vocabulary)
        self._failures = 0
        facts = HostFacts(
            accepted_ontologies={
                entry.feature_set: entry.digest for entry in link.hub.acceptances.entries if entry.server == link.server
            },
            referenced_tags=link.authority.policy.referenced_tags(link.server),
            surfaces=frozenset(self._surfaces),
        )
        change = link.authority.revise(reading, facts)
        self._surfaces.clear()
        self._tell_at = None
        link.hub.acceptances, _ = link.hub.acceptances.revalidate(link.server, reading.ontology_digests)
        note_problems(link, reading)
        self._installed()
        return change

    async def _unreadable(self, exc: InvalidValueError) -> None:
        """The manifest before stands; a server that never sends a readable one loses its privileges (SPEC 17.5)."""
        link = self._link
        self._failures += 1
        link.audit.note("manifest", "manifest_unreadable", exc.code)
        if self._failures < link.hub.settings.manifest_failures:
            return
        lost = link.authority.grant.effective_capabilities
        link.authority.revoke()
        self._installed()
        link.audit.record("manifest", "failure", code="mcpl_suspended")
        impacts = tuple(Impact("capability-revoked", "applied", path) for path in lost)
        receipt = ManifestReceipt(server=link.server, revision=None, impacts=impacts)
        await self._deliver(receipt)
        try:
            await link.connection.send_request(
                method.FEATURE_SETS_UPDATE, {"effectiveCapabilities": []}, timeout=link.hub.settings.policy_timeout
            )
        except McplError as error:
            link.audit.record(method.FEATURE_SETS_UPDATE, "failure", detail=type(error).__name__)

    async def _tell(self, change: ManifestChange | None) -> None:
        """One receipt for one change; for ``None``, for the surfaces alone."""
        link = self._link
        reading = link.authority.reading
        if change is None:
            impacts = tuple(Impact("surface-changed", "informational", name) for name in sorted(self._surfaces))
            self._surfaces.clear()
            self._tell_at = None
        elif not change.domains and not change.impacts:
            return
        else:
            impacts = change.impacts
        receipt = ManifestReceipt(
            server=link.server,
            revision=None if reading is None else reading.digest,
            domains=() if change is None else change.domains,
            impacts=impacts,
            problems=() if change is None or reading is None else reading.problems,
        )
        link.audit.record("manifest", "success", code="changed", detail=f"{len(impacts)} impacts")
        await self._deliver(receipt)

    async def _deliver(self, receipt: ManifestReceipt) -> None:
        """Into the queue, or to the handler, which may take its time: nothing here waits for it."""
        delivery = self._link.hub.delivery
        receipt = self._receipt(receipt)
        if delivery.handler is None:
            await delivery.announce(receipt)
        elif len(self._receipts) < delivery.queue.limit:
            self._receipts.append(receipt)
            self._arrived.set()
        else:
            self._link.audit.record("manifest", "failure", code="queue_full")

    async def tell(self) -> None:
        """Calls the application's handler with one receipt after the other, until cancelled."""
        while True:
            self._arrived = anyio.Event()
            while self._receipts:
                await self._link.hub.delivery.announce(self._receipts.popleft())
            await self._arrived.wait()

    def _receipt(self, receipt: ManifestReceipt) -> ManifestReceipt:
        """With the host's tags and its treatment. Whether it wakes anybody is for the consumer's rules to say; without
        one it does not, or a server could buy a wake by changing (SPEC 17.6)."""
        tags = ("mcpl:manifest", *dict.fromkeys(f"mcpl:{impact.impact}" for impact in receipt.impacts))
        treatment = self._link.authority.policy.treat(tags, source=self._link.server, default=Mute())
        return replace(receipt, tags=tags, treatment=treatment)


def note_problems(link: ServerLink, reading: ManifestReading, limit: int = 20) -> None:
    """Records what is wrong with a manifest; none of it is a reason to reject it (SPEC 17.2, 17.5)."""
    for problem in reading.problems[:limit]:
        link.audit.note("manifest", problem.code, f"{problem.path}: {problem.detail}")
