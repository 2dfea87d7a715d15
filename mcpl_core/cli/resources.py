"""Where the data that comes with the package lies: vectors and examples.

Owns: finding it, in an installed wheel (inside the package) and in a checkout (beside the package). Does not own: what
is in it.
"""

from __future__ import annotations

from pathlib import Path

__all__ = ("resource_path",)


def resource_path(name: str) -> Path:
    """The folder ``name`` that comes with the package.

    Raises:
        FileNotFoundError: this installation has none.
    """
    package = Path(__file__).parent.parent
    for folder in (package / name, package.parent / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"this installation of mcp-live-core has no {name}")
