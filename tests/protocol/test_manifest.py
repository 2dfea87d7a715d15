from __future__ import annotations

from typing import get_args, get_type_hints

import pytest

from mcpl_core.capabilities import advertised_capabilities_from_initialize
from mcpl_core.errors import InvalidValueError
from mcpl_core.protocol.codec import decode_typed
from mcpl_core.protocol.manifest import (
    CHANGE_DOMAINS,
    MCPL_VERSION,
    ChangeDisposition,
    ChangeDomain,
    ChangeImpact,
    ChannelsAdvertisement,
    InitializeCapabilities,
    Manifest,
    ManifestChangedParams,
    McplCapabilities,
)
from mcpl_core.wire.values import encode_value

REVISION = "sha256:QLXa7BigUFzNlw_IWPSqpYbDzdvBX7PVQIPS5lgnkaw"


def _announcement(revision: str = REVISION, rest: str = '"domains":["capabilities","featureSets"]') -> bytes:
    return f'{{"revision":"{revision}",{rest}}}'.encode()


@pytest.mark.spec("17.3-1")
def test_an_announcement() -> None:
    params = decode_typed(_announcement(), ManifestChangedParams)
    assert params == ManifestChangedParams(revision=REVISION, domains=["capabilities", "featureSets"])
    assert encode_value(params) == _announcement()


@pytest.mark.parametrize(
    ("rest", "path"),
    [
        ('"domains":[]', "$.domains"),
        ('"domains":null', "$.domains"),
        ('"domains":["everything"]', "$.domains[0]"),
        ('"domains":["capabilities","Capabilities"]', "$.domains[1]"),
        ('"domain":"capabilities"', "$"),
    ],
)
@pytest.mark.spec("17.3-2")
def test_domains(rest: str, path: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        decode_typed(_announcement(rest=rest), ManifestChangedParams)
    assert caught.value.path == path


@pytest.mark.parametrize("extra", ['"added":["pushEvents"]', '"_meta":{}', '"requiresReview":true'])
@pytest.mark.spec("17.3-1")
def test_an_announcement_carries_nothing_else(extra: str) -> None:
    with pytest.raises(InvalidValueError):
        decode_typed(_announcement(rest=f'"domains":["capabilities"],{extra}'), ManifestChangedParams)


@pytest.mark.parametrize(
    "revision",
    ["", "sha256:", REVISION[:-1], REVISION + "A", REVISION + "\\n", "md5:" + REVISION[7:], REVISION[:-1] + "="],
)
def test_revisions_that_are_none(revision: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        decode_typed(_announcement(revision), ManifestChangedParams)
    assert caught.value.path == "$.revision"


def test_closed_vocabularies() -> None:
    assert CHANGE_DOMAINS == get_args(ChangeDomain)
    assert len(get_args(ChangeImpact)) == 7
    assert get_args(ChangeDisposition) == ("applied", "decision-needed", "informational")


def test_the_manifest_is_a_tree() -> None:
    text = b'{"version":"0.5","pushEvents":false,"later":null,"featureSets":{}}'
    assert encode_value(decode_typed(text, Manifest)) == text


def test_the_described_tree_is_the_vocabularys() -> None:
    """Everything that the classes name and that says true is advertised."""
    channels: ChannelsAdvertisement = {
        "register": True,
        "lifecycle": True,
        "publish": True,
        "incoming": True,
        "streaming": True,
        "acknowledge": True,
        "typing": True,
    }
    mcpl: McplCapabilities = {
        "version": MCPL_VERSION,
        "pushEvents": True,
        "modelInfo": True,
        "inferenceLifecycle": True,
        "inferenceRequest": {"streaming": True},
        "contextHooks": {
            "beforeInference": {
                "observe": True,
                "inject": {"system": True, "beforeUser": True, "afterUser": True},
            }
        },
        "channels": channels,
    }
    capabilities: InitializeCapabilities = {"tools": {}, "experimental": {"mcpl": mcpl}}
    assert len(advertised_capabilities_from_initialize(capabilities)) == 17
    assert set(get_type_hints(ChannelsAdvertisement)) == set(channels)
