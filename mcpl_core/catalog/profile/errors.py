"""What the profile refuses: a schema outside it, or a value that a schema does not admit.

Owns: the two exceptions. Does not own: the codes that a catalog shows for them.
"""

from __future__ import annotations

from typing import Any, NoReturn

from ...errors import InvalidValueError
from ...trees import Place, at_place

__all__ = ("ProfileMismatchError", "SchemaProfileError", "mismatch", "unsupported")


class SchemaProfileError(InvalidValueError):
    """A schema is outside the profile. ``code`` is the keyword that is not supported as it stands there; ``root``,
    ``dialect``, or what ``copy_bounded`` says of its size and its values."""


class ProfileMismatchError(InvalidValueError):
    """A value does not fit. ``code`` is the keyword that it fails; ``steps`` when the budget of steps is spent; or what
    ``copy_bounded`` says of its size and its values. The path goes as far as names of the schema go, so it holds
    words of whoever wrote that; nothing of the value is in it."""


def unsupported(code: str, detail: str, place: Place) -> NoReturn:
    """Raises ``SchemaProfileError``."""
    raise SchemaProfileError(code, detail, at_place(place))


def mismatch(code: str, place: Place, detail: Any = "the value does not fit") -> NoReturn:
    """Raises ``ProfileMismatchError``."""
    raise ProfileMismatchError(code, detail, at_place(place))
