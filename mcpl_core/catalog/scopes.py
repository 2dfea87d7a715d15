"""The host's own question before each call: may this caller do this with these arguments?

Owns: the facts that a check is given, and how its verdict is read. Does not own: any policy (the host's), and when it
is asked (``calls``).
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ..errors import InvalidValueError

__all__ = ("CallContext", "ScopeCheck", "check_context", "scope_allows")

_logger = logging.getLogger("mcpl_core.catalog")


@dataclass(frozen=True, slots=True, kw_only=True)
class CallContext:
    """On whose behalf a call is made. There is no default principal.

    Attributes:
        principal: who asks; never blank.
        run_id: the run of the agent that calls.
        root_run_id: the run that this one belongs to; left out: the run itself.
        agent_id: the agent, where runs have several.
        lease_owner: who holds the run.
        lease_epoch: counts up with each owner of the run; a later one makes the earlier ones void.

    Raises:
        InvalidValueError: a member is not what it must be; ``code`` is its name.
    """

    principal: str
    run_id: str = ""
    root_run_id: str = ""
    agent_id: str | None = None
    lease_owner: str | None = None
    lease_epoch: int | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.principal, str) or not self.principal.strip():
            raise InvalidValueError("principal", "who calls must be named", "$.principal")
        for name, kind, shown in _MEMBERS:
            value = getattr(self, name)
            # A bool is an int for isinstance, and no epoch.
            if not isinstance(value, kind) or isinstance(value, bool):
                raise InvalidValueError(name, f"expected {shown}", f"$.{name}")
        if not self.root_run_id:
            object.__setattr__(self, "root_run_id", self.run_id)


#: What the members beside ``principal`` must be.
_MEMBERS: Final[tuple[tuple[str, Any, str], ...]] = (
    ("run_id", str, "a text"),
    ("root_run_id", str, "a text"),
    ("agent_id", str | None, "a text or None"),
    ("lease_owner", str | None, "a text or None"),
    ("lease_epoch", int | None, "a whole number or None"),
)


def check_context(context: object) -> None:
    """A call is made on somebody's behalf, with or without a scope check.

    Raises:
        InvalidValueError: ``context``: it is no ``CallContext``.
    """
    if not isinstance(context, CallContext):
        raise InvalidValueError("context", "on whose behalf the call is made must be said")


#: ``check(context, arguments)``, sync or async. ``None`` and ``True`` allow; everything else denies, whatever it is.
#: The arguments are its own copy. Nobody bounds its time; one that gives up by itself says ``False``, since falling off
#: its end is a ``None``.
ScopeCheck: TypeAlias = Callable[[CallContext, dict[str, Any]], object | Awaitable[object]]


async def scope_allows(check: ScopeCheck, context: CallContext, arguments: dict[str, Any]) -> bool:
    """Whether the verdict is one of the two that allow. A check that raises denies, and the type of what it raised is
    logged; its text may hold arguments and is not."""
    try:
        verdict = check(context, arguments)
        if inspect.isawaitable(verdict):
            verdict = await verdict
    except Exception as exc:
        _logger.error("a scope check failed with %s", type(exc).__name__)
        return False
    return verdict is None or verdict is True
