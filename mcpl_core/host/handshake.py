"""The first exchange with a server: ``initialize`` (MCP; SPEC 3.2, 3.3, 5.1, 5.2).

Owns: what the host says, and what the answer makes of the server. Does not own: the policy exchange that follows
(``session``), and the manifest (``mcpl_core.manifest``).
"""

from __future__ import annotations

from typing import Any, Final

from ..errors import InvalidResultError
from ..protocol import Implementation, InitializeParams, InitializeResult, method
from .hub import Hub, host_manifest
from .policy import HostPolicy

__all__ = ("PROTOCOL_VERSION", "SUPPORTED_VERSIONS", "checked_version", "initialize_params")

#: The MCP versions of the handshake era; MCPL leaves MCP's version alone (SPEC 3.1).
SUPPORTED_VERSIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
PROTOCOL_VERSION: Final = SUPPORTED_VERSIONS[-1]


def initialize_params(hub: Hub, policy: HostPolicy) -> InitializeParams:
    """What the host says of itself: its support, never its policy."""
    extensions = frozenset(policy.vocabulary)
    capabilities: dict[str, Any] = {"experimental": {"mcpl": host_manifest(hub, extensions)}}
    return InitializeParams(
        protocol_version=PROTOCOL_VERSION,
        capabilities=capabilities,
        client_info=Implementation(name=hub.name, version=hub.version),
    )


def checked_version(result: InitializeResult) -> str:
    """The MCP version that both speak.

    Raises:
        InvalidResultError: the server speaks one that this host does not.
    """
    if result.protocol_version not in SUPPORTED_VERSIONS:
        wanted = f"expected one of {', '.join(SUPPORTED_VERSIONS)}"
        raise InvalidResultError(method.INITIALIZE, wanted, "$.protocolVersion")
    return result.protocol_version
