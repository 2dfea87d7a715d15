"""What a server may ask of its host: typed calls, each checked against the grant before a byte is sent.

Owns: the shapes of the calls and the order check, send, read. Does not own: the grant (``policy``), retries of events
(``outbox``), and which connection a call goes to (``context``, ``app``).
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Any

import anyio
import msgspec
from msgspec import UNSET, UnsetType

from ..connection import McplConnection
from ..content import Content, to_mcpl
from ..errors import LocalProtocolError
from ..protocol import (
    METHODS,
    BranchesCreateParams,
    BranchesCreateResult,
    BranchesCurrentParams,
    BranchesCurrentResult,
    BranchesDeleteParams,
    BranchesDeleteResult,
    BranchesListParams,
    BranchesListResult,
    BranchesSwitchParams,
    BranchesSwitchResult,
    ChannelDescriptor,
    ChannelsChangedParams,
    ChannelsChangedResult,
    ChannelsIncomingParams,
    ChannelsIncomingResult,
    ChannelsListResult,
    ChannelsRegisterParams,
    ChannelsRegisterResult,
    IncomingMessage,
    InferenceChunkParams,
    InferenceRequestParams,
    InferenceRequestResult,
    MethodTable,
    ModelInfo,
    PushEventParams,
    PushEventResult,
    PushPayload,
    StateGetParams,
    StateGetResult,
    StateUpdateParams,
    StateUpdateResult,
    method,
)
from ..tags import check_tags
from ..wire.messages import Id
from .features import FeatureSet, name_of
from .policy import ServerPolicy

__all__ = ("IN_HOOK", "HostCalls", "InferenceStream", "event_params")

#: Set while a context hook is being handled: no inference may be requested from inside one (SPEC 10.7).
IN_HOOK: ContextVar[bool] = ContextVar("mcpl_in_hook", default=False)


def event_params(
    feature_set: FeatureSet | str,
    content: Any,
    *,
    tags: Iterable[str] = (),
    origin: Mapping[str, Any] | None = None,
    event_id: str | None = None,
    timestamp: str | None = None,
) -> PushEventParams:
    """The params of one event; its id is made here, once, so that every retry has the same (SPEC 9.4).

    Raises:
        InvalidValueError: a tag has no namespace (SPEC 16.1).
    """
    names = list(check_tags(tags))
    return PushEventParams(
        feature_set=name_of(feature_set),
        event_id=event_id if event_id is not None else str(uuid.uuid4()),
        timestamp=timestamp if timestamp is not None else datetime.now(UTC).isoformat().replace("+00:00", "Z"),
        origin=dict(origin) if origin is not None else UNSET,
        tags=names if names else UNSET,
        payload=PushPayload(content=wire_content(content)),
    )


def wire_content(content: Any) -> Content:
    """Content for an MCPL message: a text is one text block, blocks take the SPEC's shapes."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return [to_mcpl(block) for block in (content if isinstance(content, list | tuple) else [content])]


class InferenceStream:
    """The pieces of one streamed inference: an async iterator of texts, in order of ``index``.

    Attributes:
        result: the final result, once the iteration ended.
    """

    def __init__(self) -> None:
        self.result: InferenceRequestResult | None = None
        self._pieces, self._source = anyio.create_memory_object_stream[str](float("inf"))

    def __aiter__(self) -> AsyncIterator[str]:
        return self._source.__aiter__()

    def add(self, chunk: InferenceChunkParams) -> None:
        """Takes a chunk as it comes from the wire."""
        self._pieces.send_nowait(chunk.delta)

    def end(self) -> None:
        """No more chunks come."""
        self._pieces.close()


class HostCalls:
    """Calls to the host of one connection. Each raises, before anything is sent:

    Raises:
        CapabilityDenied: the grant does not hold what the method needs now, or the policy is not known yet.
        FeatureSetNotEnabled, UnknownFeatureSet: the feature set that the call names is off, or not declared.

    and from then on whatever ``McplConnection.send_request`` raises.
    """

    def __init__(self, connection: McplConnection, policy: ServerPolicy, methods: MethodTable = METHODS) -> None:
        self.connection = connection
        self.policy = policy
        self._methods = methods
        self._streams: dict[Id, InferenceStream] = {}

    async def call(
        self,
        name: str,
        params: Any = None,
        *,
        feature_set: FeatureSet | str | None = None,
        timeout: float | None | UnsetType = UNSET,
    ) -> Any:
        """Any method of the table that a server sends, or one that the application added to it.

        Args:
            name: the method.
            params: its params, typed or plain.
            feature_set: the set to check, when the params name one.
            timeout: as for ``send_request``.
        """
        entry = self._methods[name]
        further = entry.further_capabilities(params)
        self.policy.check(entry, None if feature_set is None else name_of(feature_set), further)
        return await self.connection.send_request(name, params, timeout=timeout, result_type=entry.result)

    # -- events and channels

    async def send_event(
        self, params: PushEventParams, *, timeout: float | None | UnsetType = UNSET
    ) -> PushEventResult:
        """``push/event`` with params from ``event_params``."""
        result: PushEventResult = await self.call(
            method.PUSH_EVENT, params, feature_set=params.feature_set, timeout=timeout
        )
        return result

    async def push_event(
        self,
        feature_set: FeatureSet | str,
        content: Any,
        *,
        tags: Iterable[str] = (),
        origin: Mapping[str, Any] | None = None,
        event_id: str | None = None,
        timestamp: str | None = None,
    ) -> PushEventResult:
        """Tells the host of something that happened (SPEC 9).

        Args:
            feature_set: the declared set that sends it.
            content: a text, a content block, or a list of blocks.
            tags: ``namespace:value`` labels (SPEC 16).
            origin: where it came from.
            event_id: left out, a new one; give the same for every retry of one event.
            timestamp: when it happened (ISO 8601); left out, now.

        Raises:
            InvalidValueError: a tag has no namespace.
        """
        params = event_params(feature_set, content, tags=tags, origin=origin, event_id=event_id, timestamp=timestamp)
        return await self.send_event(params)

    async def register_channels(self, channels: Sequence[ChannelDescriptor]) -> ChannelsRegisterResult:
        """``channels/register``: one result for each descriptor (SPEC 14.3, 14.5)."""
        result: ChannelsRegisterResult = await self.call(
            method.CHANNELS_REGISTER, ChannelsRegisterParams(channels=list(channels))
        )
        return result

    async def change_channels(
        self,
        *,
        added: Sequence[ChannelDescriptor] = (),
        removed: Sequence[str] = (),
        updated: Sequence[ChannelDescriptor] = (),
    ) -> ChannelsChangedResult:
        """``channels/changed``, always in the Request form, so that the host can refuse single descriptors."""
        params = ChannelsChangedParams(
            added=list(added) or UNSET, removed=list(removed) or UNSET, updated=list(updated) or UNSET
        )
        result: ChannelsChangedResult = await self.call(method.CHANNELS_CHANGED, params)
        return result

    async def list_channels(self) -> ChannelsListResult:
        """``channels/list``: the channels that the host knows of this connection."""
        result: ChannelsListResult = await self.call(method.CHANNELS_LIST)
        return result

    async def incoming(self, messages: Sequence[IncomingMessage]) -> ChannelsIncomingResult:
        """``channels/incoming``: messages from channels, one result for each (SPEC 14.3).

        Raises:
            InvalidValueError: a tag has no namespace.
        """
        for message in messages:
            if message.tags is not UNSET:
                check_tags(message.tags)
        params = ChannelsIncomingParams(messages=list(messages))
        result: ChannelsIncomingResult = await self.call(method.CHANNELS_INCOMING, params)
        return result

    # -- inference

    async def request_inference(
        self,
        feature_set: FeatureSet | str,
        messages: Any,
        *,
        conversation_id: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        preferences: Mapping[str, Any] | None = None,
        timeout: float | None | UnsetType = UNSET,
    ) -> InferenceRequestResult:
        """Asks for an inference (SPEC 11).

        Args:
            feature_set: the declared set that asks.
            messages: a text, or a list of ``{"role", "content"}`` objects or ``InferenceMessage``.
            conversation_id: the conversation that it belongs to.
            max_tokens, temperature: preferences that SPEC 11.2 defines.
            preferences: further ones that this host knows.
            timeout: as for ``send_request``.

        Raises:
            LocalProtocolError: called from inside a context hook (SPEC 10.7).
        """
        params = _inference_params(feature_set, messages, conversation_id, max_tokens, temperature, preferences, False)
        result: InferenceRequestResult = await self.call(
            method.INFERENCE_REQUEST, params, feature_set=feature_set, timeout=timeout
        )
        return result

    @asynccontextmanager
    async def stream_inference(
        self,
        feature_set: FeatureSet | str,
        messages: Any,
        *,
        conversation_id: str | None = None,
        max_tokens: int | None = None,
        temperature: float | None = None,
        preferences: Mapping[str, Any] | None = None,
        timeout: float | None | UnsetType = UNSET,
    ) -> AsyncIterator[InferenceStream]:
        """As ``request_inference``, in pieces: iterate over the stream; ``stream.result`` is set at its end. Leaving
        the block early cancels the request."""
        params = _inference_params(feature_set, messages, conversation_id, max_tokens, temperature, preferences, True)
        entry = self._methods[method.INFERENCE_REQUEST]
        self.policy.check(entry, name_of(feature_set), entry.further_capabilities(params))
        stream = InferenceStream()
        failure: list[Exception] = []

        ids: list[Id] = []

        def sent(id: Id) -> None:
            ids.append(id)
            self._streams[id] = stream

        async def run() -> None:
            try:
                stream.result = await self.connection.send_request(
                    method.INFERENCE_REQUEST,
                    params,
                    timeout=timeout,
                    result_type=InferenceRequestResult,
                    on_sent=sent,
                )
            except Exception as exc:
                failure.append(exc)
            finally:
                for id in ids:
                    self._streams.pop(id, None)
                stream.end()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            try:
                yield stream
            except Exception as exc:
                # Raised again outside the group, which would wrap it.
                failure.insert(0, exc)
            tasks.cancel_scope.cancel()
        if failure:
            raise failure[0]

    def take_chunk(self, chunk: InferenceChunkParams) -> None:
        """An ``inference/chunk`` came; one for a request that is over is dropped."""
        stream = self._streams.get(chunk.request_id)
        if stream is not None:
            stream.add(chunk)

    async def model_info(self) -> ModelInfo:
        """``model/info`` (SPEC 12)."""
        result: ModelInfo = await self.call(method.MODEL_INFO)
        return result

    # -- state and branches (extensions)

    async def state_update(
        self,
        feature_set: FeatureSet | str,
        checkpoint: str,
        parent: str | None,
        *,
        data: Any = UNSET,
        patch: list[dict[str, Any]] | UnsetType = UNSET,
    ) -> StateUpdateResult:
        """``state/update``: a state that changed outside of any call (state extension).

        Raises:
            LocalProtocolError: both ``data`` and ``patch`` are given.
        """
        if data is not UNSET and patch is not UNSET:
            raise LocalProtocolError("a state update carries data or a patch, not both")
        params = StateUpdateParams(
            feature_set=name_of(feature_set), checkpoint=checkpoint, parent=parent, data=data, patch=patch
        )
        result: StateUpdateResult = await self.call(method.STATE_UPDATE, params)
        return result

    async def state_get(self, feature_set: FeatureSet | str) -> StateGetResult:
        """``state/get``: what the host keeps (state extension)."""
        result: StateGetResult = await self.call(method.STATE_GET, StateGetParams(feature_set=name_of(feature_set)))
        return result

    async def list_branches(self, feature_set: FeatureSet | str) -> BranchesListResult:
        """``branches/list`` (branches extension)."""
        params = BranchesListParams(feature_set=name_of(feature_set))
        result: BranchesListResult = await self.call(method.BRANCHES_LIST, params)
        return result

    async def current_branch(self, feature_set: FeatureSet | str) -> BranchesCurrentResult:
        """``branches/current`` (branches extension)."""
        params = BranchesCurrentParams(feature_set=name_of(feature_set))
        result: BranchesCurrentResult = await self.call(method.BRANCHES_CURRENT, params)
        return result

    async def create_branch(
        self,
        feature_set: FeatureSet | str,
        name: str,
        *,
        from_branch: str | UnsetType = UNSET,
        at_checkpoint: str | UnsetType = UNSET,
    ) -> BranchesCreateResult:
        """``branches/create``; the host may choose another name (branches extension)."""
        values = {"featureSet": name_of(feature_set), "name": name, "from": from_branch, "atCheckpoint": at_checkpoint}
        present = {key: value for key, value in values.items() if value is not UNSET}
        params = msgspec.convert(present, BranchesCreateParams)
        result: BranchesCreateResult = await self.call(method.BRANCHES_CREATE, params)
        return result

    async def switch_branch(self, feature_set: FeatureSet | str, name: str) -> BranchesSwitchResult:
        """``branches/switch`` (branches extension)."""
        params = BranchesSwitchParams(feature_set=name_of(feature_set), name=name)
        result: BranchesSwitchResult = await self.call(method.BRANCHES_SWITCH, params)
        return result

    async def delete_branch(self, feature_set: FeatureSet | str, name: str) -> BranchesDeleteResult:
        """``branches/delete`` (branches extension)."""
        params = BranchesDeleteParams(feature_set=name_of(feature_set), name=name)
        result: BranchesDeleteResult = await self.call(method.BRANCHES_DELETE, params)
        return result


def _inference_params(
    feature_set: FeatureSet | str,
    messages: Any,
    conversation_id: str | None,
    max_tokens: int | None,
    temperature: float | None,
    preferences: Mapping[str, Any] | None,
    stream: bool,
) -> InferenceRequestParams:
    if IN_HOOK.get():
        raise LocalProtocolError("no inference may be requested from inside a context hook")
    wanted = dict(preferences or {})
    wanted.update({} if max_tokens is None else {"maxTokens": max_tokens})
    wanted.update({} if temperature is None else {"temperature": temperature})
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    tree: dict[str, Any] = {"featureSet": name_of(feature_set), "messages": msgspec.to_builtins(messages)}
    if conversation_id is not None:
        tree["conversationId"] = conversation_id
    if wanted:
        tree["preferences"] = wanted
    if stream:
        tree["stream"] = True
    return msgspec.convert(tree, InferenceRequestParams)
