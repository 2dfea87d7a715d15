"""``mcpl conformance``: its report, and its exit status."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpl_core.cli import main
from mcpl_core.cli.families import FAMILIES

GOOD = {
    "name": "good",
    "input": {"uri": "mcpl://H"},
    "expected": {"canonicalUri": "mcpl://h/", "resolvedTransport": "wss://h/"},
}
BAD = {"name": "bad", "input": {"uri": "mcpl://h#"}, "expected": {"error": "host"}}


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(*cases: dict[str, Any], family: str = "uris") -> str:
        path = tmp_path / f"{family}-{len(cases)}.json"
        path.write_text(json.dumps({"family": family, "cases": cases}), encoding="utf-8")
        return str(path)

    return write


def test_a_line_for_each_case_and_a_table(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = file(GOOD)
    assert main(["conformance", path]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "ok    uris  good",
        "",
        "family  cases  passed  failed  file",
        f"uris        1       1       0  {path}",
        "",
        "1 passed, 0 failed",
    ]


def test_a_failure_is_shown_and_counted(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = file(GOOD, BAD, {"name": "broken", "input": {}, "expected": {}})
    assert main(["conformance", path]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[:3] == ["ok    uris  good", "FAIL  uris  bad", '      error: expected "host", got "fragment"']
    assert lines[3] == "FAIL  uris  broken" and "KeyError" in lines[4]
    assert lines[-1] == "1 passed, 2 failed"


def test_a_report_for_machines(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    path = file(GOOD, BAD)
    assert main(["conformance", "--json", path, path]) == 1
    report = json.loads(capsys.readouterr().out)
    assert (report["passed"], report["failed"]) == (2, 2)
    assert report["files"][0] == report["files"][1] == {
        "path": path,
        "family": "uris",
        "passed": 1,
        "failed": 1,
        "cases": [
            {"name": "good", "passed": True, "differences": []},
            {
                "name": "bad",
                "passed": False,
                "differences": [{"member": "error", "expected": '"host"', "actual": '"fragment"'}],
            },
        ],
    }  # fmt: skip


def test_without_a_file_the_own_vectors_are_run(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert {found["family"] for found in report["files"]} == FAMILIES.keys()
    assert report["failed"] == 0 and report["passed"] == sum(len(found["cases"]) for found in report["files"])


def test_an_unknown_family_is_named(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", file(GOOD, family="recipes")]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and "recipes" in captured.err and captured.err.count("\n") == 1


def test_a_file_that_is_none(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["conformance", str(tmp_path / "missing.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_a_published_digest_file_is_run_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    empty = {
        "canonicalJson": "{}",
        "sha256Hex": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
        "digest": "sha256:RBNvo1WzZ4oRRq0W9-hknpT7T8If536DEMBg9hyq_4o",
    }
    vectors = [
        {"name": "empty", "input": {}, **empty},
        {"name": "revision", "input": {"revision": 1}, **empty, "sameDigestAs": "empty"},
        {"name": "not-the-same", "input": {}, **empty, "differentDigestFrom": "revision"},
        {"name": "refused", "input": {"a b": 1}, "expectError": "identifier_charset"},
    ]
    sorts = [{"name": "sort", "input": ["b", "a", "b"], "sorted": ["a", "b"]}]
    path = tmp_path / "published.json"
    path.write_text(json.dumps({"vectors": vectors, "sortVectors": sorts}), encoding="utf-8")
    assert main(["conformance", str(path)]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("FAIL")] == ["FAIL  manifest-digest  not-the-same"]
    assert lines[-1] == "4 passed, 1 failed"


def test_a_real_process(file: Any) -> None:
    code = "import sys; from mcpl_core.cli import main; sys.exit(main())"
    done = subprocess.run(
        [sys.executable, "-c", code, "conformance", file(GOOD, BAD)], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.splitlines()[-1] == "1 passed, 1 failed"
