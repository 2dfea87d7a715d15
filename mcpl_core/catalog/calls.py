"""One call of one tool: the checks before it, at most one request, the checks after it.

Owns: the order of all this, the deadline, and what is known of the effect. Does not own: reading a result
(``results``), the session (``peers``), and whether a write was approved (``permits``).

The order: the catalog still holds; the arguments fit; the scope allows; whoever gave leave for it still does; the
catalog still holds; the caller is not cancelled; the request; the catalog still holds; the result is valid. Nothing is
tried twice.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import anyio
from anyio.lowlevel import checkpoint_if_cancelled

from .bounded import copy_bounded
from .errors import CALL_CODES, CatalogCode
from .identity import IDENTITY_BUDGET
from .limits import CatalogLimits
from .monitor import Lease
from .peers.base import PeerFailure, PeerMethod, PeerReply, PeerResult, ToolPeer
from .profile import CompiledSchema, ProfileMismatchError
from .results import Envelope, read_result
from .scopes import CallContext, ScopeCheck, scope_allows

__all__ = ("BoundTool", "Course", "Timer", "ask", "fit_arguments", "perform")

_logger = logging.getLogger("mcpl_core.catalog")

#: Makes the scope that a request ends with: seconds -> a scope that is cancelled after them.
Timer: TypeAlias = Callable[[float], anyio.CancelScope]


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class BoundTool:
    """What a call needs.

    Attributes:
        peer: where it goes.
        remote_name: the tool's name there.
        lease: whether the catalog that it is of still holds.
        input, output: the compiled schemas; a tool may have no output schema.
        scope: the host's check; ``None``: none.
        limits: of the catalog.
        timer: for the deadline.
    """

    peer: ToolPeer
    remote_name: str
    lease: Lease
    input: CompiledSchema
    output: CompiledSchema | None
    scope: ScopeCheck | None
    limits: CatalogLimits
    timer: Timer

    def __repr__(self) -> str:
        return f"<BoundTool {self.remote_name}>"


@dataclass(slots=True)
class Course:
    """How far a call came, for whoever has to say something of its effect when it is cut off.

    Attributes:
        submitted: whether the request may have been handed to the transport.
    """

    submitted: bool = False


def fit_arguments(tool: BoundTool, arguments: Any) -> dict[str, Any] | None:
    """The arguments as they would be sent: a copy that fits the schema, whose budget is the limit of bytes; else
    ``None``."""
    try:
        return tool.input.validate(arguments)
    except ProfileMismatchError:
        return None


async def perform(
    tool: BoundTool,
    arguments: Any,
    context: CallContext,
    course: Course,
    last_look: Callable[[], Awaitable[None]] | None = None,
) -> Envelope | CatalogCode:
    """Calls the tool. What the peer says beyond a valid success is dropped.

    Args:
        tool: the tool.
        arguments: what the caller wants to send; any value.
        context: on whose behalf.
        course: is told when the request goes out.
        last_look: comes after the scope check, which may take its time; what it raises ends the call, unsent.

    Returns:
        The envelope, or why there is none.
    """
    if (problem := tool.lease.problem()) is not None:
        return problem
    fitting = fit_arguments(tool, arguments)
    if fitting is None:
        return "mcp_invalid_arguments"
    # The check has a copy of its own: what it does to it changes nothing of what is sent.
    if tool.scope is not None and not await scope_allows(tool.scope, context, copy_bounded(fitting, IDENTITY_BUDGET)):
        return "mcp_scope_denied"
    if last_look is not None:
        await last_look()
    if (problem := tool.lease.problem()) is not None:
        return problem
    await checkpoint_if_cancelled()
    course.submitted = True
    reply = await ask(
        tool.peer, "tools/call", {"name": tool.remote_name, "arguments": fitting}, tool.limits, tool.timer
    )
    if isinstance(reply, PeerFailure):
        course.submitted = reply.submitted
        return reply.code
    return tool.lease.problem() or read_result(reply.value, tool.output, tool.limits)


async def ask(
    peer: ToolPeer, name: PeerMethod, params: dict[str, Any], limits: CatalogLimits, timer: Timer
) -> PeerReply:
    """One request with its deadline. At the deadline the request is cancelled, which tells the server."""
    reply: PeerReply = PeerFailure("mcp_timeout")
    with timer(limits.timeout):
        try:
            reply = await peer.request(name, params)
        except Exception as exc:
            # No peer should, and whatever it says must not get any further: its type is enough to find it by.
            _logger.error("a peer raised %s", type(exc).__name__)
            reply = PeerFailure("mcp_transport_error")
    # A peer of somebody else's may return anything.
    failed = isinstance(reply, PeerFailure) and reply.code in CALL_CODES
    return reply if failed or isinstance(reply, PeerResult) else PeerFailure("mcp_transport_error")
