"""The ``mcpl`` command.

Owns: the entry point, which works without the extra that the commands need, if only to say so. Does not own:
the commands (one module each, listed in ``app``).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

try:
    from .app import run as _run
except ModuleNotFoundError as exc:
    if str(exc.name).partition(".")[0] not in {"typer", "rich"}:
        raise

    def _run(arguments: list[str]) -> int:
        print("mcpl: its commands need an extra: pip install 'mcp-live-core[cli]'", file=sys.stderr)
        return 2


__all__ = ("main",)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        arguments: what follows the command's name; ``None`` for those of this process.

    Returns:
        The exit status: 0 when all is well, 1 when a check failed, 2 when the command could not be understood
        or carried out.
    """
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")  # a terminal that cannot show a character shows its code
    return _run(sys.argv[1:] if arguments is None else list(arguments))
