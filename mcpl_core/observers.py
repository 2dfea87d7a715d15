"""Who is told what happens on a connection.

Owns: the lists of observers, how one gets on them, and that an observer that raises loses nothing. Does not own: the
order of reports (the connection's closing).
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

from .errors import MalformedMessageError, McplError
from .wire.messages import Notification, Request

__all__ = ("Observed", "Observers", "kinds_only")

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


class Observed:
    """The methods of a connection for its observers."""

    _observers: Observers

    def on_error(self, observer: Callable[[BaseException], object]) -> Callable[[], None]:
        """Calls ``observer`` with everything that is reported: malformed messages, failures of observers and
        handlers, and, once, the error that closes the connection. With no observer the ``mcpl_core`` logger
        gets them. Returns the call that ends it."""
        return Observers.add(self._observers.error, observer)

    def on_close(self, observer: Callable[[], object]) -> Callable[[], None]:
        """Calls ``observer`` once, when the connection closed, after its error was reported. One that is added
        later is not called. Returns the call that ends it."""
        return Observers.add(self._observers.close, observer)

    def on_message(self, observer: Callable[[Request | Notification], object]) -> Callable[[], None]:
        """Calls ``observer`` with each request and notification as it is taken from the wire, before it is queued.
        What an observer raises is reported; the message is queued all the same. Returns the call that ends it."""
        return Observers.add(self._observers.message, observer)

    def report(self, error: BaseException) -> None:
        """Reports an error as the connection reports its own."""
        self._observers.report(error)


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
