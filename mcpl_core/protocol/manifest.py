"""The manifest on the wire, and its announcement (SPEC 5.1, 17, Appendix B.3, B.4).

Owns: ``mcpl/manifestChanged``, ``mcpl/manifest``, and names for the types of the tree. Does not own: what is
done with a manifest (the package ``mcpl_core.manifest``).

A manifest is a JSON tree, never a struct: a typed view would drop the members that it does not know, and the
digest with them. The ``TypedDict`` classes describe the tree to a type checker and exist only for it.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, Required, TypeAlias, TypedDict

from msgspec import Meta

from .base import EmptyParams, WireStruct

__all__ = (
    "CHANGE_DOMAINS",
    "MCPL_VERSION",
    "BeforeInferenceAdvertisement",
    "ChangeDisposition",
    "ChangeDomain",
    "ChangeImpact",
    "ChannelsAdvertisement",
    "ContextHooksAdvertisement",
    "ExperimentalAdvertisement",
    "InferenceRequestAdvertisement",
    "InitializeCapabilities",
    "InjectAdvertisement",
    "Manifest",
    "ManifestChangedParams",
    "ManifestParams",
    "McplCapabilities",
)

#: The ``version`` that this package writes into a manifest.
MCPL_VERSION = "0.5"

#: The ``experimental.mcpl`` object, as received.
Manifest: TypeAlias = dict[str, Any]

ChangeDomain: TypeAlias = Literal["capabilities", "featureSets", "tagOntology"]
ChangeImpact: TypeAlias = Literal[
    "capability-revoked",
    "capability-expansion-pending",
    "feature-degraded",
    "feature-restored",
    "ontology-acceptance-invalidated",
    "ontology-reference-undeclared",
    "surface-changed",
]
ChangeDisposition: TypeAlias = Literal["applied", "decision-needed", "informational"]

#: The three domains, in the order of SPEC 17.1.
CHANGE_DOMAINS: tuple[ChangeDomain, ...] = ("capabilities", "featureSets", "tagOntology")


class ManifestChangedParams(WireStruct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The manifest is another one now (SPEC 17.3). Nothing else may stand here, not even ``_meta``.

    Attributes:
        revision: ``sha256:`` and 43 characters of base64url; only to be compared.
        domains: what changed, at least one.
    """

    # `$` would also match before a line end.
    revision: Annotated[str, Meta(pattern=r"^sha256:[A-Za-z0-9_-]{43}\Z")]
    domains: Annotated[list[ChangeDomain], Meta(min_length=1)]


class ManifestParams(EmptyParams, frozen=True, kw_only=True):
    """``mcpl/manifest`` asks nothing more (SPEC 17.4). The result is the manifest itself."""


class InjectAdvertisement(TypedDict, total=False):
    """``contextHooks.beforeInference.inject``."""

    system: bool
    beforeUser: bool
    afterUser: bool


class BeforeInferenceAdvertisement(TypedDict, total=False):
    """``contextHooks.beforeInference``."""

    observe: bool
    inject: bool | InjectAdvertisement


class ContextHooksAdvertisement(TypedDict, total=False):
    """``contextHooks``."""

    beforeInference: bool | BeforeInferenceAdvertisement


class InferenceRequestAdvertisement(TypedDict, total=False):
    """``inferenceRequest``."""

    streaming: bool


class ChannelsAdvertisement(TypedDict, total=False):
    """``channels`` (SPEC 14.1)."""

    register: bool
    lifecycle: bool
    publish: bool
    incoming: bool
    streaming: bool
    acknowledge: bool
    typing: bool


class McplCapabilities(TypedDict, total=False):
    """The ``experimental.mcpl`` object of either side (SPEC 5.1, 5.2)."""

    version: Required[str]
    revision: str
    pushEvents: bool
    modelInfo: bool
    inferenceLifecycle: bool
    inferenceRequest: bool | InferenceRequestAdvertisement
    contextHooks: bool | ContextHooksAdvertisement
    channels: bool | ChannelsAdvertisement
    featureSets: bool | dict[str, dict[str, Any]]


class ExperimentalAdvertisement(TypedDict, total=False):
    """MCP's ``capabilities.experimental``."""

    mcpl: McplCapabilities


class InitializeCapabilities(TypedDict, total=False):
    """MCP's ``capabilities`` of either side, as far as this package looks into it."""

    tools: dict[str, Any]
    resources: dict[str, Any]
    prompts: dict[str, Any]
    experimental: ExperimentalAdvertisement
