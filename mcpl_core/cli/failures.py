"""One line that says what failed and what to do about it.

Owns: the advice for each kind of failure. Does not own: the failures, and how a line is printed (``app``).
"""

from __future__ import annotations

import errno

from ..errors import (
    ConnectionClosedError,
    ConnectionTimeoutError,
    InvalidResultError,
    InvalidValueError,
    ProcessExitedError,
    RpcError,
    TransportError,
    UpgradeRefusedError,
)
from .output import CommandError

__all__ = ("advice", "failure", "leaves")

_REFUSALS = {
    401: "give its token with --token-env VARIABLE",
    403: "it lets nobody in with this token, or from this origin",
    404: "look at the path of the URL",
    421: "it does not go by that name; connect to the name that it allows",
    503: "it has too many connections; try again later",
}

#: What to do, by the class of the error; the first that fits.
_ADVICE: tuple[tuple[type[BaseException], str], ...] = (
    (ProcessExitedError, "run the command by itself to see why"),
    (ConnectionTimeoutError, "is it an MCP server? --timeout SECONDS waits longer"),
    (ConnectionClosedError, "the other side ended it; see what it wrote to its log"),
    (InvalidResultError, "is it an MCP server?"),
    (RpcError, "that is the server's own answer"),
    (InvalidValueError, "mcpl --help shows what is expected"),
    (TransportError, "is it running, and is this where it is?"),
    (OSError, "look at the name and its permissions"),
)


def advice(error: BaseException) -> str:
    """What to do about an error; empty when nobody knows."""
    if isinstance(error, UpgradeRefusedError):
        return _REFUSALS.get(error.status or 0, "is it a WebSocket, and is this where it is?")
    if isinstance(error, ConnectionClosedError) and error.reason is not None:
        return advice(error.reason)
    return next((text for kind, text in _ADVICE if isinstance(error, kind)), "")


def failure(
    error: BaseException, *, status: int = 1, command: bool = False, stderr_shown: bool = False
) -> CommandError:
    """The error that ends a command, made of what failed.

    Args:
        error: what failed.
        status: the exit status.
        command: whether a program was to be started.
        stderr_shown: whether everybody has seen what the program wrote to its standard error.
    """
    hint = advice(error)
    if isinstance(error.__cause__, OSError) and error.__cause__.errno == errno.EADDRINUSE:
        hint = "another program listens there; choose another port"
    if command and isinstance(error.__cause__, FileNotFoundError | PermissionError):
        hint = "look at the name of the program"
    if stderr_shown and isinstance(error, ProcessExitedError):
        error = ProcessExitedError(error.command, error.returncode)
    text = str(error) or type(error).__name__
    return CommandError(f"{text}; {hint}" if hint else text, status)


def leaves(error: BaseException) -> list[BaseException]:
    """The single exceptions in a group, in order."""
    if isinstance(error, BaseExceptionGroup):
        return [leaf for inner in error.exceptions for leaf in leaves(inner)]
    return [error]
