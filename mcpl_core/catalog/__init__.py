"""Tools under authority: the host says which tools of a server may be called, and how; the server cannot widen it.

Works with any session that lists and calls tools (``peers``), and needs no extra. Reads are called here; writes are
only discovered here, and dispatched through an approval gate.
"""

from .bindings import ApprovalBinding, ReadBinding, ToolPolicy, WriteBinding, WriteEffect
from .errors import CALL_CODES, CODES, DISCOVERY_CODES, CatalogCode, CatalogError, EffectState, GateRequiredError
from .identity import IDENTITY_BUDGET, JSON_IDENTITY_PROFILE, identity_digest, identity_text
from .limits import LIMITS, CatalogLimits, Limit
from .monitor import SUPPORTED_VERSIONS, CatalogMonitor, Lease
from .outcomes import CallOutcome
from .registrations import ReadRegistration, ToolRegistration, WriteRegistration
from .scopes import CallContext, ScopeCheck

__all__ = (
    "CALL_CODES",
    "CODES",
    "DISCOVERY_CODES",
    "IDENTITY_BUDGET",
    "JSON_IDENTITY_PROFILE",
    "LIMITS",
    "SUPPORTED_VERSIONS",
    "ApprovalBinding",
    "CallContext",
    "CallOutcome",
    "CatalogCode",
    "CatalogError",
    "CatalogLimits",
    "CatalogMonitor",
    "EffectState",
    "GateRequiredError",
    "Lease",
    "Limit",
    "ReadBinding",
    "ReadRegistration",
    "ScopeCheck",
    "ToolPolicy",
    "ToolRegistration",
    "WriteBinding",
    "WriteEffect",
    "WriteRegistration",
    "identity_digest",
    "identity_text",
)
