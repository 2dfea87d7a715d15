"""The options are those that the documentation names, and all of them reach the connection."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import pytest

from mcpl_core.connection import McplConnection
from mcpl_core.errors import InvalidValueError
from mcpl_core.inbox import InboxLimits
from mcpl_core.options import DEFAULT_REQUEST_TIMEOUT, ConnectionOptions, ConnectionStats, check_options
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


#: Every way to give options; nothing is entered.
MAKERS: list[Callable[..., object]] = [
    lambda **options: McplConnection(ScriptedTransport(), **options),
    McplConnection.memory_pair,
    McplConnection.stdio,
    lambda **options: McplConnection.spawn(["true"], **options),
    lambda **options: McplConnection.connect("tcp://127.0.0.1:9", **options),
    lambda **options: McplConnection.listen("tcp://127.0.0.1:0", **options),
]


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("timeout", 5.0),
        ("request_timeout", "5"),
        ("request_timeout", True),
        ("max_message_bytes", "5"),
        ("max_message_bytes", None),
        ("max_message_bytes", 1e6),
        ("max_depth", "5"),
        ("limits", None),
        ("limits", (1, 2, 3, 4)),
        ("discard_unread", 1),
    ],
)
def test_what_is_no_option_is_refused_before_anything_runs(
    make: Callable[..., object], name: str, value: object
) -> None:
    with pytest.raises(TypeError, match=name):
        make(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("request_timeout", float("nan")),
        ("request_timeout", 10**400),
        ("max_message_bytes", 0),
        ("max_depth", -1),
        ("limits", InboxLimits("1")),  # type: ignore[arg-type]
    ],
)
def test_values_out_of_range_are_refused(name: str, value: object) -> None:
    with pytest.raises(InvalidValueError) as caught:
        check_options({name: value})
    assert caught.value.code == name


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"request_timeout": None},
        {"request_timeout": 0},
        {"request_timeout": float("inf"), "max_message_bytes": 1, "max_depth": 1, "discard_unread": True},
        {"limits": InboxLimits(0, 0, 0, 0)},
    ],
)
def test_values_in_range(options: dict[str, Any]) -> None:
    check_options(options)
