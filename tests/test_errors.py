"""The exception tree: facts as attributes, sentences, copies, and the table of codes."""

from __future__ import annotations

import copy
import inspect
import pickle
from typing import Any

import pytest

from mcpl_core import errors
from mcpl_core.errors import (
    ERROR_CLASSES,
    BranchNotFound,
    BranchOperationRejected,
    CapabilityDenied,
    ChannelNotPermitted,
    ChannelOpenFailed,
    CheckpointNotFound,
    ConnectionClosedError,
    ConnectionTimeoutError,
    FeatureSetNotEnabled,
    InternalError,
    InvalidParams,
    InvalidRequest,
    InvalidResultError,
    InvalidValueError,
    LocalProtocolError,
    MalformedMessageError,
    McplError,
    MessageTooLargeError,
    MethodNotFound,
    NoHostManagedState,
    ParseError,
    PolicyRefusedError,
    ProcessExitedError,
    QueueOverflowError,
    RemoteProtocolError,
    RpcError,
    TransportError,
    UnencodableError,
    UnknownChannel,
    UnknownFeatureSet,
    UpgradeRefusedError,
    WebSocketClosedError,
    rpc_error,
)

TRACEBACK = 'Traceback (most recent call last):\n  File "a.py", line 1, in <module>\n    go()\n'
GROUP = (
    "  + Exception Group Traceback (most recent call last):\n  |   File x\n  | ExceptionGroup: one\n"
    "  +-+---------------- 1 ----------------\n"
    "    | Traceback (most recent call last):\n    |   File y\n    | ValueError: deep\n    +-----------------\n"
)

#: An error of each kind, its facts, and words that its sentence must hold.
EXAMPLES: list[tuple[McplError, dict[str, Any], list[str]]] = [
    (McplError("any"), {}, ["any"]),
    (ConnectionClosedError(), {"outcome": None, "reason": None}, ["no more messages"]),
    (ConnectionClosedError("not-sent"), {"outcome": "not-sent", "reason": None}, ["nothing was sent"]),
    (ConnectionClosedError("no-response"), {"outcome": "no-response"}, ["before an answer came"]),
    (ConnectionClosedError(None, TransportError("reset")), {"outcome": None}, ["no more messages", "reset"]),
    (LocalProtocolError("twice"), {}, ["twice"]),
    (MessageTooLargeError(20, 10), {"size": 20, "limit": 10}, ["20", "10"]),
    (UnencodableError("nan"), {"detail": "nan"}, ["nan"]),
    (RemoteProtocolError("theirs"), {}, ["theirs"]),
    (MalformedMessageError("not-json"), {"kind": "not-json", "detail": "", "excerpt": b""}, ["not-json"]),
    (MalformedMessageError("batch", "refused"), {"kind": "batch", "detail": "refused"}, ["batch", "refused"]),
    (MalformedMessageError("too-deep", "", b"[["), {"excerpt": b"[["}, ["too-deep", "[["]),
    (
        InvalidResultError("m", "no text", "$.a"),
        {"method": "m", "detail": "no text", "path": "$.a"},
        ["m", "no text", "$.a"],
    ),
    (InvalidResultError("m", "no text"), {"path": "$"}, []),
    (QueueOverflowError(3, 90, "m"), {"messages": 3, "size": 90, "method": "m"}, ["3", "90", "m"]),
    (TransportError("reset"), {"detail": "reset"}, ["reset"]),
    (ProcessExitedError("cmd", 3), {"command": "cmd", "returncode": 3, "stderr": ""}, ["cmd", "status 3"]),
    (ProcessExitedError("cmd", -9, "oops\n"), {"returncode": -9, "stderr": "oops\n"}, ["signal 9", "oops"]),
    (
        ProcessExitedError(
            "cmd", 1, f"ready\n{TRACEBACK}KeyError: 'a'\n\nIt came of:\n\n{TRACEBACK}OSError: b\n  more\nbye\n"
        ),
        {"returncode": 1},
        ["status 1; its last words: OSError: b\nbye"],
    ),
    (
        ProcessExitedError("cmd", 1, GROUP),
        {"stderr": GROUP},
        ["status 1; its last words: ValueError: deep"],
    ),
    (ProcessExitedError("cmd", 1, TRACEBACK), {}, ['File "a.py", line 1']),
    (WebSocketClosedError(1006), {"close_code": 1006, "close_reason": ""}, ["1006"]),
    (WebSocketClosedError(1008, "policy"), {"close_code": 1008, "close_reason": "policy"}, ["1008", "policy"]),
    (UpgradeRefusedError("refused"), {"status": None, "location": None, "detail": "refused"}, ["refused"]),
    (UpgradeRefusedError("moved", 302, "wss://h:1"), {"status": 302, "location": "wss://h:1"}, ["moved"]),
    (
        InvalidValueError("scheme", "no mcpl:"),
        {"code": "scheme", "detail": "no mcpl:", "path": "$"},
        ["scheme", "no mcpl:"],
    ),
    (InvalidValueError("type", "no int", "$.a[0]"), {"path": "$.a[0]"}, ["type", "no int", "$.a[0]"]),
    (PolicyRefusedError("memory"), {"server": "memory", "reason": None}, ["memory"]),
    (PolicyRefusedError("memory", "no tools"), {"server": "memory", "reason": "no tools"}, ["memory", "no tools"]),
    (RpcError(), {"code": -32603, "message": "Internal error", "data": None}, ["Internal error"]),
    (RpcError(7, "seven", {"a": 1}), {"code": 7, "message": "seven", "data": {"a": 1}}, ["seven"]),
    (RpcError(message=""), {"code": -32603, "message": ""}, []),
    (ConnectionTimeoutError("m", 1.5), {"method": "m", "timeout": 1.5, "code": -32000, "data": None}, ["m", "1.5 s"]),
    (CapabilityDenied(data={"capability": "tools"}), {"code": -32002, "data": {"capability": "tools"}}, []),
    (InvalidParams(message="no path"), {"code": -32602, "message": "no path"}, ["no path"]),
]

#: SPEC Appendix A, JSON-RPC 2.0 section 5.1, and the state and branches extension.
CODES: dict[int, type[RpcError]] = {
    -32700: ParseError,
    -32600: InvalidRequest,
    -32601: MethodNotFound,
    -32602: InvalidParams,
    -32603: InternalError,
    -32001: FeatureSetNotEnabled,
    -32002: CapabilityDenied,
    -32003: UnknownFeatureSet,
    -32005: CheckpointNotFound,
    -32006: NoHostManagedState,
    -32017: ChannelNotPermitted,
    -32023: UnknownChannel,
    -32024: ChannelOpenFailed,
    -32025: BranchNotFound,
    -32026: BranchOperationRejected,
}


def facts(error: McplError) -> dict[str, Any]:
    return {name: repr(value) if isinstance(value, Exception) else value for name, value in vars(error).items()}


@pytest.mark.parametrize(("error", "attributes", "words"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_facts_and_sentence(error: McplError, attributes: dict[str, Any], words: list[str]) -> None:
    assert {name: getattr(error, name) for name in attributes} == attributes
    assert [word for word in words if word not in str(error)] == []


@pytest.mark.parametrize("error", [row[0] for row in EXAMPLES], ids=lambda error: type(error).__name__)
def test_errors_can_be_copied_and_pickled(error: McplError) -> None:
    for twin in (copy.copy(error), copy.deepcopy(error), pickle.loads(pickle.dumps(error))):
        assert type(twin) is type(error)
        assert facts(twin) == facts(error)
        assert str(twin) == str(error) and repr(twin) == repr(error)


@pytest.mark.parametrize("cls", CODES.values())
def test_errors_with_a_code_can_be_copied_and_pickled(cls: type[RpcError]) -> None:
    error = cls(message="m", data=[1])
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is cls
    assert (twin.code, twin.message, twin.data) == (error.code, "m", [1])


def test_every_class_has_an_example_or_a_code() -> None:
    classes = {cls for _, cls in inspect.getmembers(errors, inspect.isclass) if issubclass(cls, McplError)}
    assert classes == {type(error) for error, _, _ in EXAMPLES} | set(CODES.values())
    assert {cls.__name__ for cls in classes} <= set(errors.__all__)


def test_the_tree() -> None:
    parents: dict[type[Exception], tuple[type[McplError], ...]] = {
        LocalProtocolError: (MessageTooLargeError, UnencodableError),
        RemoteProtocolError: (MalformedMessageError, InvalidResultError, QueueOverflowError),
        TransportError: (ProcessExitedError, WebSocketClosedError, UpgradeRefusedError),
        RpcError: (ConnectionTimeoutError, *CODES.values()),
        McplError: (ConnectionClosedError, LocalProtocolError, RemoteProtocolError, TransportError, PolicyRefusedError),
        ValueError: (InvalidValueError,),
    }
    for parent, children in parents.items():
        assert [child for child in children if not issubclass(child, parent)] == []
    assert not issubclass(McplError, ValueError)


def test_a_report_holds_the_beginning_of_a_message_only() -> None:
    error = MalformedMessageError("not-json", "", b"x" * 1_000_000)
    assert error.excerpt == b"x" * 200
    assert len(pickle.dumps(error)) < 1000
    assert len(repr(error)) < 1000


@pytest.mark.spec("6.6-2", "14.6-1")
@pytest.mark.parametrize(("code", "cls"), CODES.items())
def test_codes_and_classes(code: int, cls: type[RpcError]) -> None:
    assert ERROR_CLASSES[code] is cls
    error = rpc_error(code, "their words", {"a": 1})
    assert type(error) is cls
    assert (error.code, error.message, error.data) == (code, "their words", {"a": 1})
    own = cls()
    assert (own.code, own.data) == (code, None) and own.message


def test_the_table_has_no_other_codes() -> None:
    assert ERROR_CLASSES == CODES
    constants = {name: value for name, value in vars(errors).items() if name.startswith("ERR_")}
    assert set(constants.values()) == CODES.keys() | {-32000}
    assert len(constants) == len(CODES) + 1
    assert constants.keys() <= set(errors.__all__)


@pytest.mark.parametrize("code", [0, 1, -32000, -32004, -32099, 2**70])
def test_other_codes_are_plain(code: int) -> None:
    error = rpc_error(code, "m")
    assert type(error) is RpcError
    assert (error.code, error.message, error.data) == (code, "m", None)


def test_a_timeout_is_an_rpc_error_that_no_peer_can_send() -> None:
    error = ConnectionTimeoutError("tools/call", 30)
    assert isinstance(error, RpcError)
    assert error.outcome == "no-response"
    assert error.code == errors.ERR_TIMEOUT == -32000
    assert type(rpc_error(-32000, "m")) is RpcError


def test_a_zero_code_and_an_empty_message_are_kept() -> None:
    error = CapabilityDenied(0, "")
    assert (error.code, error.message) == (0, "")
