"""``mcpl relay``: puts a server where it is not.

Owns: the command. Does not own: what it does (``relaying``).
"""

from __future__ import annotations

from typing import Annotated

import typer

from .listening import ListenOptions
from .notices import Notices
from .options import with_option_groups
from .relaying import Relaying
from .target import TargetOptions

__all__ = ("relay",)


@with_option_groups
def relay(
    connecting: TargetOptions,
    listening: ListenOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Write notices as JSON, one object a line.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Write warnings only.")] = False,
) -> int:
    """Pass messages on between two places, in both directions.

    Without --listen, standard input and output are one side: `mcpl relay wss://example.org/mcpl` makes a remote server
    look like a local one, so that any host can start it. With --listen, every connection gets a server of its own:
    `mcpl relay --listen ws://127.0.0.1:8765 -- python server.py`. Notices go to standard error.
    """
    return Relaying(connecting, listening, Notices("relay", as_json=as_json, quiet=quiet)).run()
