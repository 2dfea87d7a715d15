"""Every monitor of a session is told."""

from __future__ import annotations

from mcpl_core.catalog.monitor import CatalogMonitor
from mcpl_core.catalog.peers.watchers import Watchers


def test_all_are_told_until_they_leave() -> None:
    watchers, first, second = Watchers(), CatalogMonitor(), CatalogMonitor()
    leave = watchers.add(first)
    watchers.add(second)
    watchers.list_changed()
    leave()
    leave()
    watchers.list_changed()
    watchers.close()
    assert (first.revision, first.closed) == (1, False)
    assert (second.revision, second.closed) == (2, True)


def test_one_that_comes_too_late_is_told_at_once() -> None:
    watchers, late = Watchers(), CatalogMonitor()
    watchers.close()
    watchers.add(late)
    assert late.closed


def test_one_that_watches_twice_leaves_twice() -> None:
    watchers, monitor = Watchers(), CatalogMonitor()
    leave = watchers.add(monitor)
    watchers.add(monitor)
    leave()
    watchers.list_changed()
    assert monitor.revision == 1
