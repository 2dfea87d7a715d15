"""The commands of ``mcpl`` put together.

Owns: the list of commands, and how their errors are shown: one line on standard error. Does not own: what a
command does. To add one, write a module with a function and a row in ``COMMANDS``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from mcpl_core._version import __version__

from .approvals import approvals
from .conformance import conformance
from .demo import demo
from .digest import digest
from .options import CommandWithTarget
from .output import CommandError, safe_text
from .probe import probe
from .record import record
from .relay import relay
from .replay import replay
from .running import Stopped

__all__ = ("COMMANDS", "GROUPS", "run")

#: Name and function of each command, in the order of ``--help``. The function returns the exit status.
COMMANDS: tuple[tuple[str, Callable[..., int]], ...] = (
    ("demo", demo),
    ("probe", probe),
    ("relay", relay),
    ("record", record),
    ("replay", replay),
    ("conformance", conformance),
    ("digest", digest),
)

#: Commands that have commands of their own.
GROUPS: tuple[tuple[str, typer.Typer], ...] = (("approvals", approvals),)

_app = typer.Typer(
    name="mcpl",
    help="Tools for MCPL, the live extension of MCP.",
    add_completion=False,
    pretty_exceptions_enable=False,
)
for _name, _function in COMMANDS:
    _app.command(_name, cls=CommandWithTarget)(_function)
for _name, _group in GROUPS:
    _app.add_typer(_group, name=_name)


@_app.callback(invoke_without_command=True)
def _root(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    if version:
        print(f"mcpl {__version__}")
        raise typer.Exit
    if context.invoked_subcommand is None:
        names = ", ".join([*(name for name, _ in COMMANDS), *(name for name, _ in GROUPS)])
        raise CommandError(f"name a command ({names}); mcpl --help says more")


def run(arguments: list[str]) -> int:
    """Run one command. Returns the exit status."""
    try:
        status: Any = _app(args=arguments, prog_name="mcpl", standalone_mode=False)
    except CommandError as exc:
        return _fail(str(exc), exc.status)
    except Stopped as exc:
        return _fail("interrupted", exc.status)
    except (typer.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130)
    except Exception as exc:
        # What the argument parser raises has no public class that all versions share.
        if not hasattr(exc, "format_message"):
            raise
        command = getattr(getattr(exc, "ctx", None), "command_path", "mcpl")
        return _fail(f"{exc.format_message().rstrip('.')}; {command} --help says more", 2)
    return status if isinstance(status, int) else 0


def _fail(message: str, status: int) -> int:
    # Words from anywhere may be in it: a path, a name in a file, what a server said.
    print(f"mcpl: {safe_text(' '.join(message.split()))}", file=sys.stderr)
    return status
