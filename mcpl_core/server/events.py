"""The params of an event (SPEC 9.2, 9.4, 16.1).

Owns: the id and the time that an event is born with, and its check. Does not own: sending (``calls``), and keeping
(``outbox``).
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from msgspec import UNSET

from ..protocol import PushEventParams, PushPayload
from ..tags import check_tags
from .blocks import message_content
from .features import FeatureSet, name_of

__all__ = ("event_params",)


def event_params(
    feature_set: FeatureSet | str,
    content: Any,
    *,
    tags: Iterable[str] = (),
    origin: Mapping[str, Any] | None = None,
    event_id: str | None = None,
    timestamp: str | None = None,
) -> PushEventParams:
    """The params of one event; its id is made here, once, so that every retry has the same (SPEC 9.4).

    Raises:
        InvalidValueError: a tag has no namespace (SPEC 16.1), or ``content`` is neither text nor blocks.
    """
    names = list(check_tags(tags))
    return PushEventParams(
        feature_set=name_of(feature_set),
        event_id=event_id if event_id is not None else str(uuid.uuid4()),
        timestamp=timestamp if timestamp is not None else datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        origin=dict(origin) if origin is not None else UNSET,
        tags=names if names else UNSET,
        payload=PushPayload(content=message_content(content)),
    )
