"""Three facts of a connection, and what holds under them."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.catalog.errors import CatalogError
from mcpl_core.catalog.monitor import SUPPORTED_VERSIONS, CatalogMonitor, Lease


def code(lease: Lease) -> str:
    with pytest.raises(CatalogError) as caught:
        lease.check()
    assert caught.value.code == lease.problem()
    return caught.value.code


@pytest.mark.parametrize(
    "version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28", "", None, {}]
)
def test_two_versions_are_known(version: Any) -> None:
    monitor = CatalogMonitor()
    if version in ("2025-06-18", "2025-11-25"):
        monitor.accept_version(version)
        assert (monitor.protocol_version, monitor.closed) == (version, False)
        return
    with pytest.raises(CatalogError) as caught:
        monitor.accept_version(version)
    assert caught.value.code == "mcp_protocol_unsupported"
    assert monitor.closed
    assert monitor.protocol_version is None
    assert len(SUPPORTED_VERSIONS) == 2


def test_another_version_ends_it() -> None:
    monitor = CatalogMonitor()
    monitor.accept_version("2025-06-18")
    monitor.accept_version("2025-06-18")
    lease = Lease(monitor)
    lease.check()
    with pytest.raises(CatalogError) as caught:
        monitor.accept_version("2025-11-25")
    assert caught.value.code == "mcp_protocol_conflict"
    assert code(lease) == "mcp_connection_closed"


def test_without_a_version_nothing_holds() -> None:
    assert code(Lease(CatalogMonitor())) == "mcp_not_initialized"
    assert CatalogMonitor().revision == 0


def test_a_change_makes_stale_what_was_read_before() -> None:
    monitor = CatalogMonitor(revision=7)
    monitor.accept_version("2025-11-25")
    before = Lease(monitor)
    monitor.list_changed()
    after = Lease(monitor)
    assert monitor.revision == 8
    assert code(before) == "mcp_catalog_stale"
    after.check()


def test_nothing_revives_a_closed_one() -> None:
    monitor = CatalogMonitor()
    monitor.accept_version("2025-11-25")
    lease = Lease(monitor)
    monitor.close()
    monitor.close()
    monitor.accept_version("2025-11-25")
    monitor.list_changed()
    assert code(lease) == code(Lease(monitor)) == "mcp_connection_closed"
    assert "closed=True" in repr(monitor)
