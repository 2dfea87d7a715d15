"""Which events of a server enter the host (SPEC 6.4, 9, 14.5, 16.3, 16.6).

Owns: reading ``push/event`` and ``channels/incoming`` so that one bad tag or message costs itself alone, the decisions
in their order, and the form of events and answers. Does not own: the facts behind a decision (``authority``,
``channels``, ``dedupe``), delivery, and sending. Pure.

The order is: the grant, then the feature set (known, on, its ``uses`` names the capability), the registered channel,
what was seen before, and last the tags. Tags admit nothing; they are read when the rest is decided.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, Literal, NamedTuple

import msgspec
from msgspec import UNSET

from ..content import parse_content
from ..errors import ChannelNotPermitted, InvalidParams, InvalidValueError, RpcError, UnknownChannel
from ..protocol import (
    METHODS,
    ChannelDescriptor,
    ChannelsIncomingResult,
    IncomingMessage,
    IncomingResult,
    PushEventParams,
    PushEventResult,
    decode_params,
    method,
    read_item,
)
from ..tags import DroppedTag, ImplicationEdge, expand_tags, read_tags
from ..treatment import Treatment
from ..wire.messages import Request
from .channels import ChannelRegistry
from .events import ChannelMessage, EventAnswer, PushEvent

__all__ = (
    "MAX_TAGS",
    "ItemReason",
    "JudgedTags",
    "ReadMessage",
    "batch_error",
    "channel_message",
    "channel_reason",
    "incoming_result",
    "judge_tags",
    "push_event",
    "push_result",
    "read_messages",
    "read_push",
)

#: Tags of one event that are looked at. Each rule may look at each of them.
MAX_TAGS: Final = 256

_OWN_NAMESPACE: Final = "mcpl:"

#: Why the channel of a message keeps it out.
ItemReason = Literal["unknown_channel", "channel_not_permitted"]


# -- reading


def read_push(message: Request) -> tuple[PushEventParams, Any]:
    """The params of ``push/event``, and its ``tags`` as received.

    Raises:
        InvalidParams: the params do not fit, apart from the tags.
    """
    try:
        params: PushEventParams = decode_params(METHODS[method.PUSH_EVENT], message.raw_params)
    except InvalidParams as exc:
        if not _about_tags(exc.data["path"], "$.tags"):
            raise
    else:
        return params, params.tags
    others = {name: value for name, value in message.params.items() if name != "tags"}
    read = read_item(others, PushEventParams)
    if isinstance(read, InvalidValueError):
        raise InvalidParams(data={"path": read.path, "detail": read.detail})
    return read, message.params["tags"]


class ReadMessage(NamedTuple):
    """One message of a batch.

    Attributes:
        id: its ``messageId``, empty when there is none to answer with.
        message: the message, or what is wrong with it.
        tags: as received.
    """

    id: str
    message: IncomingMessage | InvalidValueError
    tags: Any


def read_messages(values: list[Any]) -> list[ReadMessage]:
    """The messages of ``channels/incoming``, each on its own."""
    return [_read_message(value, f"$.messages[{index}]") for index, value in enumerate(values)]


def _read_message(value: Any, path: str) -> ReadMessage:
    if not isinstance(value, dict):
        return ReadMessage("", InvalidValueError("type", "Expected `object`", path), UNSET)
    id = value.get("messageId")
    message = read_item(value, IncomingMessage, path)
    if isinstance(message, InvalidValueError) and _about_tags(message.path, f"{path}.tags"):
        message = read_item({name: item for name, item in value.items() if name != "tags"}, IncomingMessage, path)
    return ReadMessage(id if isinstance(id, str) else "", message, value.get("tags", UNSET))


def _about_tags(path: str, tags: str) -> bool:
    return path == tags or path.startswith(f"{tags}[")


# -- deciding


def channel_reason(registry: ChannelRegistry, permitted: bool, channel: str) -> ItemReason | None:
    """Why a message on this channel is not accepted, ``None`` when it may be.

    Args:
        registry: the channels of this connection, as registered.
        permitted: whether the policy lets the server have a channel of this id.
        channel: as the message claims it.
    """
    if not permitted:
        return "channel_not_permitted"
    return None if registry.find(channel) is not None else "unknown_channel"


def batch_error(reasons: Iterable[tuple[str, str | None]]) -> RpcError | None:
    """The error of a batch in which every message failed for one cause, ``None`` for all others.

    Args:
        reasons: channel and reason of each message; the reason is ``None`` for an accepted one. Reasons other than
            an ``ItemReason`` are of no single channel.
    """
    items = list(reasons)
    causes = {reason for _, reason in items}
    data = {"channelId": items[0][0]} if items else None
    if causes == {"unknown_channel"}:
        return UnknownChannel(data=data)
    return ChannelNotPermitted(data=data) if causes == {"channel_not_permitted"} else None


class JudgedTags(NamedTuple):
    """The tags of one event.

    Attributes:
        tags: after closure.
        dropped: members that are no tags.
    """

    tags: tuple[str, ...]
    dropped: tuple[DroppedTag, ...]


def judge_tags(value: Any, edges: Iterable[ImplicationEdge] = ()) -> JudgedTags:
    """Reads and closes the ``tags`` of an admitted event (SPEC 16.3). Those of ``mcpl:`` are the host's own and are
    left out: rules for what the host tells must not be reached by what a server says.

    Args:
        value: the member as received, ``UNSET`` when absent.
        edges: those of this producer that somebody accepted.
    """
    dropped: tuple[DroppedTag, ...] = ()
    if isinstance(value, list) and len(value) > MAX_TAGS:
        dropped = (DroppedTag("too_many_tags", f"$[{MAX_TAGS}]", len(value) - MAX_TAGS),)
        value = value[:MAX_TAGS]
    reading = read_tags(value)
    tags = expand_tags(reading.tags, edges)
    reserved = tuple(tag for tag in tags if tag.startswith(_OWN_NAMESPACE))
    dropped += tuple(DroppedTag("reserved_namespace", "$", tag) for tag in reserved)
    return JudgedTags(tuple(tag for tag in tags if tag not in reserved), (*reading.dropped, *dropped))


# -- forms


def push_event(server: str, params: PushEventParams, tags: tuple[str, ...], treatment: Treatment) -> PushEvent:
    """The event of admitted params; whether it wakes is decided on delivery."""
    return PushEvent(
        server=server,
        tags=tags,
        treatment=treatment,
        feature_set=params.feature_set,
        event_id=params.event_id,
        timestamp=params.timestamp,
        content=parse_content(params.payload.content),
        origin=params.origin,
        meta=params.meta,
        hints=params.hints,
    )


def channel_message(
    server: str, channel: ChannelDescriptor, message: IncomingMessage, tags: tuple[str, ...], treatment: Treatment
) -> ChannelMessage:
    """The event of an admitted message."""
    return ChannelMessage(
        server=server,
        tags=tags,
        treatment=treatment,
        channel=channel,
        message_id=message.message_id,
        author=message.author,
        timestamp=message.timestamp,
        content=parse_content(message.content),
        thread_id=message.thread_id,
        metadata=message.metadata,
    )


def push_result(answer: EventAnswer) -> PushEventResult:
    """The answer to ``push/event`` (SPEC 9.3)."""
    return PushEventResult(
        accepted=answer.accepted, inference_id=_present(answer.inference_id), reason=_present(answer.reason)
    )


def incoming_result(answers: Iterable[tuple[str, EventAnswer]]) -> ChannelsIncomingResult:
    """The answer to ``channels/incoming``: message id and answer, in order (SPEC 14.3)."""
    return ChannelsIncomingResult(
        results=[
            IncomingResult(
                message_id=id,
                accepted=answer.accepted,
                conversation_id=_present(answer.conversation_id),
                reason=_present(answer.reason),
            )
            for id, answer in answers
        ]
    )


def _present(value: str | None) -> str | msgspec.UnsetType:
    return UNSET if value is None else value
