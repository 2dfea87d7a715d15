"""Who is told what happens on a connection.

Owns: the lists of observers, and that an observer that raises loses nothing. Does not own: the order of reports
(the connection's closing).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from .errors import MalformedMessageError, McplError
from .wire.messages import Notification, Request

__all__ = ("Observers", "kinds_only")

_logger = logging.getLogger("mcpl_core")


class Observers:
    """The observers of one connection.

    Args:
        name: the connection's name in the log.
    """

    __slots__ = ("close", "error", "message", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.error: list[Callable[[BaseException], object]] = []
        self.close: list[Callable[[], object]] = []
        self.message: list[Callable[[Request | Notification], object]] = []

    @staticmethod
    def add(observers: list[Any], observer: Any) -> Callable[[], None]:
        """Appends to one of the lists; returns the call that undoes it, any number of times."""
        observers.append(observer)
        added = True

        def remove() -> None:
            nonlocal added
            if added:
                added = False
                observers.remove(observer)

        return remove

    def report(self, error: BaseException) -> None:
        """Tells the error observers; with none, the ``mcpl_core`` _logger."""
        if not self.error:
            # Our own errors say all in their sentence; of other people's the traceback is what helps.
            foreign = not type(error).__module__.startswith("mcpl_core.")
            _logger.warning("%s: %s", self.name, error, exc_info=error if foreign else None)
        for observer in tuple(self.error):
            try:
                observer(error)
            except Exception:
                _logger.exception("%s: an error observer failed", self.name)

    def arrived(self, message: Request | Notification) -> None:
        """Tells the message observers."""
        for observer in tuple(self.message):
            try:
                observer(message)
            except Exception as exc:
                self.report(exc)

    def closed(self) -> None:
        """Tells the close observers."""
        for observer in tuple(self.close):
            try:
                observer()
            except Exception as exc:
                self.report(exc)


def kinds_only(logger: logging.Logger, name: str) -> Callable[[BaseException], None]:
    """An error observer that logs, for a log in which no word of the peer may stand.

    Args:
        logger: where to.
        name: what the lines begin with.

    Returns:
        The observer. Of an error of this package it logs the kind alone: its sentence may hold an excerpt of a message,
        the message of an error object, the last words of a process. Others are raised by code of our own side, and
        logged as they are.
    """

    def observer(error: BaseException) -> None:
        if isinstance(error, MalformedMessageError):
            logger.warning("%s: a malformed message (%s)", name, error.kind)
        elif isinstance(error, McplError):
            logger.warning("%s: %s", name, type(error).__name__)
        else:
            logger.error("%s: %s", name, error, exc_info=error)

    return observer
