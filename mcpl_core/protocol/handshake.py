"""The handshake and MCP's own bookkeeping messages, in MCP's shapes.

Owns: ``initialize``, ``notifications/initialized``, ``ping``, ``notifications/cancelled`` and
``notifications/progress``. Does not own: the manifest inside ``capabilities.experimental.mcpl``, which stays
the JSON tree as received (SPEC 5.1, 17.1; ``manifest``).
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET, UnsetType

from .base import EmptyParams, EmptyResult, RequestId, WireMessage, WireStruct, whole_numbers

__all__ = (
    "CancelledParams",
    "Implementation",
    "InitializeParams",
    "InitializeResult",
    "InitializedParams",
    "PingParams",
    "PingResult",
    "ProgressParams",
    "mcpl_manifest",
)


def mcpl_manifest(capabilities: Any) -> Any:
    """The member ``experimental.mcpl`` of a ``capabilities`` object, as received; ``UNSET`` when absent.

    Its presence is what makes a peer an MCPL peer (SPEC 3.2, 3.3). Never raises.
    """
    experimental = capabilities.get("experimental") if isinstance(capabilities, dict) else None
    return experimental.get("mcpl", UNSET) if isinstance(experimental, dict) else UNSET


class Implementation(WireStruct, frozen=True, kw_only=True):
    """Who a peer says it is (MCP ``Implementation``)."""

    name: str
    version: str
    title: str | UnsetType = UNSET
    description: str | UnsetType = UNSET
    website_url: str | UnsetType = UNSET


class InitializeParams(WireMessage, frozen=True, kw_only=True):
    """The host's half of the handshake (MCP; SPEC 5.2).

    Attributes:
        protocol_version: MCP's version, which MCPL leaves alone (SPEC 3.1).
        capabilities: the JSON tree as received; what digest, comparison and grant are computed from.
    """

    protocol_version: str
    capabilities: dict[str, Any]
    client_info: Implementation

    @property
    def mcpl(self) -> Any:
        """The ``experimental.mcpl`` member, ``UNSET`` when absent."""
        return mcpl_manifest(self.capabilities)


class InitializeResult(WireMessage, frozen=True, kw_only=True):
    """The server's half of the handshake (MCP; SPEC 5.1); attributes as ``InitializeParams``."""

    protocol_version: str
    capabilities: dict[str, Any]
    server_info: Implementation
    instructions: str | UnsetType = UNSET

    @property
    def mcpl(self) -> Any:
        """The manifest: the ``experimental.mcpl`` member, ``UNSET`` when absent."""
        return mcpl_manifest(self.capabilities)


class InitializedParams(EmptyParams, frozen=True, kw_only=True):
    """``notifications/initialized`` says nothing more."""


class PingParams(EmptyParams, frozen=True, kw_only=True):
    """``ping`` asks nothing more."""


class PingResult(EmptyResult, frozen=True, kw_only=True):
    """The answer to ``ping``."""


class CancelledParams(WireMessage, frozen=True, kw_only=True):
    """The sender no longer wants an answer to one of its requests (MCP)."""

    request_id: RequestId
    reason: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        whole_numbers(self, "request_id")


class ProgressParams(WireMessage, frozen=True, kw_only=True):
    """How far a request has come (MCP).

    Attributes:
        progress_token: what the request carried in ``_meta.progressToken``.
        progress: grows with each notification; what it counts is the sender's.
        total: what ``progress`` will be at the end, when known.
    """

    progress_token: RequestId
    progress: int | float
    total: int | float | UnsetType = UNSET
    message: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        whole_numbers(self, "progress_token")
