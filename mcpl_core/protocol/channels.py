"""Channels: their life, and what goes through them (SPEC 14).

Owns: the shapes of all ``channels/*`` methods. Does not own: which descriptor, channel or message is allowed
(each on its own, on arrival; SPEC 14.5), moderation, and the mapping of messages to conversations.

SPEC 14 names ``channels/acknowledge`` and ``channels/typing`` without params, and existing peers carry more
members on descriptors and ``channels/open`` than it shows: those shapes are theirs (SPEC_NOTES R-chan-1).
"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

from msgspec import UNSET, UnsetType

from ..content import Content, HasContent
from ..errors import InvalidValueError
from .base import EmptyParams, EmptyResult, Integer, WireMessage, WireStruct, read_items, whole_numbers

__all__ = (
    "ChannelCapabilities",
    "ChannelDescriptor",
    "ChannelDirection",
    "ChannelHistoryRequest",
    "ChannelsAcknowledgeParams",
    "ChannelsAcknowledgeResult",
    "ChannelsChangedParams",
    "ChannelsChangedResult",
    "ChannelsCloseParams",
    "ChannelsCloseResult",
    "ChannelsIncomingParams",
    "ChannelsIncomingResult",
    "ChannelsListParams",
    "ChannelsListResult",
    "ChannelsOpenParams",
    "ChannelsOpenResult",
    "ChannelsOutgoingChunkParams",
    "ChannelsOutgoingCompleteParams",
    "ChannelsPublishParams",
    "ChannelsPublishResult",
    "ChannelsRegisterParams",
    "ChannelsRegisterResult",
    "ChannelsTypingParams",
    "ChannelsTypingResult",
    "DescriptorResult",
    "IncomingMessage",
    "IncomingResult",
    "MessageAuthor",
)

ChannelDirection: TypeAlias = Literal["outbound", "inbound", "bidirectional"]


class ChannelCapabilities(WireStruct, frozen=True, kw_only=True):
    """What a channel can do beside carrying messages; the members are the platform's own."""

    history: dict[str, Any] | UnsetType = UNSET
    acknowledgment: dict[str, Any] | UnsetType = UNSET


class ChannelDescriptor(WireStruct, frozen=True, kw_only=True):
    """A channel (SPEC 14.2).

    Attributes:
        id: unique on its connection.
        type: the platform.
        label: for people.
        direction: as the server sees it.
        address: the platform's own name for it, as received.
        initially_open: the server's wish for a channel that the host does not know yet.
    """

    id: str
    type: str
    label: str
    direction: ChannelDirection
    address: Any = UNSET
    metadata: Any = UNSET
    initially_open: bool | UnsetType = UNSET
    capabilities: ChannelCapabilities | UnsetType = UNSET


class DescriptorResult(WireStruct, frozen=True, kw_only=True):
    """What became of one submitted descriptor (SPEC 14.5)."""

    id: str
    accepted: bool
    reason: str | UnsetType = UNSET


class ChannelsRegisterParams(WireMessage, frozen=True, kw_only=True):
    """Channels that the server handles (SPEC 14.3)."""

    channels: list[ChannelDescriptor]


class ChannelsRegisterResult(WireMessage, frozen=True, kw_only=True):
    """One result for each descriptor; absent from hosts that do not itemise."""

    results: list[DescriptorResult] | UnsetType = UNSET


class ChannelsChangedParams(WireMessage, frozen=True, kw_only=True):
    """What changed among the server's channels (SPEC 14.3). ``removed`` holds ids."""

    added: list[ChannelDescriptor] | UnsetType = UNSET
    removed: list[str] | UnsetType = UNSET
    updated: list[ChannelDescriptor] | UnsetType = UNSET


class ChannelsChangedResult(ChannelsRegisterResult, frozen=True, kw_only=True):
    """One result for each descriptor, in the Request form (SPEC 14.5)."""


class ChannelsListParams(EmptyParams, frozen=True, kw_only=True):
    """``channels/list`` asks nothing more."""


class ChannelsListResult(WireMessage, frozen=True, kw_only=True):
    """The channels that the answering side knows on this connection."""

    channels: list[ChannelDescriptor]


class ChannelHistoryRequest(WireStruct, frozen=True, kw_only=True):
    """Which earlier messages to return with an opened channel.

    Attributes:
        limit: at most so many messages.
        before_message_id: only those before this one.
        since_last_seen: only those after the last one that the server delivered.
    """

    limit: Integer
    before_message_id: str | UnsetType = UNSET
    since_last_seen: bool | UnsetType = UNSET

    def __post_init__(self) -> None:
        whole_numbers(self, "limit")


class ChannelsOpenParams(WireMessage, frozen=True, kw_only=True):
    """Open a channel: a registered one by its id, or any by type and address (SPEC 14.3).

    Raises:
        InvalidValueError: neither ``channel_id`` nor ``type`` is there (``missing``).
    """

    channel_id: str | UnsetType = UNSET
    type: str | UnsetType = UNSET
    address: Any = UNSET
    metadata: Any = UNSET
    history: ChannelHistoryRequest | UnsetType = UNSET

    def __post_init__(self) -> None:
        if self.channel_id is UNSET and self.type is UNSET:
            raise InvalidValueError("missing", "a channel is named by channelId or by type", "$.type")


class ChannelsOpenResult(WireMessage, frozen=True, kw_only=True):
    """The opened channel.

    Attributes:
        history: the messages asked for, oldest first, as received; ``read_history`` reads them one by one.
        history_truncated: there were more than were returned.
    """

    channel: ChannelDescriptor
    history: list[Any] | UnsetType = UNSET
    history_truncated: bool | UnsetType = UNSET

    def read_history(self) -> list[IncomingMessage | InvalidValueError]:
        """Each message, or what is wrong with it, in order."""
        return read_items(self.history, IncomingMessage, "$.history")


class ChannelsCloseParams(WireMessage, frozen=True, kw_only=True):
    """Close a channel (SPEC 14.3)."""

    channel_id: str


class ChannelsCloseResult(WireMessage, frozen=True, kw_only=True):
    """Whether it was closed."""

    closed: bool


class ChannelsAcknowledgeParams(WireMessage, frozen=True, kw_only=True):
    """Let the people on a channel see that a message was noticed.

    Attributes:
        intent: what is meant, such as ``seen-not-opening``.
        value: how to show it on this platform, such as an emoji.
    """

    channel_id: str
    message_id: str
    intent: str
    value: str | UnsetType = UNSET


class ChannelsAcknowledgeResult(WireMessage, frozen=True, kw_only=True):
    """What was shown.

    Attributes:
        representation: what people see now.
        reason: why nothing was shown.
    """

    acknowledged: bool
    representation: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class ChannelsTypingParams(WireMessage, frozen=True, kw_only=True):
    """Something is being written on this channel."""

    channel_id: str


class ChannelsTypingResult(EmptyResult, frozen=True, kw_only=True):
    """The answer to the Request form."""


class ChannelsOutgoingChunkParams(WireMessage, frozen=True, kw_only=True):
    """A moderated piece of text on its way to a channel; advisory (SPEC 14.3).

    Attributes:
        index: counts over all channels of one inference.
    """

    inference_id: str
    channel_id: str
    index: Integer
    delta: str
    conversation_id: str | UnsetType = UNSET

    def __post_init__(self) -> None:
        whole_numbers(self, "index")


class ChannelsOutgoingCompleteParams(HasContent, WireMessage, frozen=True, kw_only=True):
    """The end of a stream of chunks, with the whole of it; advisory (SPEC 14.3)."""

    inference_id: str
    channel_id: str
    content: Content
    conversation_id: str | UnsetType = UNSET


class ChannelsPublishParams(HasContent, WireMessage, frozen=True, kw_only=True):
    """Deliver this to a channel (SPEC 14.3)."""

    channel_id: str
    content: Content
    conversation_id: str | UnsetType = UNSET
    stream: bool = False


class ChannelsPublishResult(WireMessage, frozen=True, kw_only=True):
    """Whether it was delivered, and as which message."""

    delivered: bool
    message_id: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class MessageAuthor(WireStruct, frozen=True, kw_only=True):
    """Who wrote a message, in the platform's terms."""

    id: str
    name: str | UnsetType = UNSET


class IncomingMessage(HasContent, WireStruct, frozen=True, kw_only=True):
    """One message from a channel (SPEC 14.3, 16.1).

    Attributes:
        thread_id: absent where there are no threads; ``None`` outside of one.
        timestamp: when it was written (ISO 8601).
        tags: ``namespace:value`` labels; claims, never authority.
    """

    channel_id: str
    message_id: str
    author: MessageAuthor
    timestamp: str
    content: Content
    thread_id: str | None | UnsetType = UNSET
    metadata: Any = UNSET
    tags: list[str] | UnsetType = UNSET


class ChannelsIncomingParams(WireMessage, frozen=True, kw_only=True):
    """A batch of messages (SPEC 14.3).

    Attributes:
        messages: as received; ``read_messages`` reads them one by one, since each is answered on its own.
    """

    messages: list[Any]

    def read_messages(self) -> list[IncomingMessage | InvalidValueError]:
        """Each message, or what is wrong with it, in order."""
        return read_items(self.messages, IncomingMessage, "$.messages")


class IncomingResult(WireStruct, frozen=True, kw_only=True):
    """What became of one message of a batch."""

    message_id: str
    accepted: bool
    conversation_id: str | UnsetType = UNSET
    reason: str | UnsetType = UNSET


class ChannelsIncomingResult(WireMessage, frozen=True, kw_only=True):
    """One result for each message (SPEC 14.3)."""

    results: list[IncomingResult]
