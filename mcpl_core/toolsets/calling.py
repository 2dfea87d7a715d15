"""What hosts ask: tools and toolsets, and what their answers carry (SPEC_NOTES R-toolsets-2 to R-toolsets-6).

Owns: the requests, from typed params to the text of the result, and that changes and events of a call are put into it
at the moment it is made. Does not own: who may ask (the server runtime asks the grant before), the tools for hosts
without hints (``fallback``), and the steps below.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, cast

import anyio
import msgspec
from msgspec import UNSET, Raw

from ..errors import InvalidParams, InvalidValueError, RpcError
from ..protocol import (
    ToolsCallParams,
    ToolsetsCloseParams,
    ToolsetsListParams,
    ToolsetsOpenParams,
    ToolsListParams,
    method,
)
from ..protocol import Toolset as ToolsetStatement
from ..server import Context, ServerTool
from ..server.calling import Caller
from ..server.offer import DeclaredTool
from ..server.results import error_result
from ..wire.values import encode_value
from .attribution import recorded
from .catalog import Catalog
from .context import ToolsetContext
from .fallback import Fallback
from .instances import DeclaredToolset, Opened
from .link import Link
from .principal import OpenInstance, Principal
from .runtime import Call, Runtime
from .targets import NoTarget, find_target, usable
from .wire import (
    close_result,
    instance_statement,
    list_result,
    open_result,
    read_instance,
    toolset_statement,
    with_slots,
)

__all__ = ("CallContext", "Requests")


class CallContext(ToolsetContext):
    """The context of a call, with what it is for.

    Attributes:
        target: the instance, for a tool of a toolset.
        tool: the name of that tool.
    """

    target: OpenInstance
    tool: str


class Requests:
    """The handlers of a server's requests. Each takes the context and typed params.

    Args:
        runtime: all principals.
        catalog: all toolsets.
        own: the tools outside of toolsets, by name.
        caller: runs functions of the application.
    """

    def __init__(self, runtime: Runtime, catalog: Catalog, own: Mapping[str, DeclaredTool], caller: Caller) -> None:
        self._runtime = runtime
        self._catalog = catalog
        self._own = own
        self._caller = caller
        self._fallback = Fallback(runtime, catalog)

    # -- lists

    async def list_tools(self, ctx: Context, params: ToolsListParams) -> Raw:
        """``tools/list``: always all of them."""
        if params.cursor:
            raise InvalidParams(message="no such cursor", data={"path": "$.cursor"})
        link = self._runtime.link(ctx)
        await self._runtime.instances.look_at_all(link.principal)
        own = [declared.tool for declared in self._own.values()]
        tools = self._catalog.list_tools(own, link.principal, fallback=link.view is None)
        if link.view is not None:
            link.view.base()
        return Raw(encode_value({"tools": tools}))

    async def list_toolsets(self, ctx: Context, params: ToolsetsListParams) -> Raw:
        """``toolsets/list``: a full statement. What is held comes after it."""
        link = self._runtime.link(ctx)
        principal = link.principal
        await self._runtime.instances.look_at_all(principal)
        content: dict[OpenInstance, list[Any]] = {}
        while missing := [opened for opened in principal.open() if opened.key[1] and opened not in content]:
            content |= await self._runtime.instances.questions.contents(missing)
        result = self._listed(link, content)
        if len(result) > ctx.room:
            # A host that cannot be told everything is told what can be called.
            result = self._listed(link, {})
        if len(result) <= ctx.room:
            if link.view is not None:
                link.view.state()
            principal.events.release(link)
        return result

    def _listed(self, link: Link, content: Mapping[OpenInstance, list[Any]]) -> Raw:
        statements = [self._statement(link.principal, each, content) for each in self._catalog.toolsets.values()]
        return list_result(link.view.rev if link.view is not None else 0, statements, link.principal.ended())

    def _statement(
        self, principal: Principal, toolset: DeclaredToolset, content: Mapping[OpenInstance, list[Any]]
    ) -> ToolsetStatement:
        facts, name, presence = toolset.facts, toolset.name, principal.presence
        opened = principal.instances(name)
        visible = {tool for each in opened for tool in presence.get(each.key) or ()}
        instances = [
            instance_statement(
                each.key[1], each.title, presence.get(each.key) or (), content.get(each, ()), each.opened_at
            )
            for each in opened
            if each.key[1] is not None
        ]
        return toolset_statement(
            name,
            title=facts.title,
            summary=facts.summary,
            default=facts.default,
            tools=facts.names,
            visible=[tool for tool in facts.names if tool in visible],
            open=bool(opened),
            options_schema=None if facts.options is None else dict(facts.options),
            instances=instances if facts.instances else None,
        )

    # -- opening and closing

    async def open_toolset(self, ctx: Context, params: ToolsetsOpenParams) -> Raw:
        """``toolsets/open``."""
        async with self._call(ctx) as call:
            proposed = params.instance if params.instance is not UNSET else None
            opened, content = await self._open(call, params.toolset, params.options or None, proposed)
            visible = call.link.principal.presence.get(opened.key) or ()
            return self._finish(call, ctx, open_result(opened.key, opened.title, content, visible))

    async def close_toolset(self, ctx: Context, params: ToolsetsCloseParams) -> Raw:
        """``toolsets/close``."""
        async with self._call(ctx) as call:
            toolset = self._runtime.instances.declared(params.toolset)
            instance = params.instance if params.instance is not UNSET else None
            closed = await self._close(call, toolset, instance)
            return self._finish(call, ctx, close_result(closed))

    async def _open(
        self, call: Call, toolset: str, options: dict[str, Any] | None, proposed: str | None = None
    ) -> Opened:
        link = call.link
        link.opening.append((toolset, proposed))
        try:
            before = partial(self._settle, call)
            return await self._runtime.instances.open(link.principal, toolset, options, proposed, before)
        finally:
            link.opening.remove((toolset, proposed))
            # Calls that came behind look again.
            link.opened.set()
            link.opened = anyio.Event()

    async def _close(self, call: Call, toolset: DeclaredToolset, instance: str | None) -> bool:
        if toolset.facts.instances != (instance is not None):
            rule = "names no instance" if instance is None else "has no instances"
            raise InvalidParams(message=f"{toolset.name} {rule}", data={"path": "$.instance"})
        link, principal, before = call.link, call.link.principal, partial(self._settle, call)
        while (opened := principal.get((toolset.name, instance))) is None:
            if not link.is_opening(toolset.name, instance):
                return False
            await link.opened.wait()
        return await self._runtime.instances.end(principal, opened, "closed", bounded=False, before=before)

    # -- calls

    async def call_tool(self, ctx: Context, params: ToolsCallParams) -> Raw:
        """``tools/call``."""
        async with self._call(ctx) as call:
            context = CallContext(ctx, self._runtime)
            try:
                result = await self._answer(call, context, params)
            finally:
                context.ended = True
            await self._settle(call)
            return self._finish(call, ctx, result, text=call.link.view is None)

    async def _answer(self, call: Call, context: CallContext, params: ToolsCallParams) -> Raw:
        link, name = call.link, params.name
        if link.view is None and name in self._catalog.fallback:
            tool = self._catalog.fallback[name]
            return await self._checked(tool, params, context, partial(self._use_fallback, call, name))
        toolset = self._catalog.toolset_of(name)
        if toolset is None:
            return await self._call_own(context, params)
        tool = self._catalog.tools[name]
        try:
            target = await self._target(link, toolset, read_instance(params.meta))
        except InvalidValueError as exc:
            return error_result(f"{exc.path}: {exc.detail}")
        if isinstance(target, NoTarget):
            return error_result(target.text)
        visible = link.principal.presence.get(target.key) or ()
        if name not in visible:
            return error_result(f"{name} cannot be called now. {usable(visible)}")
        context.target, context.tool = target, name
        call.touched.setdefault(target.key, False)
        return await self._checked(tool, params, context, partial(self._run, tool, context))

    async def _target(self, link: Link, toolset: DeclaredToolset, named: str | None) -> OpenInstance | NoTarget:
        while True:
            found = find_target(link.principal, toolset.name, toolset.facts.instances, named, link.chosen)
            if isinstance(found, OpenInstance) or not (found.waits and link.is_opening(toolset.name, named)):
                return found
            # The host sent the call behind a request that opens it.
            await link.opened.wait()

    async def _call_own(self, context: CallContext, params: ToolsCallParams) -> Raw:
        declared = self._own.get(params.name)
        if declared is None:
            raise InvalidParams(message=f"no such tool: {params.name}", data={"tool": params.name})
        if declared.feature_set is not None and context.mcpl and not context.policy.refused:
            context.policy.check(context.methods[method.TOOLS_CALL], declared.feature_set)
        return await self._checked(declared.tool, params, context, partial(self._run, declared.tool, context))

    async def _checked(
        self,
        tool: ServerTool,
        params: ToolsCallParams,
        context: CallContext,
        call: Callable[[ToolsCallParams], Any],
    ) -> Raw:
        try:
            arguments = self._catalog.arguments(tool, params.arguments or {})
        except InvalidValueError as exc:
            return error_result(f"invalid arguments at {exc.path}: {exc.detail}")
        except Exception as exc:
            context.connection.report(exc)
            return error_result(f"{tool.name} failed")
        return cast("Raw", await call(msgspec.structs.replace(params, arguments=arguments)))

    async def _run(self, tool: ServerTool, context: CallContext, params: ToolsCallParams) -> Raw:
        return await self._caller.call_tool(tool, params, context, None, context.connection.report)

    async def _use_fallback(self, call: Call, name: str, params: ToolsCallParams) -> Raw:
        arguments = params.arguments or {}
        try:
            return await self._fallback.use(name, call, arguments, self._open, self._close)
        except RpcError as exc:
            return error_result(exc.message)

    # -- a call and its answer

    @asynccontextmanager
    async def _call(self, ctx: Context) -> AsyncIterator[Call]:
        link = self._runtime.link(ctx)
        call: Call = Call(link.principal.name, link)
        with recorded(call):
            try:
                yield call
            finally:
                if not call.answered:
                    self._abandon(call)

    async def _settle(self, call: Call) -> None:
        """What the call changed is stored, and comes true with its answer: what it ended ends, and what is visible of
        the rest is asked last."""
        principal = call.link.principal
        over = [key for key, ends in call.touched.items() if ends]
        others = [key for key, ends in call.touched.items() if not ends]
        await self._runtime.keep(principal, others)
        for key in over:
            if (opened := principal.get(key)) is not None:
                await self._runtime.instances.end(principal, opened, "closed")
        await self._runtime.look(principal, others)

    def _finish(self, call: Call, ctx: Context, result: Raw, text: bool = False) -> Raw:
        """The answer with all that it carries. Nothing waits between here and the transport."""
        link, book = call.link, call.link.principal.events
        call.answered = True
        view = link.may_hint()
        changes = view.changes() if view is not None else []
        carried = [event.carried() for event in call.events] if link.mcpl else []
        held = book.readable() if text else []
        lines = [event.text for event in (*held, *call.events)] if text else []
        full = with_slots(result, changes, carried, lines)
        if len(full) > ctx.room:
            book.left_behind(call.events, link)
            return result
        if view is not None:
            view.tell(changes)
        book.read(held)
        book.rode(call.events)
        return full

    def _abandon(self, call: Call) -> None:
        """The call has no answer that carries anything."""
        call.answered = True
        call.link.principal.events.left_behind(call.events, call.link)
        for key, ends in call.touched.items():
            self._runtime.spawn(partial(self._afterwards, call.principal, key, ends))

    async def _afterwards(self, principal: str, key: Any, ends: bool) -> None:
        if ends:
            await self._runtime.end_own(principal, key)
        else:
            await self._runtime.settle(principal, [key])
