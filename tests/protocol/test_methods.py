from __future__ import annotations

from types import UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import UNSET, UnsetType

from mcpl_core.capabilities import CAPABILITY_PATHS, EXTENSION_PATHS
from mcpl_core.errors import InvalidValueError
from mcpl_core.protocol import method
from mcpl_core.protocol.inference import InferenceRequestParams
from mcpl_core.protocol.manifest import ManifestChangedParams
from mcpl_core.protocol.methods import METHODS, Method, MethodTable
from mcpl_core.protocol.policy import FeatureSetsUpdateNotice, FeatureSetsUpdateParams
from mcpl_core.wire.values import decode_value, encode_value

#: SPEC 4.1, and 14.1 and 17 for the five that its table leaves out.
SPEC_TABLE = {
    "push/event": ("request", "server->host"),
    "context/beforeInference": ("request", "host->server"),
    "inference/lifecycle": ("notification", "host->server"),
    "inference/request": ("request", "server->host"),
    "inference/chunk": ("notification", "host->server"),
    "model/info": ("request", "server->host"),
    "featureSets/update": ("either", "host->server"),
    "state/rollback": ("request", "host->server"),
    "channels/register": ("request", "server->host"),
    "channels/changed": ("either", "server->host"),
    "channels/list": ("request", "either"),
    "channels/open": ("request", "host->server"),
    "channels/close": ("request", "host->server"),
    "channels/outgoing/chunk": ("notification", "host->server"),
    "channels/outgoing/complete": ("notification", "host->server"),
    "channels/publish": ("either", "host->server"),
    "channels/incoming": ("request", "server->host"),
    "channels/acknowledge": ("request", "host->server"),
    "channels/typing": ("either", "host->server"),
    "mcpl/manifestChanged": ("notification", "server->host"),
    "mcpl/manifest": ("request", "host->server"),
}
MCP_TABLE = {
    "initialize": ("request", "host->server"),
    "notifications/initialized": ("notification", "host->server"),
    "ping": ("request", "either"),
    "notifications/cancelled": ("notification", "either"),
    "notifications/progress": ("notification", "either"),
    "tools/list": ("request", "host->server"),
    "tools/call": ("request", "host->server"),
    "notifications/tools/list_changed": ("notification", "server->host"),
}
EXTENSION_TABLE = {
    "state/update": ("request", "server->host"),
    "state/get": ("request", "server->host"),
    "branches/list": ("request", "server->host"),
    "branches/current": ("request", "server->host"),
    "branches/create": ("request", "server->host"),
    "branches/switch": ("request", "server->host"),
    "branches/delete": ("request", "server->host"),
    "branches/changed": ("notification", "host->server"),
    "toolsets/list": ("request", "host->server"),
    "toolsets/open": ("request", "host->server"),
    "toolsets/close": ("request", "host->server"),
    "toolsets/changed": ("notification", "server->host"),
    "access/token": ("request", "server->host"),
}
#: SPEC 14.1, and what the sections of the other methods say.
CAPABILITIES = {
    "channels/register": {"channels.register"},
    "channels/changed": {"channels.register"},
    "channels/list": {"channels.register"},
    "channels/open": {"channels.lifecycle"},
    "channels/close": {"channels.lifecycle"},
    "channels/publish": {"channels.publish"},
    "channels/incoming": {"channels.incoming"},
    "channels/outgoing/chunk": {"channels.streaming"},
    "channels/outgoing/complete": {"channels.streaming"},
    "channels/acknowledge": {"channels.acknowledge"},
    "channels/typing": {"channels.typing"},
    "push/event": {"pushEvents"},
    "context/beforeInference": {
        "contextHooks.beforeInference.observe",
        "contextHooks.beforeInference.inject.system",
        "contextHooks.beforeInference.inject.beforeUser",
        "contextHooks.beforeInference.inject.afterUser",
    },
    "inference/lifecycle": {"inferenceLifecycle"},
    "inference/request": {"inferenceRequest"},
    "inference/chunk": {"inferenceRequest.streaming"},
    "model/info": {"modelInfo"},
    "tools/call": {"tools"},
    "toolsets/list": {"tools"},
    "toolsets/open": {"tools"},
    "toolsets/close": {"tools"},
    "toolsets/changed": {"tools"},
    "state/update": {"stateUpdate"},
    "state/get": {"stateUpdate"},
    "branches/list": {"branches.list"},
    "branches/current": {"branches.list"},
    "branches/changed": {"branches.list"},
    "branches/create": {"branches.create"},
    "branches/switch": {"branches.switch"},
    "branches/delete": {"branches.delete"},
    "access/token": {"access.token"},
}
ROWS = list(METHODS.values())

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(), inner, max_size=2),
    max_leaves=4,
)
SCALARS: dict[Any, st.SearchStrategy[Any]] = {
    Any: JSON,
    str: st.text(max_size=8),
    int: st.integers(),
    bool: st.booleans(),
    type(None): st.none(),
    UnsetType: st.just(UNSET),
}


def values(kind: Any) -> st.SearchStrategy[Any]:
    """Random values of a params or result type, as a program would build them."""
    if kind in SCALARS:
        return SCALARS[kind]
    origin, args = get_origin(kind), get_args(kind)
    if origin is Annotated:
        if any(meta.pattern for meta in args[1:]):
            return st.from_regex("[A-Za-z0-9_-]{43}", fullmatch=True).map("sha256:{}".format)
        return st.lists(values(get_args(args[0])[0]), min_size=1, max_size=2)
    if origin is Literal:
        return st.sampled_from(args)
    if origin in (Union, UnionType):
        # `int | float` stands for an integer that JavaScript may write as 1.0.
        return st.one_of([values(arm) for arm in args if not (arm is float and int in args)])
    if origin is list:
        return st.lists(values(args[0]), max_size=2)
    if origin is dict:
        return st.dictionaries(st.text(max_size=4), values(args[1]), max_size=2)
    return structs(kind)


@st.composite
def structs(draw: st.DrawFn, kind: Any) -> Any:
    hints = get_type_hints(kind, include_extras=True)
    members = {name: draw(values(hints[name])) for name in kind.__struct_fields__}
    try:
        return kind(**members)
    except InvalidValueError:
        # Two types refuse a combination of members: take one that they allow.
        return kind(**{**members, **ALLOWED[kind.__name__]})


ALLOWED: dict[str, dict[str, Any]] = {
    "FeatureSetsUpdateResult": {"fallback": "close"},
    "ChannelsOpenParams": {"type": "demo"},
}
CARRIED = [
    pytest.param(kind, id=f"{row.name} {part}")
    for row in ROWS
    for part, kind in [("params", row.params), ("note", row.notification_params), ("result", row.result)]
    if kind is not None
]


@pytest.mark.parametrize("kind", CARRIED)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_values_survive_a_round_trip(kind: Any, data: st.DataObject) -> None:
    value = data.draw(values(kind))
    text = encode_value(value)
    read = decode_value(text, kind)
    assert read == value
    assert encode_value(read) == text


@pytest.mark.parametrize("kind", CARRIED)
@settings(max_examples=5, deadline=None)
@given(data=st.data())
def test_unknown_members_are_ignored_except_in_the_announcement(kind: Any, data: st.DataObject) -> None:
    value = data.draw(values(kind))
    text = encode_value({**msgspec.to_builtins(value), "unknown member": data.draw(JSON)})
    if kind is ManifestChangedParams:
        with pytest.raises(InvalidValueError):
            decode_value(text, kind)
    elif isinstance(value, dict):
        assert "unknown member" in decode_value(text, kind)
    else:
        assert decode_value(text, kind) == value


@pytest.mark.parametrize("kind", CARRIED)
@pytest.mark.parametrize("text", [b"null", b"[]", b"5", b'"x"', b"true"])
def test_params_and_results_are_objects(kind: Any, text: bytes) -> None:
    with pytest.raises(InvalidValueError) as caught:
        decode_value(text, kind)
    assert caught.value.path == "$"


@pytest.mark.spec("R-chan-1", "R-chan-2", "R-chan-4", "R-ext-1", "6.7-1")
def test_the_table_is_the_specs() -> None:
    expected = SPEC_TABLE | MCP_TABLE | EXTENSION_TABLE
    assert {row.name: (row.form, row.direction) for row in ROWS} == expected


@pytest.mark.spec("R-ext-1")
def test_extensions_are_marked() -> None:
    marked = {row.name: row.extension for row in ROWS if row.extension is not None}
    assert marked.keys() == EXTENSION_TABLE.keys()
    assert {name: name.partition("/")[0] for name in marked} == marked


def test_every_constant_has_its_row() -> None:
    assert {row.constant for row in ROWS} == set(method.__all__)
    assert {row.constant: row.name for row in ROWS} == {name: getattr(method, name) for name in method.__all__}


@pytest.mark.spec("6.2-1", "R-chan-1")
def test_capabilities() -> None:
    assert {row.name: set(row.capabilities) for row in ROWS if row.capabilities} == CAPABILITIES
    inside = {path for row in ROWS if row.extension is None for path in row.capabilities}
    assert inside == set(CAPABILITY_PATHS)
    for row in ROWS:
        assert row.capabilities <= {*CAPABILITY_PATHS, *EXTENSION_PATHS}
        assert {path for _, path in row.also} <= {*CAPABILITY_PATHS, *EXTENSION_PATHS}


def test_streaming_needs_more() -> None:
    row = METHODS[method.INFERENCE_REQUEST]
    plain = InferenceRequestParams(feature_set="a", messages=[])
    assert row.further_capabilities(plain) == ()
    assert row.further_capabilities(msgspec.structs.replace(plain, stream=True)) == ("inferenceRequest.streaming",)
    assert METHODS[method.PING].further_capabilities(plain) == ()
    assert row.further_capabilities(object()) == ()


def test_order_sensitive_methods() -> None:
    assert {row.name for row in ROWS if row.order_sensitive} == {
        "initialize",
        "notifications/initialized",
        "notifications/tools/list_changed",
        "featureSets/update",
        "inference/lifecycle",
        "inference/chunk",
        "channels/register",
        "channels/changed",
        "channels/open",
        "channels/close",
        "channels/outgoing/chunk",
        "channels/outgoing/complete",
        "mcpl/manifestChanged",
        "state/rollback",
        "state/update",
        "branches/create",
        "branches/switch",
        "branches/delete",
        "branches/changed",
        "toolsets/open",
        "toolsets/close",
        "toolsets/changed",
    }


def test_what_is_never_answered_has_no_result() -> None:
    assert all((row.result is None) == (row.form == "notification") for row in ROWS)


def test_direction_and_form() -> None:
    push, listing, ping = METHODS[method.PUSH_EVENT], METHODS[method.TOOLS_LIST], METHODS[method.PING]
    assert [row.sent_by("server") for row in (push, listing, ping)] == [True, False, True]
    assert [row.sent_by("host") for row in (push, listing, ping)] == [False, True, True]
    publish, chunk = METHODS[method.CHANNELS_PUBLISH], METHODS[method.INFERENCE_CHUNK]
    assert [row.has_form("request") for row in (push, publish, chunk)] == [True, True, False]
    assert [row.has_form("notification") for row in (push, publish, chunk)] == [False, True, True]


@pytest.mark.spec("6.7-1")
def test_the_two_forms_of_a_policy() -> None:
    row = METHODS[method.FEATURE_SETS_UPDATE]
    assert row.params_of("request") is FeatureSetsUpdateParams
    assert row.params_of("notification") is FeatureSetsUpdateNotice
    changed = METHODS[method.CHANNELS_CHANGED]
    assert changed.params_of("notification") is changed.params_of("request")


@pytest.mark.parametrize("name", ["constructor", "__class__", "get", "", "push/event ", "PUSH_EVENT", "\ud800"])
def test_names_that_peers_make_up(name: str) -> None:
    assert name not in METHODS
    assert METHODS.get(name) is None


def _row(name: str, extension: str | None = None) -> Method:
    return Method(name=name, direction="either", form="request", params=dict[str, Any], extension=extension)


def test_extending_makes_another_table() -> None:
    mine = METHODS.extend(_row("demo/one"), _row("demo/two"))
    assert list(mine) == [*METHODS, "demo/one", "demo/two"]
    assert mine["demo/one"].constant == "DEMO_ONE"
    assert "demo/one" not in METHODS
    assert len(mine) == len(METHODS) + 2
    with pytest.raises(TypeError):
        mine["demo/three"] = _row("demo/three")  # type: ignore[index]


def test_a_name_is_given_once() -> None:
    with pytest.raises(InvalidValueError) as caught:
        METHODS.extend(_row(method.PING))
    assert caught.value.code == "duplicate_method"
    row = _row("demo/one")
    assert list(MethodTable((row, row))) == ["demo/one"]


def test_leaving_out_an_extension() -> None:
    small = METHODS.without("branches", "state")
    assert [name for name in METHODS if name not in small] == [
        name for name in METHODS if name in EXTENSION_TABLE and name.startswith(("state/", "branches/"))
    ]
    assert method.STATE_ROLLBACK in small


def test_repr_is_short() -> None:
    assert repr(METHODS) == f"MethodTable({len(METHODS)} methods)"
