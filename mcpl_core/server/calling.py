"""Calling the functions of the application: coroutines in place, plain functions in worker threads.

Owns: how one function is run, how many threads there are, and what of a tool's failure a host's model may read. Does
not own: which function, and whether it may be called.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from inspect import isawaitable
from typing import Any

import anyio
import anyio.to_thread
from anyio import CapacityLimiter
from anyio.lowlevel import RunVar
from msgspec import Raw

from ..errors import ConnectionClosedError, InvalidValueError, RpcError, UnencodableError
from ..protocol import ToolsCallParams
from .context import Context
from .results import ToolError, error_result, tool_result
from .tools import ServerTool, is_coroutine_function

__all__ = ("ArgumentCheck", "Caller", "contained")

#: Checks the arguments of a tool before it is called; raises ``InvalidValueError`` or ``ToolError``.
ArgumentCheck = Callable[[ServerTool, dict[str, Any]], object]


class Caller:
    """Runs functions of the application.

    Args:
        limit: worker threads for plain functions, of all connections together; and as many again for calls that
            were given up and still run, since a thread cannot be stopped.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        # One for each event loop: a server may be run again in another.
        self._limiter: RunVar[CapacityLimiter] = RunVar("mcpl_worker_threads")
        self._lock = threading.Lock()
        self._running: set[object] = set()
        self._given_up: set[object] = set()

    async def call(self, function: Callable[..., Any], /, *args: Any, **keywords: Any) -> Any:
        """The result of ``function``: a coroutine function runs in this task, a plain one in a worker thread, so that
        it cannot hold up the event loop.

        Raises:
            Exception: whatever the function raises; ``SystemExit`` and all else that is no ``Exception`` becomes a
                ``RuntimeError``, since one host's request must not end the others.
        """
        return await self._call(is_coroutine_function(function), function, args, keywords)

    async def _call(
        self, is_async: bool, function: Callable[..., Any], args: tuple[Any, ...], keywords: dict[str, Any]
    ) -> Any:
        with contained():
            if is_async:
                return await function(*args, **keywords)
            result = await self._in_thread(partial(function, *args, **keywords))
            return await result if isawaitable(result) else result

    async def _in_thread(self, function: Callable[[], Any]) -> Any:
        if len(self._given_up) >= self._limit:
            raise RuntimeError("all worker threads are held by calls that were given up and do not end")
        try:
            limiter = self._limiter.get()
        except LookupError:
            limiter = CapacityLimiter(self._limit)
            self._limiter.set(limiter)
        call = object()
        try:
            (result,) = await anyio.to_thread.run_sync(
                self._work, call, function, abandon_on_cancel=True, limiter=limiter
            )
            return result
        finally:
            with self._lock:
                # Cancelled: the answer does not wait for the thread.
                if call in self._running:
                    self._given_up.add(call)

    def _work(self, call: object, function: Callable[[], Any]) -> tuple[Any]:
        with self._lock:
            self._running.add(call)
        try:
            # In a tuple: trio refuses an awaitable as the result of a thread.
            return (function(),)
        except GeneratorExit as exc:
            # On asyncio it would close the coroutine that waits for the thread.
            raise RuntimeError("a function of the application raised GeneratorExit") from exc
        finally:
            with self._lock:
                self._running.discard(call)
                self._given_up.discard(call)

    async def call_tool(
        self,
        tool: ServerTool,
        params: ToolsCallParams,
        context: Context,
        validate: ArgumentCheck | None,
        report: Callable[[BaseException], object],
    ) -> Raw:
        """One ``tools/call`` (MCP): bad arguments and failures of the tool are results that the model reads."""
        arguments = params.arguments if isinstance(params.arguments, dict) else {}
        try:
            if validate is not None:
                validate(tool, arguments)
            keywords = tool.bind(arguments, context)
        except InvalidValueError as exc:
            return error_result(f"invalid arguments at {exc.path}: {exc.detail}")
        except ToolError as exc:
            return error_result(str(exc))
        except Exception as exc:
            return _failed(tool, exc, report)
        try:
            value = await self._call(tool.is_async, tool.function, (), keywords)
        except ToolError as exc:
            return error_result(str(exc))
        except Exception as exc:
            return _failed(tool, exc, report)
        try:
            return tool_result(tool.promised, value)
        except (InvalidValueError, UnencodableError) as exc:
            report(exc)
            return error_result(f"{tool.name} gave a result that cannot be sent: {exc}")


@contextmanager
def contained() -> Iterator[None]:
    """A function of the application runs in this block: ``SystemExit`` and all else that it raises and that is no
    ``Exception`` becomes a ``RuntimeError``. A cancellation of this task, and the user's wish to end, go on."""
    try:
        yield
    except Exception:
        raise
    except BaseException as exc:
        kept = _not_of_the_application(exc)
        if kept is exc:
            raise
        raise kept or RuntimeError(f"a function of the application raised {type(exc).__name__}") from exc


def _is_cancelled() -> bool:
    """Whether this task is to end. On asyncio, who waits for a task that was cancelled gets the very same exception."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return True
    return task is None or task.cancelling() > 0


def _not_of_the_application(exc: BaseException) -> BaseException | None:
    """What of it is a cancellation or the user's wish to end the process, and has to go on; ``None``: nothing."""
    going_on: tuple[type[BaseException], ...] = (KeyboardInterrupt, GeneratorExit)
    if _is_cancelled():
        going_on += (anyio.get_cancelled_exc_class(),)
    if isinstance(exc, BaseExceptionGroup):
        return exc.subgroup(going_on)
    return exc if isinstance(exc, going_on) else None


def _failed(tool: ServerTool, exc: Exception, report: Callable[[BaseException], object]) -> Raw:
    """What the host refused to the tool is the tool's failure too: the call itself was allowed."""
    if not isinstance(exc, RpcError | ConnectionClosedError):
        report(exc)
    text = f"{tool.name} failed: {exc}" if str(exc) else f"{tool.name} failed"
    data = exc.data if isinstance(exc, RpcError) and isinstance(exc.data, dict) else {}
    named = [str(data[name]) for name in ("capability", "featureSet") if name in data]
    return error_result(f"{text} ({', '.join(named)})" if named else text)
