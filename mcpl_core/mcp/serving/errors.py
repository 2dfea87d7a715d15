"""The exceptions of serving MCP.

Owns: what can be refused before anything is served, and what is not offered. Does not own: what a caller over the wire
is told (``calling``, ``answers``).

    McplError
    +-- McpUnsupportedError              something is not offered; ``code`` says what
    +-- LocalProtocolError
        +-- ServingRefusedError          these tools cannot be served this way
"""

from __future__ import annotations

from typing import Literal

from ...errors import LocalProtocolError, McplError

__all__ = ("McpUnsupportedError", "RefusalCode", "ServingRefusedError", "UnsupportedCode")

#: What is not offered. The words are stable.
UnsupportedCode = Literal[
    "transport",  # no such transport
    "event-loop",  # this transport does not run on this event loop
    "cleanup-scope",  # a served call has no run, session or any other life than the call's own
]

#: Why tools are not served. The words are stable.
RefusalCode = Literal[
    "no-tools",  # the list is empty
    "not-a-tool",  # something in it is no tool, or cannot be told to a client
    "duplicate-name",  # two of one name
    "needs-consent",  # a person would have to agree to each call, and there is none to ask
    "no-credentials",  # they need credentials, and there is no provider
]


class McpUnsupportedError(McplError, NotImplementedError):
    """Something is not offered here.

    Attributes:
        code: one of ``UnsupportedCode``; branch on this.
        detail: what exactly, and what to do instead.
    """

    def __init__(self, code: UnsupportedCode, detail: str) -> None:
        super().__init__(code, detail)
        self.code: UnsupportedCode = code
        self.detail = detail

    def __str__(self) -> str:
        return self.detail


class ServingRefusedError(LocalProtocolError):
    """The tools cannot be served; raised where serving is constructed, before anything listens.

    Attributes:
        code: one of ``RefusalCode``.
        tools: the names of the tools that it is about.
        detail: what is wrong with them.
    """

    def __init__(self, code: RefusalCode, tools: tuple[str, ...], detail: str) -> None:
        super().__init__(code, tools, detail)
        self.code: RefusalCode = code
        self.tools = tools
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.detail}: {', '.join(self.tools)}" if self.tools else self.detail
