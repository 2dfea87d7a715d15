"""The story that the demo tells, as a person sees it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def test_it_tells_the_story_of_a_host(tmp_path: Path) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-m", "mcpl_core", "demo"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert (run.returncode, run.stderr) == (0, "")
    story = run.stdout.partition("a host and its servers")[2]
    for line in (
        "granted contextHooks.beforeInference.inject.beforeUser",
        "event from memory: remembered: tea is better than coffee  memory:new",
        "message in chat:room: @agent what is better, tea or coffee?",
        "in the room: agent: tea, as you said yourself",
        "memory at beforeUser: <memories> tea is better than coffee </memories>",
        "asked, revoked, answered: 0 injections accepted",
        "weather: capability-revoked: pushEvents (applied)",
        "memory is waiting: ",
        "memory is ready; ",
    ):
        assert line in story, line
