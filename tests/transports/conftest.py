"""Fixtures for the transports."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.transports.recording import open_descriptors


@pytest.fixture
async def no_leaks(anyio_backend: tuple[str, dict[str, Any]]) -> AsyncIterator[None]:
    """Fails the test when descriptors are open after it that were not open before."""
    before = open_descriptors()
    yield
    left = open_descriptors() - before
    if anyio_backend[1].get("use_uvloop"):
        # libuv keeps one in reserve, from its first stream on.
        left -= Counter({"/dev/null": 1})
    assert left == Counter()
