"""What the host says of a tool: the only thing that makes it callable.

Owns: the bindings of reads and of writes, their grammar, and the identity that approvals are bound to. Does not own:
what the server says of itself (``discovery`` reads it, and it grants nothing), and whether what the host says is true:
a write that is declared as a read is not made safe by it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias, TypeVar

from msgspec import UNSET, UnsetType

from ..errors import InvalidValueError
from .errors import CatalogError
from .identity import identity_text
from .scopes import ScopeCheck

__all__ = (
    "ApprovalBinding",
    "ReadBinding",
    "ToolPolicy",
    "WriteBinding",
    "WriteEffect",
    "check_bindings",
    "check_server_id",
)

#: What a write does: ``destructive`` is what cannot be taken back.
WriteEffect: TypeAlias = Literal["write", "destructive"]

_LOCAL_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,63}")
_REMOTE_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,128}")
_LONGEST_IDENTITY: Final = 1024

B = TypeVar("B", bound="ReadBinding | WriteBinding")


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolPolicy:
    """How a tool is presented, and under which rule it is called.

    Attributes:
        title: for people; not blank.
        mode: ``read`` (called at once) or ``confirm`` (each call needs an approval).
        risk_level: ``read``, ``write`` or ``destructive``; left out for a read.

    Raises:
        CatalogError: ``mcp_binding_invalid``.
    """

    title: str
    mode: Literal["read", "confirm"] = "read"
    risk_level: Literal["read", "write", "destructive"] | None = None

    def __post_init__(self) -> None:
        _demand(_is_text(self.title) and bool(self.title.strip()))
        _demand(self.mode in ("read", "confirm"))
        _demand(self.risk_level in (None, "read", "write", "destructive"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBinding:
    """A tool that only reads, as the host asserts.

    Attributes:
        local_name: the name for the model: a letter or ``_``, then up to 63 letters, digits or ``_`` (ASCII).
        policy: of mode ``read``.
        scope: is asked before each call; ``None``: no further check. Left out is not ``None``, and is refused.
        concurrency_safe: whether calls may run side by side, as the host asserts. It is recorded, and schedules
            nothing.

    Raises:
        CatalogError: ``mcp_binding_invalid``.
    """

    local_name: str | UnsetType = UNSET
    policy: ToolPolicy | UnsetType = UNSET
    scope: ScopeCheck | None | UnsetType = UNSET
    concurrency_safe: bool = False

    def __post_init__(self) -> None:
        _check_name(self.local_name)
        policy = self.policy
        _demand(type(policy) is ToolPolicy and policy.mode == "read" and policy.risk_level in (None, "read"))
        _demand(self.scope is None or callable(self.scope))
        _demand(type(self.concurrency_safe) is bool)


@dataclass(frozen=True, slots=True, kw_only=True)
class ApprovalBinding:
    """The identity of an authority over a write; what an approval is bound to.

    Attributes:
        binding_id: names the binding.
        binding_revision: its revision. Of a registration the *effective* one: the digest of the whole write catalog, so
            that whatever changes in it makes earlier approvals void.
        scope_id, scope_revision: name the scope check and its revision.
        effect: what the write does.

    Raises:
        CatalogError: ``mcp_binding_invalid``: a text is not one of 1 to 1,024 characters without surrounding space, or
            the effect is neither of the two.
    """

    binding_id: str
    binding_revision: str
    scope_id: str
    scope_revision: str
    effect: WriteEffect

    def __post_init__(self) -> None:
        for value in (self.binding_id, self.binding_revision, self.scope_id, self.scope_revision):
            _demand(_is_text(value) and 1 <= len(value) <= _LONGEST_IDENTITY and value == value.strip())
        _demand(self.effect in ("write", "destructive"))

    def to_json(self) -> dict[str, str]:
        """As it stands in a snapshot and in an intent."""
        return {
            "bindingId": self.binding_id,
            "bindingRevision": self.binding_revision,
            "scopeId": self.scope_id,
            "scopeRevision": self.scope_revision,
            "effect": self.effect,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteBinding:
    """A tool that writes. Each call needs an approval, one call at a time.

    Attributes:
        local_name: as of ``ReadBinding``.
        policy: of mode ``confirm`` with ``risk_level`` equal to the effect.
        scope: is asked before each call; a write has one.
        authority: its identity, with the host's own revision of the binding.

    Raises:
        CatalogError: ``mcp_binding_invalid``.
    """

    local_name: str | UnsetType = UNSET
    policy: ToolPolicy | UnsetType = UNSET
    scope: ScopeCheck | UnsetType = UNSET
    authority: ApprovalBinding | UnsetType = UNSET

    def __post_init__(self) -> None:
        _check_name(self.local_name)
        policy, authority = self.policy, self.authority
        if type(policy) is not ToolPolicy or type(authority) is not ApprovalBinding:
            raise CatalogError("mcp_binding_invalid")
        _demand(policy.mode == "confirm" and policy.risk_level == authority.effect)
        _demand(callable(self.scope))


def check_server_id(server_id: object) -> str:
    """The id that the host gave a server: 1 to 128 ASCII letters, digits, ``_``, ``.`` or ``-``.

    Raises:
        CatalogError: ``mcp_binding_invalid``.
    """
    _demand(isinstance(server_id, str) and _REMOTE_NAME.fullmatch(server_id) is not None)
    return str(server_id)


def check_bindings(bindings: object, kind: type[B], most: int) -> dict[str, B]:
    """The bindings by remote name, as a copy of its own.

    Args:
        bindings: a mapping from remote names.
        kind: what all of them must be: one catalog holds reads or writes, never both.
        most: how many there may be.

    Raises:
        CatalogError: ``mcp_binding_invalid``; ``mcp_name_conflict``: two have one local name.
    """
    _demand(isinstance(bindings, Mapping))
    assert isinstance(bindings, Mapping)
    bound: dict[str, B] = dict(bindings)
    _demand(1 <= len(bound) <= most)
    for name, binding in bound.items():
        _demand(isinstance(name, str) and _REMOTE_NAME.fullmatch(name) is not None)
        _demand(type(binding) is kind)
    if len({binding.local_name for binding in bound.values()}) != len(bound):
        raise CatalogError("mcp_name_conflict")
    return bound


def _check_name(name: Any) -> None:
    _demand(isinstance(name, str) and _LOCAL_NAME.fullmatch(name) is not None)


def _is_text(value: object) -> bool:
    """Whether it is a text that can be digested."""
    if not isinstance(value, str):
        return False
    try:
        identity_text(value)
    except InvalidValueError:
        return False
    return True


def _demand(condition: bool) -> None:
    if not condition:
        raise CatalogError("mcp_binding_invalid")
