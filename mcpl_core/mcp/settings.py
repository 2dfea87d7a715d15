"""Settings of a transport: plain names and modes, by which two definitions are compared.

Owns: what may stand in them. They are compared, shown and kept, so that nothing that looks like a credential is let in.
Does not own: what the names mean (the caller's), and the comparison (``pool``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeAlias

from ..errors import InvalidValueError

__all__ = ("SettingValue", "Settings", "checked_settings")

SettingValue: TypeAlias = str | int | bool
#: Name -> a name, a mode, a whole number or a truth value. Never a credential.
Settings: TypeAlias = Mapping[str, SettingValue]

#: Names, modes, regions, versions: words of letters and digits, joined by single marks.
_PLAIN = re.compile(r"[A-Za-z0-9]+(?:[ ._:/-][A-Za-z0-9]+)*")
_HEXADECIMAL = re.compile(r"[0-9a-fA-F]+")
_LONGEST = 64
#: A longer word is no name that a person wrote.
_LONGEST_WORD = 24
_SECRET_NAME = re.compile(
    r"auth|bearer|cookie|credential|passw|passphrase|secret|token|signature|(api|access|private|session)[^a-z]*key|jwt",
    re.IGNORECASE,
)
#: What common credentials begin with.
_SECRET_START = re.compile(
    r"(bearer|basic|digest|negotiate)[ :]|(sk|pk|rk|gh[opsu]|xox.|glpat|pat)[-_]|akia|asia[0-9]|eyj", re.I
)
#: A count or a port is smaller; a longer number may be a key.
_LARGEST = 2**31


def checked_settings(settings: Any) -> dict[str, SettingValue]:
    """A copy of the settings.

    Raises:
        InvalidValueError: it is no mapping (``settings``), a name or value is not plain (``setting``), or looks like a
            credential (``credential``). The error shows no value.
    """
    if not isinstance(settings, Mapping):
        raise InvalidValueError("settings", "settings are a mapping of names to names and modes", "$.settings")
    for name, value in settings.items():
        if not isinstance(name, str) or len(name) > _LONGEST or not _PLAIN.fullmatch(name.replace("_", "-")):
            raise InvalidValueError("setting", "the name of a setting is a plain word", "$.settings")
        path = f"$.settings.{name}"
        if _SECRET_NAME.search(name):
            raise InvalidValueError("credential", "settings are for names and modes, not for credentials", path)
        _check_value(value, path)
    return dict(settings)


def _check_value(value: Any, path: str) -> None:
    if isinstance(value, bool) or (isinstance(value, int) and abs(value) < _LARGEST):
        return
    if not isinstance(value, str) or len(value) > _LONGEST:
        raise InvalidValueError("setting", "a setting is a short text, a whole number or a truth value", path)
    if _SECRET_START.match(value) or any(map(_random_looking, re.findall(r"[A-Za-z0-9]+", value))):
        raise InvalidValueError("credential", "the value looks like a credential", path)
    if not _PLAIN.fullmatch(value.replace("_", "-")):
        raise InvalidValueError("setting", "a setting is made of plain words", path)


def _random_looking(word: str) -> bool:
    """Whether nobody would call anything so: too long for a word, or letters and digits all mixed up."""
    digits = sum(map(str.isdigit, word))
    changes = sum(a.isdigit() != b.isdigit() for a, b in zip(word, word[1:], strict=False))
    hexadecimal = not word.isdigit() and _HEXADECIMAL.fullmatch(word) is not None
    return len(word) > _LONGEST_WORD or (len(word) >= 8 and digits >= 2 and changes >= (2 if hexadecimal else 3))
