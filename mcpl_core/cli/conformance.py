"""``mcpl conformance``: runs vector files against this package.

Owns: the command and its report. Does not own: what a case means (``families``) or how a file is read
(``vectors``).
"""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from .families import FAMILIES, Difference, differences
from .output import CommandError, Output
from .vectors import VectorFile, own_files, read_vectors

__all__ = ("conformance",)

_Results = list[tuple[VectorFile, list[tuple[str, list[Difference]]]]]


def conformance(
    files: Annotated[list[str] | None, typer.Argument(help="Vector files; without any, those of this package.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Run conformance vectors, one line for each case.

    Read are files of this package's families and the digest file that the specification's repository publishes.
    Exit status 1: a case failed.
    """
    results: _Results = []
    for path in files or own_files():
        file = read_vectors(path)
        if file.family not in FAMILIES:
            raise CommandError(f"{path} is of family {file.family!r}; known are {', '.join(FAMILIES)}")
        results.append((file, [(case.name, differences(file.family, case)) for case in file.cases]))
    if as_json:
        print(json.dumps(_report(results)))
    else:
        _show(results)
    return int(any(found for _, cases in results for _, found in cases))


def _report(results: _Results) -> dict[str, Any]:
    files: list[dict[str, Any]] = [
        {
            "path": file.path,
            "family": file.family,
            "passed": sum(not found for _, found in cases),
            "failed": sum(bool(found) for _, found in cases),
            "cases": [
                {
                    "name": name,
                    "passed": not found,
                    "differences": [
                        {"member": item.member, "expected": item.expected, "actual": item.actual} for item in found
                    ],
                }
                for name, found in cases
            ],
        }
        for file, cases in results
    ]
    return {
        "passed": sum(file["passed"] for file in files),
        "failed": sum(file["failed"] for file in files),
        "files": files,
    }


def _show(results: _Results) -> None:
    output = Output()
    rows = []
    for file, cases in results:
        for name, found in cases:
            output.line(f"{'FAIL' if found else 'ok  '}  {file.family}  {name}", "red" if found else "")
            for item in found:
                what = f"{item.member}: " if item.member else ""
                output.line(f"      {what}expected {item.expected}, got {item.actual}", "red")
        failed = sum(bool(found) for _, found in cases)
        rows.append((file.family, len(cases), len(cases) - failed, failed, file.path))
    output.line("")
    output.table(("family", "cases", "passed", "failed", "file"), rows)
    passed, failed = sum(row[2] for row in rows), sum(row[3] for row in rows)
    output.line("")
    output.line(f"{passed} passed, {failed} failed", "red" if failed else "green")
