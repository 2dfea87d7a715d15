"""Calling the functions of the application: coroutines in place, plain functions in worker threads.

Owns: how one function is run, and what of its failure a host's model may read. Does not own: which function, and
whether it may be called.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import isawaitable, iscoroutinefunction
from typing import Any

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar

from ..content import text_content, to_mcp
from ..errors import InvalidValueError, RpcError, UnencodableError
from ..protocol import ToolsCallParams
from .context import Context
from .tools import ServerTool, ToolError, tool_result

__all__ = ("Caller", "error_result")


class Caller:
    """Runs functions of the application.

    Args:
        limit: worker threads for plain functions, of all connections together.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # One for each event loop: a server may be run again in another.
        self._limiter: RunVar[CapacityLimiter] = RunVar("mcpl_worker_threads")

    async def call(self, function: Callable[[], Any]) -> Any:
        """The result of ``function``: a coroutine function runs in this task, a plain one in a worker thread, so that
        it cannot hold up the event loop."""
        inner = function
        while isinstance(inner, partial):
            inner = inner.func
        if iscoroutinefunction(inner) or iscoroutinefunction(type(inner).__call__):
            return await function()
        try:
            limiter = self._limiter.get()
        except LookupError:
            limiter = CapacityLimiter(self._limit)
            self._limiter.set(limiter)
        # A thread cannot be stopped; a cancelled call is answered, or not, without waiting for it.
        result = await anyio.to_thread.run_sync(function, abandon_on_cancel=True, limiter=limiter)
        return await result if isawaitable(result) else result

    async def call_tool(
        self,
        tool: ServerTool,
        params: ToolsCallParams,
        context: Context,
        validate: Callable[[ServerTool, dict[str, Any]], object] | None,
        report: Callable[[BaseException], None],
    ) -> dict[str, Any]:
        """One ``tools/call`` (MCP): bad arguments and failures of the tool are results that the model reads.

        Raises:
            RpcError: what the tool raised as one.
        """
        arguments = params.arguments if isinstance(params.arguments, dict) else {}
        try:
            if validate is not None:
                validate(tool, arguments)
            call = tool.bind(arguments, context)
            value = await self._run(tool, call)
            return tool_result(tool, value)
        except InvalidValueError as exc:
            return error_result(f"invalid arguments at {exc.path}: {exc.detail}")
        except ToolError as exc:
            return error_result(str(exc))
        except RpcError:
            raise
        except UnencodableError as exc:
            report(exc)
            return error_result(f"the result of {tool.name} cannot be sent")
        except Exception as exc:
            report(exc)
            return error_result(f"{tool.name} failed: {exc}" if str(exc) else f"{tool.name} failed")

    async def _run(self, tool: ServerTool, call: Callable[[], Any]) -> Any:
        if iscoroutinefunction(tool.function):
            return await call()
        return await self.call(call)


def error_result(text: str) -> dict[str, Any]:
    """A tool error (MCP): the model reads what went wrong."""
    return {"content": [to_mcp(text_content(text))], "isError": True}
