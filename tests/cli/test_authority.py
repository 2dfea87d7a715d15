"""The family about tools under authority. That its file passes is shown in ``tests/vectors``."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from mcpl_core.cli.authority import digest_answer


@pytest.mark.parametrize(
    ("given", "answer"),
    [
        ({"value": None}, {"text", "digest"}),
        ({"valueText": "1e999"}, {"error"}),
        ({"intent": {}}, {"error"}),
        ({"intent": 7}, {"error"}),
        ({"call": {"runId": "r", "toolCallId": "c"}}, {"approvalId"}),
    ],
)
def test_each_kind_of_case(given: dict[str, Any], answer: set[str]) -> None:
    assert digest_answer(given).keys() == answer


def test_other_families_do_without_it() -> None:
    code = "import sys, mcpl_core.cli.families; print('mcpl_core.catalog' in sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout == "False\n"
