"""Tools that a host may offer to a model: what is known of each, and how it is called.

Owns: the two kinds of registrations. A read is called here. A write is not: it carries the identity that an approval is
bound to, and only a permit of the approval gate dispatches it (``permits``). Does not own: how registrations come about
(``discovery``) and the course of a call (``calls``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NoReturn

from .bindings import ApprovalBinding, WriteEffect
from .calls import BoundTool, Course, fit_arguments, perform
from .errors import CatalogError, GateRequiredError
from .monitor import Lease
from .outcomes import CallOutcome, failed, succeeded
from .profile import CompiledSchema
from .results import Envelope
from .scopes import CallContext, check_context

__all__ = ("ReadRegistration", "ToolRegistration", "WriteRegistration")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ToolRegistration:
    """One tool of one catalog.

    Attributes:
        server_id: the id that the host gave the server.
        remote_name, local_name: the tool's name there, and its name for the model.
        title: the host's, for people.
        description: the server's, for the model.
        catalog_digest: of the catalog that it belongs to.
    """

    server_id: str
    remote_name: str
    local_name: str
    title: str
    # The server's words: not for whoever prints or logs a registration.
    description: str = field(repr=False)
    catalog_digest: str
    _tool: BoundTool = field(repr=False)

    @property
    def input_schema(self) -> CompiledSchema:
        """What the arguments must fit."""
        return self._tool.input

    @property
    def output_schema(self) -> CompiledSchema | None:
        """What structured content must fit; ``None``: the tool declares none."""
        return self._tool.output

    @property
    def lease(self) -> Lease:
        """Whether the catalog still holds."""
        return self._tool.lease

    @property
    def stale(self) -> bool:
        """Whether it refuses every call from now on: the list changed, or the connection closed."""
        return self._tool.lease.problem() is not None

    def check(self) -> None:
        """Raises:
        CatalogError: ``mcp_catalog_stale`` or ``mcp_connection_closed``.
        """
        self._tool.lease.check()

    def fit(self, arguments: Any) -> dict[str, Any]:
        """The arguments as they would be sent: a copy that fits the input schema and the limit of bytes.

        Raises:
            CatalogError: ``mcp_invalid_arguments``.
        """
        fitting = fit_arguments(self._tool, arguments)
        if fitting is None:
            raise CatalogError("mcp_invalid_arguments")
        return fitting


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ReadRegistration(ToolRegistration):
    """A tool that only reads, as the host asserts.

    Attributes:
        concurrency_safe: as the host declared; nothing is scheduled by it.
    """

    concurrency_safe: bool

    async def call(self, arguments: Any, context: CallContext) -> CallOutcome:
        """Calls the tool, with at most one request of the catalog's; a session whose ``may_repeat`` is true may send it
        again. Cancelling it tells the server, and does not prove that it stopped.

        Args:
            arguments: checked against the input schema as they are.
            context: on whose behalf.

        Raises:
            InvalidValueError: ``context``: it is no ``CallContext``; nothing was sent.
        """
        check_context(context)
        course = Course()
        found = await perform(self._tool, arguments, context, course)
        if isinstance(found, Envelope):
            return succeeded(found.text, found.structured, "not_started")
        return failed(found, "not_started")


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class WriteRegistration(ToolRegistration):
    """A tool that writes. It is never called side by side, and never without an approval.

    Attributes:
        approval_binding: what an approval is bound to. Its ``binding_revision`` is the digest of the whole write
            catalog, so it changes with the host's own revision, the server's id, every selected schema and every
            scope.
        host_binding_revision: the host's own revision, for people.
    """

    approval_binding: ApprovalBinding
    host_binding_revision: str

    @property
    def effect(self) -> WriteEffect:
        """What the write does."""
        return self.approval_binding.effect

    @property
    def concurrency_safe(self) -> bool:
        """Never."""
        return False

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not a way to call it.

        Raises:
            GateRequiredError: always; nothing is sent.
        """
        raise GateRequiredError("no_permit")

    call = __call__
