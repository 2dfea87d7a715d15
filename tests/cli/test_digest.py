"""``mcpl digest``: text, hash and revision; comparing with the manifest's own; comparing two manifests."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from mcpl_core.cli import main
from mcpl_core.manifest import with_revision

EXAMPLE = {
    "version": "0.5",
    "pushEvents": True,
    "featureSets": {"f": {"description": "d", "uses": ["tools", "pushEvents"]}},
}
TEXT = '{"featureSets":{"f":{"description":"d","uses":["pushEvents","tools"]}},"pushEvents":true,"version":"0.5"}'


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(manifest: Any, name: str = "manifest.json") -> str:
        path = tmp_path / name
        path.write_text(json.dumps(manifest), encoding="utf-8")
        return str(path)

    return write


REVISION = with_revision(EXAMPLE)["revision"]


def test_text_hash_and_revision(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["digest", file(EXAMPLE)]) == 0
    canonical, sha256, revision = capsys.readouterr().out.splitlines()
    assert canonical == f"canonical  {TEXT}"
    assert revision == f"revision   {REVISION}"
    assert sha256.split()[0] == "sha256" and len(sha256.split()[1]) == 64


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(json.dumps(EXAMPLE).encode())))
    assert main(["digest", "-"]) == 0
    assert REVISION in capsys.readouterr().out


@pytest.mark.parametrize(
    ("carried", "status", "words"),
    [
        ({"revision": REVISION}, 0, "carries this revision"),
        ({"revision": "sha256:" + "A" * 43}, 1, "carries another revision"),
        ({"revision": 7}, 1, "carries another revision, 7"),
        ({}, 1, "carries no revision"),
    ],
)
def test_checking_the_revision(
    carried: dict[str, Any], status: int, words: str, file: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["digest", "--check", file({**EXAMPLE, **carried})]) == status
    assert words in capsys.readouterr().out.splitlines()[-1]


def test_what_changed(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    other = {**EXAMPLE, "version": "0.6", "modelInfo": True, "featureSets": {}}
    assert main(["digest", file(EXAMPLE), "--diff", file(other, "other.json")]) == 0
    assert capsys.readouterr().out.splitlines()[3:] == [
        "domains    capabilities, featureSets",
        "removed    $.featureSets.f",
        "added      $.modelInfo",
        "changed    $.version",
    ]
    assert main(["digest", file(EXAMPLE), "--diff", file({**EXAMPLE, "version": "1"}, "other.json")]) == 0
    assert capsys.readouterr().out.splitlines()[3:] == ["domains    none changed", "changed    $.version"]


def test_a_report_for_machines(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    other = file({**EXAMPLE, "pushEvents": False}, "other.json")
    assert main(["digest", "--json", "--check", "--diff", other, file(with_revision(EXAMPLE))]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["canonicalJson"] == TEXT
    assert report["revision"] == report["announced"] == REVISION
    assert report["matches"] is True
    assert report["domains"] == ["capabilities"]
    assert report["changes"] == [{"kind": "changed", "path": "$.pushEvents"}]


@pytest.mark.parametrize("manifest", [[], None, {"a b": 1}, {"featureSets": {"f": {"uses": [""]}}}])
def test_a_manifest_without_a_digest(manifest: Any, file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["digest", file(manifest)], ["digest", "--json", "--check", file(manifest)]):
        assert main(arguments) == 1
        captured = capsys.readouterr()
        assert captured.out == "" and captured.err.count("\n") == 1
        assert "manifest.json" in captured.err


def test_an_other_that_cannot_be_compared(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["digest", file(EXAMPLE), "--diff", file([], "other.json")]) == 1
    assert "other.json" in capsys.readouterr().err
    assert main(["digest", file(EXAMPLE), "--diff", "missing.json"]) == 2
    assert "missing.json" in capsys.readouterr().err


def test_a_real_process(file: Any) -> None:
    code = "import sys; from mcpl_core.cli import main; sys.exit(main())"
    manifest = {**EXAMPLE, "note": "caf\u00e9 \U0001f602"}
    done = subprocess.run(
        [sys.executable, "-c", code, "digest", "-"],
        input=json.dumps(manifest).encode(),
        capture_output=True,
        timeout=60,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert with_revision(manifest)["revision"].encode() in done.stdout
    assert b"caf\\xe9 \\U0001f602" in done.stdout
