"""What the suite @modelcontextprotocol/conformance asks of a server, made of our tools, resources and prompts.

Prints its URL and serves until its standard input ends.
"""

from __future__ import annotations

import base64
import sys
from typing import Any

import anyio
import anyio.to_thread

from mcpl_core.mcp.serving import Prompt, PromptArgument, Resource, ServedTool, ToolCall, function_tool, serve_tools
from mcpl_core.server.results import ToolError, ToolResult

#: A PNG of one pixel, and a WAV of no samples.
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
WAV = "UklGRiQAAABXQVZFZm10IBAAAAABAAEAQB8AAEAfAAABAAgAZGF0YQAAAAA="

IMAGE = {"type": "image", "data": PNG, "mimeType": "image/png"}

SCHEMA = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "$defs": {"address": {"type": "object", "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
    "properties": {"name": {"type": "string"}, "address": {"$ref": "#/$defs/address"}},
    "additionalProperties": False,
}


def embedded(uri: str, mime_type: str, text: str) -> dict[str, Any]:
    return {"type": "resource", "resource": {"uri": uri, "mimeType": mime_type, "text": text}}


def said(*content: Any) -> list[Any]:
    blocks = (block if isinstance(block, dict) else {"type": "text", "text": block} for block in content)
    return [{"role": "user", "content": block} for block in blocks]


def test_simple_text() -> str:
    """Returns simple text."""
    return "This is a simple text response for testing."


def test_image_content() -> ToolResult:
    """Returns an image."""
    return ToolResult([IMAGE])


def test_audio_content() -> ToolResult:
    """Returns audio."""
    return ToolResult([{"type": "audio", "data": WAV, "mimeType": "audio/wav"}])


def test_embedded_resource() -> ToolResult:
    """Returns an embedded resource."""
    return ToolResult([embedded("test://embedded-resource", "text/plain", "This is an embedded resource content.")])


def test_multiple_content_types() -> ToolResult:
    """Returns several kinds of content."""
    mixed = embedded("test://mixed-content-resource", "application/json", '{"test":"data","value":123}')
    return ToolResult(["Multiple content types test:", IMAGE, mixed])


async def test_tool_with_progress(call: ToolCall) -> str:
    """Reports progress."""
    for progress in (0, 50, 100):
        await call.report_progress(progress, 100)
        await anyio.sleep(0.05)
    return "done"


def test_error_handling() -> str:
    """Fails."""
    raise ToolError("This tool intentionally returns an error for testing")


TOOLS = [
    *(
        function_tool(function)
        for function in (
            test_simple_text,
            test_image_content,
            test_audio_content,
            test_embedded_resource,
            test_multiple_content_types,
            test_tool_with_progress,
            test_error_handling,
        )
    ),
    ServedTool(
        "json_schema_2020_12_tool",
        lambda arguments, call: "ok",
        description="Tool with JSON Schema 2020-12 features",
        input_schema=SCHEMA,
    ),
]

RESOURCES = [
    Resource(
        "static-text",
        "test://static-text",
        lambda uri, variables: "This is the content of the static text resource.",
        "text/plain",
    ),
    Resource("static-binary", "test://static-binary", lambda uri, variables: base64.b64decode(PNG), "image/png"),
    Resource(
        "template",
        "test://template/{id}/data",
        lambda uri, variables: {"id": variables["id"], "templateTest": True, "data": f"Data for ID: {variables['id']}"},
        "application/json",
    ),
]

PROMPTS = [
    Prompt("test_simple_prompt", lambda arguments: "This is a simple prompt for testing.", description="Simple"),
    Prompt(
        "test_prompt_with_arguments",
        lambda arguments: f"Prompt with arguments: arg1='{arguments['arg1']}', arg2='{arguments['arg2']}'",
        (PromptArgument("arg1", "The first", required=True), PromptArgument("arg2", "The second", required=True)),
        description="With arguments",
    ),
    Prompt(
        "test_prompt_with_embedded_resource",
        lambda arguments: said(
            embedded(arguments["resourceUri"], "text/plain", "Embedded resource content for testing."),
            "Please process the embedded resource above.",
        ),
        (PromptArgument("resourceUri", "What to embed", required=True),),
        description="With an embedded resource",
    ),
    Prompt(
        "test_prompt_with_image",
        lambda arguments: said(IMAGE, "Please analyze the image above."),
        description="With an image",
    ),
]


async def main() -> None:
    serving = serve_tools(
        TOOLS, "http", port=0, name="conformance", version="1.0.0", resources=RESOURCES, prompts=PROMPTS
    )
    async with serving as handle:
        print(f"http://127.0.0.1:{handle.port}/mcp", flush=True)  # noqa: T201
        await anyio.to_thread.run_sync(sys.stdin.read, abandon_on_cancel=True)


if __name__ == "__main__":
    anyio.run(main)
