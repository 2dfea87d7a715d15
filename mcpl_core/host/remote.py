"""What a host may ask of a server: tools, channels, state. Each call is checked before a byte is sent (SPEC 5.4).

Owns: the calls, their shapes, and what their results do to the host's own facts (state, channels). Does not own: the
check itself (``link``), timeouts (``calls``), and which connection a call goes to (``session``, ``host``).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Final, TypeVar

from msgspec import UNSET, Raw, UnsetType

from ..errors import (
    ChannelNotPermitted,
    CheckpointNotFound,
    ConnectionTimeoutError,
    InvalidValueError,
    LocalProtocolError,
    McplError,
    UnknownChannel,
)
from ..protocol import (
    METHODS,
    ChannelDescriptor,
    ChannelHistoryRequest,
    ChannelsAcknowledgeParams,
    ChannelsAcknowledgeResult,
    ChannelsCloseParams,
    ChannelsCloseResult,
    ChannelsListResult,
    ChannelsOpenParams,
    ChannelsOpenResult,
    ChannelsPublishParams,
    ChannelsPublishResult,
    ChannelsTypingParams,
    StateRollbackParams,
    StateRollbackResult,
    ToolsCallResult,
    ToolsListResult,
    method,
)
from .audit import AuditOutcome
from .calls import Calls, ProgressHandler
from .extensions import tell_tool_answered
from .link import ServerLink
from .tools import list_tools

__all__ = ("RemoteServer",)

T = TypeVar("T")

#: MCP's other products, which need no grant and have no calls here (SPEC 3.2, 3.3).
_PRODUCTS: Final = frozenset(
    {
        "completion/complete",
        "logging/setLevel",
        "prompts/get",
        "prompts/list",
        "resources/list",
        "resources/read",
        "resources/subscribe",
        "resources/templates/list",
        "resources/unsubscribe",
    }
)


class RemoteServer(ABC):
    """The calls. Each raises ``CapabilityDenied`` or ``LocalProtocolError`` when the server may not be asked, and else
    what ``McplConnection.send_request`` raises."""

    @property
    @abstractmethod
    def link(self) -> ServerLink:
        """The connection of this moment.

        Raises:
            ConnectionClosedError: there is none.
        """

    @property
    @abstractmethod
    def calls(self) -> Calls:
        """The long requests of the connection of this moment."""

    # -- tools

    async def list_tools(self) -> list[dict[str, Any]]:
        """All tools of the server, over all pages, as it described them.

        Raises:
            InvalidResultError: the list does not end.
        """
        link = self.link

        async def ask(params: dict[str, Any]) -> ToolsListResult:
            link.check_sending(method.TOOLS_LIST)
            return await link.connection.send_request(method.TOOLS_LIST, params, result_type=ToolsListResult)

        tools, dropped = await list_tools(ask, link.hub.settings.tool_pages)
        if dropped:
            link.audit.note(method.TOOLS_LIST, "invalid_tool", f"{dropped} entries are no tools, or of a name twice")
        return tools

    async def call_tool(
        self,
        name: str,
        arguments: Mapping[str, Any] | None = None,
        *,
        timeout: float | None | UnsetType = UNSET,
        limit: float | None = None,
        feature_set: str | None = None,
        meta: Mapping[str, Any] | None = None,
        trace: Mapping[str, str] | str | None = None,
        on_progress: ProgressHandler | None = None,
        on_answer: Callable[[Raw], object] | None = None,
    ) -> ToolsCallResult:
        """Calls a tool, with the state that the host keeps for it, and keeps the state that comes back (SPEC 8.4).

        Args:
            name: as the server names it.
            arguments: the arguments.
            timeout: seconds to wait without progress; ``None``: without end; left out: the host's ``call_timeout``.
            limit: seconds to wait in all, however much progress there is; left out: the host's ``call_limit``, and none
                when ``timeout`` is ``None``.
            feature_set: whose state it is; left out: that of the only declared set with ``rollback``, else one of its
                own.
            meta: members of ``_meta``.
            trace: the members that carry the trace context, or a ``traceparent``.
            on_progress: is called with the ``ProgressParams`` of each progress.
            on_answer: is called with the raw result; for who passes it on.

        Returns:
            The result; ``is_error`` says that the tool failed.
        """
        if arguments is not None and not isinstance(arguments, Mapping):
            raise TypeError(f"the arguments of a tool are a mapping, not a {type(arguments).__name__}")
        link = self.link
        link.check_sending(method.TOOLS_CALL)
        settings = link.hub.settings
        feature_set = _stateful_set(link) if feature_set is None else feature_set
        tree = link.hub.states.tree(link.server, feature_set)
        params: dict[str, Any] = {"name": name, "arguments": dict(arguments or {})}
        if link.is_mcpl:
            params |= tree.members()
        if meta:
            params["_meta"] = dict(meta)
        try:
            result: ToolsCallResult = await self.calls.request(
                method.TOOLS_CALL,
                params,
                timeout=settings.call_timeout if timeout is UNSET else timeout,
                limit=settings.call_limit if limit is None and timeout is not None else limit,
                result_type=ToolsCallResult,
                trace=trace,
                on_progress=on_progress,
                on_answer=partial(_answered, link, on_answer) if link.hub.handlers.extensions else on_answer,
            )
        except McplError as exc:
            if isinstance(exc, CheckpointNotFound) and "checkpoint" in params:
                tree.forget(params["checkpoint"])
                link.hub.states.saved(link.server, feature_set)
            link.audit.record(method.TOOLS_CALL, _outcome(exc), feature_set=feature_set, detail=type(exc).__name__)
            raise
        link.audit.record(method.TOOLS_CALL, "failure" if result.is_error else "success", feature_set=feature_set)
        if result.state is not UNSET and link.is_mcpl:
            self._keep_state(link, feature_set, result)
        return result

    def _keep_state(self, link: ServerLink, feature_set: str | None, result: ToolsCallResult) -> None:
        state = result.read_state()
        if state is UNSET:
            return
        if isinstance(state, InvalidValueError):
            link.audit.note(method.TOOLS_CALL, "invalid_state", state.path, feature_set=feature_set)
            return
        tree = link.hub.states.tree(link.server, feature_set)
        problem = tree.record(state.checkpoint, state.parent, state.data, state.patch)
        if problem is None:
            link.hub.states.saved(link.server, feature_set)
        else:
            link.audit.note(method.TOOLS_CALL, f"state_{problem.reason}", problem.detail, feature_set=feature_set)

    async def rollback(self, feature_set: str, checkpoint: str) -> StateRollbackResult:
        """``state/rollback``: asks the server to go back to a checkpoint (SPEC 8.5). When it did, the state there is
        what the next call carries.

        Raises:
            CheckpointNotFound: the server does not keep it any more.
            LocalProtocolError: the set does not declare ``rollback``.
        """
        link = self.link
        link.check_sending(method.STATE_ROLLBACK)
        if feature_set not in link.authority.rollback_sets:
            raise LocalProtocolError(f"feature set {feature_set} does not declare rollback")
        tree = link.hub.states.tree(link.server, feature_set)
        params = StateRollbackParams(feature_set=feature_set, checkpoint=checkpoint)
        try:
            result = await self._ask(link, method.STATE_ROLLBACK, params, StateRollbackResult)
        except CheckpointNotFound:
            tree.forget(checkpoint)
            link.hub.states.saved(link.server, feature_set)
            raise
        if result.success:
            tree.rolled_back(checkpoint, result.checkpoint, result.data)
            link.hub.states.saved(link.server, feature_set)
        return result

    # -- channels

    @property
    def channels(self) -> list[ChannelDescriptor]:
        """The channels that are registered, and may be used now."""
        return self.link.channels.listing()

    async def list_channels(self) -> list[ChannelDescriptor]:
        """``channels/list``: what the server says that it has; nothing is registered by it. Channels that the policy
        does not permit are left out."""
        link = self.link
        result = await self._ask(link, method.CHANNELS_LIST, {}, ChannelsListResult)
        return [channel for channel in result.channels if link.authority.permits_channel(channel.id)]

    async def open_channel(
        self,
        channel: str | None = None,
        *,
        type: str | UnsetType = UNSET,
        address: Any = UNSET,
        metadata: Any = UNSET,
        history: ChannelHistoryRequest | UnsetType = UNSET,
    ) -> ChannelsOpenResult:
        """``channels/open`` (SPEC 14.3).

        Args:
            channel: the id of a registered channel; or ``type`` and ``address``.
            history: which earlier messages to return.

        Raises:
            ChannelNotPermitted: the policy does not permit the channel that was asked for, or that was opened.
            ChannelOpenFailed: the server could not.
        """
        link = self.link
        if channel is not None and not link.authority.permits_channel(channel):
            raise ChannelNotPermitted(data={"channelId": channel})
        params = ChannelsOpenParams(
            channel_id=UNSET if channel is None else channel,
            type=type,
            address=address,
            metadata=metadata,
            history=history,
        )
        result = await self._ask(link, method.CHANNELS_OPEN, params, ChannelsOpenResult)
        if not link.channels.opened(result.channel):
            link.audit.record(method.CHANNELS_OPEN, "denied", code="channel_not_permitted")
            raise ChannelNotPermitted(data={"channelId": result.channel.id})
        return result

    async def close_channel(self, channel: str) -> bool:
        """``channels/close``; whether the server closed it."""
        link = self.link
        params = ChannelsCloseParams(channel_id=channel)
        result = await self._ask(link, method.CHANNELS_CLOSE, params, ChannelsCloseResult)
        if result.closed:
            link.channels.closed(channel)
        return result.closed

    async def publish(
        self, channel: str, content: Any, *, conversation_id: str | None = None, answer: bool = True
    ) -> ChannelsPublishResult | None:
        """``channels/publish``: delivers content to a channel. Moderate it before (SPEC 14.5).

        Args:
            channel: a registered channel's id.
            content: a text, a block or a list of blocks.
            conversation_id: the conversation that it belongs to.
            answer: whether to wait for the server's word; else a notification is sent, and ``None`` returned.

        Raises:
            UnknownChannel: it is not registered by this server.
            ChannelNotPermitted: the policy does not permit it.
        """
        link = self.link
        link.check_sending(method.CHANNELS_PUBLISH)
        _check_channel(link, channel)
        blocks = content if isinstance(content, str | list) else [content]
        params = ChannelsPublishParams(
            channel_id=channel,
            content=[{"type": "text", "text": blocks}] if isinstance(blocks, str) else blocks,
            conversation_id=UNSET if conversation_id is None else conversation_id,
        )
        if not answer:
            await link.connection.send_notification(method.CHANNELS_PUBLISH, params)
            link.audit.record(method.CHANNELS_PUBLISH, "success")
            return None
        return await self._ask(link, method.CHANNELS_PUBLISH, params, ChannelsPublishResult)

    async def acknowledge(
        self, channel: str, message_id: str, intent: str, value: str | UnsetType = UNSET
    ) -> ChannelsAcknowledgeResult:
        """``channels/acknowledge``: lets people see that a message was noticed.

        Raises:
            UnknownChannel, ChannelNotPermitted: as for ``publish``.
        """
        link = self.link
        link.check_sending(method.CHANNELS_ACKNOWLEDGE)
        _check_channel(link, channel)
        params = ChannelsAcknowledgeParams(channel_id=channel, message_id=message_id, intent=intent, value=value)
        return await self._ask(link, method.CHANNELS_ACKNOWLEDGE, params, ChannelsAcknowledgeResult)

    async def typing(self, channel: str) -> None:
        """``channels/typing``: something is being written; advisory.

        Raises:
            UnknownChannel, ChannelNotPermitted: as for ``publish``.
        """
        link = self.link
        link.check_sending(method.CHANNELS_TYPING)
        _check_channel(link, channel)
        await link.connection.send_notification(method.CHANNELS_TYPING, ChannelsTypingParams(channel_id=channel))

    # -- anything else

    async def request(
        self,
        name: str,
        params: Any = None,
        *,
        timeout: float | None | UnsetType = UNSET,
        result_type: Any = None,
        on_answer: Callable[[Raw], object] | None = None,
    ) -> Any:
        """Sends a request that has no call of its own: for MCP's resources, prompts and the like, of an extension, or
        of a row that the application added. Arguments as for ``McplConnection.send_request``.

        Raises:
            LocalProtocolError: it has one, which does more than sending.
        """
        link = self.link
        _check_generic(link, name)
        return await link.connection.send_request(
            name, params, timeout=timeout, result_type=result_type, on_answer=on_answer
        )

    async def notify(self, name: str, params: Any = None) -> None:
        """Sends a notification that has no call of its own; as ``request``."""
        link = self.link
        _check_generic(link, name)
        await link.connection.send_notification(name, params)

    async def _ask(self, link: ServerLink, name: str, params: Any, kind: type[T]) -> T:
        """One request, with its record."""
        link.check_sending(name)
        try:
            result = await link.connection.send_request(name, params, result_type=kind)
        except McplError as exc:
            link.audit.record(name, _outcome(exc), detail=type(exc).__name__)
            raise
        link.audit.record(name, "success")
        return result


def _answered(link: ServerLink, on_answer: Callable[[Raw], object] | None, result: Raw) -> None:
    tell_tool_answered(link, result)
    if on_answer is not None:
        on_answer(result)


def _outcome(exc: McplError) -> AuditOutcome:
    return "timeout" if isinstance(exc, ConnectionTimeoutError) else "failure"


def _check_generic(link: ServerLink, name: str) -> None:
    if name in _PRODUCTS and link.open:
        return
    entry = link.check_sending(name)
    if name in METHODS and entry.extension is None and name != method.PING:
        raise LocalProtocolError(f"{name} has a call of its own")


def _check_channel(link: ServerLink, channel: str) -> None:
    if not link.authority.permits_channel(channel):
        raise ChannelNotPermitted(data={"channelId": channel})
    if link.channels.find(channel) is None:
        raise UnknownChannel(data={"channelId": channel})


def _stateful_set(link: ServerLink) -> str | None:
    """The only declared set with ``rollback``, else none."""
    names = link.authority.rollback_sets
    return names[0] if len(names) == 1 else None
