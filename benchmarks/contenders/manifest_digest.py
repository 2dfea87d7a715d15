"""Canonical text and digest of a manifest of about 5 KB. Each style is one function: ``rfc8785`` (``rfc8785.dumps``),
``canonical_bytes`` and ``manifest_digest`` (``mcpl_core.manifest``).

Before anything is timed the canonical texts are compared, on the manifest and on two that need a closer look.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import rfc8785

from mcpl_core.manifest import canonical_bytes, copy_tree, manifest_digest, normalized_manifest

from ..drive import WrongAnswerError
from ..workload import Order
from .program import emit

__all__ = ("client", "manifest", "variants")

#: Calls between two looks at the clock.
CALLS = 50

_STYLES: Final[dict[str, Callable[[Any], object]]] = {
    "rfc8785": rfc8785.dumps,
    "canonical_bytes": canonical_bytes,
    "manifest_digest": manifest_digest,
}


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


def variants(tree: dict[str, Any]) -> tuple[dict[str, Any], ...]:
    """A manifest, and it with a character beyond U+FFFF, and with a number to respell."""
    emoji, number = copy_tree(tree), copy_tree(tree)
    emoji["featureSets"]["memory.music"]["description"] += " \U0001f3b5"
    number["limits"]["share"] = 1.0
    return tree, emoji, number


def client(order: Order) -> dict[str, float]:
    """Measures one function, in this process.

    Raises:
        WrongAnswerError: a canonical text is another one than that of ``rfc8785``.
    """
    tree = manifest()
    for variant in variants(tree):
        for form in (variant, normalized_manifest(variant)):
            if canonical_bytes(form) != rfc8785.dumps(form):
                raise WrongAnswerError("the canonical texts differ")
    work = _STYLES[order.style]
    _microseconds(work, tree)
    times: list[float] = []
    end = time.perf_counter() + order.seconds
    while len(times) < 3 or time.perf_counter() < end:
        times.append(_microseconds(work, tree))
    microseconds = statistics.median(times)
    return {"per_second": 1e6 / microseconds, "us": microseconds}


def _microseconds(work: Callable[[Any], object], argument: Any) -> float:
    began = time.perf_counter()
    for _ in range(CALLS):
        work(argument)
    return (time.perf_counter() - began) / CALLS * 1e6


if __name__ == "__main__":
    emit(client(Order.read(sys.argv[2])))
