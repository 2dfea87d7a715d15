"""The exceptions of the MCP bridges, in both directions.

Owns: what can go wrong between this package and MCP servers and clients that has no class in ``mcpl_core.errors``. Does
not own: deciding when. Errors carry facts as attributes; none of them holds a header, a credential, a URL's query, or
what a server put into a result, except where the attribute says so.

    McplError
    +-- McpExtraMissingError             an optional library is not installed
    +-- McpToolError                     a tool answered that it failed
    +-- McpInputRequiredError            the server wants to know something first, and nobody answers it
    +-- UnknownEffectError               a call may have run; nobody knows
    +-- CredentialsUnavailableError      a provider gave no credentials; nothing was sent
    |   +-- ConsentRequiredError         a person has to agree first
    +-- LocalSessionHandleLostError      this process no longer holds the session
    +-- LocalProtocolError
    |   +-- McpTaskRequiredError         the tool runs only as a task; nothing was sent
    |   +-- McpOutputUncheckedError      the tool's result could not be checked
    |   +-- McpReplayUnavailableError    the declared replay policy cannot be kept; nothing was sent
    |   +-- McpRediscoveryRequiredError  the connection is a new one, and its tools were not listed yet
    +-- RemoteProtocolError
        +-- McpToolListIncompleteError   a list of tools does not end
        +-- InvalidResultError
            +-- McpResultError           a tool's result cannot be read in the mode that was asked for
            +-- McpOutputMismatchError   a tool's result is not what its output schema promises
"""

from __future__ import annotations

from typing import Any, Literal

from ..errors import InvalidResultError, LocalProtocolError, McplError, RemoteProtocolError

__all__ = (
    "ConsentRequiredError",
    "CredentialsUnavailableError",
    "IncompleteReason",
    "LocalSessionHandleLostError",
    "McpExtraMissingError",
    "McpInputRequiredError",
    "McpOutputMismatchError",
    "McpOutputUncheckedError",
    "McpRediscoveryRequiredError",
    "McpReplayUnavailableError",
    "McpResultError",
    "McpTaskRequiredError",
    "McpToolError",
    "McpToolListIncompleteError",
    "ReplayUnavailableReason",
    "ResultFault",
    "UnknownEffectError",
)


class McpExtraMissingError(McplError, ImportError):
    """An optional library is needed and not installed. Raised where the thing that needs it is constructed.

    Attributes:
        feature: what needs it, in words.
        library: the library.
        extra: the extra of this distribution that brings it.
    """

    def __init__(self, feature: str, library: str, extra: str = "mcp") -> None:
        super().__init__(feature, library, extra)
        self.feature = feature
        self.library = library
        self.extra = extra

    def __str__(self) -> str:
        return f"{self.feature} needs the library {self.library}: pip install 'mcp-live-core[{self.extra}]'"


class McpToolError(McplError):
    """A tool ran and answered that it failed (``isError``).

    Attributes:
        server: the name that the caller gave the server.
        tool: the tool's name there.
        text: what the tool said, as text; for the model.
        result: the whole result, as received.
    """

    def __init__(self, server: str, tool: str, text: str, result: dict[str, Any] | None = None) -> None:
        super().__init__(server, tool, text, result)
        self.server = server
        self.tool = tool
        self.text = text
        self.result = result

    def __str__(self) -> str:
        return f"the tool {self.tool} of {self.server} failed" + (f": {self.text}" if self.text else "")


class McpInputRequiredError(McplError):
    """The server answered a request with questions (MCP 2026-07-28), and there is no handler for one of them, or there
    were too many rounds. Its text shows no question.

    Attributes:
        server: the name that the caller gave the server.
        method: the request's method.
        input_requests: the questions by their names, as received.
        request_state: what goes back with the answers, untouched; ``None`` when the server keeps none here.
    """

    def __init__(
        self,
        server: str,
        method: str,
        input_requests: dict[str, dict[str, Any]],
        request_state: str | None = None,
    ) -> None:
        super().__init__(server, method, input_requests, request_state)
        self.server = server
        self.method = method
        self.input_requests = input_requests
        self.request_state = request_state

    def __str__(self) -> str:
        return f"{self.server} wants {len(self.input_requests)} answers before it goes on with {self.method}"


class UnknownEffectError(McplError):
    """A call was sent, at least one of its attempts got no answer, and in the end it failed: it may have run.
    ``__cause__`` has the last failure.

    Attributes:
        server: the name that the caller gave the server.
        tool: the tool's name there.
        attempts: the records of all attempts, oldest first.
    """

    def __init__(self, server: str, tool: str, attempts: tuple[Any, ...] = ()) -> None:
        super().__init__(server, tool, attempts)
        self.server = server
        self.tool = tool
        self.attempts = attempts

    def __str__(self) -> str:
        return f"the call of {self.tool} of {self.server} may have run; its effect is unknown"


class CredentialsUnavailableError(McplError):
    """The provider of credentials gave none; nothing was sent. ``__cause__`` has its failure.

    Attributes:
        service: the service that they were wanted for.
    """

    def __init__(self, service: str) -> None:
        super().__init__(service)
        self.service = service

    def __str__(self) -> str:
        return f"there are no credentials for {self.service}; nothing was sent"


class ConsentRequiredError(CredentialsUnavailableError):
    """A person has to agree before there are credentials; nothing was sent.

    Attributes:
        service: the service.
        authorization_url: where to send the person. Not part of the text of this error.
    """

    def __init__(self, service: str, authorization_url: str) -> None:
        super().__init__(service)
        self.args = (service, authorization_url)
        self.authorization_url = authorization_url

    def __str__(self) -> str:
        return f"{self.service} needs somebody's consent first; nothing was sent"


class LocalSessionHandleLostError(McplError):
    """This process no longer holds the handle of a remote session, so that nothing can be sent to end it.

    Attributes:
        server: the name that the caller gave the server.
    """

    def __init__(self, server: str) -> None:
        super().__init__(server)
        self.server = server

    def __str__(self) -> str:
        return f"the session with {self.server} is no longer held by this process"


class McpTaskRequiredError(LocalProtocolError):
    """The tool runs only as a task (``execution.taskSupport: required``), and tasks are not spoken; nothing was sent.

    Attributes:
        server: the name that the caller gave the server.
        tool: the tool's name there.
    """

    def __init__(self, server: str, tool: str) -> None:
        super().__init__(server, tool)
        self.server = server
        self.tool = tool

    def __str__(self) -> str:
        return f"the tool {self.tool} of {self.server} runs only as a task; nothing was sent"


class McpOutputUncheckedError(LocalProtocolError):
    """The tool has an output schema and there is nothing to check a result with.

    Attributes:
        server: the name that the caller gave the server.
        tool: the tool's name there.
        sent: whether the call was sent; its answer was not read then.
    """

    def __init__(self, server: str, tool: str, sent: bool = False) -> None:
        super().__init__(server, tool, sent)
        self.server = server
        self.tool = tool
        self.sent = sent

    def __str__(self) -> str:
        what = "its answer was not read" if self.sent else "nothing was sent"
        return f"a result of {self.tool} of {self.server} cannot be checked against its output schema; {what}"


#: Why a replay policy cannot be kept.
ReplayUnavailableReason = Literal[
    "answers-unobserved",  # nobody sees whether an attempt was answered
    "request-unmatched",  # an attempt cannot be told to belong to a call
    "requests-unwatched",  # the carrier is watched by nobody (standard input and output, for one)
]


class McpReplayUnavailableError(LocalProtocolError):
    """The replay policy that the caller declared cannot be kept with this transport; the call was not sent.

    Attributes:
        server: the name that the caller gave the server.
        reason: one of ``ReplayUnavailableReason``.
    """

    def __init__(self, server: str, reason: ReplayUnavailableReason) -> None:
        super().__init__(server, reason)
        self.server = server
        self.reason = reason

    def __str__(self) -> str:
        return f"the replay policy for {self.server} cannot be kept ({self.reason}); nothing was sent"


class McpRediscoveryRequiredError(LocalProtocolError):
    """The connection broke and is a new one now. What was listed before is the old server's word: list again
    (``refresh``) before calling. Nothing was sent.

    Attributes:
        server: the name that the caller gave the server.
    """

    def __init__(self, server: str) -> None:
        super().__init__(server)
        self.server = server

    def __str__(self) -> str:
        return f"{self.server} was connected again; list its tools before calling them"


#: Why a list of tools is not whole.
IncompleteReason = Literal[
    "limit",  # more requests would have been needed than are allowed
    "repeated-cursor",  # the server named a cursor for the second time
]


class McpToolListIncompleteError(RemoteProtocolError):
    """The server's list of tools does not end. What was listed is here and nowhere else: a list cut short would pass
    for a whole one.

    Attributes:
        server: the name that the caller gave the server.
        reason: one of ``IncompleteReason``.
        requests: how many pages were asked for.
        tools: the definitions that were listed, as received.
    """

    def __init__(
        self, server: str, reason: IncompleteReason, requests: int, tools: tuple[dict[str, Any], ...] = ()
    ) -> None:
        super().__init__(server, reason, requests, tools)
        self.server = server
        self.reason = reason
        self.requests = requests
        self.tools = tools

    def __str__(self) -> str:
        why = {"limit": "it has more pages", "repeated-cursor": "a cursor came twice"}[self.reason]
        return f"the list of tools of {self.server} was not read to its end in {self.requests} requests: {why}"


#: What is wrong with a tool's result.
ResultFault = Literal[
    "result-type",  # a kind of result that is not spoken (a task, for one)
    "shape",  # neither ``content`` nor ``toolResult``, or one of them, or ``isError``, of another type
    "structured-missing",
    "structured-not-object",
    "not-one-text",  # no single text block to read as JSON
    "text-not-json",
    "text-not-object",
    "text-too-long",
    "too-deep",
    "too-many-values",
]


class McpResultError(InvalidResultError):
    """A tool's result cannot be read in the mode that was asked for. The text tells its shape, never its content.

    Attributes:
        server: the name that the caller gave the server.
        tool: the tool's name there.
        fault: one of ``ResultFault``.
        method, path, detail: as for every ``InvalidResultError``.
    """

    def __init__(self, server: str, tool: str, fault: ResultFault, detail: str, path: str = "$") -> None:
        super().__init__("tools/call", detail, path)
        self.args = (server, tool, fault, detail, path)
        self.server = server
        self.tool = tool
        self.fault = fault

    def __str__(self) -> str:
        return f"the result of {self.tool} of {self.server} is not what it should be, at {self.path}: {self.detail}"


class McpOutputMismatchError(InvalidResultError):
    """A tool's result is not what its output schema promises.

    Attributes:
        server: the name that the caller gave the server.
        tool: the tool's name there.
        method, path, detail: as for every ``InvalidResultError``; the rule that is broken, never the value.
    """

    def __init__(self, server: str, tool: str, detail: str, path: str = "$.structuredContent") -> None:
        super().__init__("tools/call", detail, path)
        self.args = (server, tool, detail, path)
        self.server = server
        self.tool = tool

    def __str__(self) -> str:
        return f"the result of {self.tool} of {self.server} breaks its output schema, at {self.path}: {self.detail}"
