"""Silence for the loggers of other libraries that print URLs, headers or messages.

Owns: which loggers these are, and that only what they log on behalf of our own sessions is dropped. Does not own: what
this package logs itself (never a header, a body, or more of a URL than scheme, host and port).
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ("LOUD_LOGGERS", "ours", "quiet")

#: Each of them prints a URL, a header, a message or an exception that holds one, at one level or another.
LOUD_LOGGERS = (
    "client",  # the name that the SDK's session logs under
    "httpcore2.connection",
    "httpcore2.http11",
    "httpcore2.http2",
    "httpcore2.proxy",
    "httpcore2.socks",
    "httpx2",
    "mcp.client.client",
    "mcp.client.session",
    "mcp.client.streamable_http",
    "mcp.shared.dispatcher",
    "mcp.shared.jsonrpc_dispatcher",
)

#: Whether what runs now runs for a session of ours. Tasks inherit it from whoever starts them.
_OURS: ContextVar[bool] = ContextVar("mcpl_core_http_session", default=False)


class _Silence(logging.Filter):
    """One per session, so that each takes away what it put there and nothing else."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not _OURS.get()


@contextmanager
def ours() -> Iterator[None]:
    """What runs in this block, and in tasks that it starts, runs for a session of ours."""
    token = _OURS.set(True)
    try:
        yield
    finally:
        _OURS.reset(token)


@contextmanager
def quiet() -> Iterator[None]:
    """While this block runs, the loud loggers say nothing about what runs under ``ours``."""
    silence = _Silence()
    loggers = [logging.getLogger(name) for name in LOUD_LOGGERS]
    for logger in loggers:
        logger.addFilter(silence)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(silence)
