"""Which instance a call of a toolset's tool is for, or what the model is told instead.

Owns: the rule, and the words. Pure. Does not own: who may call (``server``), and the call (``calling``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from .principal import OpenInstance, Principal

__all__ = ("NoTarget", "find_target", "usable")

#: How many open instances a text lists.
_LISTED = 50


class NoTarget(NamedTuple):
    """Why a call has no target.

    Attributes:
        text: in words for the model.
        waits: opening the toolset would make one.
    """

    text: str
    waits: bool = True


def find_target(
    principal: Principal, toolset: str, instances: bool, named: str | None, chosen: Mapping[str, str]
) -> OpenInstance | NoTarget:
    """What a call is for.

    Args:
        principal: whose.
        toolset: its name.
        instances: whether it has instances.
        named: the instance that the call names.
        chosen: the instances that the connection chose, by toolset.
    """
    if not instances:
        opened = principal.get((toolset, None))
        if opened is None or opened.closing:
            return NoTarget(f"The toolset {toolset} is closed. Open it first.")
        return opened
    present = [opened for opened in principal.instances(toolset) if not opened.closing]
    if named is not None:
        found = principal.get((toolset, named))
        if found is None or found.closing:
            return NoTarget(f"{toolset} has no open instance {named!r:.80}. {_listed(present)}", waits=found is None)
        return found
    picked = principal.get((toolset, chosen.get(toolset)))
    if picked is not None and not picked.closing:
        return picked
    if len(present) == 1:
        return present[0]
    if not present:
        return NoTarget(f"No instance of {toolset} is open. Open one first.")
    return NoTarget(f"Several instances of {toolset} are open: say which is meant. {_listed(present)}", waits=False)


def _listed(instances: Iterable[OpenInstance]) -> str:
    listed = [f"{opened.key[1]} ({opened.title})" for opened in instances]
    if not listed:
        return "None is open."
    more = f" and {len(listed) - _LISTED} more" if len(listed) > _LISTED else ""
    return f"Open: {', '.join(listed[:_LISTED])}{more}."


def usable(names: Iterable[str]) -> str:
    """One line that names the tools that can be called now."""
    listed = ", ".join(names)
    return f"Tools that can be called now: {listed}." if listed else "None of its tools can be called now."
