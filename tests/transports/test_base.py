"""The contract: what a transport must bring, and what it gets. What it promises is checked in ``tests/contract``."""

from __future__ import annotations

import pytest

from mcpl_core.transports.base import (
    DEFAULT_CLOSE_TIMEOUT,
    DEFAULT_MAX_CONNECTIONS,
    WRITE_HIGH_WATER,
    Listener,
    Transport,
)
from mcpl_core.transports.memory import ScriptedTransport
from mcpl_core.wire.framing import DEFAULT_MAX_MESSAGE_BYTES


def test_what_a_transport_must_bring() -> None:
    assert Transport.__abstractmethods__ == {
        "start", "write", "behind", "drain", "pause_reading", "resume_reading", "send_eof", "aclose",
    }  # fmt: skip
    with pytest.raises(TypeError):
        Transport()  # type: ignore[abstract]


def test_what_a_listener_must_bring() -> None:
    assert Listener.__abstractmethods__ == {"start", "aclose"}
    with pytest.raises(TypeError):
        Listener()  # type: ignore[abstract]


def test_limits_and_their_defaults() -> None:
    assert (WRITE_HIGH_WATER, DEFAULT_CLOSE_TIMEOUT, DEFAULT_MAX_CONNECTIONS) == (256 * 1024, 2.0, 100)
    transport = ScriptedTransport()
    assert transport.max_message_bytes == DEFAULT_MAX_MESSAGE_BYTES
    assert transport.close_timeout == DEFAULT_CLOSE_TIMEOUT
    assert ScriptedTransport(max_message_bytes=5).max_message_bytes == 5


def test_a_listener_bounds_its_connections() -> None:
    class Nowhere(Listener):
        async def start(self, loop: object, accepted: object) -> None: ...

        async def aclose(self) -> None: ...

    assert Nowhere().max_connections == DEFAULT_MAX_CONNECTIONS
    assert Nowhere(max_connections=1).max_connections == 1
    assert Nowhere().endpoint == ""
    with pytest.raises(TypeError):
        Nowhere(max_connections="1")  # type: ignore[arg-type]
