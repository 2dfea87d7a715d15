"""Fixtures for the whole suite: the async backends, and which tests carry which requirement ids."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any

import anyio.pytest_plugin
import pytest

#: Requirement id -> node ids of the collected tests that carry it.
_SPEC_MARKS = pytest.StashKey[dict[str, list[str]]]()

_BACKENDS = [
    pytest.param(("asyncio", {"use_uvloop": False}), id="asyncio"),
    pytest.param(
        ("asyncio", {"use_uvloop": True}),
        id="uvloop",
        marks=pytest.mark.skipif(find_spec("uvloop") is None, reason="uvloop is not installed"),
    ),
    pytest.param(("trio", {}), id="trio"),
]


@pytest.fixture(params=_BACKENDS)
def anyio_backend(request: pytest.FixtureRequest) -> tuple[str, dict[str, Any]]:
    """Each async test runs on asyncio, on asyncio with uvloop, and on trio."""
    backend: tuple[str, dict[str, Any]] = request.param
    return backend


def pytest_configure() -> None:
    """asyncio runs as by ``asyncio.run``; no example of Hypothesis fails because the machine is slow."""
    plugin: Any = anyio.pytest_plugin
    name_library = plugin.set_current_async_library

    def name_others(library: str | None) -> Any:
        """AnyIO's runner tells sniffio that asyncio runs, in every callback. ``asyncio.run`` tells it nothing."""
        return None if library == "asyncio" else name_library(library)

    plugin.set_current_async_library = name_others
    if find_spec("hypothesis") is not None:
        from hypothesis import HealthCheck, settings

        settings.register_profile(
            "unhurried", parent=settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
        )
        settings.load_profile("unhurried")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Record the ``spec`` marks; reports (``--junit-xml``) show the ids of each test."""
    marks = config.stash.setdefault(_SPEC_MARKS, {})
    for item in items:
        for mark in item.iter_markers("spec"):
            for spec_id in mark.args:
                marks.setdefault(spec_id, []).append(item.nodeid)
                item.user_properties.append(("spec", spec_id))


def pytest_collection_finish(session: pytest.Session) -> None:
    """What was collected stays until the end: tests that collect garbage need not look through it each time."""
    # Hypothesis looks who else knows the random numbers that it and trio register when they are imported.
    for name in ("hypothesis", "trio"):
        if find_spec(name) is not None:
            importlib.import_module(name)
    gc.collect()
    gc.freeze()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """One line for the tests that need a PostgreSQL server and had none."""
    skipped = [
        report for report in terminalreporter.stats.get("skipped", []) if "MCPL_POSTGRES_DSN" in str(report.longrepr)
    ]
    if skipped:
        terminalreporter.write_line(f"PostgreSQL: {len(skipped)} tests skipped, MCPL_POSTGRES_DSN names no server")


@pytest.fixture
def collected_spec_marks(request: pytest.FixtureRequest) -> Mapping[str, list[str]]:
    """Requirement id -> node ids, of the tests collected in this run (which may be a part of the suite)."""
    return request.config.stash.get(_SPEC_MARKS, {})
