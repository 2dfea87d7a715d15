"""MCP servers over Streamable HTTP, in both protocol eras.

The official SDK does the HTTP of the protocol and agrees on a version; what every request carries, what is sent again,
what was really answered and how a session ends is decided here. Importing this needs no optional library;
``open_session`` does, and says so when it is called.
"""

from .config import Era, Sdk, read_sdk
from .errors import HttpStatusError, RedirectRefusedError, SessionEndedError
from .exchange import Exchange, Timing, exchange_of, repeat_by_adapter
from .opening import open_session, retrying_transport
from .retry import Jitter, RetryKind, RetryReport, RetrySeries, RetrySettings, parse_retry_after

__all__ = (
    "Era",
    "Exchange",
    "HttpStatusError",
    "Jitter",
    "RedirectRefusedError",
    "RetryKind",
    "RetryReport",
    "RetrySeries",
    "RetrySettings",
    "Sdk",
    "SessionEndedError",
    "Timing",
    "exchange_of",
    "open_session",
    "parse_retry_after",
    "read_sdk",
    "repeat_by_adapter",
    "retrying_transport",
)
