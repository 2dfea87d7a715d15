"""Running a relay as a command: its sides, what is said meanwhile, and how it ends.

Owns: from options to a running relay, with or without a recorder. Does not own: the relay (``mcpl_core.relay``), and
the commands (``relay``, ``record``).

Standard output belongs to the protocol, where it is a side at all; whatever there is to say goes to standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import count

from ..errors import McplError, TransportError
from ..relay import Relay, RelayListener
from ..testing import Recorder
from ..transports.stdio import StdioTransport
from .failures import failure
from .listening import ListenOptions
from .notices import Notices
from .output import CommandError
from .running import run_until_stopped
from .target import Target, TargetOptions

__all__ = ("Relaying",)


@dataclass(slots=True)
class Relaying:
    """One run of ``mcpl relay`` or ``mcpl record``.

    Args:
        connecting, listening: the options.
        notices: where to say what happens.
    """

    connecting: TargetOptions
    listening: ListenOptions
    notices: Notices
    _recorder: Recorder | None = None
    _numbers: dict[int, int] = field(default_factory=dict)
    _failed: OSError | None = None
    _starting: bool = False

    def check(self) -> None:
        """Looks at the options, before anything is done.

        Raises:
            CommandError: they make no sense.
        """
        self.connecting.target()
        if self.listening.listen:
            self.listening.listener(self.connecting.max_message_bytes)
        else:
            self.listening.check_unused()

    def run(self, recorder: Recorder | None = None) -> int:
        """Relays until it is over or somebody says stop. Returns the exit status.

        Args:
            recorder: records what passes.

        Raises:
            CommandError: it could not be done, or a side failed.
            Stopped: somebody said stop twice.
        """
        self._recorder = recorder
        if not self.listening.listen:
            self.listening.check_unused()
        target = self.connecting.target(self.notices.server_line)
        self._starting = target.is_command
        try:
            return self._listen(target) if self.listening.listen else self._stdio(target)
        except TransportError as exc:
            raise failure(exc, command=self._starting, stderr_shown=True) from exc

    def _stdio(self, target: Target) -> int:
        left = StdioTransport(max_message_bytes=self.connecting.max_message_bytes)
        relay = Relay(left, target.transport())
        self._watch(relay, 1, relay.stop)
        if sys.stdin.isatty():
            self.notices.say(
                "relaying",
                f"between this terminal and {relay.right.name}, one message a line; Ctrl-D ends it",
                endpoint=relay.right.name,
            )
        run_until_stopped(relay.run, relay.stop)
        return self._status()

    def _listen(self, target: Target) -> int:
        listener = self.listening.listener(self.connecting.max_message_bytes)
        numbers = count(1)
        relays = RelayListener(
            listener,
            target.transport,
            opened=lambda relay: self._opened(relay, next(numbers), relays),
            ended=self._ended,
        )
        if self.listening.unprotected():
            self.notices.warn(
                "unprotected", "everybody who reaches this address is let in; --listen-token-env asks for a token"
            )

        async def work() -> None:
            await relays.run(task_status=_Told(self.notices))

        run_until_stopped(work, relays.stop)
        return self._status()

    def _opened(self, relay: Relay, number: int, relays: RelayListener) -> None:
        self._numbers[id(relay)] = number
        self._watch(relay, number, relays.stop)
        self.notices.say("opened", f"connection {number}: {relay.left.name}", connection=number)

    def _ended(self, relay: Relay, error: McplError | None) -> None:
        number, stats = self._numbers.pop(id(relay)), relay.stats
        text = f"connection {number} closed after {stats.sent} messages to the server and {stats.received} back"
        facts = {"connection": number, "sent": stats.sent, "received": stats.received, "dropped": stats.dropped}
        if error is None:
            self.notices.say("closed", text, **facts)
        else:
            self.notices.warn(
                "closed",
                f"{text}: {failure(error, command=self._starting, stderr_shown=True)}",
                error=str(error),
                **facts,
            )

    def _watch(self, relay: Relay, number: int, stop: Callable[[], object]) -> None:
        def report(error: BaseException) -> None:
            if isinstance(error, OSError):
                # The record cannot be written: what passes from now on would be missing in it.
                self._failed = error
                stop()
            else:
                self.notices.warn("problem", str(error), connection=number)

        relay.on_error(report)
        if self._recorder is not None:
            relay.on_message(self._recorder.observer(connection=number))

    def _status(self) -> int:
        if self._failed is not None:
            raise CommandError(f"the record cannot be written: {self._failed.strerror or self._failed}", 1)
        return 0


class _Told:
    """Says where it listens."""

    def __init__(self, notices: Notices) -> None:
        self._notices = notices

    def started(self, value: str | None = None) -> None:
        """See ``anyio.abc.TaskStatus``."""
        self._notices.say("listening", f"listening on {value}", endpoint=value)
