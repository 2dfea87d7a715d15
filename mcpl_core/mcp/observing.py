"""What an observer hears of the calls of a client: their beginning and their end.

Owns: the two events, and what each kind of end is called. They hold names, numbers and classes: no argument, no result,
no header, no message of an error. Does not own: who listens.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from ..errors import ConnectionClosedError, ConnectionTimeoutError, LocalProtocolError, McplError
from .errors import CredentialsUnavailableError, McpOutputUncheckedError, McpToolError, UnknownEffectError

__all__ = ("CallEvent", "CallObserver", "CallOutcome", "ToolCallEnded", "ToolCallStarted", "outcome_of", "tell")

_logger = logging.getLogger("mcpl_core.mcp")

CallOutcome = Literal[
    "success",
    "tool-error",  # the tool ran, and said that it failed
    "not-sent",  # nothing reached the server
    "unknown",  # it was sent, and no answer came, or nobody can tell: it may have run
    "failure",  # an error came as the answer, or an answer that cannot be read
    "cancelled",  # the caller gave up
]


@dataclass(frozen=True, slots=True)
class ToolCallStarted:
    """A call begins.

    Attributes:
        source: the name of the client.
        tool: the tool's name at the server.
        number: counts the calls of the client; the same in both events of a call.
    """

    source: str
    tool: str
    number: int


@dataclass(frozen=True, slots=True)
class ToolCallEnded:
    """A call is over.

    Attributes:
        source, tool, number: as in ``ToolCallStarted``.
        outcome: see ``CallOutcome``.
        duration: seconds that it took.
        error_class: the name of the class of what it raised, if anything.
    """

    source: str
    tool: str
    number: int
    outcome: CallOutcome
    duration: float
    error_class: str | None = None


CallEvent: TypeAlias = ToolCallStarted | ToolCallEnded
CallObserver: TypeAlias = Callable[[CallEvent], Any]


def outcome_of(failure: BaseException | None, asked: bool = True) -> CallOutcome:
    """What the end of a call is called.

    Args:
        failure: what it raised, if anything.
        asked: whether the session was asked for it at all.
    """
    if failure is None:
        return "success"
    if not isinstance(failure, Exception):
        return "cancelled"
    if not asked:
        return "not-sent"
    if not isinstance(failure, McplError):
        # Somebody else's: nobody knows what was sent before.
        return "unknown"
    if isinstance(failure, ConnectionClosedError):
        return "unknown" if failure.outcome == "no-response" else "not-sent"
    if isinstance(failure, McpOutputUncheckedError):
        return "failure" if failure.sent else "not-sent"
    return next((outcome for kinds, outcome in _OUTCOMES if isinstance(failure, kinds)), "failure")


_OUTCOMES: tuple[tuple[tuple[type[McplError], ...], CallOutcome], ...] = (
    ((McpToolError,), "tool-error"),
    ((ConnectionTimeoutError, UnknownEffectError), "unknown"),
    ((LocalProtocolError, CredentialsUnavailableError), "not-sent"),
)


def tell(observer: CallObserver | None, event: CallEvent) -> None:
    """Tells an observer. What it raises is logged, and changes nothing for the call."""
    if observer is None:
        return
    try:
        observer(event)
    except Exception as exc:
        _logger.error("an observer of calls failed: %s", type(exc).__name__)
