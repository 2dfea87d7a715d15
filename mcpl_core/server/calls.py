"""What a server may ask of its host: typed calls, each checked against the grant before a byte is sent.

Owns: the shapes of the calls and the order check, send, read. Does not own: the grant (``policy``), the params of
events and inferences (``events``, ``inference``), the calls of extensions (``extensions``), and retries (``outbox``).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakSet

import anyio
import msgspec
from msgspec import UNSET, Raw, UnsetType

from ..connection import McplConnection
from ..errors import InvalidResultError, InvalidValueError, LocalProtocolError, RpcError
from ..protocol import (
    METHODS,
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
    Method,
    MethodTable,
    ModelInfo,
    PushEventParams,
    PushEventResult,
    decode_result,
    method,
)
from ..protocol.base import read_plain
from ..tags import check_tags
from ..wire.messages import Id
from .blocks import message_content
from .events import event_params
from .extensions import ExtensionCalls
from .features import FeatureSet, name_of
from .inference import (
    DEFAULT_INFERENCE_WAIT,
    InferenceStream,
    RunningInference,
    RunningInferences,
    inference_params,
    refuse_inside_hook,
)
from .policy import ServerPolicy

__all__ = ("HostCalls",)


class HostCalls(ExtensionCalls):
    """Calls to the host of one connection. Each raises, before anything is sent:

    Raises:
        CapabilityDenied: the grant does not hold what the method needs now, the policy is not known yet, or the
            feature set that the call names does not declare the capability.
        FeatureSetNotEnabled, UnknownFeatureSet: the feature set that the call names is off, or not declared.

    and from then on whatever ``McplConnection.send_request`` raises.
    """

    def __init__(
        self,
        connection: McplConnection,
        policy: ServerPolicy,
        methods: MethodTable = METHODS,
        inferences: RunningInferences | None = None,
    ) -> None:
        self.connection = connection
        self.policy = policy
        self.methods = methods
        self.inferences = inferences if inferences is not None else RunningInferences()
        self._raised: WeakSet[RpcError] | None = None

    def raised(self, error: RpcError) -> bool:
        """Whether an error came out of one of these calls: it answers them, and no request of the host."""
        return self._raised is not None and error in self._raised

    def _remember(self, error: RpcError) -> None:
        self._raised = self._raised if self._raised is not None else WeakSet()
        self._raised.add(error)

    def allows(self, path: str) -> bool:
        """Whether the host grants a capability path now."""
        return self.policy.allows(path)

    def enabled(self, feature_set: FeatureSet | str) -> bool:
        """Whether a feature set is on now: declared, selected, and granted all that it uses."""
        return self.policy.enabled(name_of(feature_set))

    async def call(
        self,
        name: str,
        params: Any = None,
        *,
        timeout: float | None | UnsetType = UNSET,
        on_sent: Callable[[Id], object] | None = None,
    ) -> Any:
        """Any method of the table that a server sends, or one that the application added to it. A method that is a
        Notification is sent as one. (What the table does not have goes through ``connection``, unchecked.)

        Args:
            name: the method.
            params: its params, typed or plain.
            timeout, on_sent: as for ``send_request``.

        Raises:
            LocalProtocolError: no such method, or none for a server to send.
            InvalidValueError: plain params do not fit; ``path`` says where.
            InvalidResultError: the result does not fit.
        """
        entry = self._entry(name)
        plain = {} if params is None else params
        try:
            self._check(entry, _typed(entry, plain))
            if entry.form == "notification":
                return await self.connection.send_notification(name, plain)
            raw = await self.connection.send_request(name, plain, timeout=timeout, result_type=Raw, on_sent=on_sent)
        except RpcError as exc:
            self._remember(exc)
            raise
        try:
            return decode_result(entry, raw)
        except InvalidValueError as exc:
            raise InvalidResultError(name, exc.detail, exc.path) from exc

    def _entry(self, name: str) -> Method:
        entry = self.methods.get(name)
        if entry is None or not entry.sent_by("server"):
            raise LocalProtocolError(f"{name} is no method that a server sends")
        return entry

    def _check(self, entry: Method, params: Any) -> None:
        feature_set = getattr(params, "feature_set", None)
        self.policy.check(entry, feature_set, entry.further_capabilities(params))
        if entry.name == method.INFERENCE_REQUEST:
            refuse_inside_hook()

    # -- events and channels

    async def send_event(
        self,
        params: PushEventParams,
        *,
        timeout: float | None | UnsetType = UNSET,
        on_sent: Callable[[Id], object] | None = None,
    ) -> PushEventResult:
        """``push/event`` with params that were made before."""
        result: PushEventResult = await self.call(method.PUSH_EVENT, params, timeout=timeout, on_sent=on_sent)
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
        timeout: float | None | UnsetType = UNSET,
    ) -> PushEventResult:
        """Tells this host of something that happened, and waits for its answer (SPEC 9).
        ``McplServer.push_event`` does neither.

        Args:
            feature_set: the declared set that sends it.
            content: a text, a content block, or a list of both.
            tags: ``namespace:value`` labels (SPEC 16).
            origin: where it came from.
            event_id: left out, a new one; give the same for every retry of one event.
            timestamp: when it happened (ISO 8601); left out, now.
            timeout: as for ``send_request``.

        Raises:
            InvalidValueError: a tag has no namespace, or the content is none.
        """
        params = event_params(feature_set, content, tags=tags, origin=origin, event_id=event_id, timestamp=timestamp)
        return await self.send_event(params, timeout=timeout)

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
            InvalidValueError: a tag has no namespace, or a content is none.
            TypeError: a message is no ``IncomingMessage``.
        """
        params = ChannelsIncomingParams(messages=[_incoming(message) for message in messages])
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
        timeout: float | None = DEFAULT_INFERENCE_WAIT,
    ) -> InferenceRequestResult:
        """Asks for an inference (SPEC 11). When the host takes away what it needs meanwhile, the request is taken
        back, and the error raised that it would get now.

        Args:
            feature_set: the declared set that asks.
            messages: a text, or a list of ``{"role", "content"}`` objects or ``InferenceMessage``.
            conversation_id: the conversation that it belongs to.
            max_tokens, temperature: preferences that SPEC 11.2 defines.
            preferences: further ones that this host knows.
            timeout: seconds; ``None``: without end.

        Raises:
            LocalProtocolError: called from inside a context hook (SPEC 10.7).
            InvalidValueError: the messages or preferences do not fit.
        """
        params = inference_params(
            feature_set,
            messages,
            conversation_id=conversation_id,
            max_tokens=max_tokens,
            temperature=temperature,
            preferences=preferences,
        )
        return await self._infer(RunningInference(params, timeout, None))

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
        timeout: float | None = DEFAULT_INFERENCE_WAIT,
    ) -> AsyncIterator[InferenceStream]:
        """As ``request_inference``, in pieces: iterate over the stream; ``stream.result`` is set at its end. Leaving
        the block early cancels the request. ``timeout`` counts anew from each chunk. A stream that is not read while
        millions of characters come ends with ``LocalProtocolError``."""
        params = inference_params(
            feature_set,
            messages,
            conversation_id=conversation_id,
            max_tokens=max_tokens,
            temperature=temperature,
            preferences=preferences,
            stream=True,
        )
        try:
            self._check(self._entry(method.INFERENCE_REQUEST), params)
        except RpcError as exc:
            self._remember(exc)
            raise
        stream = InferenceStream()
        failure: Exception | None = None

        async def run() -> None:
            try:
                stream.end(await self._infer(RunningInference(params, timeout, stream)))
            except Exception as exc:
                stream.end(failure=exc)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(run)
            try:
                yield stream
            except Exception as exc:
                # Raised again outside of the group, which would wrap it.
                failure = exc
            tasks.cancel_scope.cancel()
        if failure is not None or stream.failure is not None:
            raise failure or stream.failure  # type: ignore[misc]

    async def _infer(self, inference: RunningInference) -> InferenceRequestResult:
        self.inferences.add(inference)
        try:
            with inference.scope:
                result: InferenceRequestResult = await self.call(
                    method.INFERENCE_REQUEST,
                    inference.params,
                    timeout=inference.wait,
                    on_sent=lambda id: self.inferences.sent(inference, id),
                )
                return result
        finally:
            self.inferences.remove(inference)
        assert inference.denied is not None
        if isinstance(inference.denied, RpcError):
            self._remember(inference.denied)
        raise inference.denied

    def take_chunk(self, chunk: InferenceChunkParams) -> None:
        """An ``inference/chunk`` came; one of a request that is over goes nowhere.

        Raises:
            CapabilityDenied: streaming is not granted now.
        """
        inference = self.inferences.find(chunk.request_id)
        if inference is None or inference.stream is None:
            return
        self.policy.check(self.methods[method.INFERENCE_CHUNK])
        if inference.stream.add(chunk) and inference.id is not None and inference.wait is not None:
            self.connection.extend_timeout(inference.id, inference.wait)
        if inference.stream.overflows:
            self.inferences.take_back(inference, LocalProtocolError("the pieces of an inference come faster than read"))

    def policy_changed(self) -> None:
        """Takes back the inferences that may not be asked for any more."""
        entry = self.methods[method.INFERENCE_REQUEST]
        for inference in self.inferences:
            params: InferenceRequestParams = inference.params
            try:
                self.policy.check(entry, params.feature_set, entry.further_capabilities(params))
            except RpcError as exc:
                self.inferences.take_back(inference, exc)

    async def model_info(self) -> ModelInfo:
        """``model/info`` (SPEC 12)."""
        result: ModelInfo = await self.call(method.MODEL_INFO)
        return result


def _typed(entry: Method, params: Any) -> Any:
    """The params as their type: what a check must see, however they were given."""
    if isinstance(params, msgspec.Struct):
        return params
    return read_plain(params, entry.params)


def _incoming(message: IncomingMessage) -> IncomingMessage:
    if not isinstance(message, IncomingMessage):
        raise TypeError(f"a message is an IncomingMessage, not a {type(message).__name__}")
    if message.tags is not UNSET:
        check_tags(message.tags)
    return msgspec.structs.replace(message, content=message_content(message.content))
