"""When to ping a WebSocket peer, and when to give it up. Pure: time is an argument.

Owns: the decision, as a value. Does not own: the clock, the timer and the frames (``websocket_engine``).

A ping goes out every ``interval`` seconds, also while messages flow: a proxy between the peers may look at one
direction alone. Whatever came in since the ping answers it. While reading is paused, nothing can come in, so nobody
is given up then; a pong that nobody asked for (RFC 6455 section 5.5.3) tells the peer, which gets no answers to its own
pings in the meantime, that this side is alive.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum

__all__ = ("DEFAULT_PING_INTERVAL", "DEFAULT_PING_TIMEOUT", "KeepAlive", "KeepAliveAction", "decide", "resumed")

#: Seconds between pings. Peers may close after 60 s in which they saw none.
DEFAULT_PING_INTERVAL = 20.0

#: Seconds in which something must have come in after a ping.
DEFAULT_PING_TIMEOUT = 20.0


class KeepAliveAction(Enum):
    """What is to be done now."""

    WAIT = "wait"
    PING = "ping"
    #: Say that we are alive, without asking.
    PONG = "pong"
    #: The peer did not answer in time.
    GIVE_UP = "give-up"


@dataclass(frozen=True, slots=True)
class KeepAlive:
    """The state between two decisions.

    Attributes:
        interval: seconds between pings.
        timeout: seconds to wait for an answer; ``None``: no end.
        ping_at: when the next ping is due.
        answer_by: when the outstanding ping counts as unanswered; ``None``: none is outstanding.
    """

    interval: float
    timeout: float | None
    ping_at: float
    answer_by: float | None = None


def decide(state: KeepAlive, now: float, *, heard: bool, paused: bool) -> tuple[KeepAliveAction, KeepAlive, float]:
    """What to do at ``now``.

    Args:
        state: the state that the last decision returned, or ``KeepAlive(interval, timeout, now + interval)``.
        now: the time, in seconds, of a clock that does not go back.
        heard: whether anything came in since the last decision.
        paused: whether reading is paused now.

    Returns:
        The action, the new state, and when to decide again.
    """
    if heard:
        state = replace(state, answer_by=None)
    if paused:
        # Half the interval: a peer with our own settings must hear of us in every span of ``timeout``.
        return KeepAliveAction.PONG, state, now + state.interval / 2
    if state.answer_by is not None:
        due = now >= state.answer_by
        return (KeepAliveAction.GIVE_UP if due else KeepAliveAction.WAIT), state, state.answer_by
    if now < state.ping_at:
        return KeepAliveAction.WAIT, state, state.ping_at
    ping_at = now + state.interval
    if state.timeout is None:
        return KeepAliveAction.PING, replace(state, ping_at=ping_at), ping_at
    answer_by = now + state.timeout
    return KeepAliveAction.PING, replace(state, ping_at=ping_at, answer_by=answer_by), answer_by


def resumed(state: KeepAlive, now: float) -> KeepAlive:
    """The state when reading goes on after a pause: an outstanding ping may be answered for another ``timeout``,
    because the answer may lie in the socket."""
    if state.answer_by is None or state.timeout is None:
        return state
    return replace(state, answer_by=now + state.timeout)
