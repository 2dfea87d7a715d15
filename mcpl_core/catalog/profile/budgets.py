"""What schemas and values may cost under the profile.

Owns: the numbers. They are ceilings: a budget can only be lowered. Does not own: the counting (``bounded`` for size,
``validator`` for steps).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Final

from ...errors import InvalidValueError
from ..bounded import JsonBudget

__all__ = ("PROFILE_CEILINGS", "ProfileBudgets")

PROFILE_CEILINGS: Final = {
    "schema_bytes": 65_536,
    "schema_depth": 32,
    "schema_nodes": 4_096,
    "output_bytes": 1_048_576,
    "output_depth": 64,
    "output_nodes": 65_536,
    "steps": 100_000,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ProfileBudgets:
    """The budgets of one schema.

    Attributes:
        schema_bytes, schema_depth, schema_nodes: of the schema itself.
        output_bytes, output_depth, output_nodes: of each value that is validated.
        steps: of one validation: one for each meeting of a value with a schema, one for each pair that is compared.

    Raises:
        InvalidValueError: ``limit``: not a whole number from 1 to its ceiling.
    """

    schema_bytes: int = PROFILE_CEILINGS["schema_bytes"]
    schema_depth: int = PROFILE_CEILINGS["schema_depth"]
    schema_nodes: int = PROFILE_CEILINGS["schema_nodes"]
    output_bytes: int = PROFILE_CEILINGS["output_bytes"]
    output_depth: int = PROFILE_CEILINGS["output_depth"]
    output_nodes: int = PROFILE_CEILINGS["output_nodes"]
    steps: int = PROFILE_CEILINGS["steps"]

    def __post_init__(self) -> None:
        for field in fields(self):
            value, ceiling = getattr(self, field.name), PROFILE_CEILINGS[field.name]
            if type(value) is not int or not 1 <= value <= ceiling:
                raise InvalidValueError("limit", f"expected a whole number from 1 to {ceiling}", f"$.{field.name}")

    @property
    def schema(self) -> JsonBudget:
        """What the schema may cost."""
        return JsonBudget(self.schema_depth, self.schema_nodes, self.schema_bytes)

    @property
    def output(self) -> JsonBudget:
        """What a value may cost."""
        return JsonBudget(self.output_depth, self.output_nodes, self.output_bytes)
