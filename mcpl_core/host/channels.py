"""The channels of one server, as its host registered them (SPEC 14.2, 14.3, 14.5).

Owns: the registry, and the decision on each descriptor by itself. Does not own: the policy behind a decision
(``authority``), messages (``admission``), and sending. Pure.

A descriptor is accepted for its own id alone; what else stands in the same message does not matter. A registration
stands on the capability by which it came, and goes when that goes: what is registered was registered under the grant
that is in force.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from ..errors import InvalidParams, InvalidValueError
from ..protocol import ChannelDescriptor, DescriptorResult, read_items

__all__ = ("DEFAULT_CHANNEL_LIMIT", "ChannelRegistry", "RegisteredChannel")

#: Channels that one server may have.
DEFAULT_CHANNEL_LIMIT: Final = 10_000

#: Characters of a channel id.
_LONGEST_ID: Final = 1024

_REGISTER: Final = "channels.register"
_LIFECYCLE: Final = "channels.lifecycle"


@dataclass(frozen=True, slots=True)
class RegisteredChannel:
    """One entry.

    Attributes:
        descriptor: as the server described it last.
        capability: the path that the entry stands on: the server registered it, or the host opened it.
    """

    descriptor: ChannelDescriptor
    capability: str


class ChannelRegistry:
    """The registered channels of one connection.

    Args:
        permits: whether the policy lets the server have a channel of an id, now.
        allows: whether a capability path is granted, now.
        limit: how many channels there may be.
    """

    def __init__(
        self, permits: Callable[[str], bool], allows: Callable[[str], bool], limit: int = DEFAULT_CHANNEL_LIMIT
    ) -> None:
        self._permits = permits
        self._allows = allows
        self._limit = limit
        self._entries: dict[str, RegisteredChannel] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def knows(self, id: str) -> bool:
        """Whether a channel is registered, whatever is permitted by now."""
        return id in self._entries

    def find(self, id: str) -> ChannelDescriptor | None:
        """The channel, when it is registered and still may be (SPEC 14.5)."""
        entry = self._entries.get(id)
        if entry is None or not self._allows(entry.capability) or not self._permits(id):
            return None
        return entry.descriptor

    def listing(self) -> list[ChannelDescriptor]:
        """The channels that ``find`` finds, in the order of their registration."""
        return [entry.descriptor for id, entry in self._entries.items() if self.find(id) is not None]

    # -- what the server asks for; each descriptor is decided on its own

    def register(self, channels: Any) -> list[DescriptorResult]:
        """``channels/register``: one result for each descriptor.

        Args:
            channels: the member as received.

        Raises:
            InvalidParams: it is no array.
        """
        return [self._add(value, item) for value, item in _descriptors(channels, "$.channels")]

    def change(self, added: Any, removed: Any, updated: Any) -> list[DescriptorResult]:
        """``channels/changed``: removals, then additions, then updates; one result for each descriptor.

        Args:
            added, removed, updated: the members as received; an empty list for an absent one.

        Raises:
            InvalidParams: one is no array; nothing was changed.
        """
        new, known = _descriptors(added, "$.added"), _descriptors(updated, "$.updated")
        if not isinstance(removed, list):
            raise InvalidParams(data={"path": "$.removed", "detail": "expected an array"})
        for id in removed:
            if isinstance(id, str):
                self._entries.pop(id, None)
        return [self._add(value, item) for value, item in new] + [self._update(value, item) for value, item in known]

    def _add(self, value: Any, item: ChannelDescriptor | InvalidValueError) -> DescriptorResult:
        if isinstance(item, InvalidValueError) or not 0 < len(item.id) <= _LONGEST_ID:
            return _refused(_id_of(value), "invalid_descriptor")
        if not self._allows(_REGISTER) or not self._permits(item.id):
            return _refused(item.id, "capability_denied")
        if item.id not in self._entries and len(self._entries) >= self._limit:
            return _refused(item.id, "too_many_channels")
        self._entries[item.id] = RegisteredChannel(item, _REGISTER)
        return DescriptorResult(id=item.id, accepted=True)

    def _update(self, value: Any, item: ChannelDescriptor | InvalidValueError) -> DescriptorResult:
        if isinstance(item, ChannelDescriptor) and item.id not in self._entries:
            return _refused(item.id, "unknown_channel")
        return self._add(value, item)

    # -- what the host does

    def opened(self, channel: ChannelDescriptor) -> bool:
        """``channels/open`` was answered with this channel; false when the server may not have it."""
        if not self._allows(_LIFECYCLE) or not self._permits(channel.id) or not 0 < len(channel.id) <= _LONGEST_ID:
            return False
        known = self._entries.get(channel.id)
        if known is None and len(self._entries) >= self._limit:
            return False
        self._entries[channel.id] = RegisteredChannel(channel, _LIFECYCLE if known is None else known.capability)
        return True

    def closed(self, id: str) -> None:
        """A channel was closed; one that was there only because the host opened it is gone."""
        entry = self._entries.get(id)
        if entry is not None and entry.capability == _LIFECYCLE:
            del self._entries[id]

    def prune(self) -> list[str]:
        """The grant or the policy changed: drops what no longer may be, and returns the ids. A later expansion does
        not bring them back."""
        gone = [id for id in self._entries if self.find(id) is None]
        for id in gone:
            del self._entries[id]
        return gone


def _descriptors(values: Any, path: str) -> list[tuple[Any, ChannelDescriptor | InvalidValueError]]:
    if not isinstance(values, list):
        raise InvalidParams(data={"path": path, "detail": "expected an array"})
    return list(zip(values, read_items(values, ChannelDescriptor, path), strict=True))


def _id_of(value: Any) -> str:
    id = value.get("id") if isinstance(value, dict) else None
    return id[:_LONGEST_ID] if isinstance(id, str) else ""


def _refused(id: str, reason: str) -> DescriptorResult:
    return DescriptorResult(id=id, accepted=False, reason=reason)
