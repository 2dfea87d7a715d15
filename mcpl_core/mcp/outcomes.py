"""How the attempt to end a remote session came out.

Owns: the eight outcomes, which of them settle the matter, and what an HTTP status means. Does not own: sending the
request (``http.session``), and the bound on it (``session.DEFAULT_TERMINATE_BOUND``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ("RESOLVED_OUTCOMES", "TerminateKind", "TerminateOutcome", "outcome_of_status")

#: What became of ending the session at the peer.
TerminateKind = Literal[
    "terminated",  # the peer ended it (2xx)
    "already-gone",  # the peer does not know it any more (404)
    "no-session",  # none was ever issued: a stateless server, a carrier without sessions
    "not-offered",  # the peer lets nobody end its sessions (405)
    "failed",  # another status, or no answer
    "timed-out",  # nobody waited for an answer any longer: the bound, or a cancellation; the request was aborted
    "handle-lost",  # this process no longer holds the session; nothing could be sent
    "unavailable",  # the connection is the caller's own; ending its session is not ours to do
]

#: After these there is nothing left to end.
RESOLVED_OUTCOMES: frozenset[TerminateKind] = frozenset({"terminated", "already-gone", "no-session"})

_OF_STATUS: dict[int, TerminateKind] = {404: "already-gone", 405: "not-offered"}


@dataclass(frozen=True, slots=True)
class TerminateOutcome:
    """What became of ending a remote session. This side is closed in every case.

    Attributes:
        kind: one of ``TerminateKind``.
        duration: seconds that it took.
        status: the HTTP status, where one was read.
        error_class: the name of the class of the failure, where there was one; never its message.
    """

    kind: TerminateKind
    duration: float = 0.0
    status: int | None = None
    error_class: str | None = None

    @property
    def resolved(self) -> bool:
        """Whether the peer certainly holds no such session (any more)."""
        return self.kind in RESOLVED_OUTCOMES


def outcome_of_status(status: int, duration: float) -> TerminateOutcome:
    """What the status of the answer to a ``DELETE`` means.

    Args:
        status: the HTTP status.
        duration: seconds that it took.
    """
    if 200 <= status < 300:
        return TerminateOutcome("terminated", duration, status)
    return TerminateOutcome(_OF_STATUS.get(status, "failed"), duration, status)
