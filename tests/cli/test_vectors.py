"""Reading vector files of each shape, and refusing what is none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mcpl_core.cli import vectors
from mcpl_core.cli.output import CommandError
from mcpl_core.cli.vectors import Case, VectorFile, own_files, read_vectors


@pytest.fixture
def file(tmp_path: Path) -> Any:
    def write(document: Any) -> str:
        path = tmp_path / "file.json"
        path.write_text(json.dumps(document), encoding="utf-8")
        return str(path)

    return write


def test_own_files_are_those_of_the_checkout() -> None:
    names = {Path(path).name for path in own_files()}
    assert {"manifest-digest.json", "changed-domains.json", "uris.json", "tags.json"} <= names
    assert own_files() == sorted(own_files())


def test_an_installation_without_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(name: str) -> Path:
        raise FileNotFoundError(name)

    monkeypatch.setattr(vectors, "resource_path", nothing)
    with pytest.raises(CommandError):
        own_files()


def test_own_shape(file: Any) -> None:
    path = file({"family": "uris", "cases": [{"name": "a", "input": {"uri": "x"}, "expected": {"error": "scheme"}}]})
    assert read_vectors(path) == VectorFile(path, "uris", (Case("a", {"uri": "x"}, {"error": "scheme"}),))


def test_published_digests(file: Any) -> None:
    facts = {"canonicalJson": "{}", "sha256Hex": "00", "digest": "sha256:x"}
    path = file(
        {
            "vectors": [
                {"name": "one", "description": "d", "input": {}, **facts},
                {"name": "same", "input": {"a": 1}, **facts, "sameDigestAs": "one"},
                {"name": "other", "input": {"b": 1}, **facts, "differentDigestFrom": "same"},
                {"name": "bad", "input": {"": 1}, "expectError": "identifier_charset", "errorDetail": "d"},
            ],
            "sortVectors": [{"name": "sort", "input": ["b", "a"], "sorted": ["a", "b"]}],
        }
    )
    assert read_vectors(path) == VectorFile(
        path,
        "manifest-digest",
        (
            Case("one", {"manifest": {}}, facts),
            Case("same", {"manifest": {"a": 1}, "other": {}}, {**facts, "sameDigest": True}),
            Case("other", {"manifest": {"b": 1}, "other": {"a": 1}}, {**facts, "sameDigest": False}),
            Case("bad", {"manifest": {"": 1}}, {"error": "identifier_charset"}),
            Case("sort", {"set": ["b", "a"]}, {"sorted": ["a", "b"]}),
        ),
    )


def test_published_uris(file: Any) -> None:
    path = file(
        {
            "vectors": [
                {"name": "one", "input": "mcpl://h", "canonicalUri": "c", "resolvedTransport": "r"},
                {"name": "bad", "input": "x", "expectError": "scheme"},
            ]
        }
    )
    assert read_vectors(path).family == "uris"
    assert read_vectors(path).cases == (
        Case("one", {"uri": "mcpl://h"}, {"canonicalUri": "c", "resolvedTransport": "r"}),
        Case("bad", {"uri": "x"}, {"error": "scheme"}),
    )


@pytest.mark.parametrize(
    "document",
    [
        {},
        [],
        "text",
        {"cases": []},
        {"family": "uris", "cases": 1},
        {"family": "uris", "cases": [1]},
        {"family": "uris", "cases": [{"name": "a"}]},
        {"family": "uris", "cases": [{"name": "a", "input": "ab", "expected": {}}]},
        {"family": "uris", "cases": [{"name": "a", "input": {}, "expected": [["error", "host"]]}]},
        {"vectors": [{"name": "a", "input": "x"}]},
        {"vectors": [{"name": "a", "input": {}, "sameDigestAs": "b", "expectError": "x"}], "sortVectors": []},
    ],
)
def test_what_is_no_vector_file(document: Any, file: Any) -> None:
    with pytest.raises(CommandError) as caught:
        read_vectors(file(document))
    assert caught.value.status == 2
