"""The numbers of the profile are ceilings."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from mcpl_core.catalog.profile.budgets import PROFILE_CEILINGS, ProfileBudgets
from mcpl_core.errors import InvalidValueError

PUBLISHED = {
    "schema_bytes": 65_536,
    "schema_depth": 32,
    "schema_nodes": 4_096,
    "output_bytes": 1_048_576,
    "output_depth": 64,
    "output_nodes": 65_536,
    "steps": 100_000,
}


def test_the_defaults_are_the_ceilings() -> None:
    budgets = ProfileBudgets()
    assert PROFILE_CEILINGS == PUBLISHED
    assert {field.name: getattr(budgets, field.name) for field in fields(budgets)} == PUBLISHED


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_budget_can_only_be_lowered(name: str) -> None:
    assert getattr(ProfileBudgets(**{name: 1}), name) == 1
    for value in (0, PUBLISHED[name] + 1, True, 1.0, "1", None):
        refused: Any = {name: value}
        with pytest.raises(InvalidValueError) as caught:
            ProfileBudgets(**refused)
        assert (caught.value.code, caught.value.path) == ("limit", f"$.{name}")
