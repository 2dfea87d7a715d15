"""What all servers of a host share."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.capabilities import EXTENSION_PATHS
from mcpl_core.errors import InvalidValueError, LocalProtocolError
from mcpl_core.host.events import HostEvent, WakeSignal
from mcpl_core.host.hub import HostHandlers, HostSettings, Hub, host_manifest
from mcpl_core.manifest import validate_manifest
from mcpl_core.protocol import METHODS, Method, ModelInfo, ToolsListParams
from mcpl_core.treatment import Mute, Treatment


def hub(**handlers: Any) -> Hub:
    return Hub(name="h", version="1", handlers=HostHandlers(**handlers))


@pytest.mark.spec("5.2-1")
def test_the_host_says_what_it_supports() -> None:
    manifest = host_manifest(hub())
    assert validate_manifest({**manifest, "featureSets": {}}).problems == ()
    assert manifest["version"] == "0.5"
    assert not {"inferenceRequest", "modelInfo", "stateUpdate", "branches"} & manifest.keys()


def test_it_offers_what_it_has_handlers_for() -> None:
    manifest = host_manifest(hub(inference=lambda call: None, model_info=ModelInfo(id="m")))
    assert (manifest["inferenceRequest"], manifest["modelInfo"]) == ({"streaming": True}, True)


def test_extensions_are_offered_when_the_policy_knows_them() -> None:
    extensions = frozenset(EXTENSION_PATHS)
    assert host_manifest(hub(), extensions)["stateUpdate"] is True
    assert "branches" not in host_manifest(hub(), extensions)
    names = ("create", "delete", "list", "switch")
    assert host_manifest(hub(branches=object()), extensions)["branches"] == dict.fromkeys(names, True)
    assert "branches" not in host_manifest(hub(branches=object()))


@pytest.mark.parametrize(
    "name", ["push/event", "channels/incoming", "state/update", "branches/list", "tools/list", "ping", "never/heard"]
)
def test_what_has_a_part_of_its_own_has_no_further_handler(name: str) -> None:
    with pytest.raises(LocalProtocolError):
        hub(others={name: lambda session, params: None})


def test_extensions_and_own_rows_have_handlers() -> None:
    hub(others={"access/token": lambda session, params: None, "toolsets/changed": lambda session, params: None})
    row = Method(name="x/y", direction="server->host", form="request", params=ToolsListParams, result=dict)
    handlers = HostHandlers(others={"x/y": lambda session, params: None})
    made = Hub(
        name="h", version="1", handlers=handlers, methods=METHODS.extend(row), settings=HostSettings(queue_limit=7)
    )
    assert made.delivery.queue.limit == 7


@pytest.mark.anyio
async def test_what_a_handler_raises_for_an_event_of_the_hosts_own_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    def handler(event: HostEvent) -> None:
        raise RuntimeError("no")

    made = hub(on_event=handler)
    treatment = Treatment(Mute(), None)
    await made.delivery.announce(WakeSignal(server="s", treatment=treatment))
    assert [(record.name, record.exc_info and record.exc_info[0]) for record in caplog.records] == [
        ("mcpl_core.host", RuntimeError)
    ]


@pytest.mark.parametrize(
    ("name", "value", "error"),
    [
        ("hook_timeout", None, TypeError),
        ("hook_timeout", "5", TypeError),
        ("hook_timeout", True, TypeError),
        ("hook_timeout", -1.0, InvalidValueError),
        ("hook_timeout", float("nan"), InvalidValueError),
        ("handler_limit", 1.5, TypeError),
        ("handler_limit", 0, InvalidValueError),
        ("manifest_schedule", "", TypeError),
    ],
)
def test_numbers_that_make_no_sense_are_refused(name: str, value: Any, error: type[Exception]) -> None:
    with pytest.raises(error) as caught:
        HostSettings(**{name: value})
    assert getattr(caught.value, "code", name) == name


def test_seconds_may_be_whole_and_a_schedule_may_be_none() -> None:
    assert HostSettings(hook_timeout=5, manifest_schedule=None).hook_timeout == 5
    assert HostSettings(call_limit=float("inf"), manifest_schedule=60).manifest_schedule == 60
