"""What the tests of approvals do differently: transactions wait in threads, so two event loops are enough."""

from __future__ import annotations

import pytest


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """Each async test runs on asyncio and on trio."""
    backend: str = request.param
    return backend
