"""What one server may do now, and how that changes (SPEC 5.3, 5.4, 6.4, 6.7, 17.5).

Owns: the grant in force, what the server was told, the manifest that both were computed from, and the order of changes:
what is taken away is gone at once, what is given waits for the server's receipt. Does not own: the rules (``policy``),
the decisions behind one exchange (``negotiation``), and sending. Pure: one call after the other, no I/O.

Nothing here takes a path from a receipt, from a manifest alone, or from a message: a grant grows in ``settle`` only, to
a state that the policy proposed, and no further than what the policy wants by then.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

from ..capabilities import advertised_capabilities_from_initialize, capability_granted
from ..errors import CapabilityDenied, RpcError
from ..grants import FeatureSetStatus, GrantState, Malformed, check_feature_set, check_method, derive_feature_sets
from ..manifest import HostFacts, ManifestChange, ManifestReading, assess_change, validate_manifest
from ..negotiation import PolicyChange, ServerMode, plan_change, settle
from ..protocol import mcpl_manifest
from ..receipts import AcceptedReceipt, Receipt, UnavailableFeature
from .policy import HostPolicy

__all__ = ("Authority",)


class Authority:
    """The authority of one server on one connection.

    Args:
        server: the id that the host gave it.
        policy: the host's rules.

    Attributes:
        grant: what holds at this moment. Not ready before the initial exchange is complete.
        mode: ``mcpl``, or ``mcp-only``: its tools work without a grant, and nothing else does.
        reading: the manifest in force, ``None`` for a plain MCP server.
        receipt: the server's last answer to a policy: testimony, for people.
    """

    def __init__(self, server: str, policy: HostPolicy) -> None:
        self.server = server
        self.policy = policy
        self.grant = GrantState()
        self.mode: ServerMode = "mcp-only"
        self.reading: ManifestReading | None = None
        self.receipt: Receipt | Malformed | None = None
        #: Feature sets that changes of the manifest turned off.
        self.degraded_by_change: Collection[str] = ()
        self._outer: frozenset[str] = frozenset()
        self._wanted = GrantState()
        #: What the server acknowledged; ``None`` when that is not known.
        self._told: GrantState | None = None
        self._sent: PolicyChange | None = None
        self._statuses: dict[str, FeatureSetStatus] | None = None
        #: The sets with ``rollback``, and the reading that they are of.
        self._rollback: tuple[ManifestReading | None, tuple[str, ...]] = (None, ())

    # -- the handshake

    def introduce(self, capabilities: Any) -> ManifestReading | None:
        """Takes the ``capabilities`` of the ``initialize`` result (SPEC 5.1). Nothing is granted by it.

        Returns:
            The reading of its manifest; ``None`` for a plain MCP server.

        Raises:
            InvalidValueError: the ``experimental.mcpl`` member is there and no object (``manifest_not_object``).
        """
        manifest = mcpl_manifest(capabilities)
        self._outer = advertised_capabilities_from_initialize(
            {"tools": capabilities.get("tools")} if isinstance(capabilities, dict) else None, self.policy.vocabulary
        )
        if not manifest and not isinstance(manifest, dict):
            return None
        self.reading = validate_manifest(manifest, self.policy.vocabulary)
        self._wanted = self._by_policy(self.reading)
        return self.reading

    @property
    def advertised(self) -> frozenset[str]:
        """The paths that the server advertises now."""
        return frozenset() if self.reading is None else self.reading.capabilities | self._outer

    # -- decisions

    @property
    def ready(self) -> bool:
        """Whether the initial policy exchange is complete (SPEC 5.3)."""
        return self.grant.ready

    @property
    def degraded(self) -> tuple[UnavailableFeature, ...]:
        """What the receipt said that the server will not provide."""
        return self.receipt.unavailable_features if isinstance(self.receipt, AcceptedReceipt) else ()

    @property
    def statuses(self) -> dict[str, FeatureSetStatus]:
        """Every declared feature set under the grant."""
        if self._statuses is None:
            declared = None if self.reading is None else self.reading.feature_sets
            self._statuses = derive_feature_sets(declared, self.grant, self.policy.vocabulary)
        return self._statuses

    @property
    def rollback_sets(self) -> tuple[str, ...]:
        """The declared feature sets with ``rollback`` (SPEC 8.5), in order."""
        reading = self.reading
        if self._rollback[0] is not reading:
            declared = {} if reading is None else reading.feature_sets
            names = (
                name for name, entry in declared.items() if isinstance(entry, dict) and entry.get("rollback") is True
            )
            self._rollback = (reading, tuple(names))
        return self._rollback[1]

    def allows(self, path: str) -> bool:
        """Whether ``path`` is granted now."""
        return self.grant.allows(path)

    def check(self, alternatives: Collection[str]) -> CapabilityDenied | None:
        """Whether a message that needs one of ``alternatives`` may pass now; the error to answer with."""
        return check_method(self.grant, alternatives)

    def check_feature_set(self, name: Any, alternatives: Collection[str]) -> RpcError | None:
        """Whether a message may name the feature set ``name``. What the server claims can only deny."""
        return check_feature_set(self.statuses, name, alternatives)

    def permits_channel(self, channel: str) -> bool:
        """Whether the policy lets the server have a channel of this id."""
        return self.policy.permits_channel(self.server, channel)

    # -- changes

    def adopt(self, policy: HostPolicy) -> None:
        """Other rules hold from now on; what they take away is gone when this returns."""
        self.policy = policy
        if self.reading is not None:
            # The vocabulary may be another one.
            self.reading = validate_manifest(self.reading.manifest, policy.vocabulary)
            self._want(self._by_policy(self.reading))

    def renegotiate(self) -> None:
        """Judges by the rules what the server advertises by now, additions included (SPEC 17.5)."""
        if self.reading is not None:
            self._want(self._by_policy(self.reading))

    def revise(self, reading: ManifestReading, facts: HostFacts) -> ManifestChange:
        """Puts a fetched manifest in force: removals at once, additions not by themselves (SPEC 17.5).

        Args:
            reading: of the fetched manifest.
            facts: what else the host knows; grant and degradation are filled in here.
        """
        assert self.reading is not None
        facts = replace(facts, grant=self.grant, degraded=self.degraded_by_change)
        change = assess_change(self.reading, reading, facts, self.policy.vocabulary)
        self.degraded_by_change = change.degraded
        self.reading = reading
        self._install(change.grant)
        wanted = self._by_policy(reading)
        if not self.policy.expand_on_change:
            known = self._wanted.effective_capabilities
            kept = tuple(path for path in wanted.effective_capabilities if capability_granted(known, path))
            wanted = replace(wanted, effective_capabilities=kept)
        self._want(wanted)
        return change

    def revoke(self) -> None:
        """Takes everything away: the server is a plain MCP server from now on, whatever it answers to what it was
        told before."""
        self.mode = "mcp-only"
        self._sent = None
        self._told = None
        self._install(GrantState())

    def begin(self) -> PolicyChange | None:
        """The next policy to send; ``None`` when the server knows all there is to tell. What both the old and the new
        policy allow is in force when this returns, and nothing else."""
        if self.reading is None or (self._told is not None and not plan_change(self._told, self._wanted).needed):
            return None
        change = plan_change(self.grant, self._wanted)
        self._install(change.in_force)
        self._sent = change
        # Until it answered, nobody can say what the server takes to be in force.
        self._told = None
        return change

    def settle(self, change: PolicyChange, answer: Receipt | Malformed | None) -> ServerMode:
        """What the answer to a policy leads to (SPEC 6.7); in force when this returns. Nothing, when the policy was
        overtaken by ``revoke``.

        Args:
            change: what was sent, from ``begin``.
            answer: the receipt as read; ``None`` for an error, or no answer in time.
        """
        if change is not self._sent:
            return self.mode
        self._sent = None
        self.receipt = answer
        settlement = settle(change, answer, limit=self._wanted)
        self._told = change.proposed if isinstance(answer, AcceptedReceipt) else None
        self.mode = settlement.mode
        self._install(settlement.grant)
        return settlement.mode

    def _by_policy(self, reading: ManifestReading) -> GrantState:
        return self.policy.grant(self.server, reading.capabilities | self._outer, reading.feature_sets)

    def _want(self, wanted: GrantState) -> None:
        """Another policy is wanted. What it lacks is gone at once; what it adds waits for ``settle``."""
        self._wanted = wanted
        self._install(plan_change(self.grant, wanted).in_force)

    def _install(self, grant: GrantState) -> None:
        self.grant = grant
        self._statuses = None
