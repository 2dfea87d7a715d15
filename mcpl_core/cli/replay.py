"""``mcpl replay``: plays one side of a record against a live peer, and shows what differs.

Owns: the command and its report. Does not own: the playing (``mcpl_core.testing``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, get_args

import anyio
import typer
from msgspec import UNSET

from ..errors import InvalidValueError, McplError
from ..testing import Difference, Entry, Replayer, ReplayReport, Role, read_transcript
from ..transports.base import Listener, Transport
from ..transports.loop import current_loop
from ..transports.stdio import StdioTransport
from .failures import failure
from .listening import ListenOptions
from .notices import Notices
from .options import with_option_groups
from .output import CommandError, Output
from .running import run_until_stopped
from .target import TargetOptions

__all__ = ("replay",)

_ROLES: tuple[Role, ...] = get_args(Role)


@with_option_groups
def replay(
    file: Annotated[str, typer.Argument(help="A record, as mcpl record writes it.")],
    connecting: TargetOptions,
    listening: ListenOptions,
    played: Annotated[
        str, typer.Option("--as", metavar="host|server", help="Which side to play; the live peer is the other one.")
    ] = "host",
    connection: Annotated[
        int, typer.Option("--connection", metavar="NUMBER", help="Which connection of the record; 0: its first.")
    ] = 0,
    ignore: Annotated[
        list[str] | None,
        typer.Option(
            "--ignore",
            metavar="NAME|PATH",
            help="Members that may differ: timestamp, or $.params.*.at (* is one name).",
        ),
    ] = None,
    patience: Annotated[
        float, typer.Option("--patience", metavar="SECONDS", min=0.0, help="How long to wait for an expected message.")
    ] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print differences only.")] = False,
) -> int:
    """Play one side of a record against a live peer, and report what it does differently.

    `mcpl replay session.jsonl -- python server.py` plays the host. `--as server` plays the server, for a host that
    starts this command, or that connects where --listen says; the report then goes to standard error or output.
    Exit status 1: there were differences.
    """
    try:
        entries = read_transcript(file, connection=connection or None)
    except InvalidValueError as exc:
        raise CommandError(f"{file} is no record: {exc.detail}") from exc
    except OSError as exc:
        raise CommandError(f"cannot read {file}: {exc.strerror or exc}") from exc
    role = next((role for role in _ROLES if role == played), None)
    if role is None:
        raise CommandError(f"--as takes {' or '.join(_ROLES)}")
    notices = Notices("replay", as_json=as_json, quiet=quiet)
    peer = _peer(connecting, listening, role, notices)
    output = Output(stderr=isinstance(peer, StdioTransport))
    shown = _Shown(output, quiet=quiet or as_json)
    replayer = Replayer(entries, role=role, ignore=ignore or (), patience=patience, on_entry=shown.entry)

    async def work() -> ReplayReport:
        if isinstance(peer, Transport):
            return await replayer.run(peer)
        return await _first_of(peer, replayer, notices)

    try:
        report = run_until_stopped(work)
    except McplError as exc:
        raise failure(exc) from exc
    if as_json:
        output.line(json.dumps(_report(report)))
    else:
        shown.end(report)
    return int(not report.same)


def _peer(connecting: TargetOptions, listening: ListenOptions, role: Role, notices: Notices) -> Transport | Listener:
    if listening.listen:
        if connecting.given():
            raise CommandError("give --listen, or what to connect to, not both")
        return listening.listener(connecting.max_message_bytes, max_connections=1)
    if not connecting.given() and role == "server":
        return StdioTransport(max_message_bytes=connecting.max_message_bytes)
    return connecting.target(notices.server_line).transport()


async def _first_of(listener: Listener, replayer: Replayer, notices: Notices) -> ReplayReport:
    """Plays against the first who connects."""
    failures: list[McplError] = []
    reports: list[ReplayReport] = []
    async with anyio.create_task_group() as tasks:
        came = anyio.Event()
        accepted: list[Transport] = []

        def accept(transport: Transport) -> None:
            accepted.append(transport)
            came.set()

        try:
            await listener.start(current_loop(tasks), accept)
            notices.say("listening", f"listening on {listener.endpoint}", endpoint=listener.endpoint)
            await came.wait()
            reports.append(await replayer.run(accepted[0]))
        except McplError as exc:
            failures.append(exc)
        finally:
            await listener.aclose()
        for transport in accepted[1:]:
            await transport.aclose()
        tasks.cancel_scope.cancel()
    if failures:
        raise failures[0]
    return reports[0]


@dataclass(slots=True)
class _Shown:
    """Shows a replay as it goes."""

    output: Output
    quiet: bool
    _extras: int = 0

    def entry(self, index: int, entry: Entry, found: Sequence[Difference]) -> None:
        if self.quiet:
            return
        own = [item for item in found if item.entry == index]
        arrow = "\u2500\u25b6" if entry.direction == "to-server" else "\u25c0\u2500"
        mark = "\u2717" if own else "\u2713"
        self.output.line(f"{mark} {arrow} {entry.message[:100].decode(errors='replace')}", "red" if own else "dim")

    def end(self, report: ReplayReport) -> None:
        for item in report.differences:
            self.output.line(str(item), "red")
        if report.error is not None:
            self.output.line(f"the connection failed: {report.error}", "red")
        if report.redacted:
            self.output.line(f"sent with something taken out of them: {report.redacted}", "yellow")
        count = len(report.differences)
        verdict = "no differences" if not count else f"{count} difference{'s' if count > 1 else ''}"
        self.output.line(f"{report.sent} sent, {report.matched} matched: {verdict}", "green" if report.same else "red")


def _report(report: ReplayReport) -> dict[str, Any]:
    return {
        "same": report.same,
        "sent": report.sent,
        "matched": report.matched,
        "redacted": report.redacted,
        "error": None if report.error is None else str(report.error),
        "differences": [_difference(item) for item in report.differences],
    }


def _difference(item: Difference) -> dict[str, Any]:
    found: dict[str, Any] = {"kind": item.kind, "message": item.message, "path": item.path}
    if item.entry is not None:
        found["entry"] = item.entry + 1
    for name, value in (("recorded", item.recorded), ("live", item.live)):
        if value is not UNSET:
            found[name] = value.decode(errors="replace") if isinstance(value, bytes) else value
    return found
