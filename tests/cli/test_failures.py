"""One line for each failure, with what to do."""

from __future__ import annotations

import errno

import pytest

from mcpl_core.cli.failures import advice, failure, leaves
from mcpl_core.errors import (
    ConnectionClosedError,
    ConnectionTimeoutError,
    InvalidResultError,
    ProcessExitedError,
    RpcError,
    TransportError,
    UpgradeRefusedError,
)

ERRORS: list[BaseException] = [
    TransportError("nobody"),
    ProcessExitedError("server", 3, "oh"),
    ConnectionTimeoutError("initialize", 3.0),
    ConnectionClosedError("no-response"),
    ConnectionClosedError("no-response", ProcessExitedError("server", 3)),
    InvalidResultError("initialize", "odd"),
    RpcError(-1, "no"),
    OSError(28, "No space left"),
    *(UpgradeRefusedError("refused", status) for status in (None, 401, 403, 404, 421, 503, 500)),
]


@pytest.mark.parametrize("error", ERRORS, ids=repr)
def test_each_says_what_failed_and_what_to_do(error: BaseException) -> None:
    line = str(failure(error))
    assert line.startswith(str(error) + "; ")
    assert advice(error) and line.endswith(advice(error))
    assert failure(error).status == 1
    assert failure(error, status=2).status == 2


def test_the_cause_of_a_close_decides() -> None:
    assert advice(ConnectionClosedError(None, ProcessExitedError("x", 1))) == advice(ProcessExitedError("x", 1))


def test_what_nobody_knows_is_told_without_advice() -> None:
    assert str(failure(ZeroDivisionError("x"))) == "x"
    assert str(failure(ZeroDivisionError())) == "ZeroDivisionError"


def test_last_words_are_told_once() -> None:
    error = ProcessExitedError("server", -9, "oh no")
    assert "oh no" in str(failure(error))
    assert "oh no" not in str(failure(error, stderr_shown=True))
    assert "signal 9" in str(failure(error, stderr_shown=True))


def test_a_program_that_is_not_there() -> None:
    error = TransportError("x cannot be started")
    error.__cause__ = FileNotFoundError()
    assert "program" in str(failure(error, command=True))
    assert "program" not in str(failure(error))


def test_groups_are_opened() -> None:
    one, two = ValueError(), KeyError()
    assert leaves(BaseExceptionGroup("a", [one, BaseExceptionGroup("b", [two])])) == [one, two]
    assert leaves(one) == [one]


def test_an_address_that_is_taken() -> None:
    error = TransportError("ws://h:1: in use")
    error.__cause__ = OSError(errno.EADDRINUSE, "in use")
    assert "another port" in str(failure(error))
    error.__cause__ = OSError(errno.ECONNREFUSED, "refused")
    assert "another port" not in str(failure(error))
