"""What the parts of a session share: the check of what goes out, and the refusal of what comes in."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core import McplConnection
from mcpl_core.errors import CapabilityDenied, FeatureSetNotEnabled, LocalProtocolError, RpcError, UnknownFeatureSet
from mcpl_core.host import HostHandlers, HostPolicy
from mcpl_core.host.audit import AuditRecord
from mcpl_core.host.hub import Hub
from mcpl_core.host.link import ServerLink
from mcpl_core.receipts import AcceptedReceipt
from mcpl_core.transports.memory import ScriptedTransport
from tests.host.raw_server import MANIFEST


def link(policy: HostPolicy | None, audit: list[AuditRecord] | None = None, manifest: Any = MANIFEST) -> ServerLink:
    """A link after a handshake, and with a policy after its receipt."""
    hub = Hub(name="h", version="1", handlers=HostHandlers(on_audit=None if audit is None else audit.append))
    made = ServerLink(hub, "s", McplConnection(ScriptedTransport()), policy or HostPolicy())
    experimental = {} if manifest is None else {"mcpl": manifest}
    made.authority.introduce({"tools": {}, "experimental": experimental})
    if policy is not None and (change := made.authority.begin()) is not None:
        made.authority.settle(change, AcceptedReceipt())
    made.open = policy is not None
    return made


POLICY = HostPolicy.allow("tools", "pushEvents", "inferenceRequest")


def test_before_the_policy_nothing_may_be_sent() -> None:
    made = link(None)
    for name in ("tools/call", "tools/list", "context/beforeInference", "mcpl/manifest"):
        assert not made.may_send(name)


def test_a_full_peer_is_sent_what_its_grant_holds() -> None:
    made = link(POLICY)
    assert made.is_mcpl
    assert [made.may_send(name) for name in ("tools/call", "tools/list", "mcpl/manifest", "state/rollback")] == [
        True
    ] * 4
    assert not made.may_send("channels/publish")
    assert made.check_sending("tools/call").name == "tools/call"


def test_a_plain_server_is_sent_mcp_and_nothing_else() -> None:
    made = link(POLICY, manifest=None)
    assert [made.may_send(name) for name in ("tools/call", "tools/list", "ping")] == [True] * 3
    for name in ("state/rollback", "mcpl/manifest", "featureSets/update", "context/beforeInference"):
        assert not made.may_send(name)
        with pytest.raises(LocalProtocolError):
            made.check_sending(name)


def test_a_refused_sending_says_what_is_missing_and_is_recorded() -> None:
    audit: list[AuditRecord] = []
    with pytest.raises(CapabilityDenied) as caught:
        link(POLICY, audit).check_sending("channels/publish")
    assert caught.value.data["capability"] == "channels.publish"
    assert [(record.operation, record.outcome) for record in audit] == [("channels/publish", "denied")]


@pytest.mark.parametrize("name", ["push/event", "never/heard"])
def test_what_no_host_sends_is_not_sent(name: str) -> None:
    made = link(POLICY)
    assert not made.may_send(name)
    with pytest.raises(LocalProtocolError):
        made.check_sending(name)


@pytest.mark.parametrize(
    ("name", "feature_set", "further", "error", "code"),
    [
        ("push/event", "never", (), UnknownFeatureSet, "-32003"),
        ("push/event", "t.broken", (), FeatureSetNotEnabled, "invalid_uses"),
        ("push/event", "t.tools", (), CapabilityDenied, "declaration_mismatch"),
        ("channels/incoming", "t.push", (), CapabilityDenied, "-32002"),
        # Authority before convenience: what is not granted is said first, whatever the set is.
        ("inference/request", "never", ("inferenceRequest.streaming",), CapabilityDenied, "-32002"),
    ],
)
def test_a_claim_can_only_deny(
    name: str, feature_set: str, further: tuple[str, ...], error: type[RpcError], code: str
) -> None:
    audit: list[AuditRecord] = []
    with pytest.raises(error):
        link(POLICY, audit).check_claim(name, feature_set, *further)
    denied = [record for record in audit if record.outcome == "denied"]
    assert [(record.code, record.feature_set) for record in denied] == [(code, feature_set)]
    notes = [record.code for record in audit if record.outcome == "diagnostic"]
    assert notes == (["declaration_mismatch"] if code == "declaration_mismatch" else [])


def test_a_claim_that_fits_passes() -> None:
    link(POLICY).check_claim("push/event", "t.push")


def test_a_denial_without_data_has_its_code() -> None:
    audit: list[AuditRecord] = []
    with pytest.raises(RpcError):
        link(POLICY, audit).deny("x", RpcError(-32099, "no"))
    assert audit[0].code == "-32099"
