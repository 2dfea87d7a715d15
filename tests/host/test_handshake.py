"""The first exchange with a server."""

from __future__ import annotations

import pytest

from mcpl_core.errors import InvalidResultError
from mcpl_core.host import DENY_ALL, HostPolicy
from mcpl_core.host.handshake import PROTOCOL_VERSION, SUPPORTED_VERSIONS, checked_version, initialize_params
from mcpl_core.host.hub import Hub
from mcpl_core.protocol import Implementation, InitializeResult
from mcpl_core.wire.values import decode_value, encode_value

HUB = Hub(name="h", version="1")


def answer(version: str) -> InitializeResult:
    return InitializeResult(
        protocol_version=version, capabilities={}, server_info=Implementation(name="s", version="1")
    )


def test_the_host_names_itself_and_the_newest_version() -> None:
    params = decode_value(encode_value(initialize_params(HUB, DENY_ALL)))
    assert params["clientInfo"] == {"name": "h", "version": "1"}
    assert params["protocolVersion"] == PROTOCOL_VERSION == "2025-11-25"
    assert params["capabilities"].keys() == {"experimental"}


def test_what_the_host_says_does_not_tell_its_policy() -> None:
    assert initialize_params(HUB, DENY_ALL) == initialize_params(HUB, HostPolicy.allow("tools", "channels.*"))


@pytest.mark.parametrize("version", SUPPORTED_VERSIONS)
def test_the_versions_of_the_handshake_era_are_spoken(version: str) -> None:
    assert checked_version(answer(version)) == version


@pytest.mark.parametrize("version", ["2026-07-28", "", "2024-11-06"])
def test_others_are_not(version: str) -> None:
    with pytest.raises(InvalidResultError) as caught:
        checked_version(answer(version))
    assert caught.value.path == "$.protocolVersion"
