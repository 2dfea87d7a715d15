"""Events of MCPL servers as a channel of Claude Code.

Claude Code starts the bridge as an MCP server over standard input and output. It declares the capability
``experimental["claude/channel"]`` and sends ``notifications/claude/channel``, with a text and a map of texts, for each
event that an MCPL host admitted.

Owns: what an event looks like there, and the small server that says it. Does not own: which events there are. The
host's policy admits them (``mcpl_core.host``); whoever may write into a channel writes into somebody's session.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping
from typing import Any, Final, TypeAlias

import anyio
from msgspec import UNSET

from ..connection import McplConnection
from ..content import ContentBlock, TextContent
from ..dispatch import Router
from ..errors import InvalidParams, McplError
from ..host.events import ChannelMessage, HostEvent, PushEvent
from ..host.handshake import PROTOCOL_VERSION, SUPPORTED_VERSIONS
from ..protocol.method import INITIALIZE, INITIALIZED, PING, TOOLS_CALL, TOOLS_LIST
from ..wire.messages import Notification, Request

__all__ = ("CHANNEL_CAPABILITY", "CHANNEL_NOTIFICATION", "ClaudeChannel", "Reply", "channel_params")

CHANNEL_CAPABILITY: Final = "claude/channel"
CHANNEL_NOTIFICATION: Final = "notifications/claude/channel"

#: Sends a text to a channel: the server's id, the channel's id, the text.
Reply: TypeAlias = Callable[[str, str, str], Awaitable[Any]]

#: Characters of one value; it becomes an attribute of a tag that the model reads.
_LONGEST_VALUE = 1024
_NO_NAME = re.compile(r"[^A-Za-z0-9_]+")

_REPLY_TOOL: Final[dict[str, Any]] = {
    "name": "reply",
    "description": "Answers in the channel that a message came from.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "server": {"type": "string", "description": "The server attribute of the message."},
            "channel_id": {"type": "string", "description": "The channel_id attribute of the message."},
            "text": {"type": "string", "description": "What to say."},
        },
        "required": ["server", "channel_id", "text"],
    },
}


def channel_params(event: HostEvent) -> dict[str, Any] | None:
    """The params of the notification for an event; ``None`` for events that say nothing to a model."""
    if isinstance(event, ChannelMessage):
        facts: dict[str, Any] = {
            "channel_id": event.channel.id,
            "message_id": event.message_id,
            "thread_id": event.thread_id,
            "author": event.author.name,
            "author_id": event.author.id,
        }
    elif isinstance(event, PushEvent):
        facts = {"feature_set": event.feature_set, "event_id": event.event_id}
        facts |= _origin(event.origin)
    else:
        return None
    facts |= {"server": event.server, "timestamp": event.timestamp, "tags": " ".join(event.tags)}
    content = "\n".join(filter(None, (event.text, *_other_blocks(event.content))))
    return {"content": content, "meta": {name: text for name, value in facts.items() if (text := _text(value))}}


def _origin(origin: Any) -> dict[str, Any]:
    """The plain members of an origin, under names that are kept: letters, digits and underscores."""
    if not isinstance(origin, dict):
        return {}
    return {f"origin_{_NO_NAME.sub('_', name)}": value for name, value in origin.items()}


def _text(value: Any) -> str:
    if isinstance(value, bool) or value is None or value is UNSET:
        return str(value).lower() if isinstance(value, bool) else ""
    return str(value)[:_LONGEST_VALUE] if isinstance(value, str | int | float) else ""


def _other_blocks(content: list[ContentBlock]) -> list[str]:
    """Of what is no text, that it is there."""
    return [f"[{block.get('type', 'unknown')}]" for block in content if not isinstance(block, TextContent)]


class ClaudeChannel:
    """The bridge.

    Args:
        name, version: who it says it is; the name is what the model sees as the source.
        instructions: what the model is told of the events.
        reply: sends a text to a channel; with it there is a tool ``reply``. Without it the channel is one-way.
    """

    def __init__(
        self, name: str, version: str = "0", *, instructions: str | None = None, reply: Reply | None = None
    ) -> None:
        self.name = name
        self.version = version
        self._instructions = instructions
        self._reply = reply

    async def serve(self, connection: McplConnection, events: AsyncIterable[HostEvent]) -> None:
        """Serves a connection, entered, until it closed, and sends it the events from its ``initialized`` on.

        Args:
            connection: to Claude Code; ``McplConnection.stdio()`` as a rule.
            events: such as ``McplHost.events()``. None is taken before it can be sent.
        """
        ready = anyio.Event()

        def initialized(message: Notification) -> None:
            ready.set()

        router = Router({INITIALIZE: self._initialize, PING: lambda request: {}, INITIALIZED: initialized})
        if self._reply is not None:
            router.add(TOOLS_LIST, lambda request: {"tools": [_REPLY_TOOL]})
            router.add(TOOLS_CALL, self._call)

        async def forward() -> None:
            await ready.wait()
            async for event in events:
                params = channel_params(event)
                if params is not None:
                    await connection.send_notification(CHANNEL_NOTIFICATION, params)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(forward)
            await connection.serve(router)
            tasks.cancel_scope.cancel()

    def _initialize(self, request: Request) -> dict[str, Any]:
        params = request.params if isinstance(request.params, dict) else {}
        asked = params.get("protocolVersion")
        capabilities: dict[str, Any] = {"experimental": {CHANNEL_CAPABILITY: {}}}
        if self._reply is not None:
            capabilities["tools"] = {}
        answer = {
            "protocolVersion": asked if asked in SUPPORTED_VERSIONS else PROTOCOL_VERSION,
            "capabilities": capabilities,
            "serverInfo": {"name": self.name, "version": self.version},
        }
        return answer if self._instructions is None else {**answer, "instructions": self._instructions}

    async def _call(self, request: Request) -> dict[str, Any]:
        params = request.params if isinstance(request.params, dict) else {}
        if params.get("name") != _REPLY_TOOL["name"]:
            raise InvalidParams(message="there is no such tool")
        arguments = params.get("arguments")
        given = arguments if isinstance(arguments, Mapping) else {}
        server, channel, text = (given.get(name) for name in ("server", "channel_id", "text"))
        if not (isinstance(server, str) and isinstance(channel, str) and isinstance(text, str)):
            return _said("server, channel_id and text are needed", failed=True)
        assert self._reply is not None
        try:
            await self._reply(server, channel, text)
        except McplError as exc:
            return _said(f"not sent: {type(exc).__name__}", failed=True)
        return _said("sent")


def _said(text: str, failed: bool = False) -> dict[str, Any]:
    return {"content": [{"type": "text", "text": text}], **({"isError": True} if failed else {})}
