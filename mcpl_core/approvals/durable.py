"""What a host hands to its agents: the gate, its receipts and its tools, wired together or not at all.

Owns: the wiring and its checks, admission of batches, and making an intent of a call. Does not own: the agent, which
calls ``admit`` with each batch, ``prepare`` at its checkpoint and ``dispatch`` when the run goes on.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from .checks import batch_refusal
from .claims import Outcome
from .dispatching import FindRegistration, dispatch
from .errors import refuse
from .fields import identity
from .gateway import ApprovalGateway
from .idempotency import Idempotency
from .records import ApprovalIntent, ApprovalRecord
from .runs import Checkpoint, Run, RunLease, ToolCall

__all__ = ("DurableWrites", "intent_of")


def intent_of(run: Run, call: ToolCall, find: FindRegistration) -> ApprovalIntent:
    """The intent of a call: its validated arguments under the registration that holds now.

    Raises:
        ApprovalError: ``approval_intent_conflict``: there is no such tool.
        CatalogError: ``mcp_invalid_arguments``, or the catalog does not hold any more.
    """
    registration = find(call.tool_name)
    if registration is None or registration.local_name != call.tool_name:
        refuse("approval_intent_conflict")
    registration.check()
    binding = registration.approval_binding
    return ApprovalIntent(
        run.run_id,
        run.root_run_id,
        call.call_id,
        call.tool_name,
        registration.fit(call.arguments),
        run.preset_fingerprint,
        binding.binding_id,
        binding.binding_revision,
        binding.scope_id,
        binding.scope_revision,
        binding.effect,
    )


class DurableWrites:
    """The writes of one host.

    Args:
        approvals: the gate.
        idempotency: claims and receipts, of the same store.
        checkpointed: the local names of the tools that go through the gate, for which the agent keeps checkpoints.
        find: the registration of a tool that holds now. After a new discovery it answers with the new one.

    Raises:
        ApprovalError: ``approval_idempotency_unavailable``: one is missing, or they are of different stores.
        InvalidValueError: a name is none.
    """

    def __init__(
        self,
        *,
        approvals: ApprovalGateway | None,
        idempotency: Idempotency | None,
        checkpointed: Collection[str] | None,
        find: FindRegistration,
    ) -> None:
        if not isinstance(approvals, ApprovalGateway) or not isinstance(idempotency, Idempotency) or not checkpointed:
            refuse("approval_idempotency_unavailable")
        if approvals.store is not idempotency.store:
            refuse("approval_idempotency_unavailable")
        self._approvals = approvals
        self._idempotency = idempotency
        self._checkpointed = frozenset(identity(name, "$.checkpointed") for name in checkpointed)
        self._find = find

    @property
    def approvals(self) -> ApprovalGateway:
        """The gate."""
        return self._approvals

    @property
    def idempotency(self) -> Idempotency:
        """Its claims and receipts."""
        return self._idempotency

    def admit(self, tools: Sequence[str]) -> None:
        """Looks at a batch of calls before any of them is made.

        Args:
            tools: the local name of the tool of each call.

        Raises:
            ApprovalError: ``approval_batch_unsupported``: a call that needs an approval is not alone.
        """
        code = batch_refusal(tools, self._checkpointed)
        if code is not None:
            refuse(code)

    async def prepare(self, run: Run, lease: RunLease, checkpoint: Checkpoint, *, expires_at_ms: int) -> ApprovalRecord:
        """Asks for the approval of a checkpoint's one call (``ApprovalGateway.prepare``).

        Raises:
            ApprovalRequired: nobody decided yet.
            ApprovalError: the tool is not one of ``checkpointed`` (``approval_idempotency_unavailable``), or a check
                failed.
            CatalogError: the arguments do not fit, or the catalog does not hold any more.
        """
        self.admit([call.tool_name for call in checkpoint.calls])
        call = self._gated(checkpoint.calls[0])
        intent = intent_of(run, call, self._find)
        return await self._approvals.prepare(lease, checkpoint, intent, expires_at_ms=expires_at_ms)

    async def dispatch(self, lease: RunLease, call: ToolCall, *, agent_id: str | None = None) -> Outcome:
        """Makes an approved call, at most once (``dispatching.dispatch``).

        Raises:
            ApprovalError: the tool is not one of ``checkpointed`` (``approval_idempotency_unavailable``), or a check
                failed; nothing was sent.
        """
        return await dispatch(self._approvals, lease, self._gated(call), self._find, agent_id=agent_id)

    def _gated(self, call: ToolCall) -> ToolCall:
        if call.tool_name not in self._checkpointed:
            refuse("approval_idempotency_unavailable")
        return call
