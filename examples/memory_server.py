"""A memory for an agent: a tool that keeps thoughts, a hook that recalls them, an event for each one that matters.

    python examples/memory_server.py                        speaks over its standard input and output
    python examples/memory_server.py ws://127.0.0.1:8765    serves many hosts over WebSockets

Each principal has thoughts of its own. A plain MCP host has the tools and nothing else.
"""

import sys
from collections import defaultdict

import anyio

from mcpl_core.protocol import ContextBeforeInferenceParams
from mcpl_core.server import Context, McplServer

server = McplServer("memory", "1.0.0")
recall = server.feature_set(
    "memory.recall",
    "Recalls what was said before",
    uses=["contextHooks.beforeInference.observe", "contextHooks.beforeInference.inject.beforeUser"],
)
news = server.feature_set("memory.news", "Tells of thoughts that matter", uses=["pushEvents"])

#: Principal -> what it wants to remember.
thoughts: defaultdict[str, list[str]] = defaultdict(list)


@server.tool
async def remember(ctx: Context, text: str, importance: int = 3) -> str:
    """Keep a thought for later."""
    thoughts[ctx.principal].append(text)
    if importance > 3 and ctx.enabled(news):
        await server.push_event(news, f"remembered: {text}", principal=ctx.principal, tags=["memory:new"])
    return "kept"


@server.tool(annotations={"readOnlyHint": True})
async def search(ctx: Context, word: str) -> list[str]:
    """Find the thoughts in which a word occurs."""
    return [thought for thought in thoughts[ctx.principal] if word.lower() in thought.lower()]


@server.before_inference(recall)
async def inject(ctx: Context, turn: ContextBeforeInferenceParams) -> str | None:
    """What the user's words bring to mind; nothing when the host keeps them to itself."""
    words = {word for word in (turn.user_message or "").lower().split() if len(word) > 3}
    found = [thought for thought in thoughts[ctx.principal] if words & set(thought.lower().split())]
    return "<memories>\n{}\n</memories>".format("\n".join(found)) if found else None


if __name__ == "__main__":
    if len(sys.argv) > 1:
        anyio.run(server.listen, sys.argv[1])
    else:
        anyio.run(server.serve_stdio)
