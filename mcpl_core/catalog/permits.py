"""The one way from an approved write to the wire: a permit, good for one dispatch of one call.

Owns: permits and ``dispatch_write``. Does not own: claims and approvals. Only the approval gate mints permits, after it
claimed the approval durably; nothing else in the package imports this module, and a test sees to that.

What this keeps out, and what it cannot. A registration has no function that sends; a permit is bound to one
registration and to the digest of the arguments, is spent by its first use, and can be neither made by its constructor,
copied nor pickled. So no mistake, no replay and no edited argument gets around the gate. Python has no walls inside a
process, though: code that imports ``mint_permit``, or takes the session itself, sends what it likes. Whoever must be
kept from that must run elsewhere.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final, NoReturn

from .calls import Course, perform
from .errors import CatalogError, GateRequiredError
from .identity import identity_digest
from .outcomes import CallOutcome, failed, succeeded
from .registrations import WriteRegistration
from .results import Envelope
from .scopes import CallContext, check_context

__all__ = ("WritePermit", "dispatch_write", "mint_permit")

_SEAL: Final = object()


class WritePermit:
    """Opaque. ``outcome`` says what came of its dispatch; it is there also when the dispatch was cancelled."""

    __slots__ = ("_arguments", "_claim", "_digest", "_outcome", "_registration", "_spent")

    def __init__(self, seal: object, registration: WriteRegistration, arguments: dict[str, Any], claim: str) -> None:
        if seal is not _SEAL:
            raise GateRequiredError("no_permit")
        self._registration = registration
        self._arguments = arguments
        self._digest = identity_digest(arguments)
        self._claim = claim
        self._spent = False
        self._outcome: CallOutcome | None = None

    def __repr__(self) -> str:
        return f"<WritePermit {self._registration.local_name} spent={self._spent}>"

    @property
    def claim(self) -> str:
        """The id of the durable claim that it was minted for."""
        return self._claim

    @property
    def outcome(self) -> CallOutcome | None:
        """What came of it; ``None`` before the dispatch ended."""
        return self._outcome

    def __copy__(self) -> NoReturn:
        raise GateRequiredError("not_copyable")

    def __deepcopy__(self, memo: object) -> NoReturn:
        raise GateRequiredError("not_copyable")

    def __reduce__(self) -> NoReturn:
        raise GateRequiredError("not_copyable")


def mint_permit(registration: WriteRegistration, arguments: Any, claim: str) -> WritePermit:
    """A permit for one call, for the approval gate alone. The claim must be durable before.

    Args:
        registration: the tool, of the catalog that holds now.
        arguments: as approved.
        claim: the id of the claim.

    Raises:
        CatalogError: the catalog does not hold any more, or ``mcp_invalid_arguments``. Nothing was sent.
        GateRequiredError: ``no_permit``: it is no registration of a write, or there is no claim.
    """
    if type(registration) is not WriteRegistration or not isinstance(claim, str) or not claim:
        raise GateRequiredError("no_permit")
    registration.check()
    return WritePermit(_SEAL, registration, registration.fit(arguments), claim)


async def dispatch_write(
    permit: WritePermit,
    registration: WriteRegistration,
    arguments: Any,
    context: CallContext,
    last_look: Callable[[], Awaitable[None]] | None = None,
) -> CallOutcome:
    """Sends one write, at most once, and says what is known of its effect.

    Cancelling it tells the server; ``permit.outcome`` is then ``mcp_canceled``, with ``not_started`` before and
    ``unknown`` after the request went out, and the cancellation goes on to the caller.

    Args:
        permit: minted for this call; spent from here on, whatever happens.
        registration, arguments: the call, once more: what the permit was not minted for is not sent.
        context: on whose behalf.
        last_look: the gate's, right before the request: what it raises goes on to the caller, and ``permit.outcome`` is
            ``mcp_canceled`` with ``not_started``.

    Returns:
        The outcome: ``committed`` only for a valid success; ``not_started`` where it is known that nothing was sent;
        else ``unknown``.

    Raises:
        GateRequiredError: ``no_permit``, ``spent``, ``other_call``; nothing was sent.
        InvalidValueError: ``context``: it is no ``CallContext``; nothing was sent, and the permit is not spent.
    """
    check_context(context)
    if type(permit) is not WritePermit or getattr(permit, "_registration", None) is None:
        raise GateRequiredError("no_permit")
    if permit._spent:
        raise GateRequiredError("spent")
    permit._spent = True
    if permit._registration is not registration or not _same(permit, arguments):
        raise GateRequiredError("other_call")
    course = Course()
    permit._outcome = failed("mcp_canceled", "not_started")
    try:
        found = await perform(registration._tool, permit._arguments, context, course, last_look)
    except BaseException:
        permit._outcome = failed("mcp_canceled", "unknown" if course.submitted else "not_started")
        raise
    if isinstance(found, Envelope):
        permit._outcome = succeeded(found.text, found.structured, "committed")
    else:
        permit._outcome = failed(found, "unknown" if course.submitted else "not_started")
    return permit._outcome


def _same(permit: WritePermit, arguments: Any) -> bool:
    try:
        return identity_digest(permit._registration.fit(arguments)) == permit._digest
    except CatalogError:
        return False
