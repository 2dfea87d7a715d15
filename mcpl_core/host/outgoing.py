"""Outgoing text while it is being written, for the servers that show it (SPEC 14.3).

Owns: one count over all channels of an inference, which server may hear what, and that each stream is closed once. Does
not own: moderation: text comes in by a parameter of that name, and what was not moderated is not to be handed in; and
delivery, which is ``channels/publish``.

Chunks are advisory. One is not sent to a server that does not keep up; the closing message has the whole text.
"""

from __future__ import annotations

from typing import Any

from msgspec import UNSET

from ..protocol import ChannelsOutgoingChunkParams, ChannelsOutgoingCompleteParams, method
from .link import ServerLink

__all__ = ("Outgoing",)

_CHUNK = method.CHANNELS_OUTGOING_CHUNK
_COMPLETE = method.CHANNELS_OUTGOING_COMPLETE
_STREAMING = "channels.streaming"


class Outgoing:
    """The streams of one inference.

    Args:
        inference_id: its id.
        conversation_id: its conversation, if any.
    """

    def __init__(self, inference_id: str, conversation_id: str | None = None) -> None:
        self._inference_id = inference_id
        self._conversation_id = UNSET if conversation_id is None else conversation_id
        self._index = 0
        self._texts: dict[tuple[ServerLink, str], list[str]] = {}
        self._done: set[tuple[ServerLink, str]] = set()

    def chunk(self, link: ServerLink, channel: str, *, moderated: str) -> bool:
        """Sends a piece of text to the server that registered a channel.

        Args:
            link: that server.
            channel: the channel's id.
            moderated: text that the host's delivery would deliver to this channel, and nothing else.

        Returns:
            Whether the stream goes on: false when the server did not declare streaming, may not have it, or has no
            such channel, or when the stream is closed. Then nothing is sent.
        """
        stream = (link, channel)
        if stream in self._done or not self._may_stream(link, channel):
            return False
        text = self._texts.get(stream)
        if text is None or not link.connection.transport.behind:
            # The first one is always sent: without one there is no stream to close.
            params = ChannelsOutgoingChunkParams(
                inference_id=self._inference_id,
                conversation_id=self._conversation_id,
                channel_id=channel,
                index=self._index,
                delta=moderated,
            )
            self._index += 1
            link.connection.push_notification(_CHUNK, params)
        self._texts.setdefault(stream, []).append(moderated)
        return True

    def complete(self, link: ServerLink, channel: str, content: Any = None) -> bool:
        """Closes one stream, once.

        Args:
            content: the whole moderated content; left out, the text of the chunks.

        Returns:
            Whether it was open, and the server may still hear of it.
        """
        stream = (link, channel)
        text = self._texts.get(stream)
        if text is None or stream in self._done:
            return False
        self._done.add(stream)
        if not link.may_send(_COMPLETE):
            link.audit.record(_COMPLETE, "denied", inference_id=self._inference_id, code="capability_denied")
            return False
        params = ChannelsOutgoingCompleteParams(
            inference_id=self._inference_id,
            conversation_id=self._conversation_id,
            channel_id=channel,
            content=[{"type": "text", "text": "".join(text)}] if content is None else content,
        )
        link.connection.push_notification(_COMPLETE, params)
        link.audit.record(_COMPLETE, "success", inference_id=self._inference_id)
        return True

    def complete_all(self) -> None:
        """Closes every open stream; for every way out of an inference."""
        for link, channel in list(self._texts):
            self.complete(link, channel)

    def _may_stream(self, link: ServerLink, channel: str) -> bool:
        declared = _STREAMING in link.authority.advertised
        return declared and link.may_send(_CHUNK) and link.channels.find(channel) is not None
