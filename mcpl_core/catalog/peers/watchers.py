"""Monitors that watch one session, for sessions that tell of themselves through a single callback.

Owns: passing each fact on to every monitor. Does not own: where facts come from (the adapters).
"""

from __future__ import annotations

from collections.abc import Callable

from ..monitor import CatalogMonitor

__all__ = ("Watchers",)


class Watchers:
    """The monitors of one session."""

    def __init__(self) -> None:
        self._monitors: list[CatalogMonitor] = []
        self._closed = False

    def add(self, monitor: CatalogMonitor) -> Callable[[], None]:
        """Tells ``monitor`` too, from now on; at once, if the session is over. Returns the call that ends it."""
        self._monitors.append(monitor)
        if self._closed:
            monitor.close()
        return lambda: self._remove(monitor)

    def _remove(self, monitor: CatalogMonitor) -> None:
        # By identity, and only one of them: a monitor may have been added twice.
        for index, known in enumerate(self._monitors):
            if known is monitor:
                del self._monitors[index]
                return

    def list_changed(self) -> None:
        """The list of tools changed."""
        for monitor in self._monitors:
            monitor.list_changed()

    def close(self) -> None:
        """The session is over."""
        self._closed = True
        for monitor in self._monitors:
            monitor.close()
