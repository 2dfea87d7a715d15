"""The life of a WebSocket, whatever carries its bytes.

Owns: what happens in which order: pushing into the sink, back-pressure of reading, keep-alive, saying goodbye, the
end. It is the part that asyncio and trio share; ``websocket_asyncio`` and ``websocket_trio`` add the carrier. Does not
own: frames (``websocket_incoming``, ``websocket_outgoing``), and how a connection is opened (``websocket_client``,
``websocket_server``).
"""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import anyio
from websockets.frames import Frame
from websockets.http11 import Request, Response
from websockets.protocol import CONNECTING, Protocol

from ..errors import TransportError, WebSocketClosedError
from ..wire.framing import DEFAULT_MAX_MESSAGE_BYTES
from .base import DEFAULT_CLOSE_TIMEOUT, Sink
from .loop import EventLoop, TimerHandle
from .websocket_handshake import OpeningHandshake
from .websocket_incoming import Incoming
from .websocket_keepalive import (
    DEFAULT_PING_INTERVAL,
    DEFAULT_PING_TIMEOUT,
    KeepAlive,
    KeepAliveAction,
    decide,
    resumed,
)
from .websocket_outgoing import Outgoing

__all__ = ("SILENT_LOGGER", "Engine", "WebSocketSettings", "peer_name")

#: For the library: what it logs holds paths, queries and bodies.
SILENT_LOGGER = logging.Logger("mcpl_core.transports.websocket")
SILENT_LOGGER.disabled = True

#: How a pong begins (RFC 6455 section 5.2).
_PONG = b"\x8a"


@dataclass(frozen=True, slots=True)
class WebSocketSettings:
    """What holds for every WebSocket of a transport or listener.

    Attributes:
        max_message_bytes: the longest incoming message, in bytes of its text.
        close_timeout: seconds for the goodbyes of both sides together.
        ping_interval: seconds between pings; ``None``: no pings.
        ping_timeout: seconds to wait for a sign of life after one; ``None``: for ever.
        compression: whether to offer or accept permessage-deflate (RFC 7692).
    """

    max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES
    close_timeout: float = DEFAULT_CLOSE_TIMEOUT
    ping_interval: float | None = DEFAULT_PING_INTERVAL
    ping_timeout: float | None = DEFAULT_PING_TIMEOUT
    compression: bool = False


class Engine(ABC):
    """One WebSocket over one carrier. Used once: the opening handshake, ``attach``, then anything, ``aclose``.

    Args:
        protocol: the library's state machine.
        settings: see there.

    Attributes:
        on_lost: called once, when the carrier is gone.
    """

    def __init__(self, protocol: Protocol, settings: WebSocketSettings) -> None:
        self.protocol = protocol
        self.on_lost: Callable[[], None] | None = None
        self._settings = settings
        self._handshake = OpeningHandshake(protocol) if protocol.state is CONNECTING else None
        self._incoming = Incoming(protocol, settings.max_message_bytes)
        self._outgoing = Outgoing(protocol)
        self._sink: Sink | None = None
        self._loop: EventLoop | None = None
        #: Read while reading was paused, or before the sink is fed for the first time; empty while bytes flow.
        self._held: list[bytes] = [b""]
        self._paused = False
        self._begun = False
        self._feeding = False
        self._heard = False
        #: The carrier brought its end: no bytes follow those in ``_held``.
        self._eof = False
        self._cause: BaseException | None = None
        self._end_told = False
        self._output_ended = False
        #: The sink does not expect to hear of the end of the output (any more).
        self._output_told = False
        self._closing = False
        self._lost = False
        self._gone = anyio.Event()
        self._writable: anyio.Event | None = None
        #: The answer to the last ping, while there is no room for it.
        self._late_pong = b""
        self._keepalive: KeepAlive | None = None
        self._timer: TimerHandle | None = None
        self._close_timer: TimerHandle | None = None
        self._close_late = False

    # ------------------------------------------------------------------------------------ the carrier's part

    @abstractmethod
    async def exchange(self) -> Request | Response:
        """Sends what the protocol has to send, and waits for the peer's part of the opening handshake.

        Raises:
            UpgradeRefusedError: what came is no opening handshake.
            TransportError: the connection ended.
        """

    @property
    @abstractmethod
    def peer(self) -> str:
        """The address of the other side, as host and port; empty on a Unix socket."""

    @abstractmethod
    async def send_head(self) -> None:
        """Sends what the protocol has to send in the opening handshake.

        Raises:
            TransportError: the connection ended.
        """

    @abstractmethod
    async def release(self) -> None:
        """Lets go of a carrier that was never attached; what was sent still leaves."""

    @abstractmethod
    def abort(self) -> None:
        """Lets go of the carrier at once. Idempotent."""

    @abstractmethod
    def write(self, message: bytes) -> None:
        """See ``Transport.write``."""

    @property
    @abstractmethod
    def behind(self) -> bool:
        """See ``Transport.behind``."""

    @abstractmethod
    def _flush(self) -> None:
        """Hands over what ``write`` kept back."""

    @abstractmethod
    def _send(self, parts: list[bytes]) -> None:
        """Hands over frames; an empty ``bytes`` ends the output."""

    @abstractmethod
    def _pause_carrier(self) -> None: ...

    @abstractmethod
    def _resume_carrier(self) -> None: ...

    def _can_say_goodbye(self) -> bool:
        return True

    # ------------------------------------------------------------------------------------ the connection's side

    def attach(self, sink: Sink, loop: EventLoop, frames: Sequence[Frame] | None = None) -> None:
        """Begins to push into ``sink``, in a later turn.

        Args:
            sink: where to push.
            loop: whose tasks and timers to use.
            frames: for a connection that the library opened: what it read and nobody took.
        """
        self._sink, self._loop = sink, loop
        early = self._incoming.take_over(frames) if frames is not None else []
        if self._handshake is not None:
            self._held.insert(0, self._handshake.rest)

        def begin() -> None:
            self._begun = True
            self._start_keepalive()
            self._push(early)
            if self._eof:
                self._finish_input()
            else:
                self._feed_held()

        loop.call_soon(begin)

    async def drain(self) -> None:
        """See ``Transport.drain``."""
        while self.behind and not self._output_ended:
            if self._writable is None:
                self._writable = anyio.Event()
            await self._writable.wait()

    def pause_reading(self) -> None:
        """See ``Transport.pause_reading``."""
        if not self._paused and not self._end_told and not self._closing:
            self._paused = True
            self._pause_carrier()

    def resume_reading(self) -> None:
        """See ``Transport.resume_reading``."""
        loop = self._loop
        if not self._paused or loop is None:
            return
        self._paused = False
        if self._keepalive is not None:
            self._keepalive = resumed(self._keepalive, loop.time())
        if self._close_late:
            self._close_late = False
            self._arm_close()
        if self._held:
            loop.call_soon(self._feed_held)
        else:
            self._resume_carrier()

    def send_eof(self) -> None:
        """See ``Transport.send_eof``."""
        if not self._output_told:
            self._say_goodbye()
            self._arm_close()

    async def aclose(self) -> None:
        """See ``Transport.aclose``."""
        self._sink = None
        if not self._closing:
            self._closing = True
            self._stop_keepalive()
            if self._loop is None:
                await self.release()
                return
            self._say_goodbye()
            if self._paused or self._held:
                self._paused = False
                self._feed_held()
        if self._lost:
            return
        try:
            with anyio.move_on_after(self._settings.close_timeout if self._can_say_goodbye() else 0):
                await self._gone.wait()
        finally:
            if not self._lost:
                self.abort()
        with anyio.CancelScope(shield=True):
            await self._gone.wait()

    def _say_goodbye(self) -> None:
        self._output_told = True
        if not self._lost:
            self._flush()
            self._outgoing.close()
            self._send_control()
        self._end_output()

    # ------------------------------------------------------------------------------------ what came in

    def _feed(self, data: bytes) -> None:
        """Pushes what ``data`` completes. Answers that are written meanwhile leave together."""
        incoming = self._incoming
        messages = incoming.receive(data)
        if incoming.ended:
            self._end_output()
        if messages:
            self._push(messages)
        if incoming.malformed:
            malformed, incoming.malformed = incoming.malformed, []
            for error in malformed:
                if self._sink is not None:
                    self._sink.message_malformed(error)
        self._flush()
        self._send_control()
        if incoming.ended:
            self._tell_end()

    def _push(self, messages: list[bytes]) -> None:
        if messages and self._sink is not None:
            self._feeding = True
            self._sink.messages_received(messages)
            self._feeding = False

    def _feed_held(self) -> None:
        if self._paused or self._end_told:
            return
        data, self._held = b"".join(self._held), []
        self._feed(data)
        if not self._paused:
            self._resume_carrier()

    def _send_control(self) -> None:
        parts = self._outgoing.control()
        if parts and self.behind:
            # Somebody who pings and reads no answers must not fill our memory; the last answer stands for all
            # (RFC 6455 section 5.5.3).
            pongs = [part for part in parts if part[:1] == _PONG]
            if pongs:
                self._late_pong = pongs[-1]
                parts = [part for part in parts if part[:1] != _PONG]
        if parts and not self._lost:
            self._send(parts)

    def _caught_up(self) -> None:
        """For the carrier: it is not behind any more."""
        pong, self._late_pong = self._late_pong, b""
        if pong and not self._output_ended:
            self._send([pong])
        self._wake_drains()

    # ------------------------------------------------------------------------------------ the end

    def _carrier_eof(self, cause: BaseException | None = None) -> None:
        """For the carrier: no more bytes come in."""
        if not self._eof:
            self._eof, self._cause = True, cause
            if self._begun:
                self._finish_input()

    def _finish_input(self) -> None:
        if self._held:
            # Already read, so it may be pushed in spite of a pause; nothing could come of waiting.
            held, self._held = self._held, []
            self._feed(b"".join(held))
        self._incoming.lost(self._cause)
        self._end_output()
        self._tell_end()

    def _carrier_lost(self, cause: BaseException | None = None) -> None:
        """For the carrier: it is gone. Idempotent."""
        if self._lost:
            return
        self._carrier_eof(cause)
        self._lost = True
        self._end_output()
        self._stop_keepalive()
        if self._close_timer is not None:
            self._close_timer.cancel()
        self._gone.set()
        if self.on_lost is not None:
            self.on_lost()

    def _output_broke(self, cause: BaseException) -> None:
        """For the carrier: nothing can be written any more, though something may still come in."""
        self._end_output()
        if self._sink is not None and not self._output_told:
            self._output_told = True
            error = WebSocketClosedError(1006, "the connection broke while sending")
            error.__cause__ = cause
            self._sink.output_failed(error)

    def _end_output(self) -> None:
        self._output_ended = True
        self._wake_drains()

    def _wake_drains(self) -> None:
        if self._writable is not None:
            self._writable.set()
            self._writable = None

    def _tell_end(self) -> None:
        if self._end_told:
            return
        self._end_told = True
        self._stop_keepalive()
        self._arm_close()
        if self._paused:
            # What follows a close frame is thrown away, up to the end of the carrier.
            self._paused = False
            self._resume_carrier()
        error: TransportError | None = self._incoming.end_error
        if self._sink is not None:
            self._sink.input_ended(error)
        if self._sink is not None and not self._output_told:
            self._output_told = True
            self._sink.output_failed(error)

    def _arm_close(self) -> None:
        """Whatever the peer does, the carrier is released in time."""
        loop = self._loop
        if loop is not None and self._close_timer is None and not self._lost:
            self._close_timer = loop.call_at(loop.time() + self._settings.close_timeout, self._close_expired)

    def _close_expired(self) -> None:
        self._close_timer = None
        if self._paused:
            # The peer's close frame may have arrived and wait behind what is not read yet.
            self._close_late = True
        else:
            self.abort()

    # ------------------------------------------------------------------------------------ keep-alive

    def _start_keepalive(self) -> None:
        loop, interval = self._loop, self._settings.ping_interval
        if loop is not None and interval is not None and not self._lost and not self._closing:
            due = loop.time() + interval
            self._keepalive = KeepAlive(interval, self._settings.ping_timeout, due)
            self._timer = loop.call_at(due, self._tick)

    def _stop_keepalive(self) -> None:
        self._keepalive = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _tick(self) -> None:
        loop, state = self._loop, self._keepalive
        if loop is None or state is None:
            return
        action, self._keepalive, again = decide(state, loop.time(), heard=self._heard, paused=self._paused)
        self._heard = False
        if action is KeepAliveAction.GIVE_UP:
            self._flush()
            self._incoming.give_up(f"no answer to a ping within {state.timeout:g} s")
            self._end_output()
            self._send_control()
            self._tell_end()
            return
        if action is KeepAliveAction.PING:
            self._outgoing.ping()
        elif action is KeepAliveAction.PONG:
            self._outgoing.pong()
        self._send_control()
        self._timer = loop.call_at(again, self._tick)


def peer_name(address: Any) -> str:
    """The address that a socket has for its peer, as host and port; empty for a Unix socket."""
    if not isinstance(address, tuple):
        return ""
    host, port = address[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
