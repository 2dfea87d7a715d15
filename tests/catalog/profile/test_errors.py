"""Refusals of the profile carry a code and a place, and nothing of a value."""

from __future__ import annotations

import pytest

from mcpl_core.catalog.profile.errors import ProfileMismatchError, SchemaProfileError, mismatch, unsupported
from mcpl_core.errors import InvalidValueError


def test_both_are_invalid_values_with_a_place() -> None:
    with pytest.raises(SchemaProfileError) as schema:
        unsupported("pattern", "no", ((None, "properties"), "a"))
    with pytest.raises(ProfileMismatchError) as value:
        mismatch("type", (None, 3))
    assert (schema.value.code, schema.value.path) == ("pattern", "$.properties.a")
    assert (value.value.code, value.value.path) == ("type", "$[3]")
    assert issubclass(SchemaProfileError, InvalidValueError)
    assert issubclass(ProfileMismatchError, InvalidValueError)
    assert not issubclass(ProfileMismatchError, SchemaProfileError)
