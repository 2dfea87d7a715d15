"""Inference that servers ask for, and what they may know of models (SPEC 10.7, 11, 12).

Owns: the way from a request to the application's handler and back, with its pieces in order, and the refusal inside of
a hook. Does not own: models, budgets and routing (the application), and the grant's first word (``session``).
"""

from __future__ import annotations

import inspect
from functools import partial
from typing import Any

from msgspec import UNSET

from ..dispatch import Later
from ..errors import CapabilityDenied, MethodNotFound
from ..protocol import (
    InferenceChunkParams,
    InferenceMessage,
    InferenceRequestParams,
    InferenceRequestResult,
    ModelInfo,
    Preferences,
    decode_params,
    method,
)
from ..wire.messages import Id, Request
from .link import Effect, ServerLink

__all__ = ("InferenceCall", "InferenceDesk")

_REQUEST = method.INFERENCE_REQUEST


class InferenceCall:
    """One ``inference/request``, for the application's handler.

    Attributes:
        server: the id of the server that asks. Route by it and by ``feature_set`` (SPEC 11.5).
        params: what it asks for.
    """

    def __init__(self, link: ServerLink, id: Id, params: InferenceRequestParams) -> None:
        self.server = link.server
        self.params = params
        self._link = link
        self._id = id
        self._index = 0

    @property
    def feature_set(self) -> str:
        """The declared set that asks."""
        return self.params.feature_set

    @property
    def conversation_id(self) -> str | None:
        """The conversation that the server associates, if any."""
        return None if self.params.conversation_id is UNSET else self.params.conversation_id

    @property
    def messages(self) -> list[InferenceMessage]:
        """What to infer from."""
        return self.params.messages

    @property
    def preferences(self) -> Preferences:
        """The preferences that SPEC 11.2 defines; ``params.preferences`` has all."""
        return self.params.known_preferences

    @property
    def streams(self) -> bool:
        """Whether the server wants pieces, and still may have them."""
        return self.params.stream and self._link.may_send(method.INFERENCE_CHUNK)

    async def chunk(self, delta: str) -> bool:
        """Sends a piece of the result to come; false when the server does not want any, or may not have them any
        more. The whole result is returned by the handler all the same."""
        if not self.streams:
            return False
        chunk = InferenceChunkParams(request_id=self._id, index=self._index, delta=delta)
        self._index += 1
        await self._link.connection.send_notification(method.INFERENCE_CHUNK, chunk)
        return True


class InferenceDesk:
    """``inference/request`` and ``model/info`` of one server.

    Args:
        link: the session's facts.
    """

    def __init__(self, link: ServerLink) -> None:
        self._link = link

    def effects(self) -> dict[str, Effect]:
        """What its messages do."""
        return {_REQUEST: self._request, method.MODEL_INFO: self._model_info}

    def _request(self, message: Request) -> Later:
        link = self._link
        params: InferenceRequestParams = decode_params(link.row(_REQUEST), message.raw_params)
        self._check(params)
        if link.in_hook:
            # It cannot be told apart from one that the hook made; the server asks again when the hook is over.
            denied = CapabilityDenied(data={"capability": "inferenceRequest", "reason": "inside_hook"})
            link.deny(_REQUEST, denied, params.feature_set)
        if link.hub.handlers.inference is None:
            link.audit.record(_REQUEST, "failure", feature_set=params.feature_set, code="not_served")
            raise MethodNotFound(message="this host serves no inference")
        return Later(partial(self._serve, InferenceCall(link, message.id, params)))

    def _check(self, params: InferenceRequestParams) -> None:
        entry = self._link.row(_REQUEST)
        self._link.check_claim(_REQUEST, params.feature_set, *entry.further_capabilities(params))

    async def _serve(self, call: InferenceCall) -> InferenceRequestResult:
        link = self._link
        handler = link.hub.handlers.inference
        assert handler is not None
        self._check(call.params)
        try:
            result = handler(call)
            if inspect.isawaitable(result):
                result = await result
        except Exception:
            link.audit.record(_REQUEST, "failure", feature_set=call.feature_set, code="handler_failed")
            raise
        # What was taken away while the model ran is not handed out.
        self._check(call.params)
        model = result.model if isinstance(result, InferenceRequestResult) else ""
        link.audit.record(_REQUEST, "success", feature_set=call.feature_set, detail=f"model {model}")
        answer: InferenceRequestResult = result
        return answer

    def _model_info(self, message: Request) -> ModelInfo | Later:
        link = self._link
        decode_params(link.row(method.MODEL_INFO), message.raw_params)
        info = link.hub.handlers.model_info
        if info is None:
            link.audit.record(method.MODEL_INFO, "failure", code="not_served")
            raise MethodNotFound(message="this host tells nothing of its models")
        link.audit.record(method.MODEL_INFO, "success")
        if isinstance(info, ModelInfo):
            return info
        return Later(partial(self._ask, info))

    async def _ask(self, info: Any) -> Any:
        denied = self._link.authority.check(self._link.row(method.MODEL_INFO).capabilities)
        if denied is not None:
            self._link.deny(method.MODEL_INFO, denied)
        answer = info(self._link.server)
        return await answer if inspect.isawaitable(answer) else answer
