"""What a host did with its servers, and what was wrong with what they sent (SPEC 13.2).

Owns: the record, and its two ways out: the standard logger ``mcpl_core.host`` and an observer. Does not own: what is
worth a record, and keeping any. No record holds message content, credentials or a whole URL.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

__all__ = ("Audit", "AuditOutcome", "AuditRecord")

#: What became of an operation; ``diagnostic`` for a remark on a peer, most often a defect of it.
AuditOutcome = Literal["success", "failure", "timeout", "denied", "diagnostic"]

_logger = logging.getLogger("mcpl_core.host")

_LEVELS: Final[dict[AuditOutcome, int]] = {
    "success": logging.INFO,
    "denied": logging.WARNING,
    "failure": logging.WARNING,
    "timeout": logging.WARNING,
    "diagnostic": logging.WARNING,
}

#: Lines of one kind that the log takes in a period of so many seconds; the observer gets all.
_LINES: Final = 100
_PERIOD: Final = 60.0

#: Characters of a peer's word that a record keeps.
_LONGEST: Final = 200


@dataclass(frozen=True, slots=True)
class AuditRecord:
    """One operation.

    Attributes:
        time: seconds since the epoch.
        server: the id that the host gave the server.
        operation: the method, or a word for what has none (``handshake``, ``connection``, ``manifest``).
        outcome: what became of it.
        feature_set: as the server claimed it; ``None`` when there is none.
        inference_id: the inference that it belongs to, if any.
        code: a stable word for the reason of whatever is no success.
        detail: for people; never content.
    """

    time: float
    server: str
    operation: str
    outcome: AuditOutcome
    feature_set: str | None = None
    inference_id: str | None = None
    code: str | None = None
    detail: str = ""

    def __str__(self) -> str:
        parts = [f"{self.server}: {self.operation}: {self.outcome}"]
        named = {"code": self.code, "featureSet": self.feature_set, "inferenceId": self.inference_id}
        parts += [f"{name}={value!r}" for name, value in named.items() if value is not None]
        return " ".join(parts) + (f": {self.detail}" if self.detail else "")


class Audit:
    """Makes the records of one server.

    Args:
        server: its id.
        observer: gets every record; what it raises is logged and costs nothing.
        clock: seconds since the epoch.
    """

    def __init__(
        self,
        server: str,
        observer: Callable[[AuditRecord], object] | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.server = server
        self._observer = observer
        self._clock = clock
        self._lines: dict[tuple[str, str | None], int] = {}
        self._period_end = 0.0

    def record(
        self,
        operation: str,
        outcome: AuditOutcome,
        *,
        feature_set: Any = None,
        inference_id: Any = None,
        code: str | None = None,
        detail: str = "",
    ) -> None:
        """Makes a record, if anybody wants it; the words of a peer are cut, and dropped when they are no strings."""
        if self._observer is None and not _logger.isEnabledFor(_LEVELS[outcome]):
            return
        record = AuditRecord(
            self._clock(),
            self.server,
            _plain(operation),
            outcome,
            _word(feature_set),
            _word(inference_id),
            code,
            _plain(detail),
        )
        self._log(record)
        if self._observer is not None:
            try:
                self._observer(record)
            except Exception:
                _logger.exception("%s: an audit observer failed", self.server)

    def note(self, operation: str, code: str, detail: str = "", *, feature_set: Any = None) -> None:
        """A remark on the peer."""
        self.record(operation, "diagnostic", code=code, detail=detail, feature_set=feature_set)

    def _log(self, record: AuditRecord) -> None:
        level = _LEVELS[record.outcome]
        if not _logger.isEnabledFor(level) or not self._fits(record):
            return
        _logger.log(level, "%s", record)

    def _fits(self, record: AuditRecord) -> bool:
        """A peer that floods us must not flood the log."""
        if record.time >= self._period_end:
            for (operation, code), lines in self._lines.items():
                if lines > _LINES:
                    _logger.warning("%s: %s: %d more lines (%s)", self.server, operation, lines - _LINES, code)
            self._lines.clear()
            self._period_end = record.time + _PERIOD
        kind = (record.operation, record.code) if len(self._lines) < _LINES else ("other", None)
        self._lines[kind] = lines = self._lines.get(kind, 0) + 1
        return lines <= _LINES


def _word(value: Any) -> str | None:
    return _plain(value) if isinstance(value, str) else None


def _plain(text: str) -> str:
    """Short, and on one line: a peer's word must not look like a line of its own."""
    text = text[:_LONGEST]
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else "?" for character in text)
