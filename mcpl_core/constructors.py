"""The ways to make a connection.

Owns: which transport stands behind which constructor. All are plain calls that return something to be entered with
``async with``; nothing is dialled, spawned or read before that. Does not own: the connection itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any, Self, Unpack

from .listening import ConnectionListener
from .options import ConnectionOptions, check_options
from .transports.base import Transport
from .transports.endpoints import listener_for, transport_for
from .transports.memory import memory_transports
from .transports.stdio import StdioTransport
from .transports.streams import ReceiveFrom, SendTo, stream_transport
from .transports.subprocess import SubprocessTransport

__all__ = ("Constructors",)


class Constructors:
    """The constructors of ``McplConnection``.

    Args:
        transport: what carries the messages.
        options: see ``ConnectionOptions``.
    """

    def __init__(self, transport: Transport, **options: Unpack[ConnectionOptions]) -> None:
        raise NotImplementedError

    @classmethod
    def from_streams(
        cls, receive: ReceiveFrom, send: SendTo | None = None, **options: Unpack[ConnectionOptions]
    ) -> Self:
        """Over a pair of byte streams, one message a line.

        Args:
            receive: an AnyIO or trio byte stream, an asyncio ``StreamReader`` or a binary file. It stays the
                caller's.
            send: the stream to write to (AnyIO, trio, asyncio ``StreamWriter``, binary file); left out: ``receive``.
                It is closed once, with the connection.
            options: see ``ConnectionOptions``.

        Raises:
            TypeError: something else was given.
        """
        return cls(stream_transport(receive, send, **_framing(options)), **options)

    @classmethod
    def from_websocket(cls, ws: Any, **options: Unpack[ConnectionOptions]) -> Self:
        """Over an open connection of the ``websockets`` library (asyncio or trio), each text one message.

        Raises:
            TypeError: something else was given.
        """
        # Importing the WebSocket library takes longer than the rest of the package; who does not use it
        # should not pay for it.
        from .transports.websocket import websocket_transport

        return cls(websocket_transport(ws, **_framing(options)), **options)

    @classmethod
    def stdio(cls, **options: Unpack[ConnectionOptions]) -> Self:
        """Over this process's own standard input and output, for a server that a host starts.

        While it is open, file descriptor 1 points to standard error, so that a stray ``print`` cannot reach
        the protocol.
        """
        return cls(StdioTransport(**_framing(options)), **options)

    @classmethod
    def spawn(
        cls,
        command: Sequence[str | PathLike[str]],
        *,
        env: dict[str, str] | None = None,
        cwd: str | PathLike[str] | None = None,
        **options: Unpack[ConnectionOptions],
    ) -> Self:
        """Over the standard input and output of a child process, which ends with the connection.

        Args:
            command: the program and its arguments; never a shell line.
            env: variables added to a small safe environment.
            cwd: the child's working directory.
            options: see ``ConnectionOptions``.

        Raises:
            TypeError: ``command`` is a string, or holds something that is no string and no path.
            InvalidValueError: ``command`` is empty or holds a NUL.
        """
        return cls(SubprocessTransport(command, env=env, cwd=cwd, **_framing(options)), **options)

    @classmethod
    def connect(
        cls,
        endpoint: str | Sequence[str | PathLike[str]],
        *,
        transport_options: dict[str, Any] | None = None,
        **options: Unpack[ConnectionOptions],
    ) -> Self:
        """To an endpoint: a URL (``mcpl:``, ``ws:``, ``wss:``, ``tcp:``, ``tls:``, ``unix:``) or a command.

        Args:
            endpoint: a string is always a URL, a sequence always a command.
            transport_options: passed to the transport of that scheme (``headers``, ``ssl``, ``env``, ...).
            options: see ``ConnectionOptions``.

        Raises:
            InvalidValueError: the URL is outside its grammar.
        """
        return cls(transport_for(endpoint, **(transport_options or {}), **_framing(options)), **options)

    @classmethod
    def memory_pair(cls, **options: Unpack[ConnectionOptions]) -> tuple[Self, Self]:
        """Two connections in this process that are each other's peer."""
        left, right = memory_transports(**_framing(options))
        return cls(left, **options), cls(right, **options)

    @classmethod
    def listen(
        cls, endpoint: str, *, listener_options: dict[str, Any] | None = None, **options: Unpack[ConnectionOptions]
    ) -> ConnectionListener[Self]:
        """Accepts peers: an async context manager to iterate over. Each connection that it yields is entered
        (``async with``) by whoever takes it.

        Args:
            endpoint: ``ws:``, ``wss:``, ``tcp:``, ``tls:`` or ``unix:``; port 0 is replaced by a free one.
            listener_options: passed to the listener (``origins``, ``authenticate``, ``max_connections``, ...).
            options: see ``ConnectionOptions``.
        """
        check_options(options)
        listener = listener_for(endpoint, **(listener_options or {}), **_framing(options))
        return ConnectionListener(listener, lambda transport: cls(transport, **options))


def _framing(options: ConnectionOptions) -> dict[str, Any]:
    """The part of the options that the transport needs, too."""
    return {"max_message_bytes": options["max_message_bytes"]} if "max_message_bytes" in options else {}
