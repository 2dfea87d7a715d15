"""Tools of an MCP server, served on: a server in front of other servers.

Owns: the tools of an ``McpClient`` as tools to serve. Does not own: calling the other server (``client``), and choosing
names that do not collide (a client's ``prefix``).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Final

import anyio
from anyio.streams.memory import MemoryObjectReceiveStream
from msgspec import UNSET

from ...server.results import ToolResult
from ..client import McpClient
from ..errors import McpToolError
from ..tools import McpTool
from .call import ToolCall

__all__ = ("ForwardedTool", "forward_tools")

#: Progress notifications that wait to be passed on; further ones are dropped.
_PROGRESS_AHEAD: Final = 64


class ForwardedTool:
    """A tool of another server. Its schemas, its results and its failures are passed on as they came; of its ``_meta``
    the definition's is.

    Args:
        client: calls it.
        tool: the tool.

    Attributes:
        name, title, description, input_schema, output_schema, annotations, meta: as the other server has them; the name
            as the client has it.
        tool: the tool.
    """

    def __init__(self, client: McpClient, tool: McpTool) -> None:
        self._client = client
        self.tool = tool
        self.name = tool.name
        self.title = tool.title
        self.description = tool.description or None
        self.input_schema: Mapping[str, Any] = tool.input_schema
        self.output_schema: Mapping[str, Any] | None = tool.output_schema
        self.annotations: Mapping[str, Any] | None = tool.annotations or None
        self.meta: Mapping[str, Any] | None = tool.meta or None

    async def execute(self, arguments: Any, call: ToolCall) -> ToolResult:
        """Calls it at the other server; the time of the caller and the progress of the other server are passed on.

        Raises:
            McplError: what the client raises, but for the failure of the tool, which is a result.
        """
        more = {} if call.time is None else {"time": call.time}
        send, receive = anyio.create_memory_object_stream[dict[str, Any]](_PROGRESS_AHEAD)

        def heard(params: dict[str, Any]) -> None:
            # What cannot be passed on now is outdated by what comes after it.
            if send.statistics().current_buffer_used < _PROGRESS_AHEAD:
                send.send_nowait(params)

        result: list[ToolResult] = []
        failure: Exception | None = None
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_pass_on, receive, call)
            try:
                with send:
                    answer = await self._client.answer(self.tool, arguments, on_progress=heard, **more)
                result.append(_passed(answer.result, answer.value))
            except McpToolError as exc:
                result.append(_passed(exc.result or {"isError": True}, exc.text))
            except Exception as exc:
                # Raised again outside of the group, which would wrap it.
                failure = exc
        if failure is not None:
            raise failure
        return result[0]


def forward_tools(client: McpClient, tools: Iterable[McpTool]) -> list[ForwardedTool]:
    """The tools of a client, to serve: ``serve_tools(forward_tools(files, await files.tools()))``."""
    return list(map(partial(ForwardedTool, client), tools))


async def _pass_on(progress: MemoryObjectReceiveStream[dict[str, Any]], call: ToolCall) -> None:
    with progress:
        async for params in progress:
            amount, total, message = (params.get(name) for name in ("progress", "total", "message"))
            if isinstance(amount, int | float):
                await call.report_progress(
                    amount,
                    total if isinstance(total, int | float) else None,
                    message if isinstance(message, str) else None,
                )


def _passed(result: dict[str, Any], value: Any) -> ToolResult:
    # Without content it is of the shape that MCP had first, or none at all; the client has read it.
    content = result.get("content") or (value if isinstance(value, str) else ())
    structured, meta = result.get("structuredContent"), result.get("_meta")
    return ToolResult(
        content,
        structured=structured if isinstance(structured, dict) else UNSET,
        is_error=result.get("isError") is True,
        meta=meta if isinstance(meta, dict) else UNSET,
    )
