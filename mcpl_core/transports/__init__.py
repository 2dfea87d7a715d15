"""What carries messages: child processes, standard input and output, sockets, WebSockets, memory, streams of others.

Owns: the names that applications use: to make a connection, a relay or a listener of their own. Each carrier is a
module. Does not own: what messages say (``wire``), nor their order with the application (``connection``). WebSockets
are loaded when an endpoint asks for one; their classes are in ``websocket_client`` and ``websocket_server``.
"""

from .base import Listener, Sink, Transport
from .endpoints import listener_for, transport_for
from .listeners import TcpListener, UnixListener
from .memory import MemoryTransport, ScriptedTransport, memory_transports
from .sockets import TcpTransport, UnixTransport
from .stdio import StdioTransport
from .streams import StreamTransport, stream_transport
from .subprocess import SubprocessTransport
from .tap import Direction, TapObserver, TappedTransport

__all__ = (
    "Direction",
    "Listener",
    "MemoryTransport",
    "ScriptedTransport",
    "Sink",
    "StdioTransport",
    "StreamTransport",
    "SubprocessTransport",
    "TapObserver",
    "TappedTransport",
    "TcpListener",
    "TcpTransport",
    "Transport",
    "UnixListener",
    "UnixTransport",
    "listener_for",
    "memory_transports",
    "stream_transport",
    "transport_for",
)
