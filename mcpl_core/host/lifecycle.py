"""One inference of the host, from its beginning to its end (SPEC 10.5, 14.3).

Owns: its ids, that servers hear of its beginning and then of exactly one end on every way out, and the hooks and
streams that belong to it. Does not own: the model, and what is said in the inference: nothing here carries content to a
server that only hears of the life of an inference.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, Protocol, Self

import anyio
from msgspec import UNSET, UnsetType

from ..errors import LocalProtocolError, McplError
from ..protocol import (
    BeforeInferenceChannels,
    InferenceLifecycleParams,
    LifecyclePhase,
    ModelInfo,
    Usage,
    method,
)
from .hooks import Injections, Turn, ask_servers
from .link import ServerLink
from .outgoing import Outgoing

__all__ = ("Inference", "Linked")

_LIFECYCLE = method.INFERENCE_LIFECYCLE


class Linked(Protocol):
    """A server as the application has it."""

    @property
    def link(self) -> ServerLink:
        """The connection of this moment."""


class Inference:
    """An inference: an async context manager. Entering it tells the servers that it started, leaving it how it ended:
    ``completed``; ``aborted`` when it is cancelled or ``abort`` was called; ``failed`` when the block raises.

    Args:
        links: returns the connected servers, in order.
        conversation_id: persistent over turns.
        turn_index: counts from 0.
        model: what runs it.
        inference_id: left out, a new one.
        hook_timeout: seconds for each server's answer to the context hook.
        trace: the members of ``_meta`` that carry the trace context, or a ``traceparent``; left out, the host's.

    Attributes:
        usage: what it took; is told with ``completed``.
    """

    def __init__(
        self,
        links: Callable[[], Sequence[ServerLink]],
        *,
        conversation_id: str,
        turn_index: int = 0,
        model: ModelInfo | None = None,
        inference_id: str | None = None,
        hook_timeout: float = 5.0,
        trace: Mapping[str, str] | str | None = None,
    ) -> None:
        self.id = f"inf_{uuid.uuid4().hex}" if inference_id is None else inference_id
        self.conversation_id = conversation_id
        self.turn_index = turn_index
        self.model = ModelInfo(id="unknown") if model is None else model
        self.usage: Usage | UnsetType = UNSET
        self._links = links
        self._hook_timeout = hook_timeout
        self._trace = {"traceparent": trace} if isinstance(trace, str) else trace
        self._told: list[ServerLink] | None = None
        self._aborted = False
        self._outgoing = Outgoing(self.id, conversation_id)

    async def __aenter__(self) -> Self:
        if self._told is not None:
            raise LocalProtocolError("an inference is entered once")
        self._told = [link for link in self._links() if self._tell(link, "started")]
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, tb: TracebackType | None
    ) -> None:
        phase: LifecyclePhase = "completed"
        if self._aborted or (exc_type is not None and issubclass(exc_type, anyio.get_cancelled_exc_class())):
            phase = "aborted"
        elif exc_type is not None:
            phase = "failed"
        try:
            self._outgoing.complete_all()
        finally:
            # Whatever went wrong with one server, the others hear of the end.
            told, self._told = self._told or [], []
            for link in told:
                self._tell(link, phase)

    def abort(self) -> None:
        """The inference ends as ``aborted``, whatever the block does from now on."""
        self._aborted = True

    async def before(
        self,
        user_message: str | None = None,
        *,
        channels: BeforeInferenceChannels | UnsetType = UNSET,
        timeout: float | None = None,
    ) -> Injections:
        """Asks the servers for what they put into the context (SPEC 10.1). Never raises for a server.

        Args:
            user_message: what the user said, ``None`` when generation goes on without them.
            channels: which channels the turn belongs to.
            timeout: seconds for each server's answer; left out, ``hook_timeout``.
        """
        turn = Turn(
            inference_id=self.id,
            conversation_id=self.conversation_id,
            turn_index=self.turn_index,
            model=self.model,
            user_message=user_message,
            channels=channels,
            meta=dict(self._trace) if self._trace else UNSET,
        )
        return await ask_servers(self._links(), turn, self._hook_timeout if timeout is None else timeout)

    def chunk(self, server: Linked, channel: str, *, moderated: str) -> bool:
        """Streams a piece of text to the server that registered a channel; see ``Outgoing.chunk``. Each stream is
        closed when the inference ends, if ``complete`` did not do so before."""
        link = self._link(server)
        return link is not None and self._outgoing.chunk(link, channel, moderated=moderated)

    def complete(self, server: Linked, channel: str, content: Any = None) -> bool:
        """Closes the stream of a channel; see ``Outgoing.complete``."""
        link = self._link(server)
        return link is not None and self._outgoing.complete(link, channel, content)

    def _link(self, server: Linked) -> ServerLink | None:
        try:
            return server.link
        except McplError:
            return None

    def _tell(self, link: ServerLink, phase: LifecyclePhase) -> bool:
        """Tells one server, if it may hear of it; whether it was told. A server that does not read does not hear of a
        beginning; of an end it does when it heard of the beginning."""
        if not link.may_send(_LIFECYCLE) or link.connection.is_closed:
            return False
        if phase == "started" and link.connection.transport.behind:
            return False
        notice = InferenceLifecycleParams(
            inference_id=self.id,
            conversation_id=self.conversation_id,
            turn_index=self.turn_index,
            phase=phase,
            model=self.model if link.authority.allows("modelInfo") else UNSET,
            usage=self.usage if phase == "completed" else UNSET,
        )
        try:
            link.connection.push_notification(_LIFECYCLE, notice)
        except McplError as exc:
            link.audit.record(_LIFECYCLE, "failure", inference_id=self.id, detail=type(exc).__name__)
            return False
        link.audit.record(_LIFECYCLE, "success", inference_id=self.id, detail=phase)
        return True
