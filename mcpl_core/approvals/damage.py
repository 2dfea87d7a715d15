"""What is said of a row that cannot be read: by another program, another version or a broken disk.

Owns: the report and its words, and going on past a row of which they are said. Does not own: finding out (``sql``), and
mending: nothing here changes such a row.

The words name tables, columns and members, never a value that is kept in them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from ..errors import InvalidValueError
from .errors import ApprovalError
from .preview import visible

__all__ = ("DamagedRow", "OnDamage", "flaw_of", "readable", "shown_id")

T = TypeVar("T")

#: Characters of an id or a flaw that are shown.
_SHOWN: Final = 200
#: What the parsers say of a text may repeat it.
_NO_JSON: Final = frozenset({"json", "type"})


@dataclass(frozen=True, slots=True)
class DamagedRow:
    """An approval, or a run, that cannot be worked with.

    Attributes:
        id: of the approval or the run, as its column has it, in printable ASCII; where that is empty, all its columns.
        reason: which table and what is wrong, in printable ASCII.
    """

    id: str
    reason: str


#: Is told each one that is left out.
OnDamage: TypeAlias = Callable[[DamagedRow], object]


def shown_id(found: Any) -> str:
    """What a column says, text or not, in printable ASCII of bounded length."""
    return (visible(found) if isinstance(found, str) else ascii(found))[:_SHOWN]


def flaw_of(exc: Exception) -> str:
    """What is wrong with a body, by what reading it raised."""
    if not isinstance(exc, InvalidValueError):
        return "its body is no text"
    if exc.code in _NO_JSON:
        return "its body is no JSON"
    return visible(f"{exc.detail}, at {exc.path}")[:_SHOWN]


def readable(name: str, work: Callable[[], T], on_damage: OnDamage) -> T | None:
    """What ``work`` returns; ``None`` when it met a damaged row, which is told.

    Args:
        name: the id of what it is about.
        work: reads, and writes nothing before all that it needs was read.
        on_damage: is told.

    Raises:
        ApprovalError: any but ``approval_record_conflict``.
    """
    try:
        return work()
    except ApprovalError as exc:
        if exc.code != "approval_record_conflict":
            raise
        on_damage(DamagedRow(shown_id(name), exc.damage or "it is not what its key says"))
    except InvalidValueError as exc:
        # It can be read, and nothing can follow it: a revision that is the last number that there is.
        on_damage(DamagedRow(shown_id(name), f"nothing can follow it: {flaw_of(exc)}"))
    return None
