"""The limits of discovery and calls, as one table of defaults and ceilings.

Owns: the numbers and their check. Does not own: where they are applied (``discovery``, ``calls``), and the bounds of
the wire: a message that is too large is refused by the transport (``max_message_bytes``) before it is decoded.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Final, NamedTuple, Self

from ..errors import InvalidValueError

__all__ = ("LIMITS", "CatalogLimits", "Limit")


class Limit(NamedTuple):
    """One limit: its default, and the most that it can be set to."""

    default: int
    ceiling: int


#: Every limit can be lowered; the timeout alone can be raised.
LIMITS: Final[Mapping[str, Limit]] = MappingProxyType(
    {
        "max_pages": Limit(32, 32),
        "max_tools": Limit(256, 256),
        "max_catalog_bytes": Limit(1_048_576, 1_048_576),
        "max_schema_bytes": Limit(65_536, 65_536),
        "max_description_bytes": Limit(8_192, 8_192),
        "max_result_bytes": Limit(65_536, 65_536),
        "max_content_blocks": Limit(128, 128),
        "timeout_ms": Limit(30_000, 300_000),
    }
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogLimits:
    """The limits of one catalog. Whole numbers from 1 to the ceiling of each.

    Attributes:
        max_pages: answers to ``tools/list``.
        max_tools: tools that the server lists, selected or not.
        max_catalog_bytes: of all pages together, as compact JSON in UTF-8.
        max_schema_bytes: of each selected schema, ``$schema`` included.
        max_description_bytes: UTF-8 bytes of each selected description.
        max_result_bytes: of a whole result as it came, and of the arguments of a call.
        max_content_blocks: blocks of one result.
        timeout_ms: milliseconds for each request, in all.

    Raises:
        InvalidValueError: ``limit``: not a whole number, below 1 or above the ceiling; ``path`` names it.
    """

    max_pages: int = LIMITS["max_pages"].default
    max_tools: int = LIMITS["max_tools"].default
    max_catalog_bytes: int = LIMITS["max_catalog_bytes"].default
    max_schema_bytes: int = LIMITS["max_schema_bytes"].default
    max_description_bytes: int = LIMITS["max_description_bytes"].default
    max_result_bytes: int = LIMITS["max_result_bytes"].default
    max_content_blocks: int = LIMITS["max_content_blocks"].default
    timeout_ms: int = LIMITS["timeout_ms"].default

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            ceiling = LIMITS[field.name].ceiling
            # A bool is an int for isinstance, and no number for anybody else.
            if type(value) is not int or not 1 <= value <= ceiling:
                raise InvalidValueError("limit", f"expected a whole number from 1 to {ceiling}", f"$.{field.name}")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """The limits of a mapping from the names above; what is left out has its default.

        Raises:
            InvalidValueError: ``limit`` as above; ``unknown_limit``: there is no limit of that name.
        """
        if any(name not in LIMITS for name in values):
            raise InvalidValueError("unknown_limit", f"the limits are {', '.join(LIMITS)}")
        return cls(**values)

    @property
    def timeout(self) -> float:
        """Seconds for each request."""
        return self.timeout_ms / 1000
