"""The rules that people add."""

from __future__ import annotations

from pathlib import Path

import pytest

from mcpl_core.cli.output import CommandError
from mcpl_core.cli.recording import RecordOptions, recorder_for
from mcpl_core.testing import DEFAULT_REDACTION, NO_REDACTION, REDACTED


def test_rules_are_added_or_left_out() -> None:
    assert RecordOptions().redaction() == DEFAULT_REDACTION
    assert RecordOptions(no_redaction=True).redaction() == NO_REDACTION
    rules = RecordOptions(["room"], ["x+"], True).redaction()
    assert rules.value({"Room": 1, "password": "xyz"})[0] == {"Room": REDACTED, "password": f"{REDACTED}yz"}


def test_a_pattern_that_is_none() -> None:
    with pytest.raises(CommandError, match="--redact-pattern"):
        RecordOptions(redact_pattern=["("]).redaction()


def test_a_file_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="cannot write"):
        recorder_for(str(tmp_path), DEFAULT_REDACTION)
    with recorder_for(str(tmp_path / "t"), DEFAULT_REDACTION) as recorder:
        recorder.record("to-host", b"1")
    assert (tmp_path / "t").read_bytes().count(b"\n") == 1
