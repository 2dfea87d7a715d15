"""The options are those that the documentation names, and all of them reach the connection."""

from __future__ import annotations

import dataclasses

import pytest

from mcpl_core.connection import McplConnection
from mcpl_core.inbox import InboxLimits
from mcpl_core.options import DEFAULT_REQUEST_TIMEOUT, ConnectionOptions, ConnectionStats
from mcpl_core.transports.memory import ScriptedTransport


def test_the_options() -> None:
    assert ConnectionOptions.__optional_keys__ == {
        "request_timeout", "max_message_bytes", "max_depth", "limits", "discard_unread",
    }  # fmt: skip
    assert ConnectionOptions.__required_keys__ == frozenset()
    documented = ConnectionOptions.__doc__ or ""
    assert [key for key in ConnectionOptions.__optional_keys__ if f"{key}:" not in documented] == []


def test_the_counters() -> None:
    fields = [field.name for field in dataclasses.fields(ConnectionStats)]
    assert fields == [
        "sent", "received", "malformed", "stray", "discarded", "pending", "unanswered", "queued", "queued_bytes",
    ]  # fmt: skip
    assert McplConnection(ScriptedTransport()).stats == ConnectionStats(*[0] * len(fields))
    with pytest.raises(dataclasses.FrozenInstanceError):
        McplConnection(ScriptedTransport()).stats.sent = 1  # type: ignore[misc]


def test_defaults() -> None:
    connection = McplConnection(ScriptedTransport(max_message_bytes=77))
    assert connection.request_timeout == DEFAULT_REQUEST_TIMEOUT == 30.0
    assert connection._intake.inbox.limits == InboxLimits()
    # What the transport takes in is also what goes out, unless somebody says otherwise.
    assert connection._peer.max_message_bytes == 77


def test_all_of_them_reach_the_connection() -> None:
    limits = InboxLimits(1, 2, 3, 4)
    connection = McplConnection(
        ScriptedTransport(),
        request_timeout=None,
        max_message_bytes=100,
        max_depth=5,
        limits=limits,
        discard_unread=True,
    )
    assert connection.request_timeout is None
    assert (connection._peer.max_message_bytes, connection._peer.max_depth) == (100, 5)
    assert connection._intake.inbox.limits is limits
    assert connection._intake._discard_unread is True
