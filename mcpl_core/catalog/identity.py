"""The digest profile ``purra.json-identity/v1``: which JSON values are the same, whatever wrote them.

Owns: the type-tagged canonical text and its SHA-256. Does not own: what is digested (snapshots, intents), and what a
match means: a digest proves equality and authenticates nobody.

The text of a value is ``n``, ``t`` or ``f``; ``d`` and the sixteen hexadecimal digits of the big-endian double; ``s``,
the length in bytes, ``:`` and the hexadecimal UTF-8; ``a``, the number of items, ``:`` and the items; ``o``, the
number of members, ``:`` and name and value of each, sorted by name (by code points). The digest is that of the
profile's name, a line feed and the text.
"""

from __future__ import annotations

import struct
from hashlib import sha256
from typing import Any, Final

from .bounded import JsonBudget, copy_bounded

__all__ = ("IDENTITY_BUDGET", "JSON_IDENTITY_PROFILE", "identity_digest", "identity_text")

JSON_IDENTITY_PROFILE: Final = "purra.json-identity/v1"

#: What a value that is digested may cost.
IDENTITY_BUDGET: Final = JsonBudget(depth=64, nodes=65_536, bytes=1_048_576)


def identity_text(value: Any) -> str:
    """The canonical text of a plain JSON value, which is ASCII. ``1`` and ``1.0`` are the same, ``0`` and ``-0.0`` too.

    Args:
        value: a tree of mappings with string names, lists or tuples, ``str``, ``int``, ``float``, ``bool``, ``None``.

    Raises:
        InvalidValueError: it has none: ``not_json``, ``surrogate``, ``number`` (not finite, an integer beyond
            2**53 - 1), or it is over ``IDENTITY_BUDGET``: ``too_deep``, ``too_many_nodes``, ``too_large``.
    """
    parts: list[str] = []
    _write(copy_bounded(value, IDENTITY_BUDGET), parts.append)
    return "".join(parts)


def identity_digest(value: Any) -> str:
    """The digest of a plain JSON value: 64 lowercase hexadecimal digits.

    Raises:
        InvalidValueError: as ``identity_text``.
    """
    return sha256(f"{JSON_IDENTITY_PROFILE}\n{identity_text(value)}".encode("ascii")).hexdigest()


def _write(value: Any, write: Any) -> None:
    if value is None:
        write("n")
    elif value is True:
        write("t")
    elif value is False:
        write("f")
    elif isinstance(value, str):
        write(_string(value))
    elif isinstance(value, dict):
        write(f"o{len(value)}:")
        for name in sorted(value):
            write(_string(name))
            _write(value[name], write)
    elif isinstance(value, list):
        write(f"a{len(value)}:")
        for item in value:
            _write(item, write)
    else:
        write(f"d{struct.pack('>d', float(value)).hex()}")


def _string(value: str) -> str:
    data = value.encode()
    return f"s{len(data)}:{data.hex()}"
