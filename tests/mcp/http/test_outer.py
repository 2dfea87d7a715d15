"""What surrounds another transport."""

from __future__ import annotations

import httpx2
import pytest

from mcpl_core.mcp.http.outer import OuterTransport

pytestmark = pytest.mark.anyio


class Inner(httpx2.AsyncBaseTransport):
    """Notes what is done to it."""

    def __init__(self) -> None:
        self.log: list[object] = []

    async def __aenter__(self) -> Inner:
        self.log.append("entered")
        return self

    async def __aexit__(self, exc_type: object = None, exc_value: object = None, traceback: object = None) -> None:
        self.log.append(exc_type)

    async def aclose(self) -> None:
        self.log.append("closed")


async def test_what_is_done_to_it_is_done_to_the_one_inside() -> None:
    inner = Inner()
    outer = OuterTransport(inner)
    with pytest.raises(KeyError):
        async with outer as entered:
            assert entered is outer
            raise KeyError
    await outer.aclose()
    assert inner.log == ["entered", KeyError, "closed"]
