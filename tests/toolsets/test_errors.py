"""The errors of this part."""

from __future__ import annotations

from mcpl_core import McplError
from mcpl_core.toolsets import AccessDenied, ToolsetStoreError


def test_they_carry_facts() -> None:
    refused, alone = AccessDenied("https://a", -32002), AccessDenied("https://a")
    assert (refused.audience, refused.code, alone.code) == ("https://a", -32002, None)
    assert str(refused) != str(alone)
    failed = ToolsetStoreError("full")
    assert failed.detail in str(failed)
    assert isinstance(refused, McplError) and isinstance(failed, McplError)
