"""Running one served call, from the request to the result.

Owns: the order (middleware, credentials, the tool, middleware again, cleanups), what of a failure the caller reads, and
the bound on it. Does not own: each of the steps, and which tools there are.

Whatever goes wrong with a call is a result that the model reads (``isError``), never an error of the protocol, and
never the end of the server.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import anyio
from msgspec import Raw

from ...errors import InvalidValueError, MalformedMessageError, McplError, UnencodableError
from ...server.calling import Caller
from ...server.results import ToolError, error_result, tool_result
from ...server.schemas import ResultSchema
from ...wire.framing import DEFAULT_MAX_MESSAGE_BYTES
from .call import ToolCall
from .credentials import CallCredentials, resolve_credentials
from .middleware import Ask, Deny, Failed, MiddlewareChain, nobody_to_ask
from .tools import needs_of

__all__ = ("MAX_ERROR_TEXT", "MAX_RESULT_BYTES", "CallRunner", "bounded", "contained", "failed_call", "unknown_tool")

#: Characters of a failure that a caller reads.
MAX_ERROR_TEXT: Final = 2_000

#: Bytes of a result; a connection that refuses what is larger could not say which call it was.
MAX_RESULT_BYTES: Final = DEFAULT_MAX_MESSAGE_BYTES - 64 * 1024

#: Names that the answer to an unknown tool lists.
_MAX_NAMES = 100

#: Seconds for the cleanups of one call.
_CLEANUP_TIMEOUT = 5.0

_logger = logging.getLogger("mcpl_core.mcp.serving")


def _log(error: BaseException) -> None:
    if isinstance(error, MalformedMessageError):
        # Without its excerpt: a message may hold what no log should.
        error = MalformedMessageError(error.kind, error.detail)
    foreign = not isinstance(error, McplError | ToolError)
    _logger.warning("%s: %s", type(error).__name__, _text(error), exc_info=error if foreign else None)


@dataclass(frozen=True, slots=True)
class CallRunner:
    """Runs calls.

    Attributes:
        chain: the middleware.
        credentials: the provider of what tools need; ``None``: none of them needs anything.
        caller: runs functions of the application.
        report: is told what went wrong inside.
    """

    chain: MiddlewareChain
    caller: Caller
    credentials: CallCredentials | None = None
    report: Callable[[BaseException], object] = _log

    async def call(self, function: Callable[..., Any], /, *args: Any) -> Any:
        """The result of a function of the application, sync or async; a plain one runs in a worker thread. Raises as
        ``contained`` does."""
        return await contained(self.caller.call, function, *args)

    async def run(self, call: ToolCall) -> Raw:
        """The result of the call, as JSON text."""
        call.run = self.call
        try:
            refusal = await self.chain.before(call, self.call, self.report) or await self._provide(call)
            if refusal is not None:
                return failed_call(refusal)
            return await self._execute(call)
        except Exception as exc:
            # Not the tool but its object: an attribute that raises.
            self.report(exc)
            return failed_call("the call failed")
        finally:
            call._ended = True
            try:
                await self._clean_up(call)
            finally:
                call.credentials = {}

    async def _provide(self, call: ToolCall) -> str | None:
        if getattr(call.tool, "requires_consent", False):
            return f"{call.name} did not run: somebody has to agree to each call, and over MCP there is nobody to ask"
        needs = needs_of(call.tool)
        if not needs:
            return None
        if self.credentials is None:
            return f"{call.name} did not run: there are no credentials for {needs[0].service}"
        return await resolve_credentials(call, needs, self.credentials, self.report)

    async def _execute(self, call: ToolCall) -> Raw:
        outcome: Any
        try:
            outcome = await self.call(call.tool.execute, call.arguments, call)
        except Exception as exc:
            outcome = Failed(exc)
        outcome = await self.chain.after(call, outcome, self.call, self.report)
        if isinstance(outcome, Ask):
            return failed_call(nobody_to_ask(call.name, "it", "gave no result"))
        if isinstance(outcome, Deny):
            return failed_call(outcome.reason)
        if isinstance(outcome, Failed):
            if not isinstance(outcome.error, ToolError):
                self.report(outcome.error)
            return failed_call(_message(call, outcome.error))
        return self._result(call, outcome)

    def _result(self, call: ToolCall, value: Any) -> Raw:
        try:
            # Nothing is an empty text: a result has content (MCP).
            return bounded(tool_result(_promised(call.tool), "" if value is None else value))
        except (InvalidValueError, UnencodableError) as exc:
            self.report(exc)
            return failed_call(f"{call.name} gave a result that cannot be sent: {exc}")

    async def _clean_up(self, call: ToolCall) -> None:
        with anyio.move_on_after(_CLEANUP_TIMEOUT, shield=True):
            # A cleanup may leave another one.
            while call._cleanups:
                try:
                    await self.call(call._cleanups.pop())
                except Exception as exc:
                    self.report(exc)
        call._cleaned = True


async def contained(run: Callable[..., Awaitable[Any]], function: Callable[..., Any], /, *args: Any) -> Any:
    """``await run(function, *args)``, whatever a function of the application raises.

    Raises:
        Exception: whatever it raises; a ``RuntimeError`` instead of ``SystemExit`` and all else that is none. A
            cancellation only when this task is cancelled, and not something that the function awaited: on asyncio both
            look alike.
    """
    here = _task(), _cancellations()
    try:
        return await run(function, *args)
    except BaseException as exc:
        if isinstance(exc, Exception) or _goes_on(exc, *here):
            raise
        raise RuntimeError(f"a function of the application raised {type(exc).__name__}") from exc


def _goes_on(exc: BaseException, task: int | None, cancellations: int | None) -> bool:
    """Whether it is not the function's own: the end of this task, or of the process."""
    if isinstance(exc, GeneratorExit):
        # Who closes this coroutine does so from another task, or from none.
        return task is None or _task() != task
    if isinstance(exc, asyncio.CancelledError):
        return cancellations is None or _cancellations() != cancellations
    going_on = (anyio.get_cancelled_exc_class(), KeyboardInterrupt)
    group = isinstance(exc, BaseExceptionGroup) and exc.subgroup(going_on) is not None
    return group or isinstance(exc, going_on)


def _task() -> int | None:
    try:
        return anyio.get_current_task().id
    except (RuntimeError, AttributeError):  # no event loop, or no task of it
        return None


def _cancellations() -> int | None:
    """How often somebody wanted this task to be cancelled; ``None`` where that is no question."""
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return None
    return None if task is None else task.cancelling()


def bounded(result: Raw) -> Raw:
    """The result itself.

    Raises:
        UnencodableError: it has more than ``MAX_RESULT_BYTES``.
    """
    if len(result) > MAX_RESULT_BYTES:
        raise UnencodableError(f"{len(result)} bytes are more than {MAX_RESULT_BYTES}")
    return result


def failed_call(text: str) -> Raw:
    """A result that says what went wrong, at most ``MAX_ERROR_TEXT`` characters of it."""
    return error_result(text if len(text) <= MAX_ERROR_TEXT else text[: MAX_ERROR_TEXT - 1] + "\N{HORIZONTAL ELLIPSIS}")


def unknown_tool(name: str, served: Sequence[str]) -> Raw:
    """The answer to a call of a tool that is not served, with the names of those that are."""
    more = f" and {len(served) - _MAX_NAMES} more" if len(served) > _MAX_NAMES else ""
    names = ", ".join(served[:_MAX_NAMES]) + more if served else "none"
    return failed_call(f"there is no tool {name[:128]!r}; served are: {names}")


def _text(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:
        return ""


def _message(call: ToolCall, error: Exception) -> str:
    text = _text(error)
    if isinstance(error, ToolError):
        return text
    return f"{call.name} failed: {text}" if text else f"{call.name} failed ({type(error).__name__})"


def _promised(tool: Any) -> ResultSchema:
    promised = getattr(tool, "promised", None)
    if isinstance(promised, ResultSchema):
        return promised
    schema = getattr(tool, "output_schema", None)
    return ResultSchema(dict(schema)) if isinstance(schema, Mapping) else ResultSchema()
