"""Blocking files and descriptors: regular files, the null device, terminals, a caller's file objects.

Owns: one daemon thread for each direction. It does one blocking call at a time, when the task that receives or sends
(``byte_streams``) asks for it, so a paused reader reads nothing; its waits end when they are interrupted. Does not
own: FIFOs and sockets of standard input and output, which the event loop serves itself (``descriptors``).
"""

from __future__ import annotations

import errno
import io
import os
import select
import stat
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from typing import IO, Any, TypeVar

import anyio

from .lines import READ_SIZE
from .loop import AsyncioLoop, EventLoop, Waiter

__all__ = ("BinaryFile", "FileSink", "FileSource", "is_binary_file")

T = TypeVar("T")

#: What the io module calls binary: raw or buffered.
BinaryFile = io.RawIOBase | io.BufferedIOBase | IO[bytes]

#: Bytes that a descriptor which is ready for writing takes without blocking (POSIX: 512 at least, Linux: 4096).
_SAFE_WRITE: int = getattr(select, "PIPE_BUF", 512)


def is_binary_file(value: object) -> bool:
    """Whether this is a file object that carries bytes."""
    return isinstance(value, io.RawIOBase | io.BufferedIOBase)


def _call_threadsafe(loop: EventLoop) -> Callable[[Callable[[], object]], object]:
    # trio's way into the loop is thread-safe as it is.
    return loop.loop.call_soon_threadsafe if isinstance(loop, AsyncioLoop) else loop.call_soon


class _Worker:
    """A daemon thread that does one blocking call at a time."""

    def __init__(self, loop: EventLoop, name: str) -> None:
        self._loop = loop
        self._call_soon = _call_threadsafe(loop)
        self._jobs: SimpleQueue[tuple[Callable[[], Any], Waiter] | None] = SimpleQueue()
        self._ended = anyio.Event()
        threading.Thread(target=self._main, name=name, daemon=True).start()

    async def run(self, job: Callable[[], T]) -> T:
        """The result of ``job``. When the task that waits is cancelled, the job goes on without it."""
        waiter = self._loop.waiter()
        self._jobs.put((job, waiter))
        result: T = await waiter
        return result

    async def stop(self) -> None:
        """Returns when the thread has ended."""
        self._jobs.put(None)
        await self._ended.wait()

    def _main(self) -> None:
        # The loop may be gone: then nobody is left who could be told.
        with suppress(RuntimeError):
            while (item := self._jobs.get()) is not None:
                self._call_soon(_outcome(*item))
                del item  # a result must not stay alive until the next job
            self._call_soon(self._ended.set)


def _outcome(job: Callable[[], Any], waiter: Waiter) -> Callable[[], None]:
    """Does the job; what it returns tells its waiter, in the event loop."""
    try:
        result = job()
    except BaseException as error:
        failure = error
        return lambda: None if waiter.done() else waiter.set_exception(failure)
    return lambda: None if waiter.done() else waiter.set_result(result)


class _Descriptor:
    """A blocking descriptor whose waits can be interrupted; it owns the descriptor."""

    def __init__(self, fd: int, *, write: bool) -> None:
        self.fd = fd
        self.regular = stat.S_ISREG(os.fstat(fd).st_mode)
        self._write = write
        self._wake_receive, self._wake_send = os.pipe()

    def wait(self) -> bool:
        """Waits in a thread until it can be read or written without blocking; False when interrupted."""
        if sys.platform == "darwin":  # whose poll knows no terminals
            read, write = ([self._wake_receive], [self.fd]) if self._write else ([self._wake_receive, self.fd], [])
            return self._wake_receive not in select.select(read, write, [])[0]
        poll = select.poll()
        poll.register(self._wake_receive, select.POLLIN)
        poll.register(self.fd, select.POLLOUT if self._write else select.POLLIN)
        return all(fd != self._wake_receive for fd, _ in poll.poll())

    def interrupt(self) -> None:
        """Ends the wait that is under way, and those to come."""
        os.write(self._wake_send, b"x")

    def read(self) -> bytes:
        while self.wait():
            try:
                return os.read(self.fd, READ_SIZE)
            except BlockingIOError:
                continue
            except OSError as error:
                if error.errno == errno.EIO and os.isatty(self.fd):
                    break  # the terminal was hung up
                raise
        return b""

    def write(self, data: bytes) -> None:
        limit = len(data) if self.regular else _SAFE_WRITE
        with memoryview(data) as view:
            done = 0
            while done < len(view) and self.wait():
                with suppress(BlockingIOError):
                    done += os.write(self.fd, view[done : done + limit])

    def close(self) -> None:
        for fd in (self.fd, self._wake_receive, self._wake_send):
            with suppress(OSError):
                os.close(fd)


def _descriptor_of(file: object, *, write: bool) -> _Descriptor | None:
    """A copy of the descriptor beneath a plain file of the io module; None when something else is beneath it."""
    raw = getattr(file, "raw", file) if isinstance(file, io.BufferedIOBase) else file
    if sys.platform == "win32" or not isinstance(raw, io.FileIO) or raw.closed:  # there nothing can be waited for
        return None
    return _Descriptor(os.dup(raw.fileno()), write=write)


def _read_ahead(file: object, descriptor: _Descriptor) -> bytes:
    """What a buffered reader has read already and its descriptor will not give again. Never blocks."""
    if not isinstance(file, io.BufferedReader | io.BufferedRandom):
        return b""
    if descriptor.regular:
        return file.read1(READ_SIZE)
    was_blocking = os.get_blocking(descriptor.fd)
    # For an instant only: the flag is shared with whoever else has this file open.
    os.set_blocking(descriptor.fd, False)
    try:
        return file.read1(READ_SIZE) or b""
    finally:
        os.set_blocking(descriptor.fd, was_blocking)


class FileSource:
    """Receives from a blocking file.

    Args:
        loop: the event loop.
        file: a descriptor, which it owns from now on, or a binary file object, which stays the caller's.
    """

    def __init__(self, loop: EventLoop, file: BinaryFile | int) -> None:
        self._first = b""
        self._read: Callable[[], bytes]
        self._descriptor: _Descriptor | None
        if isinstance(file, int):
            self._descriptor = _Descriptor(file, write=False)
        else:
            self._descriptor = _descriptor_of(file, write=False)
        if self._descriptor is not None:
            self._first = _read_ahead(file, self._descriptor)
            self._read = self._descriptor.read
        else:
            read1 = getattr(file, "read1", None) or getattr(file, "read")  # noqa: B009 - an int has neither
            self._read = lambda: b"" if getattr(file, "closed", False) else read1(READ_SIZE) or b""
        self._worker = _Worker(loop, "mcpl read")

    async def receive(self) -> bytes:
        first, self._first = self._first, b""
        return first or await self._worker.run(self._read)

    async def aclose(self) -> None:
        if self._descriptor is not None:
            self._descriptor.interrupt()
        await self._worker.stop()
        if self._descriptor is not None:
            self._descriptor.close()


class FileSink:
    """Sends to a blocking file.

    Args:
        loop: the event loop.
        file: a descriptor or a binary file object; either is closed in the end.
    """

    def __init__(self, loop: EventLoop, file: BinaryFile | int) -> None:
        self._file = None if isinstance(file, int) else file
        self._descriptor: _Descriptor | None
        if isinstance(file, int):
            self._descriptor = _Descriptor(file, write=True)
        else:
            self._descriptor = _descriptor_of(file, write=True)
        self._file_closed = False
        self._worker = _Worker(loop, "mcpl write")

    def send_nowait(self, data: bytes) -> int:
        return 0

    async def send(self, data: bytes) -> None:
        if self._file is not None and self._file.closed:
            raise anyio.ClosedResourceError
        await self._worker.run(lambda: self._write(data))

    def _write(self, data: bytes) -> None:
        file = self._file
        if file is not None:
            file.flush()  # what the caller wrote before comes first
        if self._descriptor is not None:
            self._descriptor.write(data)
        elif file is not None:
            with memoryview(data) as view:
                done = 0
                while done < len(view):
                    done += file.write(view[done:]) or 0
            file.flush()

    async def send_eof(self) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        # Also after an ``aclose`` that was cancelled on its way.
        if self._descriptor is not None:
            self._descriptor.interrupt()
        if self._file is not None and not self._file_closed:
            self._file_closed = True
            await self._worker.run(self._file.close)
        await self._worker.stop()
        if self._descriptor is not None:
            self._descriptor.close()
            self._descriptor = None

    async def abort(self) -> None:
        # All that was sent has been written, or its write was given up: there is nothing more to wait for.
        await self.aclose()
