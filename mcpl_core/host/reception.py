"""``push/event`` and ``channels/incoming`` at one session: from the wire to the application and back (SPEC 9, 14.3).

Owns: the way of an event through admission and delivery, and the records of it. Does not own: the grant's first word on
the method (``session``), the decisions (``admission``), and what becomes of an admitted event (``delivery``).

Everything is decided as the message is taken from the wire: the grant, the channels and the tags that hold are those of
that moment. Where a handler is to be awaited, grant and channel are asked once more before it is called, so that what
was taken away meanwhile stays away.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from ..dispatch import Later
from ..errors import InvalidValueError
from ..protocol import ChannelsIncomingResult, PushEventResult, decode_params, method
from ..treatment import Treatment
from ..wire.messages import Request
from .admission import (
    JudgedTags,
    ReadMessage,
    batch_error,
    channel_message,
    channel_reason,
    incoming_result,
    judge_tags,
    push_event,
    push_result,
    read_messages,
    read_push,
)
from .dedupe import EventKey, event_key
from .events import ChannelMessage, EventAnswer, PushEvent
from .link import Effect, ServerLink

__all__ = ("Reception",)

_PUSH = method.PUSH_EVENT
_INCOMING = method.CHANNELS_INCOMING


class Reception:
    """The events of one server.

    Args:
        link: the session's facts.
    """

    def __init__(self, link: ServerLink) -> None:
        self._link = link

    def effects(self) -> dict[str, Effect]:
        """What its messages do."""
        return {_PUSH: self._push, _INCOMING: self._incoming}

    # -- push/event

    def _push(self, message: Request) -> PushEventResult | Later:
        link = self._link
        params, tags = read_push(message)
        link.check_claim(_PUSH, params.feature_set)
        key = event_key(link.server, params.event_id)
        if (seen := link.hub.delivery.find(key)) is not None:
            link.audit.record(_PUSH, "success", feature_set=params.feature_set, code="duplicate")
            return push_result(seen)
        judged, treatment = self._judge(_PUSH, tags, params.feature_set, None)
        event = push_event(link.server, params, judged.tags, treatment)
        if link.hub.delivery.handler is not None:
            return Later(partial(self._handle_push, key, event))
        answer = link.hub.delivery.enqueue(key, event, len(memoryview(message.raw_params)))
        return self._pushed(event, answer)

    async def _handle_push(self, key: EventKey, event: PushEvent) -> PushEventResult:
        link = self._link
        link.check_claim(_PUSH, event.feature_set)
        return self._pushed(event, await link.hub.delivery.handle(key, event))

    def _pushed(self, event: PushEvent, answer: EventAnswer) -> PushEventResult:
        self._link.audit.record(
            _PUSH,
            "success" if answer.accepted else "failure",
            feature_set=event.feature_set,
            inference_id=answer.inference_id,
            code=answer.reason,
        )
        return push_result(answer)

    # -- channels/incoming

    def _incoming(self, message: Request) -> ChannelsIncomingResult | Later:
        params = decode_params(self._link.row(_INCOMING), message.raw_params)
        read = read_messages(params.messages)
        size = len(memoryview(message.raw_params)) // max(1, len(read))
        if self._link.hub.delivery.handler is None:
            return self._batch([self._take(item, size) for item in read])
        waiting = [self._admit(item) for item in read]
        answered = [(item, each) for item, each in zip(read, waiting, strict=True) if isinstance(each, EventAnswer)]
        if len(answered) == len(read):
            return self._batch(answered)
        return Later(partial(self._handle_batch, read, waiting))

    def _take(self, item: ReadMessage, size: int) -> tuple[ReadMessage, EventAnswer]:
        admitted = self._admit(item)
        if isinstance(admitted, EventAnswer):
            return item, admitted
        return item, self._link.hub.delivery.enqueue(*admitted, size)

    async def _handle_batch(
        self, read: list[ReadMessage], waiting: list[EventAnswer | tuple[EventKey, ChannelMessage]]
    ) -> ChannelsIncomingResult:
        link = self._link
        answers = []
        for item, admitted in zip(read, waiting, strict=True):
            if not isinstance(admitted, EventAnswer):
                key, event = admitted
                if (denied := link.authority.check(link.row(_INCOMING).capabilities)) is not None:
                    link.deny(_INCOMING, denied)
                reason = self._channel_reason(event.channel.id)
                admitted = await link.hub.delivery.handle(key, event) if reason is None else _refused(reason)
            answers.append((item, admitted))
        return self._batch(answers)

    def _admit(self, item: ReadMessage) -> EventAnswer | tuple[EventKey, ChannelMessage]:
        """The event of a message, or the answer to one that is none."""
        link, message = self._link, item.message
        if isinstance(message, InvalidValueError):
            return _refused("invalid_message")
        reason = self._channel_reason(message.channel_id)
        if reason is not None:
            return _refused(reason)
        key = event_key(link.server, message.message_id, message.channel_id)
        if (seen := link.hub.delivery.find(key)) is not None:
            return replace(seen, reason="duplicate")
        channel = link.channels.find(message.channel_id)
        assert channel is not None
        judged, treatment = self._judge(_INCOMING, item.tags, None, channel.id)
        return key, channel_message(link.server, channel, message, judged.tags, treatment)

    def _channel_reason(self, channel: str) -> Any:
        link = self._link
        return channel_reason(link.channels, link.authority.permits_channel(channel), channel)

    def _batch(self, answers: list[tuple[ReadMessage, EventAnswer]]) -> ChannelsIncomingResult:
        """The answer to a batch: itemised, or an error when all failed for one cause about the channel."""
        link = self._link
        causes = [(_channel_of(item), None if answer.accepted else answer.reason) for item, answer in answers]
        error = batch_error(causes)
        if error is not None:
            link.deny(_INCOMING, error)
        refused = sorted({reason for _, reason in causes if reason is not None})
        link.audit.record(
            _INCOMING,
            "success" if not refused else "failure",
            code=refused[0] if refused else None,
            detail=f"{len(causes)} messages" + (f"; refused: {', '.join(refused)}" if refused else ""),
        )
        return incoming_result((item.id, answer) for item, answer in answers)

    # -- both

    def _judge(
        self, name: str, tags: Any, feature_set: str | None, channel: str | None
    ) -> tuple[JudgedTags, Treatment]:
        """Tags and treatment of an event that is admitted already (SPEC 16.6)."""
        link = self._link
        acceptances = link.hub.acceptances
        judged = judge_tags(tags, acceptances.edges(link.server, feature_set))
        for dropped in judged.dropped[:3]:
            link.audit.note(name, dropped.code, f"tags{dropped.path[1:]}", feature_set=feature_set)
        policy = link.authority.policy
        return judged, policy.treat(judged.tags, source=link.server, channel=channel, accepted=acceptances.rules())


def _channel_of(item: ReadMessage) -> str:
    return "" if isinstance(item.message, InvalidValueError) else item.message.channel_id


def _refused(reason: str) -> EventAnswer:
    return EventAnswer(accepted=False, reason=reason)
