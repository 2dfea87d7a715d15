"""``mcpl digest``: the revision of a manifest, and what changed between two (SPEC 17.2, 17.3).

Owns: the command. Does not own: the computation (``mcpl_core.manifest``).
"""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Any

import typer

from mcpl_core.errors import InvalidValueError
from mcpl_core.manifest import changed_domains, manifest_canonical_json, manifest_digest, member_changes

from .output import CommandError, Output, read_json

__all__ = ("digest",)


def digest(
    file: Annotated[
        str, typer.Argument(help="A manifest (the experimental.mcpl object) as JSON; - reads it from input.")
    ],
    check: Annotated[
        bool, typer.Option("--check", help="Compare with the revision that the manifest carries.")
    ] = False,
    diff: Annotated[str, typer.Option("--diff", metavar="OTHER", help="Show what changes from FILE to OTHER.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> int:
    """Show canonical text, SHA-256 and revision of a manifest.

    Exit status 1: the manifest has no digest, or --check found another one.
    """
    manifest = read_json(file)
    report = _digest(manifest, file)
    failed = False
    if check:
        report["announced"] = manifest.get("revision")
        report["matches"] = report["announced"] == report["revision"]
        failed = not report["matches"]
    if diff:
        report |= _diff(manifest, read_json(diff), diff)
    if as_json:
        print(json.dumps(report))
    else:
        _show(report)
    return int(failed)


def _digest(manifest: Any, file: str) -> dict[str, Any]:
    try:
        text = manifest_canonical_json(manifest)
    except InvalidValueError as exc:
        raise CommandError(f"{file} has no digest: {exc}", 1) from exc
    return {
        "canonicalJson": text,
        "sha256Hex": hashlib.sha256(text.encode()).hexdigest(),
        "revision": manifest_digest(manifest),
    }


def _diff(manifest: Any, other: Any, file: str) -> dict[str, Any]:
    try:
        return {
            "domains": list(changed_domains(manifest, other)),
            "changes": [{"kind": change.kind, "path": change.path} for change in member_changes(manifest, other)],
        }
    except InvalidValueError as exc:
        raise CommandError(f"{file} cannot be compared: {exc}", 1) from exc


def _show(report: dict[str, Any]) -> None:
    output = Output()
    output.line(f"canonical  {report['canonicalJson']}")
    output.line(f"sha256     {report['sha256Hex']}")
    output.line(f"revision   {report['revision']}", "bold")
    if report.get("matches"):
        output.line("check      the manifest carries this revision", "green")
    elif "matches" in report:
        announced = report["announced"]
        carried = "no revision" if announced is None else f"another revision, {json.dumps(announced)}"
        output.line(f"check      the manifest carries {carried}", "red")
    if "domains" in report:
        output.line(f"domains    {', '.join(report['domains']) or 'none changed'}")
        for change in report["changes"]:
            output.line(f"{change['kind']:<9}  {change['path']}")
