"""What the commands of ``mcpl approvals`` do; all of them together are tried in ``test_approvals``."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mcpl_core.cli.approvals_options import StoreOptions
from mcpl_core.cli.approvals_work import Wanted, print_list, settle
from mcpl_core.cli.output import CommandError


def test_other_commands_do_not_load_the_gate() -> None:
    code = (
        "import sys, mcpl_core.cli.app; print([name for name in sys.modules if name.startswith('mcpl_core.approvals')])"
    )
    run = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert run.stdout == "[]\n"


def test_a_status_that_there_is_not(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught:
        print_list(StoreOptions(store=str(tmp_path / "none.db")), Wanted("open", "", "", 1, ""), as_json=False)
    assert caught.value.status == 2


def test_a_result_is_read_before_the_store_is_opened(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as caught:
        settle(StoreOptions(store=str(tmp_path / "none.db")), "id", "digest", "bob", str(tmp_path / "none.json"), "")
    assert "none.json" in str(caught.value)
