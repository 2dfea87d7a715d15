"""This process's own standard input and output.

Owns: protecting them. While the transport is open its peer alone uses the descriptors that were 0 and 1: descriptor 1
points to standard error and descriptor 0 to the null device, so that neither a stray ``print`` nor a child process
can write into the protocol or read from it. Everything is put back by ``aclose``, the descriptors' flags as well.
Does not own: how they are read and written (``descriptors``). Promised on Linux and macOS.
"""

from __future__ import annotations

import os
import sys
import threading
from contextlib import suppress

from ..errors import LocalProtocolError, TransportError
from .descriptors import enlarge_pipe, is_same_socket, open_duplex, open_input, open_output
from .lines import LineTransport, transport_error
from .loop import EventLoop

if sys.platform != "win32":
    import fcntl

__all__ = ("StdioTransport",)

# The descriptors 0, 1 and 2 belong to the process, so does this.
_taken = threading.Lock()


def _copy(fd: int) -> int:
    """Never one of the first three, even if one of those is free."""
    return fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 3)


class _Redirection:
    """Descriptors 0 and 1 while they are not ours to print to.

    Attributes:
        receive: a copy of what descriptor 0 was.
        send: a copy of what descriptor 1 was.

    Raises:
        OSError: one of the two is not open.
    """

    def __init__(self) -> None:
        self.receive = _copy(0)
        try:
            self.send = _copy(1)
        except OSError:
            os.close(self.receive)
            raise
        self._blocking = [(fd, os.get_blocking(fd)) for fd in (self.receive, self.send)]
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        try:
            os.dup2(2, 1)
        except OSError:  # no standard error
            os.dup2(null, 1)
        os.close(null)

    def undo(self) -> None:
        # What was printed and not flushed meanwhile was never meant for the peer.
        if sys.stdout is not None:
            with suppress(OSError, ValueError):
                sys.stdout.flush()
        for fd, blocking in self._blocking:
            os.set_blocking(fd, blocking)
        os.dup2(self.receive, 0)
        os.dup2(self.send, 1)
        os.close(self.receive)
        os.close(self.send)


class StdioTransport(LineTransport):
    """Lines over standard input and output, for a server that its host has started.

    FIFOs and sockets are served by the event loop; regular files, the null device and terminals by threads. One at a
    time in a process.

    Args:
        max_message_bytes: the longest incoming message, in bytes; a longer one is skipped and reported.
        close_timeout: seconds that ``aclose`` may take to send what was written.
    """

    name = "stdio"
    _redirection: _Redirection | None = None

    async def _open(self, loop: EventLoop) -> None:
        if sys.platform == "win32":
            raise TransportError("stdio: not on this system")
        if sys.__stdin__ is None or sys.__stdout__ is None:
            # Closed before this process began: the number is somebody else's now, the event loop's for example.
            raise TransportError("stdio: this process was started with a closed standard input or output")
        if not _taken.acquire(blocking=False):
            raise LocalProtocolError("stdio: standard input and output are in use by another transport")
        try:
            self._redirection = redirection = _Redirection()
        except OSError as error:
            _taken.release()
            raise transport_error(self.name, error) from error
        receive, send = redirection.receive, redirection.send
        if is_same_socket(receive, send):
            self._input, self._output = open_duplex(os.dup(send), self, loop)
            return
        for fd in (receive, send):
            enlarge_pipe(fd)
        self._output = open_output(os.dup(send), self, loop)
        self._input = open_input(os.dup(receive), self, loop)

    async def _let_go(self) -> None:
        try:
            await super()._let_go()
        finally:
            redirection, self._redirection = self._redirection, None
            if redirection is not None:
                redirection.undo()
                _taken.release()
