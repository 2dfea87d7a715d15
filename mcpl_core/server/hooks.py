"""Context hooks of a server: from what its functions return to one answer (SPEC 10.1 to 10.4, 10.7).

Owns: the shape of injections, their default position, and leaving out what the grant does not allow. Does not own:
which hooks run, and the host's own authorization, which comes on top (SPEC 10.8).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from ..content import ContentBlock
from ..errors import LocalProtocolError
from ..protocol import ContextBeforeInferenceResult, ContextInjection, Position
from .calls import wire_content
from .features import FeatureSet
from .policy import ServerPolicy

__all__ = ("POSITION_PATHS", "hook_result", "injections_of")

_INJECT: Final = "contextHooks.beforeInference.inject."

#: The capability path of each position. The order is the order of preference when a set uses several.
POSITION_PATHS: Final[dict[Position, str]] = {
    "beforeUser": _INJECT + "beforeUser",
    "afterUser": _INJECT + "afterUser",
    "system": _INJECT + "system",
}


def injections_of(value: Any, feature_set: FeatureSet, namespace: str) -> list[ContextInjection]:
    """What a hook returned, as injections.

    Args:
        value: ``None``: nothing; a text, a content block or a list of blocks: one injection at the set's own position;
            a ``ContextInjection``, or a list of them: as they are.
        feature_set: the hook's set; its ``uses`` says where a plain text goes.
        namespace: the namespace of injections that do not name one.

    Raises:
        LocalProtocolError: something else was returned, or the set uses no position.
    """
    if value is None:
        return []
    if isinstance(value, ContextInjection):
        return [value]
    if isinstance(value, list | tuple) and all(isinstance(item, ContextInjection) for item in value):
        return list(value)
    if not isinstance(value, str | ContentBlock | list | tuple):
        raise LocalProtocolError(f"a context hook returned {type(value).__name__}")
    position = next((name for name, path in POSITION_PATHS.items() if path in feature_set.uses), None)
    if position is None:
        raise LocalProtocolError(f"feature set {feature_set.name} uses no position to inject at")
    return [ContextInjection(namespace=namespace, position=position, content=wire_content(value))]


def hook_result(
    results: Iterable[tuple[FeatureSet, list[ContextInjection]]], policy: ServerPolicy
) -> ContextBeforeInferenceResult:
    """One answer of the injections of several sets, as far as the grant allows them now: a reduction that came while
    a hook was running counts (SPEC 6.7)."""
    claimed: str | None = None
    allowed: list[ContextInjection] = []
    for feature_set, injections in results:
        claimed = claimed or feature_set.name
        allowed += [injection for injection in injections if policy.allows(POSITION_PATHS[injection.position])]
    if claimed is None:
        return ContextBeforeInferenceResult(context_injections=[])
    return ContextBeforeInferenceResult(feature_set=claimed, context_injections=allowed)
