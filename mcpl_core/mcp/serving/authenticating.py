"""Asking the application who calls.

Owns: that what goes wrong there ends nothing but the request, and that no log has its text. Does not own: when it is
asked, and what its answer means (``http_application``, ``mcpl_core.transports``).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from .call import call_here
from .calling import contained

__all__ = ("discreet",)


def discreet(authenticate: Callable[[Any], Any]) -> Callable[[Any], Awaitable[Any]]:
    """``authenticate``, sync or async, as a coroutine function that raises a ``RuntimeError`` with the type of what it
    raised and nothing else of it: its text may hold what the request had to prove."""

    async def asked(request: Any) -> Any:
        try:
            return await contained(call_here, authenticate, request)
        except Exception as exc:
            kind = type(exc).__name__
        # Out here, so that what it raised is no context of this.
        raise RuntimeError(f"it raised a {kind}")

    return asked
