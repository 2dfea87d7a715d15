"""The best engine for a descriptor: the event loop's own for FIFOs and sockets, threads for everything else.

Owns: that choice, and larger pipes where the system has them. Does not own: the engines, and whose descriptors these
are (``stdio`` and ``subprocess`` own theirs).
"""

from __future__ import annotations

import io
import os
import socket
import stat
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Protocol

from .asyncio_streams import AsyncioInput, AsyncioOutput, Carrier
from .byte_streams import TaskInput, TaskOutput
from .files import FileSink, FileSource
from .lines import Input, InputEvents, Output, OutputEvents
from .loop import AsyncioLoop, EventLoop

if TYPE_CHECKING:
    from trio.abc import Stream

if sys.platform != "win32":
    import fcntl
    import termios

__all__ = ("Events", "available", "enlarge_pipe", "is_same_socket", "open_duplex", "open_input", "open_output")

#: Bytes that a pipe holds where the system lets us ask for it (Linux); large messages then take two thirds of the time.
_PIPE_SIZE = 1024 * 1024


def enlarge_pipe(fd: int) -> None:
    """Makes a FIFO hold more, if the system can and lets us; nothing happens otherwise."""
    if sys.platform == "linux":
        with suppress(OSError):
            if fcntl.fcntl(fd, fcntl.F_GETPIPE_SZ) < _PIPE_SIZE:
                fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)


def available(fd: int) -> int:
    """Bytes that lie in a FIFO and can be read now."""
    if sys.platform == "win32":
        return 0
    return int.from_bytes(fcntl.ioctl(fd, termios.FIONREAD, bytes(4)), sys.byteorder)


def is_same_socket(one: int, other: int) -> bool:
    """Whether two descriptors are one socket, as under inetd."""
    return _is_socket(one) and os.path.samestat(os.fstat(one), os.fstat(other))


class Events(InputEvents, OutputEvents, Protocol):
    """Whoever is told of both directions."""


def open_input(fd: int, events: InputEvents, loop: EventLoop) -> Input:
    """An input that reads from ``fd`` and owns it."""
    if not _is_polled(fd):
        return TaskInput(events, loop, FileSource(loop, fd))
    if isinstance(loop, AsyncioLoop):
        return AsyncioInput(events, loop, _carrier(fd, "rb"))
    # Only when trio runs.
    from .trio_streams import TrioSource

    return TaskInput(events, loop, TrioSource(_trio_stream(fd), owned=True, direct=True))


def open_output(fd: int, events: OutputEvents, loop: EventLoop) -> Output:
    """An output that writes to ``fd`` and owns it."""
    if not _is_polled(fd):
        return TaskOutput(events, loop, FileSink(loop, fd))
    if isinstance(loop, AsyncioLoop):
        return AsyncioOutput(events, loop, _carrier(fd, "wb"), half_close=_is_socket(fd))
    from .trio_streams import TrioSink

    return TaskOutput(events, loop, TrioSink(_trio_stream(fd), direct=True))


def open_duplex(fd: int, events: Events, loop: EventLoop) -> tuple[Input, Output]:
    """Both directions of the socket ``fd``, which they own."""
    if isinstance(loop, AsyncioLoop):
        input = AsyncioInput(events, loop)
        return input, AsyncioOutput(events, loop, _carrier(fd, "rb"), input=input, half_close=True)
    from .trio_streams import TrioSink, TrioSource

    stream = _trio_stream(fd)
    source, sink = TrioSource(stream, owned=False, direct=True), TrioSink(stream, direct=True)
    return TaskInput(events, loop, source), TaskOutput(events, loop, sink)


def _is_polled(fd: int) -> bool:
    mode = os.fstat(fd).st_mode
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def _is_socket(fd: int) -> bool:
    return stat.S_ISSOCK(os.fstat(fd).st_mode)


def _carrier(fd: int, mode: str) -> Carrier:
    return socket.socket(fileno=fd) if _is_socket(fd) else io.FileIO(fd, mode)


def _trio_stream(fd: int) -> Stream:
    from .trio_streams import fd_stream, socket_stream

    return socket_stream(socket.socket(fileno=fd)) if _is_socket(fd) else fd_stream(fd)
