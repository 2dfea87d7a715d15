"""What a call comes to: the envelope of a success, or a code; and what is known of its effect.

Owns: the shape, and that the three parts agree. Does not own: how they are found out (``calls``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidValueError
from ..wire.values import encode_value
from .bounded import copy_bounded
from .errors import CALL_CODES, CatalogCode, EffectState
from .identity import IDENTITY_BUDGET

__all__ = ("CallOutcome", "failed", "succeeded")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallOutcome:
    """The end of one call. It is returned, never raised, and cannot be changed.

    Attributes:
        text: the texts of the result's blocks, in order; empty when the call failed.
        structured: ``structuredContent``, immutable; ``None`` when there is none, or the call failed.
        error_code: why it failed; ``None``: it did not.
        effect: of a write, what is *known*: ``not_started`` (nothing was sent), ``committed`` (a valid success came
            back), ``unknown`` (it was sent, and nothing proves either). Of a read always ``not_started``: the host
            declared no write; it does not say that no request was sent.

    Raises:
        InvalidValueError: ``outcome``: the parts contradict each other.
    """

    text: tuple[str, ...] = ()
    structured: Mapping[str, Any] | None = None
    error_code: CatalogCode | None = None
    effect: EffectState

    def __post_init__(self) -> None:
        if self.effect not in ("not_started", "committed", "unknown"):
            raise InvalidValueError("outcome", "no effect of the three")
        if self.error_code is None:
            if self.effect == "unknown":
                raise InvalidValueError("outcome", "a success whose effect is unknown")
        elif (
            self.error_code not in CALL_CODES or self.effect == "committed" or self.text or self.structured is not None
        ):
            raise InvalidValueError(
                "outcome", "a failure that is committed, has content, or has a code of something else"
            )

    def __repr__(self) -> str:
        # What the server said is not for whoever prints or logs an outcome.
        what = self.error_code or f"ok texts={len(self.text)} structured={self.structured is not None}"
        return f"<CallOutcome {what} effect={self.effect}>"

    @property
    def ok(self) -> bool:
        """Whether the call succeeded."""
        return self.error_code is None

    def envelope(self) -> dict[str, Any]:
        """``{text: [...], structured: {...} or null}`` as a tree of one's own."""
        return {"text": list(self.text), "structured": copy_bounded(self.structured, IDENTITY_BUDGET)}

    def to_text(self) -> str:
        """The envelope as compact JSON, for a model."""
        return encode_value(self.envelope()).decode()


def failed(code: CatalogCode, effect: EffectState) -> CallOutcome:
    """A failure: an empty envelope and a code."""
    return CallOutcome(error_code=code, effect=effect)


def succeeded(text: tuple[str, ...], structured: Mapping[str, Any] | None, effect: EffectState) -> CallOutcome:
    """A success."""
    return CallOutcome(text=text, structured=structured, effect=effect)
