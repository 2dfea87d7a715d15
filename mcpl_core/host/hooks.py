"""Context hooks: many servers are asked at once, and what they put into the context is judged piece by piece (SPEC 10).

Owns: what each server is told of a turn, the bound on waiting, the authority of each injection, and their order. Does
not own: what a host does with injections, and the inference around them (``lifecycle``).

An injection is judged by its own position against the grant in force when the answer is taken from the wire, before
anything behind it is looked at; and once more when the turn goes on, so that what was taken away while other servers
were still waited for is not used. What the server says of feature set and namespace plays no part.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import anyio
from msgspec import UNSET, Raw, UnsetType

from ..content import ContentBlock, content_text, parse_content
from ..errors import ConnectionTimeoutError, InvalidValueError, McplError
from ..protocol import (
    BeforeInferenceChannels,
    ContextBeforeInferenceParams,
    ContextBeforeInferenceResult,
    ModelInfo,
    Position,
    decode_result,
    method,
)
from .link import ServerLink

__all__ = ("POSITIONS", "Injection", "Injections", "SkippedServer", "Turn", "ask_servers")

_HOOK: Final = method.CONTEXT_BEFORE_INFERENCE
_OBSERVE: Final = "contextHooks.beforeInference.observe"

#: The positions in the order of the context, each with the path that it needs.
POSITIONS: Final[dict[Position, str]] = {
    position: f"contextHooks.beforeInference.inject.{position}" for position in ("system", "beforeUser", "afterUser")
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """A turn that is about to begin.

    Attributes:
        inference_id, conversation_id, turn_index: are told to every server that is asked.
        model: likewise.
        user_message: what the user said, ``None`` when generation goes on without them. Only for servers that may
            observe; others get ``None``.
        channels: which channels the turn belongs to; only for servers that may observe.
        meta: the ``_meta`` of the request, such as a trace context.
    """

    inference_id: str
    conversation_id: str
    turn_index: int
    model: ModelInfo
    user_message: str | None = None
    channels: BeforeInferenceChannels | UnsetType = UNSET
    meta: Any = UNSET

    def params(self, observe: bool) -> ContextBeforeInferenceParams:
        """What a server is told (SPEC 10.1). What it may not see is not there."""
        return ContextBeforeInferenceParams(
            inference_id=self.inference_id,
            conversation_id=self.conversation_id,
            turn_index=self.turn_index,
            model=self.model,
            user_message=self.user_message if observe else None,
            channels=self.channels if observe else UNSET,
            meta=self.meta,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Injection:
    """Something that a server may put into the context.

    Attributes:
        server: the id that the host gave the server.
        position: where it goes.
        content: the blocks.
        namespace, metadata: as the server says.
        claimed_feature_set: as the server says; for people.
    """

    server: str
    position: Position
    content: list[ContentBlock]
    namespace: str
    metadata: Any = UNSET
    claimed_feature_set: str | None = None

    @property
    def text(self) -> str:
        """The text of its text blocks, one per line."""
        return content_text(self.content)


@dataclass(frozen=True, slots=True)
class SkippedServer:
    """A server whose contribution the turn does without.

    Attributes:
        server: its id.
        reason: ``timeout``, ``failed`` or ``malformed``.
    """

    server: str
    reason: str


@dataclass(frozen=True, slots=True)
class Injections:
    """What the servers contribute to one turn.

    Attributes:
        items: by position, in the order of ``POSITIONS``; within one in the order of the servers, and of each one's
            answer. Nothing depends on which server was faster.
        skipped: servers that did not answer in time or in form.
    """

    items: tuple[Injection, ...] = ()
    skipped: tuple[SkippedServer, ...] = ()

    def at(self, position: Position) -> tuple[Injection, ...]:
        """The injections at a position, in order."""
        return tuple(item for item in self.items if item.position == position)


async def ask_servers(links: Sequence[ServerLink], turn: Turn, timeout: float) -> Injections:
    """Asks every server that may observe or inject (SPEC 10.1). Never raises for a server: one that is late or broken
    costs its own contribution (SPEC 13.3).

    Args:
        links: the servers, in the order in which their injections stand.
        turn: what is about to begin.
        timeout: seconds to wait for each; they are asked at once.
    """
    asked = [link for link in links if link.may_send(_HOOK)]
    answers: list[list[Injection] | str] = ["failed"] * len(asked)
    async with anyio.create_task_group() as tasks:
        for index, link in enumerate(asked):
            tasks.start_soon(_ask, link, turn, timeout, answers, index)
    skipped = tuple(
        SkippedServer(link.server, answer)
        for link, answer in zip(asked, answers, strict=True)
        if isinstance(answer, str)
    )
    allowed = [
        injection
        for link, answer in zip(asked, answers, strict=True)
        if not isinstance(answer, str)
        for injection in _still_allowed(link, answer)
    ]
    ordered = tuple(item for position in POSITIONS for item in allowed if item.position == position)
    return Injections(ordered, skipped)


async def _ask(link: ServerLink, turn: Turn, timeout: float, answers: list[list[Injection] | str], index: int) -> None:
    received: list[Injection] = []
    params = turn.params(link.authority.allows(_OBSERVE))
    link.in_hook += 1
    try:
        await link.connection.send_request(
            _HOOK,
            params,
            timeout=timeout,
            on_answer=lambda raw: received.extend(_authorised(link, raw, turn.inference_id)),
        )
    except ConnectionTimeoutError:
        answers[index] = "timeout"
        link.audit.record(_HOOK, "timeout", inference_id=turn.inference_id)
    except InvalidValueError as exc:
        answers[index] = "malformed"
        link.audit.record(_HOOK, "failure", inference_id=turn.inference_id, code="malformed", detail=exc.path)
    except McplError as exc:
        link.audit.record(_HOOK, "failure", inference_id=turn.inference_id, detail=type(exc).__name__)
    else:
        answers[index] = received
        link.audit.record(_HOOK, "success", inference_id=turn.inference_id, detail=f"{len(received)} injections")
    finally:
        link.in_hook -= 1


def _authorised(link: ServerLink, raw: Raw, inference_id: str) -> Iterable[Injection]:
    """The injections of an answer that are allowed now, as it is taken from the wire (SPEC 5.4, 10.8)."""
    result: ContextBeforeInferenceResult = decode_result(link.row(_HOOK), raw)
    claimed = result.feature_set if isinstance(result.feature_set, str) else None
    for item in result.read_injections():
        if isinstance(item, InvalidValueError):
            link.audit.note(_HOOK, "invalid_injection", item.path, feature_set=claimed)
        elif not link.authority.allows(POSITIONS[item.position]):
            link.audit.record(
                _HOOK, "denied", feature_set=claimed, inference_id=inference_id, code="capability_denied",
                detail=item.position,
            )  # fmt: skip
        else:
            yield Injection(
                server=link.server,
                position=item.position,
                content=parse_content(item.content),
                namespace=item.namespace,
                metadata=item.metadata,
                claimed_feature_set=claimed,
            )


def _still_allowed(link: ServerLink, injections: list[Injection]) -> Iterable[Injection]:
    return (item for item in injections if link.authority.allows(POSITIONS[item.position]))
