"""Inferences that a server asks for (SPEC 10.7, 11).

Owns: the params of a request, its chunks in order, which of them are running, and that none is begun inside a context
hook. Does not own: sending (``calls``), and the host's own inferences (``lifecycle``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

import anyio
import msgspec

from ..content import ContentBlock
from ..errors import LocalProtocolError, McplError
from ..protocol import (
    InferenceChunkParams,
    InferenceMessage,
    InferenceRequestParams,
    InferenceRequestResult,
)
from ..protocol.base import read_plain
from ..wire.messages import Id
from .blocks import message_content
from .features import FeatureSet, name_of

__all__ = (
    "DEFAULT_INFERENCE_WAIT",
    "InferenceStream",
    "RunningInference",
    "RunningInferences",
    "inference_params",
    "inside_hook",
    "refuse_inside_hook",
)

#: Characters of a stream that may wait for the application; nobody's inference is that long.
_MOST_WAITING: Final = 4_000_000

#: What each piece counts besides its characters.
_PIECE: Final = 64

#: Seconds to wait for an inference, or for its next chunk.
DEFAULT_INFERENCE_WAIT: Final = 300.0


class _Hook:
    """One call of a context hook. What it started may outlive it, and is free then."""

    __slots__ = ("running",)

    def __init__(self) -> None:
        self.running = True


_HOOK: ContextVar[_Hook | None] = ContextVar("mcpl_hook", default=None)


@contextmanager
def inside_hook() -> Iterator[None]:
    """Marks this task, and all that it starts, as inside a context hook until the block ends."""
    hook = _Hook()
    token = _HOOK.set(hook)
    try:
        yield
    finally:
        hook.running = False
        _HOOK.reset(token)


def refuse_inside_hook() -> None:
    """A context hook must not cause an inference (SPEC 10.7).

    Raises:
        LocalProtocolError: this is inside one, or in what one started.
    """
    hook = _HOOK.get()
    if hook is not None and hook.running:
        raise LocalProtocolError("a context hook must not ask for an inference; ask when it has ended")


def inference_params(
    feature_set: FeatureSet | str,
    messages: Any,
    *,
    conversation_id: str | None = None,
    max_tokens: int | None = None,
    temperature: float | None = None,
    preferences: Mapping[str, Any] | None = None,
    stream: bool = False,
) -> InferenceRequestParams:
    """The params of ``inference/request`` (SPEC 11.2).

    Args:
        messages: a text, or a list of ``{"role", "content"}`` objects or ``InferenceMessage``.

    Raises:
        InvalidValueError: something does not fit; ``path`` says where.
    """
    if isinstance(messages, str):
        messages = [{"role": "user", "content": messages}]
    wanted = {**(preferences or {}), "maxTokens": max_tokens, "temperature": temperature}
    tree = {
        "featureSet": name_of(feature_set),
        "messages": [_message(message) for message in messages],
        "conversationId": conversation_id,
        "preferences": {name: value for name, value in wanted.items() if value is not None} or None,
        "stream": stream or None,
    }
    return read_plain({name: value for name, value in tree.items() if value is not None}, InferenceRequestParams)


def _message(message: Any) -> Any:
    tree = msgspec.to_builtins(message) if isinstance(message, InferenceMessage) else message
    if isinstance(tree, dict) and isinstance(tree.get("content"), list | tuple | ContentBlock):
        return {**tree, "content": message_content(tree["content"])}
    return tree


class InferenceStream:
    """The pieces of one inference: an async iterator of texts, for one task. It ends with the inference, and raises
    what the request raised.

    Attributes:
        result: the final result, once the iteration ended.
    """

    def __init__(self) -> None:
        self.result: InferenceRequestResult | None = None
        self.failure: Exception | None = None
        self._pieces: deque[str] = deque()
        self._waiting = 0
        self._last = -1
        self._ended = False
        self._news = anyio.Event()

    def __aiter__(self) -> InferenceStream:
        return self

    async def __anext__(self) -> str:
        while not self._pieces:
            if self.failure is not None:
                raise self.failure
            if self._ended:
                raise StopAsyncIteration
            self._news = anyio.Event()
            await self._news.wait()
        piece = self._pieces.popleft()
        self._waiting -= len(piece) + _PIECE
        return piece

    def add(self, chunk: InferenceChunkParams) -> bool:
        """Takes a chunk as it comes from the wire; false for one that came before, or out of order."""
        if self._ended or chunk.index <= self._last:
            return False
        self._last = chunk.index
        self._pieces.append(chunk.delta)
        self._waiting += len(chunk.delta) + _PIECE
        self._news.set()
        return True

    @property
    def overflows(self) -> bool:
        """More waits for the application than is kept for it."""
        return self._waiting > _MOST_WAITING

    def end(self, result: InferenceRequestResult | None = None, failure: Exception | None = None) -> None:
        """No more chunks come."""
        self.result, self.failure, self._ended = result, failure, True
        self._news.set()


class RunningInference:
    """One request on its way.

    Attributes:
        params: what was asked for.
        scope: cancels the wait.
        stream: where its chunks go, if it has any.
        id: of the request, once it was sent.
        denied: why it was taken back.
    """

    __slots__ = ("denied", "id", "params", "scope", "stream", "wait")

    def __init__(self, params: InferenceRequestParams, wait: float | None, stream: InferenceStream | None) -> None:
        self.params = params
        self.wait = wait
        self.stream = stream
        self.scope = anyio.CancelScope()
        self.id: Id | None = None
        self.denied: McplError | None = None


class RunningInferences:
    """The inferences that one connection waits for."""

    def __init__(self) -> None:
        self._running: set[RunningInference] = set()
        self._by_id: dict[Id, RunningInference] = {}

    def __iter__(self) -> Iterator[RunningInference]:
        return iter(tuple(self._running))

    def add(self, inference: RunningInference) -> None:
        """It begins."""
        self._running.add(inference)

    def sent(self, inference: RunningInference, id: Id) -> None:
        """It has an id from now on."""
        inference.id = id
        self._by_id[id] = inference

    def remove(self, inference: RunningInference) -> None:
        """It is over; chunks that come late go nowhere."""
        self._running.discard(inference)
        if inference.id is not None:
            self._by_id.pop(inference.id, None)

    def find(self, id: Id) -> RunningInference | None:
        """The inference that a chunk belongs to."""
        return self._by_id.get(id)

    def take_back(self, inference: RunningInference, denied: McplError) -> None:
        """It cannot go on, since a reduction took away what it needs (SPEC 6.7) or its pieces are not read: its caller
        gets ``denied``, the host a cancellation."""
        inference.denied = denied
        self.remove(inference)
        inference.scope.cancel()
