"""``mcpl record``: writes down what passes.

Owns: the command. Does not own: relaying (``relaying``), the form of the record (``mcpl_core.testing``).
"""

from __future__ import annotations

from typing import Annotated

import typer

from .listening import ListenOptions
from .notices import Notices
from .options import with_option_groups
from .recording import RecordOptions, recorder_for
from .relaying import Relaying
from .target import TargetOptions

__all__ = ("record",)


@with_option_groups
def record(
    file: Annotated[str, typer.Argument(help="Where to write: one JSON object a line. What it held before is lost.")],
    connecting: TargetOptions,
    listening: ListenOptions,
    recording: RecordOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Write notices as JSON, one object a line.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write warnings only.")] = False,
) -> int:
    """Relay as `mcpl relay` does, and write every message to FILE, with its direction and time, without secrets.

    In a host's configuration it stands before the server's command: `mcpl record session.jsonl -- python server.py`.
    Passwords, tokens and keys are taken out by rule (--redact adds rules); a secret that looks like any other word is
    not found, so look at a record before you give it away. To record a probe: `mcpl probe --record FILE ...`.
    """
    recorder = recorder_for(file, recording.redaction())
    return Relaying(connecting, listening, Notices("record", as_json=as_json, quiet=quiet), recorder).run()
