"""What the endpoints with an address have in common.

Owns: the options that say where one is, checked, and the address once there is one. Does not own: binding it.
"""

from __future__ import annotations

import math
from typing import Any

from ...errors import InvalidValueError
from .endpoints import Endpoint

__all__ = ("ListeningEndpoint", "checked_count", "checked_seconds")


class ListeningEndpoint(Endpoint):
    """A way to be reached at a port of this machine.

    Args:
        port: the port; 0 for a free one, which ``port`` then is.
        host: a name or an address of this machine.
        path: the only path that is served.

    Attributes:
        address: host and port as the operating system says them, once it can be reached; else ``None``.

    Raises:
        InvalidValueError: one of them is not what it should be (``port``, ``host``, ``path``).
    """

    def __init__(self, port: int, host: str, path: str) -> None:
        if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= 65535:
            raise InvalidValueError("port", "a port is a whole number between 0 and 65535")
        if not isinstance(host, str) or not host:
            raise InvalidValueError("host", "a host is a name or an address")
        if not isinstance(path, str) or not path.startswith("/") or "?" in path or "#" in path:
            raise InvalidValueError("path", "a path begins with a slash and has no query")
        self.address: tuple[str, int] | None = None

    @property
    def port(self) -> int:
        """The real port, once it can be reached.

        Raises:
            AttributeError: it cannot be reached yet.
        """
        if self.address is None:
            raise AttributeError("it was not started")
        return self.address[1]


def checked_count(name: str, value: Any) -> int:
    """A whole number above zero.

    Raises:
        InvalidValueError: it is none.
    """
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise InvalidValueError(name, "a whole number above zero is wanted")
    return value


def checked_seconds(name: str, value: Any) -> float:
    """A finite number of seconds, not below zero.

    Raises:
        InvalidValueError: it is none.
    """
    if not isinstance(value, int | float) or isinstance(value, bool) or not math.isfinite(value) or value < 0:
        raise InvalidValueError(name, "a number of seconds is wanted")
    return value
