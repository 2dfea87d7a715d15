"""Credentials of a served tool: asked for before it runs, given to it, and kept nowhere.

Owns: asking the provider for everything that a tool needs, and what the caller is told when there is nothing to give:
the service's name and no more. A link where somebody could agree is not for whoever calls: it would lead to the account
of the one who serves. Does not own: providers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..errors import ConsentRequiredError
from ..transports import Consent, CredentialRequest
from .call import ToolCall

__all__ = ("CallCredentials", "resolve_credentials")

#: Vends what a tool needs: ``provider(request)``, sync or async, gives it, gives ``Consent``, or raises.
CallCredentials = Callable[[CredentialRequest], Any]


async def resolve_credentials(
    call: ToolCall,
    needs: Sequence[CredentialRequest],
    provider: CallCredentials,
    report: Callable[[BaseException], object],
) -> str | None:
    """Asks for all that a call needs and puts it into the call.

    Returns:
        Why the call does not run, for the caller; ``None`` when everything is there.
    """
    found: dict[str, Any] = {}
    for need in needs:
        try:
            given = await call.run(provider, need)
        except ConsentRequiredError:
            given = Consent("")
        except Exception as exc:
            # Its text may hold what no log should.
            report(RuntimeError(f"the provider of credentials failed for {need.service}: {type(exc).__name__}"))
            given = None
        if isinstance(given, Consent):
            return f"{call.name} did not run: {need.service} needs somebody's consent first"
        if given is None:
            return f"{call.name} did not run: there are no credentials for {need.service}"
        found[need.service] = given
    call.credentials = found
    return None
