"""An ``httpx2`` transport around another one.

Owns: that entering, leaving and closing it does so to the one inside. Does not own: what happens to a request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

import httpx2

if TYPE_CHECKING:
    from types import TracebackType

__all__ = ("OuterTransport",)


class OuterTransport(httpx2.AsyncBaseTransport):
    """Subclasses say what happens to a request.

    Args:
        inner: what sends.
    """

    def __init__(self, inner: httpx2.AsyncBaseTransport) -> None:
        self._inner = inner

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None = None,
        exc_value: BaseException | None = None,
        traceback: TracebackType | None = None,
    ) -> None:
        await self._inner.__aexit__(exc_type, exc_value, traceback)

    async def aclose(self) -> None:
        """Closes the inner transport."""
        await self._inner.aclose()
