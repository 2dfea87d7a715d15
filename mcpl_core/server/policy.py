"""What the host on one connection allows now, as the server sees it (SPEC 5.3, 5.4, 6.4, 6.7).

Owns: the grant state of a connection, the statuses of the declared feature sets under it, and the local check of
everything that is sent or served. Does not own: the decisions themselves (``grants``, ``receipts``), and I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, NamedTuple

from msgspec import Raw

from ..capabilities import VOCABULARY, Vocabulary
from ..errors import RpcError
from ..grants import (
    FeatureSetStatus,
    GrantState,
    UpdateOutcome,
    check_feature_set,
    check_method,
    derive_feature_sets,
    grant_from_update,
)
from ..protocol import MessageForm, Method
from ..receipts import AcceptedReceipt, Receipt, RefusedReceipt, degradation_receipt
from ..wire.values import encode_value

__all__ = ("PolicyUpdate", "ReceiptHook", "ServerPolicy")

#: May put another receipt, such as a refusal, in the place of the one that follows from the declaration.
ReceiptHook = Callable[[AcceptedReceipt, GrantState], Receipt]


class PolicyUpdate(NamedTuple):
    """What one ``featureSets/update`` led to.

    Attributes:
        outcome: as ``grants`` found it.
        answer: the receipt as JSON text; ``None`` when there is none to give.
        close: the server refused and wants the connection closed (SPEC 6.7).
    """

    outcome: UpdateOutcome
    answer: Raw | None = None
    close: bool = False


class ServerPolicy:
    """One connection's policy.

    Args:
        declared: returns the manifest's ``featureSets`` member in force.
        vocabulary: the capability paths that are known.
        receipt_hook: see ``ReceiptHook``.

    Attributes:
        grant: the state. Before the initial policy nothing is allowed.
        refused: the server refused the policy and serves plain MCP instead (SPEC 6.7, ``fallback: mcp-only``).
    """

    def __init__(
        self,
        declared: Callable[[], Any],
        vocabulary: Vocabulary = VOCABULARY,
        receipt_hook: ReceiptHook | None = None,
    ) -> None:
        self._declared = declared
        self._vocabulary = vocabulary
        self._receipt_hook = receipt_hook
        self.grant = GrantState()
        self.refused = False
        self._statuses: dict[str, FeatureSetStatus] | None = None

    @property
    def ready(self) -> bool:
        """Whether the initial policy exchange is complete (SPEC 5.3)."""
        return self.grant.ready

    @property
    def statuses(self) -> dict[str, FeatureSetStatus]:
        """Every declared feature set under the grant."""
        if self._statuses is None:
            self._statuses = derive_feature_sets(self._declared(), self.grant, self._vocabulary)
        return self._statuses

    def redeclared(self) -> None:
        """The declarations changed."""
        self._statuses = None

    def update(self, params: Any, form: MessageForm) -> PolicyUpdate:
        """Applies ``featureSets/update``. The grant that it leads to is in force when this returns, so the receipt
        is to be handed to the transport in the same turn.

        Raises:
            Exception: what the receipt hook raises; nothing is granted then.
        """
        outcome = grant_from_update(self.grant, params, form)
        self._statuses = None
        if form == "notification":
            self.grant = outcome.state
            return PolicyUpdate(outcome)
        self.refused = False
        if outcome.malformed is not None:
            self.grant = outcome.state
            return PolicyUpdate(outcome)
        # Nothing is in force while the receipt is made, in case that it cannot be.
        self.grant = GrantState()
        receipt = self._receipt(outcome.state)
        answer = Raw(encode_value(receipt.to_wire()))
        if isinstance(receipt, RefusedReceipt):
            self.refused = receipt.fallback == "mcp-only"
            return PolicyUpdate(outcome, answer, close=receipt.fallback == "close")
        self.grant = outcome.state
        return PolicyUpdate(outcome, answer)

    def _receipt(self, grant: GrantState) -> Receipt:
        receipt = degradation_receipt(self._declared(), grant, vocabulary=self._vocabulary)
        return receipt if self._receipt_hook is None else self._receipt_hook(receipt, grant)

    def denial(self, entry: Method, feature_set: Any = None, further: Collection[str] = ()) -> RpcError | None:
        """Why a message of ``entry`` may not be sent or served now; ``None`` when it may.

        Args:
            entry: the method's row.
            feature_set: the set that the message names, if any.
            further: paths that its params need besides.
        """
        if feature_set is None and not further:
            return check_method(self.grant, entry.capabilities)
        needs = (entry.capabilities, *((path,) for path in further))
        denied: RpcError | None = None
        for alternatives in needs:
            denied = denied or check_method(self.grant, alternatives)
        if feature_set is not None:
            for alternatives in needs:
                denied = denied or check_feature_set(self.statuses, feature_set, alternatives)
        return denied

    def check(self, entry: Method, feature_set: Any = None, further: Collection[str] = ()) -> None:
        """As ``denial``, which it raises.

        Raises:
            CapabilityDenied: the grant does not hold what the method needs, or the set's ``uses`` does not.
            FeatureSetNotEnabled, UnknownFeatureSet: the set is off, or was never declared.
        """
        denied = self.denial(entry, feature_set, further)
        if denied is not None:
            raise denied

    def allows(self, path: str) -> bool:
        """Whether ``path`` is granted now."""
        return self.grant.allows(path)

    def enabled(self, feature_set: str) -> bool:
        """Whether the feature set is declared and on now."""
        status = self.statuses.get(feature_set)
        return status is not None and status.enabled
