"""What may stand in the repository: no path of one machine, no package index, vectors as plain data."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
VECTORS = ROOT / "vectors"

# Written in pieces, so that this file does not match itself.
_FORBIDDEN = {
    "a path of one machine": re.compile("|".join(("/" + "work/", "/" + "root/", "/tmp/" + "venv", "/" + r"home/\w+/"))),
    "a folder beside the checkout": re.compile(re.escape("../" + "shared")),
    "the address of a package index": re.compile("|".join(("pypi" + r"\.org", "files" + r"\.pythonhosted"))),
}
_ALLOWED = {("a folder beside the checkout", ".ci/run")}


def _tracked() -> list[str]:
    if shutil.which("git") is None or not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return [name for name in listing.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize("what", _FORBIDDEN)
def test_tracked_files_do_not_name(what: str) -> None:
    found = [
        f"{name}:{number}: {line.strip()}"
        for name in _tracked()
        if (what, name) not in _ALLOWED
        for number, line in enumerate((ROOT / name).read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if _FORBIDDEN[what].search(line)
    ]
    assert found == []


def test_vectors_hold_only_json_and_a_readme() -> None:
    files = [path for path in VECTORS.rglob("*") if path.is_file()]
    assert [path.name for path in files if path.suffix != ".json" and path.name != "README.md"] == []
    assert (VECTORS / "README.md") in files
    assert any(path.suffix == ".json" for path in files)


@pytest.mark.parametrize("path", sorted(VECTORS.rglob("*.json")), ids=lambda path: path.name)
def test_vectors_are_json_objects(path: Path) -> None:
    assert isinstance(json.loads(path.read_text(encoding="utf-8")), dict)


def test_what_the_distribution_promises() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == "mcp-live-core"
    assert project["scripts"] == {"mcpl": "mcpl_core.cli:main"}
    assert project["requires-python"] == ">=3.11"
    assert project["optional-dependencies"].keys() == {
        "host",
        "toolsets",
        "mcp",
        "postgres",
        "cli",
        "all",
        "bench",
        "dev",
    }
    for name in ("LICENSE", "README.md", "CHANGELOG.md", "SPEC_NOTES.md", "constraints.txt", "mcpl_core/py.typed"):
        assert (ROOT / name).is_file(), name
    for name in ("mcpl_core", "tests", "vectors", "examples", "benchmarks"):
        assert (ROOT / name).is_dir(), name


def test_ci_runs_what_the_readme_and_the_makefile_say() -> None:
    ci = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    make = (ROOT / "Makefile").read_text(encoding="utf-8")
    steps = re.findall(r"^step make ([\w-]+)", ci, re.MULTILINE)
    assert {"test", "lint", "types", "coverage-gate", "wheel", "demo"} <= set(steps)
    assert "make test" in (ROOT / "README.md").read_text(encoding="utf-8")
    for command in (
        "-m pytest",
        "ruff format --check .",
        "ruff check .",
        "mypy",
        "--fail-under=100",
        "-m build --wheel",
    ):
        assert command in make, command
