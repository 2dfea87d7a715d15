"""Context hooks of a server: from what its functions return to one answer (SPEC 10.1 to 10.4, 10.7).

Owns: the shape of injections, their default position, and leaving out what may not be said now. Does not own: which
hooks run, and the host's own authorization, which comes on top (SPEC 10.8).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import msgspec
from msgspec import UNSET, Raw

from ..content import ContentBlock
from ..errors import InvalidValueError, LocalProtocolError
from ..protocol import ContextBeforeInferenceResult, ContextInjection, Position
from ..wire.values import encode_value
from .blocks import message_content
from .policy import ServerPolicy

__all__ = ("HOOK_PATHS", "POSITION_PATHS", "hook_result", "injections_of")

_INJECT: Final = "contextHooks.beforeInference.inject."

#: The capability path of each position. The order is the order of preference when a set uses several.
POSITION_PATHS: Final[dict[str, str]] = {
    "beforeUser": _INJECT + "beforeUser",
    "afterUser": _INJECT + "afterUser",
    "system": _INJECT + "system",
}

#: What a set needs one of to have a hook.
HOOK_PATHS: Final = frozenset({"contextHooks.beforeInference.observe", *POSITION_PATHS.values()})


def injections_of(value: Any, uses: Iterable[str], namespace: str) -> list[ContextInjection]:
    """What a hook returned, as injections.

    Args:
        value: ``None``: nothing; a text, a content block or a list of both: one injection at the set's own position;
            a ``ContextInjection``, or a list of them: as they are.
        uses: what the hook's set uses, which says where a plain text goes.
        namespace: the namespace of an injection that does not name one.

    Raises:
        LocalProtocolError: the set uses no position.
        InvalidValueError: something else was returned.
    """
    if value is None:
        return []
    members = value if isinstance(value, list | tuple) else [value]
    if all(isinstance(member, ContextInjection) for member in members):
        return [_in_shape(injection) for injection in members]
    paths = frozenset(uses)
    position = next((name for name, path in POSITION_PATHS.items() if path in paths), None)
    if position is None:
        raise LocalProtocolError("the hook's feature set uses no position to inject at")
    kept: Position = position  # type: ignore[assignment]
    return [ContextInjection(namespace=namespace, position=kept, content=message_content(value))]


def _in_shape(injection: ContextInjection) -> ContextInjection:
    if isinstance(injection.content, list | tuple | ContentBlock):
        return msgspec.structs.replace(injection, content=message_content(injection.content))
    return injection


def hook_result(
    results: Iterable[tuple[str, list[ContextInjection]]],
    policy: ServerPolicy,
    report: Callable[[BaseException], object],
) -> ContextBeforeInferenceResult:
    """One answer of the injections of several sets, as far as they are allowed now: a reduction that came while a hook
    was running counts (SPEC 6.7). What is left out is reported, and costs no other injection anything.

    Args:
        results: for each set whose hook ran, by name, what it wants to inject.
    """
    claimed: str | None = None
    contributor: str | None = None
    allowed: list[Raw] = []
    for feature_set, injections in results:
        claimed = claimed or feature_set
        for injection in injections:
            try:
                _check(policy, feature_set, injection)
                allowed.append(Raw(encode_value(injection)))
                contributor = contributor or feature_set
            except (LocalProtocolError, InvalidValueError) as exc:
                report(exc)
    return ContextBeforeInferenceResult(feature_set=contributor or claimed or UNSET, context_injections=allowed)


def _check(policy: ServerPolicy, feature_set: str, injection: ContextInjection) -> None:
    path = POSITION_PATHS.get(injection.position)
    status = policy.statuses.get(feature_set)
    if path is None:
        raise InvalidValueError("position", f"{injection.position!r} is no position", "$.position")
    if status is None or not status.enabled or not policy.allows(path):
        raise LocalProtocolError(f"an injection of {feature_set} at {injection.position} is not allowed any more")
    if path not in status.uses:
        raise LocalProtocolError(f"feature set {feature_set} injects at {injection.position} and does not use {path}")
