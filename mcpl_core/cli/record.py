"""``mcpl record``: writes down what passes.

Owns: the command. Does not own: relaying (``relaying``), the form of the record (``mcpl_core.testing``).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated

import typer

from ..testing import Recorder
from .listening import ListenOptions
from .notices import Notices
from .options import with_option_groups
from .output import CommandError
from .probing import GrantOptions, Probing
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
    granting: GrantOptions,
    probe: Annotated[
        bool, typer.Option("--probe", help="Probe the server, as mcpl probe does, instead of relaying.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Write notices as JSON, one object a line.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write warnings only.")] = False,
) -> int:
    """Relay as `mcpl relay` does, and write every message to FILE, with its direction and time, without secrets.

    In a host's configuration it stands before the server's command: `mcpl record session.jsonl -- python server.py`.
    Passwords, tokens and keys are taken out by rule (--redact adds rules); a secret that looks like any other word is
    not found, so look at a record before you give it away.
    """
    notices = Notices("record", as_json=as_json, quiet=quiet)
    if not probe:
        if granting != GrantOptions():
            raise CommandError("--allow, --allow-all and --deny grant to a server that is probed: add --probe")
        relaying = Relaying(connecting, listening, notices)
        relaying.check()
        return _recorded(file, recording, notices, relaying.run)
    if listening != ListenOptions():
        raise CommandError("--probe connects and does not listen; leave --listen and what belongs to it out")
    probing = Probing(connecting.target(), granting.policy(watching=False), notices, as_json=as_json)
    return _recorded(file, recording, notices, probing.run)


def _recorded(file: str, recording: RecordOptions, notices: Notices, run: Callable[[Recorder], int]) -> int:
    with recorder_for(file, recording.redaction()) as recorder:
        try:
            return run(recorder)
        finally:
            notices.say("recorded", f"{recorder.count} messages recorded in {file}", messages=recorder.count, file=file)
