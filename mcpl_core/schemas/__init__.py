"""JSON Schema for values that come from elsewhere, and for schemas that do (2020-12 in full, and older dialects).

Owns: validators with bounds, defaults, and violations that a model can act on. Does not own: what is validated when
(``mcpl_core.toolsets`` and ``mcpl_core.mcp`` do), schemas made from type hints (``mcpl_core.server``), and the
validation itself, which is the library ``jsonschema-rs``: ``pip install 'mcp-live-core[toolsets]'`` or ``[mcp]``.
"""

from .bounds import SchemaLimits
from .errors import SchemaError, SchemaErrorCode, SchemaLibraryMissingError, SchemaTooLargeError, SchemaViolation
from .references import Schema
from .validator import Checker, SchemaValidator, ValidatorFactory

__all__ = (
    "Checker",
    "Schema",
    "SchemaError",
    "SchemaErrorCode",
    "SchemaLibraryMissingError",
    "SchemaLimits",
    "SchemaTooLargeError",
    "SchemaValidator",
    "SchemaViolation",
    "ValidatorFactory",
)
