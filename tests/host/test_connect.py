"""From what an operator wrote to a connected server."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import anyio
import pytest

from mcpl_core import McplConnection
from mcpl_core.errors import InvalidValueError, LocalProtocolError, TransportError
from mcpl_core.host import DENY_ALL, Endpoint, HostPolicy, connect_server
from mcpl_core.host.connect import Dialer
from mcpl_core.transports.memory import ScriptedTransport
from tests.host.raw_server import LIMIT, MANIFEST, QUICK, RawServer

SECRET = "hunter2-canary"


# -- endpoints


@pytest.mark.spec("RFC4-2.2-1")
@pytest.mark.parametrize(
    ("target", "configured", "canonical", "resolved", "shown"),
    [
        (
            "mcpl://EXAMPLE.com?invite=x",
            "mcpl://EXAMPLE.com?invite=x",
            "mcpl://example.com/?invite=x",
            "wss://example.com/?invite=x",
            "mcpl://example.com",
        ),
        ("wss://h:1/p?token=x", "wss://h:1/p?token=x", None, "wss://h:1/p?token=x", "wss://h:1"),
        ("ws://u:p@h/p", "ws://u:p@h/p", None, "ws://u:p@h/p", "ws://h"),
        ("ws://h?at=u@x", "ws://h?at=u@x", None, "ws://h?at=u@x", "ws://"),
        ("ws://u:a/b@h/p", "ws://u:a/b@h/p", None, "ws://u:a/b@h/p", "ws://"),
        ("ws://u:a?b@h", "ws://u:a?b@h", None, "ws://u:a?b@h", "ws://"),
        ("ws://h#secret", "ws://h#secret", None, "ws://h#secret", "ws://h"),
        ("wss:h?token=x", "wss:h?token=x", None, "wss:h?token=x", "endpoint"),
        (["/bin/python", "server.py", "--token=x"], ("/bin/python", "server.py", "--token=x"), None, None, "python"),
        ([Path("run")], ("run",), None, None, "run"),
        ([], (), None, None, ""),
    ],
)
def test_the_three_values_are_kept_apart_and_only_the_harmless_part_is_shown(
    target: Any, configured: Any, canonical: Any, resolved: Any, shown: str
) -> None:
    endpoint = Endpoint(target)
    assert (endpoint.configured, endpoint.canonical, endpoint.resolved) == (configured, canonical, resolved)
    assert (str(endpoint), repr(endpoint)) == (shown, f"<Endpoint {shown}>")


def test_what_was_handed_over_has_no_address() -> None:
    transport = ScriptedTransport()
    targets: list[Any] = [transport, McplConnection(transport)]
    for target in targets:
        endpoint = Endpoint(target)
        assert str(endpoint) == "script"
        assert [endpoint.configured, endpoint.canonical, endpoint.resolved] == [None] * 3
    made: Any = lambda: transport  # noqa: E731
    assert str(Endpoint(made)) == "connection"


def test_what_is_no_target_is_refused() -> None:
    target: Any = object()
    with pytest.raises(TypeError):
        Endpoint(target)


def test_a_bad_uri_is_refused_before_anything_is_dialled() -> None:
    with pytest.raises(InvalidValueError) as caught:
        connect_server("mcpl:///evil")
    assert caught.value.code == "empty_authority"


# -- dialling


@pytest.mark.anyio
async def test_what_was_handed_over_is_used_once() -> None:
    dialer = Dialer(ScriptedTransport())
    before = dialer.repeatable
    assert isinstance(await dialer.dial(), McplConnection)
    assert (before, dialer.repeatable) == (True, False)
    with pytest.raises(LocalProtocolError):
        await dialer.dial()


@pytest.mark.anyio
async def test_a_function_makes_a_connection_each_time() -> None:
    for make in (ScriptedTransport, lambda: McplConnection(ScriptedTransport())):
        dialer = Dialer(make)
        first, second = await dialer.dial(), await dialer.dial()
        assert first is not second and dialer.repeatable


@pytest.mark.anyio
async def test_credentials_are_asked_for_each_time_and_kept_nowhere() -> None:
    asked: list[str] = []

    def at_once() -> dict[str, Any]:
        asked.append("now")
        return {"env": {"TOKEN": SECRET}}

    async def later() -> dict[str, Any]:
        asked.append("later")
        return {"env": {"TOKEN": SECRET}}

    for options in (at_once, later, {"env": {"TOKEN": SECRET}}, None):
        dialer = Dialer(["python"], options)
        for _ in range(2):
            connection = await dialer.dial()
            assert SECRET not in f"{connection!r} {connection.transport!r} {connection.transport.name}"
        assert SECRET not in f"{dialer!r} {dialer.endpoint!r} {vars(dialer)}"
    assert asked == ["now", "now", "later", "later"]


@pytest.mark.anyio
async def test_no_secret_of_an_endpoint_is_logged_or_in_an_error(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    options: dict[str, Any] = {"headers": {"Authorization": SECRET}}
    with pytest.raises(TransportError) as caught:
        async with connect_server(f"ws://127.0.0.1:9/?token={SECRET}", transport_options=options):
            pass
    seen: BaseException | None = caught.value
    while seen is not None:
        assert SECRET not in f"{seen} {seen!r}"
        seen = seen.__cause__
    assert SECRET not in caplog.text


# -- one server by itself


@pytest.mark.anyio
async def test_nothing_happens_before_it_is_entered_and_it_is_entered_once() -> None:
    raw = RawServer()
    connecting = connect_server(raw.transport, settings=QUICK)
    assert not raw.transport.started.is_set()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(raw.begin)
            async with connecting as session:
                assert session.grant.effective_capabilities == ()
                with pytest.raises(LocalProtocolError):
                    await connecting.__aenter__()
    assert raw.transport.closed == 1
    assert session.is_closed


@pytest.mark.anyio
async def test_what_the_block_raises_comes_out_as_it_is() -> None:
    raw = RawServer()
    raised: list[BaseException] = []
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(raw.begin)
            try:
                async with connect_server(raw.transport, policy=DENY_ALL, settings=QUICK):
                    raise KeyError("mine")
            except BaseException as exc:
                raised.append(exc)
    assert [type(exc) for exc in raised] == [KeyError]


@pytest.mark.anyio
async def test_the_iteration_over_events_ends_with_the_connection() -> None:
    raw = RawServer()
    got: list[Any] = []
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(raw.begin)
            async with connect_server(raw.transport, policy=HostPolicy.allow("pushEvents"), settings=QUICK) as session:
                events = session.events()

                async def take() -> None:
                    got.extend([event async for event in events])

                tasks.start_soon(take)
    assert got == []


@pytest.mark.anyio
async def test_cancelling_while_it_connects_leaves_nothing_behind() -> None:
    raw = RawServer()
    with anyio.move_on_after(0.01):
        async with connect_server(raw.transport):
            raise AssertionError("it did not connect")
    assert raw.transport.closed == 1


@pytest.mark.anyio
async def test_leaving_by_cancellation_closes() -> None:
    raw = RawServer()
    with anyio.fail_after(LIMIT):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(raw.begin, MANIFEST)
            with anyio.CancelScope() as scope:
                async with connect_server(raw.transport, settings=QUICK):
                    scope.cancel()
                    await anyio.sleep_forever()
    assert raw.transport.closed == 1
