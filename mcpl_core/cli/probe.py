"""``mcpl probe``: shows what a server is, and what it may do under a grant.

Owns: the command. Does not own: the probe itself (``probing``).
"""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ..errors import InvalidValueError
from ..wire.values import decode_value
from .notices import Notices
from .options import with_option_groups
from .output import CommandError
from .probing import GrantOptions, Probing
from .recording import RecordOptions, recorder_for
from .target import TargetOptions

__all__ = ("probe",)


@with_option_groups
def probe(
    connecting: TargetOptions,
    granting: GrantOptions,
    recording: RecordOptions,
    call: Annotated[
        tuple[str, str], typer.Option("--call", metavar="TOOL JSON", help="Call a tool with these arguments.")
    ] = ("", ""),
    watch: Annotated[
        bool, typer.Option("--watch", help="Go on, and show events and channel messages until Ctrl-C.")
    ] = False,
    timeout: Annotated[
        float, typer.Option("--timeout", metavar="SECONDS", min=0.1, help="How long to wait for each answer.")
    ] = 30.0,
    record: Annotated[str, typer.Option("--record", metavar="FILE", help="Write down what passes.")] = "",
    show_stderr: Annotated[
        bool, typer.Option("--stderr", help="Show what the server writes to its standard error.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object; with --watch, one more line for each event.")
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write warnings only to standard error.")] = False,
) -> int:
    """Connect to a server as its host, and show what it is: identity, capabilities, feature sets, tools, channels.

    Granted are `tools` and `channels.register`, with --watch also `pushEvents` and `channels.incoming`, and whatever
    --allow names; everything else is denied. Exit status 1: the tool that was called failed, or the server could not
    be reached.
    """
    notices = Notices("probe", as_json=as_json, quiet=quiet)
    target = connecting.target(notices.server_line if show_stderr else None)
    policy = granting.policy(watching=watch)
    arguments = (call[0], _arguments(call[1])) if call[0] else None
    probing = Probing(target, policy, notices, timeout=timeout, as_json=as_json, call=arguments, watch=watch)
    if not record:
        return probing.run()
    with recorder_for(record, recording.redaction()) as recorder:
        return probing.run(recorder)


def _arguments(text: str) -> dict[str, Any]:
    try:
        value = decode_value(text.encode("utf-8", "surrogateescape"))
    except InvalidValueError as exc:
        raise CommandError(f'--call takes the arguments as JSON, like \'{{"text": "hello"}}\': {exc.detail}') from exc
    if not isinstance(value, dict):
        raise CommandError("--call takes the arguments as a JSON object")
    return value
