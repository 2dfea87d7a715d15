"""Who is told, in what order, and that none can spoil it for the others."""

from __future__ import annotations

import logging

import pytest

from mcpl_core.errors import MalformedMessageError, ProcessExitedError, RpcError, TransportError
from mcpl_core.observers import Observers, kinds_only
from mcpl_core.wire.messages import Notification, Request


@pytest.fixture
def observers() -> Observers:
    return Observers("script")


def failing(*arguments: object) -> None:
    raise KeyError("observer")


def test_all_are_told_in_the_order_in_which_they_came(observers: Observers) -> None:
    log: list[object] = []
    for name in ("a", "b"):
        Observers.add(observers.error, lambda error, name=name: log.append((name, error)))
        Observers.add(observers.message, lambda message, name=name: log.append((name, message)))
        Observers.add(observers.close, lambda name=name: log.append((name, "closed")))
    error, message = TransportError("x"), Request(1, "m")
    observers.report(error)
    observers.arrived(message)
    observers.closed()
    assert log == [("a", error), ("b", error), ("a", message), ("b", message), ("a", "closed"), ("b", "closed")]


def test_an_observer_that_fails_is_reported_and_the_others_are_told(observers: Observers) -> None:
    errors: list[BaseException] = []
    log: list[object] = []
    observers.error.append(errors.append)
    observers.message += [failing, log.append]
    observers.close += [failing, lambda: log.append("closed")]
    message = Notification("n")
    observers.arrived(message)
    observers.closed()
    assert log == [message, "closed"]
    assert [type(error) for error in errors] == [KeyError, KeyError]


def test_an_error_observer_that_fails_is_logged_and_the_others_are_told(
    observers: Observers, caplog: pytest.LogCaptureFixture
) -> None:
    errors: list[BaseException] = []
    observers.error += [failing, errors.append]
    error = TransportError("x")
    observers.report(error)
    assert errors == [error]
    (record,) = caplog.records
    assert (record.name, record.levelno) == ("mcpl_core", logging.ERROR)
    assert record.exc_info is not None
    assert record.exc_info[0] is KeyError


@pytest.mark.parametrize("error", [TransportError("x"), ValueError("y")], ids=["ours", "foreign"])
def test_without_an_observer_the_logger_gets_it(
    observers: Observers, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    observers.report(error)
    (record,) = caplog.records
    assert (record.name, record.levelno, record.args) == ("mcpl_core", logging.WARNING, ("script", error))
    # Of our own errors the sentence says all; of others the traceback helps.
    assert bool(record.exc_info) == (type(error) is ValueError)


def test_what_is_no_exception_of_the_application_is_not_swallowed(observers: Observers) -> None:
    def stop(*arguments: object) -> None:
        raise KeyboardInterrupt

    observers.message.append(stop)
    observers.error.append(stop)
    observers.close.append(stop)
    with pytest.raises(KeyboardInterrupt):
        observers.arrived(Request(1, "m"))
    with pytest.raises(KeyboardInterrupt):
        observers.report(KeyError())
    with pytest.raises(KeyboardInterrupt):
        observers.closed()


def test_an_observer_can_be_removed_any_number_of_times(observers: Observers) -> None:
    calls: list[int] = []

    def observer() -> None:
        calls.append(1)

    first = Observers.add(observers.close, observer)
    second = Observers.add(observers.close, observer)
    first()
    first()
    observers.closed()
    assert calls == [1]
    second()
    observers.closed()
    assert calls == [1]
    assert observers.close == []


def test_observers_may_change_the_lists_while_they_are_told(observers: Observers) -> None:
    calls: list[str] = []

    def once() -> None:
        calls.append("once")
        remove()
        observers.close.append(lambda: calls.append("later"))

    remove = Observers.add(observers.close, once)
    observers.close.append(lambda: calls.append("other"))
    observers.closed()
    assert calls == ["once", "other"]


def test_of_errors_of_ours_the_kind_alone_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    observer = kinds_only(logging.getLogger("mcpl_core.x"), "script")
    for error in (
        MalformedMessageError("not-json", "said", b"said"),
        RpcError(1, "said"),
        ProcessExitedError("python", 1, "said"),
        KeyError("a handler"),
    ):
        observer(error)
    lines = [record.getMessage() for record in caplog.records]
    assert lines[:3] == ["script: a malformed message (not-json)", "script: RpcError", "script: ProcessExitedError"]
    assert "said" not in caplog.text
    assert caplog.records[3].exc_info is not None
    assert {record.name for record in caplog.records} == {"mcpl_core.x"}
