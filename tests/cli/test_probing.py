"""A probe inside this process: grants, what cannot be had, and how it ends."""

from __future__ import annotations

import json
import sys
from typing import Any

import pytest

from mcpl_core.cli.notices import Notices
from mcpl_core.cli.output import CommandError
from mcpl_core.cli.probing import GrantOptions, Probing
from mcpl_core.cli.target import Target
from mcpl_core.host import HostPolicy
from mcpl_core.testing import Recorder
from tests.cli.processes import ECHO_SERVER


def granted(options: GrantOptions, *, watching: bool = False) -> set[str]:
    advertised = ["tools", "pushEvents", "channels.register", "channels.incoming", "channels.publish",
                  "contextHooks.beforeInference.inject.system"]  # fmt: skip
    return set(options.policy(watching=watching).grant("s", advertised).effective_capabilities)


def test_what_is_granted() -> None:
    assert granted(GrantOptions()) == {"tools", "channels.register"}
    assert granted(GrantOptions(), watching=True) == {"tools", "channels.register", "pushEvents", "channels.incoming"}
    assert granted(GrantOptions(allow=["channels.*"], deny=["tools"])) == {
        "channels.register",
        "channels.incoming",
        "channels.publish",
    }
    everything = granted(GrantOptions(allow_all=True))
    assert "channels.publish" in everything and "contextHooks.beforeInference.inject.system" not in everything
    with pytest.raises(CommandError):
        GrantOptions(allow=["nonsense"]).policy(watching=False)


def probing(command: list[str], **options: Any) -> Probing:
    policy = options.pop("policy", HostPolicy.allow("tools", "pushEvents"))
    return Probing(Target(command, {}), policy, Notices("probe", quiet=True), **options)


def test_it_looks_and_calls(capsys: pytest.CaptureFixture[str]) -> None:
    recorder = Recorder()
    assert probing(ECHO_SERVER, as_json=True, call=("echo", {"text": "hi"})).run(recorder) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["mode"], facts["call"]["text"]) == ("mcpl", "hi")
    assert [tool["name"] for tool in facts["tools"]] == ["echo"]
    assert recorder.count > 8


def test_it_shows(capsys: pytest.CaptureFixture[str]) -> None:
    assert probing(ECHO_SERVER, call=("echo", {"text": "hi"})).run() == 0
    text = capsys.readouterr().out
    assert text.startswith("echo 1.0.0\n") and "echo answered\n  hi\n" in text


def test_a_call_that_is_not_allowed() -> None:
    with pytest.raises(CommandError, match="tools is not granted"):
        probing(ECHO_SERVER, policy=HostPolicy(), as_json=True, call=("echo", {})).run()


def test_who_is_not_there() -> None:
    with pytest.raises(CommandError) as caught:
        probing(["/nonexistent/server"]).run()
    assert caught.value.status == 1
    with pytest.raises(CommandError, match="status 3"):
        probing([sys.executable, "-c", "raise SystemExit(3)"]).run()
