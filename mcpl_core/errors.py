"""The exception tree, the JSON-RPC and MCPL error codes, and the table from code to class.

Owns: every exception that this package raises on purpose. Does not own: deciding when (each layer
does). Errors carry facts as attributes; the sentence is built from them in ``__str__``. ``args`` are what the
constructor takes, so that each of them can be copied and pickled.

    McplError
    +-- ConnectionClosedError            nothing more can be sent or received (outcome says what was lost)
    +-- LocalProtocolError               our side asked for something the protocol does not allow
    |   +-- MessageTooLargeError         an outgoing message is over the limit; no byte was written
    |   +-- UnencodableError             a value has no JSON form (NaN, an unknown type)
    +-- RemoteProtocolError              the peer sent something the protocol does not allow
    |   +-- MalformedMessageError        one message could not be read; the connection goes on
    |   +-- InvalidResultError           an answer does not have the shape of its method's result
    |   +-- QueueOverflowError           the peer flooded us past the hard limit; the connection closed
    +-- TransportError                   the carrier failed (reset, broken pipe, failed dial)
    |   +-- ProcessExitedError           a child process ended
    |   +-- WebSocketClosedError         a WebSocket ended with a close code
    |   +-- UpgradeRefusedError          a WebSocket handshake was refused or redirected elsewhere
    +-- PolicyRefusedError               a server refused its host's policy and closes
    +-- InvalidValueError                a value is outside its grammar (``code`` and ``path`` say where)
    +-- RpcError                         a JSON-RPC error object, received or to be sent
        +-- ConnectionTimeoutError       no answer within the timeout (code -32000)
        +-- one class for each code below
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

__all__ = (
    "ERROR_CLASSES",
    "ERR_BRANCH_NOT_FOUND",
    "ERR_BRANCH_OPERATION_REJECTED",
    "ERR_CAPABILITY_DENIED",
    "ERR_CHANNEL_NOT_PERMITTED",
    "ERR_CHANNEL_OPEN_FAILED",
    "ERR_CHECKPOINT_NOT_FOUND",
    "ERR_FEATURE_SET_NOT_ENABLED",
    "ERR_INTERNAL_ERROR",
    "ERR_INVALID_PARAMS",
    "ERR_INVALID_REQUEST",
    "ERR_METHOD_NOT_FOUND",
    "ERR_NO_HOST_MANAGED_STATE",
    "ERR_PARSE_ERROR",
    "ERR_TIMEOUT",
    "ERR_UNKNOWN_CHANNEL",
    "ERR_UNKNOWN_FEATURE_SET",
    "BranchNotFound",
    "BranchOperationRejected",
    "CapabilityDenied",
    "ChannelNotPermitted",
    "ChannelOpenFailed",
    "CheckpointNotFound",
    "ConnectionClosedError",
    "ConnectionTimeoutError",
    "FeatureSetNotEnabled",
    "InternalError",
    "InvalidParams",
    "InvalidRequest",
    "InvalidResultError",
    "InvalidValueError",
    "LocalProtocolError",
    "MalformedKind",
    "MalformedMessageError",
    "McplError",
    "MessageTooLargeError",
    "MethodNotFound",
    "NoHostManagedState",
    "Outcome",
    "ParseError",
    "PolicyRefusedError",
    "ProcessExitedError",
    "QueueOverflowError",
    "RemoteProtocolError",
    "RpcError",
    "TransportError",
    "UnencodableError",
    "UnknownChannel",
    "UnknownFeatureSet",
    "UpgradeRefusedError",
    "WebSocketClosedError",
    "rpc_error",
)

# JSON-RPC 2.0 section 5.1
ERR_PARSE_ERROR = -32700
ERR_INVALID_REQUEST = -32600
ERR_METHOD_NOT_FOUND = -32601
ERR_INVALID_PARAMS = -32602
ERR_INTERNAL_ERROR = -32603
#: Ours, never sent: no answer within the timeout.
ERR_TIMEOUT = -32000
# SPEC Appendix A
ERR_FEATURE_SET_NOT_ENABLED = -32001
ERR_CAPABILITY_DENIED = -32002
ERR_UNKNOWN_FEATURE_SET = -32003
ERR_CHECKPOINT_NOT_FOUND = -32005
ERR_CHANNEL_NOT_PERMITTED = -32017
ERR_UNKNOWN_CHANNEL = -32023
ERR_CHANNEL_OPEN_FAILED = -32024
# The state and branches extension
ERR_NO_HOST_MANAGED_STATE = -32006
ERR_BRANCH_NOT_FOUND = -32025
ERR_BRANCH_OPERATION_REJECTED = -32026

#: What became of a request: nothing of it was handed to the transport, or it was and no answer came.
Outcome = Literal["not-sent", "no-response"]


class McplError(Exception):
    """The root of everything this package raises on purpose."""


class ConnectionClosedError(McplError):
    """The connection is closed.

    Attributes:
        outcome: ``"not-sent"`` (nothing was handed to the transport) or ``"no-response"`` (it was, and no
            answer came) for a request; ``None`` when receiving: no more messages will come.
        reason: the error that closed the connection, or ``None`` for an ordinary end.
    """

    def __init__(self, outcome: Outcome | None = None, reason: BaseException | None = None) -> None:
        super().__init__(outcome, reason)
        self.outcome = outcome
        self.reason = reason

    def __str__(self) -> str:
        what = {
            "not-sent": "the connection is closed; nothing was sent",
            "no-response": "the connection closed before an answer came",
            None: "the connection is closed; no more messages will come",
        }[self.outcome]
        return what if self.reason is None else f"{what} ({self.reason})"


class LocalProtocolError(McplError):
    """Our own side tried something that the protocol does not allow; nothing was sent."""


class MessageTooLargeError(LocalProtocolError):
    """An outgoing message is larger than ``max_message_bytes``; no byte of it was written.

    Attributes:
        size: bytes of the encoded message.
        limit: the limit in bytes.
    """

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(size, limit)
        self.size = size
        self.limit = limit

    def __str__(self) -> str:
        return f"the message has {self.size} bytes, the limit is {self.limit}"


class UnencodableError(LocalProtocolError):
    """A value cannot be written as JSON: a non-finite number, or a type without a JSON form.

    Attributes:
        detail: what is wrong with it.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail

    def __str__(self) -> str:
        return f"the value cannot be sent as JSON: {self.detail}"


class RemoteProtocolError(McplError):
    """The peer sent something that the protocol does not allow."""


#: Why a message could not be read.
MalformedKind = Literal[
    "not-json",  # not JSON text at all (a banner, a truncated line)
    "invalid-utf8",
    "too-long",
    "too-deep",
    "batch",  # a JSON array; batches are refused at every protocol version
    "invalid-request",  # JSON, but not a JSON-RPC 2.0 message
    "empty",  # an id and neither method nor result nor error: a request or a response, nobody can tell
    "invalid-id",  # an id that is neither a string nor an integer, or that no answer can carry
    "duplicate-id",  # a request whose id is still being answered
    "invalid-response",  # looks like a response and is not one
    "binary",  # a binary WebSocket message
]


class MalformedMessageError(RemoteProtocolError):
    """One incoming message could not be read. It was skipped; the connection goes on.

    Attributes:
        kind: why (one of ``MalformedKind``).
        detail: what exactly is wrong.
        excerpt: the first bytes of the message, at most 200.
    """

    def __init__(self, kind: MalformedKind, detail: str = "", excerpt: bytes = b"") -> None:
        excerpt = excerpt[:200]
        super().__init__(kind, detail, excerpt)
        self.kind = kind
        self.detail = detail
        self.excerpt = excerpt

    def __str__(self) -> str:
        text = f"malformed message ({self.kind})"
        if self.detail:
            text += f": {self.detail}"
        return f"{text}: {self.excerpt!r}" if self.excerpt else text


class InvalidResultError(RemoteProtocolError):
    """The peer answered a request with a result of another shape.

    Attributes:
        method: the request's method.
        path: where in the result, as ``$.a.b[0]``.
        detail: what is wrong there.
    """

    def __init__(self, method: str, detail: str, path: str = "$") -> None:
        super().__init__(method, detail, path)
        self.method = method
        self.detail = detail
        self.path = path

    def __str__(self) -> str:
        return f"the result of {self.method} is not what it should be, at {self.path}: {self.detail}"


class QueueOverflowError(RemoteProtocolError):
    """The peer sent more unread messages than the hard limit allows; the connection closed.

    Attributes:
        messages: unread messages in the queue.
        size: their bytes.
        method: the method that filled most of the queue.
    """

    def __init__(self, messages: int, size: int, method: str) -> None:
        super().__init__(messages, size, method)
        self.messages = messages
        self.size = size
        self.method = method

    def __str__(self) -> str:
        return f"{self.messages} unread messages ({self.size} bytes) are over the limit, mostly {self.method!r}"


class TransportError(McplError):
    """The carrier failed: a reset, a broken pipe, a dial that found nobody. ``__cause__`` has the original.

    Attributes:
        detail: what failed.
    """

    def __init__(self, detail: str) -> None:
        super().__init__(detail)
        self.detail = detail

    def __str__(self) -> str:
        return self.detail


_TRACEBACK = "Traceback (most recent call last):"


def _last_words(stderr: str) -> str:
    """What the last traceback ends with, which is what a person looks for; without one, all of it."""
    lines = stderr.strip().splitlines()
    starts = [number for number, line in enumerate(lines) if _TRACEBACK in line]
    if not starts:
        return stderr.strip()
    # In a group of exceptions each line has the same margin.
    margin = lines[starts[-1]].partition(_TRACEBACK)[0]
    rest = [line.removeprefix(margin) for line in lines[starts[-1] + 1 :] if line.startswith(margin)]
    return "\n".join(line for line in rest if line.strip() and not line.startswith(" ")) or stderr.strip()


class ProcessExitedError(TransportError):
    """A child process ended, and its connection with it.

    Attributes:
        command: the program that was started (its first word only).
        returncode: exit status, or minus the signal number.
        stderr: the last lines of its standard error. The message has of a Python traceback only the end.
    """

    def __init__(self, command: str, returncode: int, stderr: str = "") -> None:
        how = f"was killed by signal {-returncode}" if returncode < 0 else f"exited with status {returncode}"
        words = _last_words(stderr)
        super().__init__(f"{command} {how}" + (f"; its last words: {words}" if words else ""))
        self.args = (command, returncode, stderr)
        self.command = command
        self.returncode = returncode
        self.stderr = stderr


class WebSocketClosedError(TransportError):
    """A WebSocket ended otherwise than by an ordinary close (RFC 6455 section 7.4).

    Attributes:
        close_code: the close code, 1006 when none was received.
        close_reason: the peer's reason.
    """

    def __init__(self, close_code: int, close_reason: str = "") -> None:
        super().__init__(f"the WebSocket closed with code {close_code}" + (f": {close_reason}" if close_reason else ""))
        self.args = (close_code, close_reason)
        self.close_code = close_code
        self.close_reason = close_reason


class UpgradeRefusedError(TransportError):
    """A WebSocket handshake was refused, failed, or was redirected to another origin.

    Attributes:
        status: the HTTP status, or ``None`` when there was no HTTP answer.
        location: where a redirect pointed, as scheme, host and port only, or ``None``.
    """

    def __init__(self, detail: str, status: int | None = None, location: str | None = None) -> None:
        super().__init__(detail)
        self.args = (detail, status, location)
        self.status = status
        self.location = location


class PolicyRefusedError(McplError):
    """A server refused the policy of its host and named closing as the consequence (SPEC 6.7).

    Attributes:
        server: the id that the host gave the server.
        reason: the server's words, for people; ``None`` when it sent none.
    """

    def __init__(self, server: str, reason: str | None = None) -> None:
        super().__init__(server, reason)
        self.server = server
        self.reason = reason

    def __str__(self) -> str:
        text = f"{self.server} refuses the policy and closes"
        return text if self.reason is None else f"{text}: {self.reason}"


class InvalidValueError(McplError, ValueError):
    """A value is outside its grammar.

    Attributes:
        code: a stable word for the rule that was broken.
        path: where in the value, as ``$.a.b[0]``; ``$`` is the whole value.
        detail: what is wrong there.
    """

    def __init__(self, code: str, detail: str, path: str = "$") -> None:
        super().__init__(code, detail, path)
        self.code = code
        self.detail = detail
        self.path = path

    def __str__(self) -> str:
        return f"{self.code} at {self.path}: {self.detail}"


class RpcError(McplError):
    """A JSON-RPC error object: received as an answer, or raised by a handler to be sent as one.

    Attributes:
        code: the JSON-RPC error code.
        message: the peer's own text, without a code prefix, or a sentence that says what came instead.
        data: the ``data`` member, ``None`` when absent.
    """

    #: The code of this class; ``RpcError`` itself takes any.
    default_code: ClassVar[int] = ERR_INTERNAL_ERROR
    default_message: ClassVar[str] = "Internal error"

    def __init__(self, code: int | None = None, message: str | None = None, data: Any = None) -> None:
        self.code = self.default_code if code is None else code
        self.message = self.default_message if message is None else message
        self.data = data
        super().__init__(self.code, self.message, data)

    def __str__(self) -> str:
        return self.message


class ConnectionTimeoutError(RpcError):
    """No answer came within the timeout. A local condition; never received from a peer.

    Attributes:
        method: the request's method.
        timeout: seconds waited.
    """

    default_code = ERR_TIMEOUT
    outcome: Outcome = "no-response"

    def __init__(self, method: str, timeout: float) -> None:
        super().__init__(ERR_TIMEOUT, f"no answer to {method} within {timeout:g} s")
        self.args = (method, timeout)
        self.method = method
        self.timeout = timeout


class ParseError(RpcError):
    """-32700: the text was not JSON (JSON-RPC 2.0 section 5.1)."""

    default_code = ERR_PARSE_ERROR
    default_message = "Parse error"


class InvalidRequest(RpcError):
    """-32600: JSON, but not a valid request (JSON-RPC 2.0 section 5.1)."""

    default_code = ERR_INVALID_REQUEST
    default_message = "Invalid Request"


class MethodNotFound(RpcError):
    """-32601: nobody handles this method (SPEC 6.6; JSON-RPC 2.0 section 5.1)."""

    default_code = ERR_METHOD_NOT_FOUND
    default_message = "Method not found"


class InvalidParams(RpcError):
    """-32602: the params do not fit the method; ``data`` may carry the path."""

    default_code = ERR_INVALID_PARAMS
    default_message = "Invalid params"


class InternalError(RpcError):
    """-32603: the handler failed, or its result could not be encoded."""


class FeatureSetNotEnabled(RpcError):
    """-32001: the message names a feature set that is disabled; ``data: {featureSet}`` (SPEC 6.6)."""

    default_code = ERR_FEATURE_SET_NOT_ENABLED
    default_message = "Feature set not enabled"


class CapabilityDenied(RpcError):
    """-32002: the method needs a capability outside the grant; ``data: {capability}`` (SPEC 6.6)."""

    default_code = ERR_CAPABILITY_DENIED
    default_message = "Capability denied"


class UnknownFeatureSet(RpcError):
    """-32003: the message names a feature set that was never declared (SPEC 6.6)."""

    default_code = ERR_UNKNOWN_FEATURE_SET
    default_message = "Unknown feature set"


class CheckpointNotFound(RpcError):
    """-32005: a rollback to a pruned or unknown checkpoint; ``data: {checkpoint}`` (SPEC 8.7)."""

    default_code = ERR_CHECKPOINT_NOT_FOUND
    default_message = "Checkpoint not found"


class NoHostManagedState(RpcError):
    """-32006: the host keeps no state for this feature set; ``data: {featureSet}`` (state extension)."""

    default_code = ERR_NO_HOST_MANAGED_STATE
    default_message = "No host-managed state"


class ChannelNotPermitted(RpcError):
    """-32017: the peer may not publish to or receive from this channel (SPEC 14.6)."""

    default_code = ERR_CHANNEL_NOT_PERMITTED
    default_message = "Channel not permitted"


class UnknownChannel(RpcError):
    """-32023: no such channel is registered (SPEC 14.6)."""

    default_code = ERR_UNKNOWN_CHANNEL
    default_message = "Unknown channel"


class ChannelOpenFailed(RpcError):
    """-32024: the server could not open the channel (SPEC 14.6)."""

    default_code = ERR_CHANNEL_OPEN_FAILED
    default_message = "Channel open failed"


class BranchNotFound(RpcError):
    """-32025: no such branch (branches extension)."""

    default_code = ERR_BRANCH_NOT_FOUND
    default_message = "Branch not found"


class BranchOperationRejected(RpcError):
    """-32026: the host refused the branch operation (branches extension)."""

    default_code = ERR_BRANCH_OPERATION_REJECTED
    default_message = "Branch operation rejected"


#: The class of each code that has one. A code outside it is a plain ``RpcError``.
ERROR_CLASSES: dict[int, type[RpcError]] = {
    cls.default_code: cls
    for cls in (
        ParseError,
        InvalidRequest,
        MethodNotFound,
        InvalidParams,
        InternalError,
        FeatureSetNotEnabled,
        CapabilityDenied,
        UnknownFeatureSet,
        CheckpointNotFound,
        NoHostManagedState,
        ChannelNotPermitted,
        UnknownChannel,
        ChannelOpenFailed,
        BranchNotFound,
        BranchOperationRejected,
    )
}


def rpc_error(code: int, message: str, data: Any = None) -> RpcError:
    """The error of the class that belongs to ``code``, plain ``RpcError`` when none does."""
    return ERROR_CLASSES.get(code, RpcError)(code, message, data)
