"""What a host asks of the application: tools, context hooks, and the methods that it has handlers for.

Owns: the way from a message to the application's function and from its result to the answer. Runs in workers, since
these functions take as long as they like. Does not own: the connection's state (``session``), one tool (``tools``,
``calling``), and injections (``hooks``).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

import anyio
from msgspec import Raw

from ..connection import McplConnection
from ..dispatch import Handler
from ..errors import (
    CheckpointNotFound,
    InternalError,
    InvalidParams,
    InvalidValueError,
    LocalProtocolError,
    MethodNotFound,
    RpcError,
    UnknownFeatureSet,
)
from ..protocol import (
    ContextBeforeInferenceParams,
    ContextInjection,
    MessageForm,
    Method,
    ToolsCallParams,
    decode_params,
    decode_result,
    method,
)
from ..wire.messages import Notification, Request
from ..wire.values import encode_value
from .calling import Caller
from .context import Context
from .hooks import hook_result, injections_of
from .inference import inside_hook
from .offer import DeclaredHandler, Offer, ServerHandler
from .policy import ServerPolicy

__all__ = ("Serving",)


class _Session(Protocol):
    """What is needed of the session."""

    offer: Offer
    connection: McplConnection
    caller: Caller
    policy: ServerPolicy

    @property
    def by_grant(self) -> bool: ...
    def admit(self, name: str) -> Method | None: ...
    def context(self, request: Request | Notification | None = None, params: Any = None) -> Context: ...


class Serving:
    """The handlers of one session that may take long.

    Args:
        session: the host, the policy, and what is offered.
    """

    def __init__(self, session: _Session) -> None:
        self._session = session

    def handlers(self) -> dict[str, tuple[Handler, bool | None]]:
        """Method -> its handler, and whether the messages behind wait (``None``: the method table says)."""
        found: dict[str, tuple[Handler, bool | None]] = {
            method.TOOLS_CALL: (self._call_tool, None),
            method.CONTEXT_BEFORE_INFERENCE: (self._before_inference, None),
        }
        for name, handler in self._session.offer.handlers.items():
            found[name] = (partial(self._call_handler, name, handler), handler.ordered)
        return found

    # -- tools

    async def _call_tool(self, request: Request) -> Raw:
        session, offer = self._session, self._session.offer
        entry = session.admit(method.TOOLS_CALL)
        assert entry is not None
        params: ToolsCallParams = decode_params(entry, request.raw_params)
        declared = offer.tools.get(params.name)
        if declared is None:
            raise InvalidParams(message=f"no such tool: {params.name}", data={"tool": params.name})
        if declared.feature_set is not None and session.by_grant:
            session.policy.check(entry, declared.feature_set)
        context = session.context(request, params)
        try:
            return await session.caller.call_tool(
                declared.tool, params, context, offer.validate, session.connection.report
            )
        finally:
            context.ended = True

    # -- context hooks

    async def _before_inference(self, request: Request) -> Any:
        session = self._session
        entry = session.admit(method.CONTEXT_BEFORE_INFERENCE)
        if entry is None or not session.offer.hooks:
            raise MethodNotFound(message="this server has no context hooks")
        params: ContextBeforeInferenceParams = decode_params(entry, request.raw_params)
        context = session.context(request, params)
        hooks = [(name, hook) for name, hook in session.offer.hooks if session.policy.enabled(name)]
        results: list[tuple[str, list[ContextInjection]]] = [(name, []) for name, _ in hooks]

        async def run(index: int, name: str, hook: ServerHandler) -> None:
            results[index] = (name, await self._one_hook(name, hook, context, params))

        try:
            with inside_hook():
                # Side by side: the host gives all of them together a few seconds (SPEC 10.6).
                async with anyio.create_task_group() as tasks:
                    for index, (name, hook) in enumerate(hooks):
                        tasks.start_soon(run, index, name, hook)
        finally:
            context.ended = True
        return hook_result(results, session.policy, session.connection.report)

    async def _one_hook(self, name: str, hook: ServerHandler, context: Context, params: Any) -> list[ContextInjection]:
        # One broken hook must not cost the turn what the others have to say.
        session = self._session
        try:
            value = await session.caller.call(hook, context, params)
            return injections_of(value, session.offer.uses(name), str(session.offer.info["name"]))
        except Exception as exc:
            session.connection.report(exc)
            return []

    # -- other methods

    async def _call_handler(self, name: str, handler: DeclaredHandler, message: Request | Notification) -> Any:
        session = self._session
        entry = session.admit(name)
        form: MessageForm = "request" if isinstance(message, Request) else "notification"
        if entry is None:
            params = message.params if message.params is not None else {}
        else:
            params = decode_params(entry, message.raw_params, form)
            self._require_declared(params)
        context = session.context(message, params)
        try:
            result = await session.caller.call(handler.function, context, params)
        except RpcError as exc:
            if context.raised(exc):
                # What the host said to the handler is no answer to what it asked.
                session.connection.report(exc)
                raise InternalError from exc
            if isinstance(exc, CheckpointNotFound) and exc.data is None and hasattr(params, "checkpoint"):
                exc.data = {"checkpoint": params.checkpoint}
            raise
        finally:
            context.ended = True
        return None if form == "notification" else _answer(entry, result)

    def _require_declared(self, params: Any) -> None:
        """A handler is not asked about a feature set that does not exist (SPEC Appendix A). One that is off is the
        handler's affair: a host may well go back in what it has switched off."""
        named = getattr(params, "feature_set", None)
        if isinstance(named, str) and self._session.by_grant and named not in self._session.policy.statuses:
            raise UnknownFeatureSet(data={"featureSet": named})


def _answer(entry: Method | None, result: Any) -> Raw:
    """A handler's result as JSON text; nothing is an empty object.

    Raises:
        LocalProtocolError: it is not a result of this method.
    """
    text = Raw(encode_value({} if result is None else result))
    if entry is not None and entry.result is not None:
        try:
            decode_result(entry, text)
        except InvalidValueError as exc:
            raise LocalProtocolError(f"the handler of {entry.name} returned what is not its result: {exc}") from exc
    return text
