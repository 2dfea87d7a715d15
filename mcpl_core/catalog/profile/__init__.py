"""The strict schema profile ``purra.output-schema/v1``: a small vocabulary, exact budgets, no coercion.

It refuses what it does not know, and that is its point. Schemas at large are the business of other parts of the
package.
"""

from .budgets import PROFILE_CEILINGS, ProfileBudgets
from .compiler import OUTPUT_SCHEMA_PROFILE, CompiledSchema, compile_schema
from .errors import ProfileMismatchError, SchemaProfileError
from .keywords import DIALECT, KEYWORDS

__all__ = (
    "DIALECT",
    "KEYWORDS",
    "OUTPUT_SCHEMA_PROFILE",
    "PROFILE_CEILINGS",
    "CompiledSchema",
    "ProfileBudgets",
    "ProfileMismatchError",
    "SchemaProfileError",
    "compile_schema",
)
