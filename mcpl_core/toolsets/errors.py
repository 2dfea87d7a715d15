"""What goes wrong with toolsets beside what the protocol has codes for.

Owns: the errors of this part. Does not own: the wire codes and the tree (``errors`` of the package).
"""

from __future__ import annotations

from ..errors import McplError

__all__ = ("AccessDenied", "ToolsetStoreError")


class AccessDenied(McplError):
    """The host gives no credential (SPEC_NOTES R-toolsets-1): it refused, does not know the method, or is not there.

    Attributes:
        audience: for what the credential was to be.
        code: the code of the host's answer; ``None`` when no host could be asked.
    """

    def __init__(self, audience: str, code: int | None = None) -> None:
        super().__init__(audience, code)
        self.audience = audience
        self.code = code

    def __str__(self) -> str:
        why = "no host could be asked" if self.code is None else f"the host answered {self.code}"
        return f"no access to {self.audience}: {why}"


class ToolsetStoreError(McplError):
    """The store of instances failed: a full disk, a file that is in use or cannot be read.

    Attributes:
        detail: what failed.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail

    def __str__(self) -> str:
        return f"instances cannot be stored: {self.detail}"
