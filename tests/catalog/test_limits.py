"""The table of limits."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.catalog.limits import LIMITS, CatalogLimits
from mcpl_core.errors import InvalidValueError

PUBLISHED = {
    "max_pages": (32, 32),
    "max_tools": (256, 256),
    "max_catalog_bytes": (1_048_576, 1_048_576),
    "max_schema_bytes": (65_536, 65_536),
    "max_description_bytes": (8_192, 8_192),
    "max_result_bytes": (65_536, 65_536),
    "max_content_blocks": (128, 128),
    "timeout_ms": (30_000, 300_000),
}


def test_defaults_and_ceilings() -> None:
    assert {name: tuple(limit) for name, limit in LIMITS.items()} == PUBLISHED
    assert asdict(CatalogLimits()) == {name: default for name, (default, _) in PUBLISHED.items()}
    assert CatalogLimits(timeout_ms=1_500).timeout == 1.5


@pytest.mark.parametrize("name", PUBLISHED)
def test_each_limit_at_its_edges(name: str) -> None:
    ceiling = PUBLISHED[name][1]
    for value in (1, ceiling):
        assert getattr(CatalogLimits.of({name: value}), name) == value
    refused: list[Any] = [0, -1, ceiling + 1, True, 1.0, "1", None]
    for value in refused:
        with pytest.raises(InvalidValueError) as caught:
            CatalogLimits.of({name: value})
        assert (caught.value.code, caught.value.path) == ("limit", f"$.{name}")


@given(
    st.dictionaries(st.sampled_from([*LIMITS, "maxPages", ""]), st.integers(-1, 400_000) | st.booleans() | st.text())
)
def test_whole_positive_numbers_and_known_names_only(values: dict[str, Any]) -> None:
    good = all(
        name in LIMITS and type(value) is int and 1 <= value <= LIMITS[name].ceiling for name, value in values.items()
    )
    try:
        limits = CatalogLimits.of(values)
    except InvalidValueError as exc:
        assert not good
        assert exc.code in ("limit", "unknown_limit")
    else:
        assert good
        assert all(getattr(limits, name) == value for name, value in values.items())
