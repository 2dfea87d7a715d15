"""Canonical text and digest of a manifest of about 5 KB, beside ``rfc8785.dumps`` in the same run.

Usage: ``python -m benchmarks.digest [--json]``. Only the ratios mean something: all contenders take turns in each
round, and the median of the rounds is printed. Exit status 1: the texts differ, or the usual manifest misses a limit.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import Any

import rfc8785

from mcpl_core.manifest import canonical_bytes, copy_tree, manifest_digest, normalized_manifest

__all__ = ("main", "manifest")

ROUNDS = 15
CALLS = 100

#: How many times as fast as ``rfc8785.dumps`` each must be on the usual manifest.
LIMITS = {"canonical_bytes": 6.0, "manifest_digest": 2.5}


def manifest() -> dict[str, Any]:
    """A server's manifest with every part that SPEC 17 knows: nine feature sets with their ontologies."""
    subjects = ("recall", "notes", "places", "people", "tasks", "dreams", "music", "weather", "errands")
    return {
        "version": "0.5",
        "pushEvents": True,
        "inferenceLifecycle": True,
        "contextHooks": {"beforeInference": {"observe": True, "inject": {"beforeUser": True, "afterUser": False}}},
        "channels": {"register": True, "publish": True, "incoming": True, "typing": False},
        "limits": {"items": 250, "share": 0.75, "note": None},
        "featureSets": {f"memory.{subject}": _feature_set(subject) for subject in subjects},
    }


def _feature_set(subject: str) -> dict[str, Any]:
    tag = f"memory:{subject}"
    return {
        "description": f"Keeps {subject} \u2014 \u201cas they were said\u201d \u2014 and finds them again.",
        "uses": ["tools", "pushEvents", "contextHooks.beforeInference.inject.beforeUser", "channels.publish"],
        "rollback": len(subject) % 2 == 0,
        "tagOntology": {
            "coreTags": ["chat:mention", "chat:dm"],
            "tags": {
                tag: {"desc": f"Something about {subject}.", "facet": "content", "implies": ["chat:command"]},
                f"{tag}-gone": {"desc": "It was forgotten.", "stability": "experimental"},
            },
            "keyed": {"urgency": {"values": ["low", "normal", "high"], "ordered": True}},
            "open": True,
        },
    }


def _variants(tree: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The usual manifest, and two that need a closer look: a character beyond U+FFFF, and a number to respell."""
    emoji, number = copy_tree(tree), copy_tree(tree)
    emoji["featureSets"]["memory.music"]["description"] += " \U0001f3b5"
    number["limits"]["share"] = 1.0
    return {"usual": tree, "with an emoji": emoji, "with a 1.0": number}


def _seconds(work: Callable[[Any], object], argument: Any) -> float:
    start = time.perf_counter()
    for _ in range(CALLS):
        work(argument)
    return (time.perf_counter() - start) / CALLS


def _measure(tree: dict[str, Any]) -> dict[str, float]:
    """Microseconds of each contender, the median of all rounds."""
    contenders: dict[str, Callable[[Any], object]] = {
        "rfc8785.dumps": rfc8785.dumps,
        "canonical_bytes": canonical_bytes,
        "manifest_digest": manifest_digest,
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for _ in range(ROUNDS):
        for name, work in contenders.items():
            times[name].append(_seconds(work, tree))
    return {name: statistics.median(samples) * 1e6 for name, samples in times.items()}


def main(arguments: list[str]) -> int:
    """Measures and prints. Returns 1 when the texts are not the same, or a limit is missed."""
    report = []
    missed: list[str] = []
    for name, tree in _variants(manifest()).items():
        text = canonical_bytes(tree)
        if text != rfc8785.dumps(tree) or canonical_bytes(normalized_manifest(tree)) != rfc8785.dumps(
            normalized_manifest(tree)
        ):
            print(f"{name}: the canonical texts differ")
            return 1
        times = _measure(tree)
        report.append({"manifest": name, "bytes": len(text), "microseconds": times})
        if name == "usual":
            missed = [who for who, limit in LIMITS.items() if times["rfc8785.dumps"] < limit * times[who]]
        if "--json" in arguments:
            continue
        print(f"{name}: {len(text)} bytes")
        for contender, microseconds in times.items():
            ratio = times["rfc8785.dumps"] / microseconds
            print(f"  {contender:<16} {microseconds:8.1f} \u00b5s  {ratio:6.2f} times as fast as rfc8785.dumps")
    if "--json" in arguments:
        print(json.dumps(report))
    for contender in missed:
        print(f"{contender} is less than {LIMITS[contender]} times as fast as rfc8785.dumps", file=sys.stderr)
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
