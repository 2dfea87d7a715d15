"""What the host on one connection allows now, as the server sees it (SPEC 5.3, 5.4, 6.4, 6.7).

Owns: the grant state of a connection, the statuses of the declared feature sets under it, and the local check of
everything that is sent or served. Does not own: the decisions themselves (``grants``, ``receipts``), and I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

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

__all__ = ("ReceiptHook", "ServerPolicy")

#: May put another receipt, such as a refusal, in the place of the one that follows from the declaration.
ReceiptHook = Callable[[AcceptedReceipt, GrantState], Receipt]


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

    def update(self, params: Any, form: MessageForm) -> tuple[UpdateOutcome, Receipt | None]:
        """Applies ``featureSets/update``. The grant that it leads to is in force when this returns, so the receipt
        is to be handed to the transport in the same turn.

        Returns:
            The outcome, and the receipt for a well-formed Request (``None`` otherwise).
        """
        outcome = grant_from_update(self.grant, params, form)
        self.grant = outcome.state
        self._statuses = None
        if form == "notification" or outcome.malformed is not None:
            return outcome, None
        receipt: Receipt = degradation_receipt(self._declared(), self.grant, vocabulary=self._vocabulary)
        if self._receipt_hook is not None:
            assert isinstance(receipt, AcceptedReceipt)
            receipt = self._receipt_hook(receipt, self.grant)
        self.refused = isinstance(receipt, RefusedReceipt)
        if self.refused:
            self.grant = GrantState()
        return outcome, receipt

    def check(self, entry: Method, feature_set: str | None = None, further: Collection[str] = ()) -> None:
        """Whether a message of ``entry`` may be sent or served now.

        Args:
            entry: the method's row.
            feature_set: the set that the message names, if any.
            further: paths that its params need besides.

        Raises:
            CapabilityDenied: the grant does not hold what the method needs, or the set's ``uses`` does not.
            FeatureSetNotEnabled, UnknownFeatureSet: the set is off, or was never declared.
        """
        denied: RpcError | None = check_method(self.grant, entry.capabilities)
        for path in further:
            denied = denied or check_method(self.grant, (path,))
        if denied is None and feature_set is not None:
            denied = check_feature_set(self.statuses, feature_set, entry.capabilities)
        if denied is not None:
            raise denied

    def allows(self, path: str) -> bool:
        """Whether ``path`` is granted now."""
        return self.grant.allows(path)
