"""What the host has to say of a tool, and in which words."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET

from mcpl_core.catalog.bindings import (
    ApprovalBinding,
    ReadBinding,
    ToolPolicy,
    WriteBinding,
    check_bindings,
    check_server_id,
)
from mcpl_core.catalog.errors import CatalogError
from tests.catalog.kit import read_binding, write_binding

Json = dict[str, Any]

IDENTITY: Json = {
    "binding_id": "b",
    "binding_revision": "1",
    "scope_id": "s",
    "scope_revision": "2",
    "effect": "destructive",
}


def allow(context: Any, arguments: Any) -> bool:
    return True


READ: Json = {"local_name": "search", "policy": ToolPolicy(title="Search"), "scope": None}
WRITE: Json = {
    "local_name": "save",
    "policy": ToolPolicy(title="Save", mode="confirm", risk_level="destructive"),
    "scope": allow,
    "authority": ApprovalBinding(**IDENTITY),
}


def refused(kind: Any, **members: Any) -> None:
    with pytest.raises(CatalogError) as caught:
        kind(**members)
    assert caught.value.code == "mcp_binding_invalid"
    assert caught.value.__context__ is None


def test_the_least_that_a_read_needs() -> None:
    binding = ReadBinding(**READ)
    assert binding.concurrency_safe is False
    assert ReadBinding(**READ | {"concurrency_safe": True}).concurrency_safe
    ReadBinding(**READ | {"policy": ToolPolicy(title=" T ", risk_level="read")})


@pytest.mark.parametrize("missing", READ)
def test_each_field_of_a_read_is_needed(missing: str) -> None:
    refused(ReadBinding, **{name: value for name, value in READ.items() if name != missing})
    refused(ReadBinding, **READ | {missing: UNSET})


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": ToolPolicy(title="T", mode="confirm")},
        {"policy": ToolPolicy(title="T", risk_level="write")},
        {"policy": "read"},
        {"scope": "everything"},
        {"scope": False},
        {"concurrency_safe": 1},
        {"concurrency_safe": None},
    ],
)
def test_what_a_read_is_not(wrong: Json) -> None:
    refused(ReadBinding, **READ | wrong)


@pytest.mark.parametrize("missing", WRITE)
def test_each_field_of_a_write_is_needed(missing: str) -> None:
    WriteBinding(**WRITE)
    refused(WriteBinding, **{name: value for name, value in WRITE.items() if name != missing})


@pytest.mark.parametrize(
    "wrong",
    [
        {"policy": ToolPolicy(title="T")},
        {"policy": ToolPolicy(title="T", mode="confirm")},
        {"policy": ToolPolicy(title="T", mode="confirm", risk_level="write")},
        {"policy": ToolPolicy(title="T", risk_level="destructive")},
        {"scope": None},
        {"scope": "everything"},
        {"authority": IDENTITY},
        {"local_name": "a-b"},
    ],
)
def test_what_a_write_is_not(wrong: Json) -> None:
    refused(WriteBinding, **WRITE | wrong)


def test_a_write_cannot_be_declared_safe_side_by_side() -> None:
    anything: Any = WriteBinding
    with pytest.raises(TypeError):
        anything(**WRITE, concurrency_safe=True)


@pytest.mark.parametrize("name", [name for name in IDENTITY if name != "effect"])
def test_the_texts_of_an_identity(name: str) -> None:
    for good in ("x", "x" * 1024, "a b"):
        assert getattr(ApprovalBinding(**IDENTITY | {name: good}), name) == good
    for bad in ("", " ", " x", "x\n", "x" * 1025, 1, None, "\ud800"):
        refused(ApprovalBinding, **IDENTITY | {name: bad})


def test_the_effects_of_an_identity() -> None:
    for bad in ("read", "", None, ["write"]):
        refused(ApprovalBinding, **IDENTITY | {"effect": bad})
    assert ApprovalBinding(**IDENTITY).to_json() == {
        "bindingId": "b",
        "bindingRevision": "1",
        "scopeId": "s",
        "scopeRevision": "2",
        "effect": "destructive",
    }


@pytest.mark.parametrize(
    "wrong",
    [{"title": ""}, {"title": " \n"}, {"title": 1}, {"title": "\ud800"}, {"mode": "write"}, {"risk_level": "high"}],
)
def test_policies(wrong: Json) -> None:
    refused(ToolPolicy, **{"title": "T"} | wrong)


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=4) | st.from_regex(r"[A-Za-z_][A-Za-z0-9_]{0,70}", fullmatch=True))
def test_local_names(name: str) -> None:
    if re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", name):
        assert read_binding(name).local_name == name
    else:
        refused(ReadBinding, **READ | {"local_name": name})


@settings(max_examples=100, deadline=None)
@given(st.text(max_size=4) | st.from_regex(r"[A-Za-z0-9_.-]{0,140}", fullmatch=True))
def test_remote_names_and_server_ids(name: str) -> None:
    good = re.fullmatch(r"[A-Za-z0-9_.-]{1,128}", name) is not None
    for check in (check_server_id, lambda name: check_bindings({name: read_binding()}, ReadBinding, 1)):
        try:
            check(name)
            assert good
        except CatalogError as exc:
            assert (good, exc.code) == (False, "mcp_binding_invalid")


@pytest.mark.parametrize("name", ["a\n", "é", "a b", None, 1])
def test_names_end_where_they_end(name: Any) -> None:
    for check in (check_server_id, lambda name: check_bindings({name: read_binding()}, ReadBinding, 1)):
        with pytest.raises(CatalogError):
            check(name)


def test_how_many_bindings_there_may_be() -> None:
    many = {f"t{index}": read_binding(f"t{index}") for index in range(3)}
    assert check_bindings(many, ReadBinding, 3) == many
    for bindings, most in ((many, 2), ({}, 3), (None, 3), ([], 3)):
        with pytest.raises(CatalogError) as caught:
            check_bindings(bindings, ReadBinding, most)
        assert caught.value.code == "mcp_binding_invalid"


def test_reads_and_writes_do_not_mix() -> None:
    for bindings, kind in (
        ({"a": read_binding()}, WriteBinding),
        ({"a": write_binding()}, ReadBinding),
        ({"a": {"local_name": "a"}}, ReadBinding),
    ):
        anything: Any = kind
        with pytest.raises(CatalogError) as caught:
            check_bindings(bindings, anything, 9)
        assert caught.value.code == "mcp_binding_invalid"


def test_two_bindings_to_one_local_name() -> None:
    with pytest.raises(CatalogError) as caught:
        check_bindings({"a": read_binding("same"), "b": read_binding("same")}, ReadBinding, 9)
    assert caught.value.code == "mcp_name_conflict"


def test_the_bindings_are_the_catalogs_own_copy() -> None:
    given = {"a": read_binding()}
    bound = check_bindings(given, ReadBinding, 9)
    given["b"] = read_binding("other")
    assert set(bound) == {"a"}
