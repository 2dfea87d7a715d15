"""The registry of one server's channels."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidParams
from mcpl_core.host.channels import ChannelRegistry
from mcpl_core.protocol import ChannelDescriptor, DescriptorResult


def descriptor(id: str, label: str = "x") -> dict[str, Any]:
    return {"id": id, "type": "chat", "label": label, "direction": "bidirectional"}


class Host:
    """What a registry asks."""

    def __init__(self, permitted: Iterable[str] | None = None) -> None:
        self.granted = {"channels.register", "channels.lifecycle"}
        self.permitted = None if permitted is None else set(permitted)
        self.registry = ChannelRegistry(self.permits, self.granted.__contains__)

    def permits(self, channel: str) -> bool:
        return self.permitted is None or channel in self.permitted


def outcome(results: list[DescriptorResult]) -> list[tuple[str, bool]]:
    return [(result.id, result.accepted) for result in results]


@pytest.mark.spec("14.5-1", "14.5-2", "14.5-5")
def test_one_permitted_descriptor_carries_nine_forbidden_ones_nowhere() -> None:
    host = Host(["c4"])
    results = host.registry.register([descriptor(f"c{number}") for number in range(10)])
    assert outcome(results) == [(f"c{number}", number == 4) for number in range(10)]
    assert {result.reason for result in results if not result.accepted} == {"capability_denied"}
    assert [channel.id for channel in host.registry.listing()] == ["c4"]


@given(st.lists(st.sampled_from("abcdefgh"), max_size=12), st.sets(st.sampled_from("abcdefgh")))
def test_each_descriptor_is_decided_by_its_own_id(ids: list[str], permitted: set[str]) -> None:
    host = Host(permitted)
    results = host.registry.register([descriptor(id) for id in ids])
    assert outcome(results) == [(id, id in permitted) for id in ids]
    assert {channel.id for channel in host.registry.listing()} == set(ids) & permitted


@pytest.mark.parametrize(
    ("value", "id"),
    [
        ({"id": "a", "type": 1}, "a"),
        ({"type": "chat"}, ""),
        ("a", ""),
        (None, ""),
        (descriptor(""), ""),
        (descriptor("x" * 2000), "x" * 1024),
        ({**descriptor("a"), "direction": "sideways"}, "a"),
    ],
)
def test_a_bad_descriptor_costs_itself(value: Any, id: str) -> None:
    results = Host().registry.register([value, descriptor("good")])
    assert outcome(results) == [(id, False), ("good", True)]
    assert results[0].reason == "invalid_descriptor"


@pytest.mark.parametrize("value", [None, {}, "a", 1])
def test_what_is_no_array_is_refused(value: Any) -> None:
    registry = Host().registry
    with pytest.raises(InvalidParams):
        registry.register(value)
    registry.register([descriptor("a")])
    combinations: list[tuple[Any, Any, Any]] = [(value, [], []), ([], value, []), ([], [], value)]
    for members in combinations:
        with pytest.raises(InvalidParams):
            registry.change(*members)
    assert registry.knows("a")


def test_changes_remove_add_and_update() -> None:
    registry = Host().registry
    registry.register([descriptor("a"), descriptor("b")])
    results = registry.change([descriptor("c")], ["a", 7, "never"], [descriptor("b", "new"), descriptor("d")])
    assert outcome(results) == [("c", True), ("b", True), ("d", False)]
    assert results[-1].reason == "unknown_channel"
    assert [(channel.id, channel.label) for channel in registry.listing()] == [("b", "new"), ("c", "x")]
    assert outcome(registry.change([], [], [{"id": 7}])) == [("", False)]


@pytest.mark.spec("14.5-8")
def test_a_registration_does_not_outlive_its_capability() -> None:
    host = Host()
    host.registry.register([descriptor("a")])
    host.granted.discard("channels.register")
    assert host.registry.find("a") is None
    assert host.registry.knows("a")
    assert host.registry.prune() == ["a"]
    host.granted.add("channels.register")
    assert host.registry.find("a") is None
    assert not host.registry.knows("a")


def test_a_narrower_policy_takes_channels_away() -> None:
    host = Host()
    host.registry.register([descriptor("a"), descriptor("b")])
    host.permitted = {"b"}
    assert host.registry.find("a") is None
    assert host.registry.prune() == ["a"]
    assert len(host.registry) == 1


def test_without_the_capability_nothing_is_registered() -> None:
    host = Host()
    host.granted.clear()
    assert outcome(host.registry.register([descriptor("a")])) == [("a", False)]


def test_there_is_a_limit() -> None:
    host = Host()
    registry = ChannelRegistry(host.permits, host.granted.__contains__, limit=1)
    results = registry.register([descriptor("a"), descriptor("b"), descriptor("a", "again")])
    assert [(result.accepted, result.reason) for result in results][1] == (False, "too_many_channels")
    assert [channel.label for channel in registry.listing()] == ["again"]
    assert not registry.opened(ChannelDescriptor(**descriptor("c")))


def test_a_channel_that_the_host_opened_stands_on_lifecycle() -> None:
    host = Host(["a", "b"])
    registry = host.registry
    registry.register([descriptor("b")])
    assert registry.opened(ChannelDescriptor(**descriptor("a")))
    assert registry.opened(ChannelDescriptor(**descriptor("b", "opened")))
    assert not registry.opened(ChannelDescriptor(**descriptor("forbidden")))
    assert not registry.opened(ChannelDescriptor(**descriptor("")))
    host.granted.discard("channels.register")
    assert [channel.id for channel in registry.listing()] == ["a"]
    registry.closed("a")
    registry.closed("b")
    registry.closed("never")
    assert (registry.knows("a"), registry.knows("b")) == (False, True)
    host.granted.discard("channels.lifecycle")
    assert not registry.opened(ChannelDescriptor(**descriptor("a")))
