"""What gets into a record.

Owns: the options of recording. Does not own: the recorder and its rules (``mcpl_core.testing``).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import typer

from ..errors import InvalidValueError
from ..testing import DEFAULT_REDACTION, NO_REDACTION, Recorder, Redaction
from .output import CommandError

__all__ = ("RecordOptions", "recorder_for")


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """The options of recording."""

    redact: Annotated[
        list[str] | None,
        typer.Option("--redact", metavar="NAME", help="Take out the values of members with this name, too."),
    ] = None
    redact_pattern: Annotated[
        list[str] | None,
        typer.Option(
            "--redact-pattern", metavar="REGEX", help="Take out what this matches in any string (its group 'secret')."
        ),
    ] = None
    no_redaction: Annotated[
        bool, typer.Option("--no-redaction", help="Take nothing out: the record will hold passwords and tokens.")
    ] = False

    def redaction(self) -> Redaction:
        """The rules.

        Raises:
            CommandError: a pattern is none.
        """
        rules = NO_REDACTION if self.no_redaction else DEFAULT_REDACTION
        try:
            return rules.adding(names=self.redact or (), patterns=self.redact_pattern or ())
        except InvalidValueError as exc:
            raise CommandError(f"--redact-pattern: {exc.detail}") from exc


def recorder_for(file: str, redaction: Redaction) -> Recorder:
    """A recorder that writes to ``file``.

    Raises:
        CommandError: it cannot be written.
    """
    try:
        return Recorder(file, redaction=redaction)
    except OSError as exc:
        raise CommandError(f"cannot write {file}: {exc.strerror or exc}") from exc
