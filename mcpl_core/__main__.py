"""``python -m mcpl_core``: the ``mcpl`` command."""

from __future__ import annotations

from .cli import main

if __name__ == "__main__":
    raise SystemExit(main())
