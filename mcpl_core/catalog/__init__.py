"""Tools under authority: the host says which tools of a server may be called, and how; the server cannot widen it.

Works with any session that lists and calls tools (``peers``), and needs no extra. Reads are called here; writes are
only discovered here, and dispatched through an approval gate. SPEC has nothing of this; the readings are R-catalog in
SPEC_NOTES.md.
"""

from .bindings import ApprovalBinding, ReadBinding, ToolPolicy, WriteBinding, WriteEffect
from .discovery import ToolCatalog, discover_tools, discover_write_tools
from .errors import CALL_CODES, CODES, DISCOVERY_CODES, CatalogCode, CatalogError, EffectState, GateRequiredError
from .identity import IDENTITY_BUDGET, JSON_IDENTITY_PROFILE, identity_digest, identity_text
from .limits import LIMITS, CatalogLimits, Limit
from .monitor import SUPPORTED_VERSIONS, CatalogMonitor, Lease
from .outcomes import CallOutcome
from .peers import (
    ConnectionPeer,
    HostPeer,
    PeerFailure,
    PeerMethod,
    PeerReply,
    PeerResult,
    RawPeer,
    SdkNotices,
    SdkPeer,
    ToolPeer,
    ToolSession,
)
from .pinning import PinChange, PinDiff, check_pin, compare, load_pin, pin
from .registrations import ReadRegistration, ToolRegistration, WriteRegistration
from .scopes import CallContext, ScopeCheck
from .snapshot import ToolSnapshot

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
    "ConnectionPeer",
    "EffectState",
    "GateRequiredError",
    "HostPeer",
    "Lease",
    "Limit",
    "PeerFailure",
    "PeerMethod",
    "PeerReply",
    "PeerResult",
    "PinChange",
    "PinDiff",
    "RawPeer",
    "ReadBinding",
    "ReadRegistration",
    "ScopeCheck",
    "SdkNotices",
    "SdkPeer",
    "ToolCatalog",
    "ToolPeer",
    "ToolPolicy",
    "ToolRegistration",
    "ToolSession",
    "ToolSnapshot",
    "WriteBinding",
    "WriteEffect",
    "WriteRegistration",
    "check_pin",
    "compare",
    "discover_tools",
    "discover_write_tools",
    "identity_digest",
    "identity_text",
    "load_pin",
    "pin",
)
