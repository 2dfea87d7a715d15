"""Settings of transports."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidValueError
from mcpl_core.mcp.settings import checked_settings


@pytest.mark.parametrize(
    "value",
    [
        "read-only",
        "eu-west-1",
        "2025-11-25",
        "gpt-4o",
        "production",
        "v1.2.3",
        "a b",
        "team/alpha",
        3,
        True,
        8080,
        "x_y",
    ],
)
def test_names_modes_and_numbers_are_settings(value: Any) -> None:
    given_ = {"mode": value}
    checked = checked_settings(given_)
    assert checked == given_
    assert checked is not given_


@pytest.mark.parametrize(
    "name",
    ["token", "API_KEY", "api-key", "Authorization", "password", "clientSecret", "cookie", "session_key", "jwt"],
)
def test_names_of_credentials_are_refused(name: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        checked_settings({name: "plain"})
    assert caught.value.code == "credential"


@pytest.mark.spec("R-mcp-12")
@pytest.mark.parametrize(
    "value",
    [
        "Bearer abc", "basic abc", "sk-live-abc", "ghp_16C7e42F292c6912E7", "xoxb-1-2", "AKIAIOSFODNN7EXAMPLE",
        "eyJhbGciOiJIUzI1NiJ9", "550e8400-e29b-41d4-a716-446655440000", "d41d8cd98f00b204e9800998ecf8427e",
        "abcdefghijklmnopqrstuvwxyzabc",
    ],
)  # fmt: skip
def test_values_like_credentials_are_refused_and_not_shown(value: str) -> None:
    with pytest.raises(InvalidValueError) as caught:
        checked_settings({"mode": value})
    assert caught.value.code == "credential"
    assert value not in str(caught.value)


@pytest.mark.parametrize("value", [None, 1.5, ["a"], {"a": "b"}, "x" * 65, "-----BEGIN", "a\nb", "", 2**40, b"x"])
def test_what_is_no_plain_value_is_refused(value: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        checked_settings({"mode": value})
    assert caught.value.code == "setting"
    assert caught.value.path == "$.settings.mode"


@pytest.mark.parametrize("settings", [None, "mode", [("a", "b")], 7])
def test_settings_are_a_mapping(settings: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        checked_settings(settings)
    assert caught.value.code == "settings"


@pytest.mark.parametrize("name", [7, "", "a\nb", "x" * 65, "$"])
def test_names_are_plain_words(name: Any) -> None:
    with pytest.raises(InvalidValueError) as caught:
        checked_settings({name: "a"})
    assert caught.value.code == "setting"


@given(st.binary(min_size=16, max_size=16))
def test_random_keys_do_not_get_in(key: bytes) -> None:
    text = key.hex()
    if sum(a.isdigit() != b.isdigit() for a, b in zip(text, text[1:], strict=False)) < 3:
        return  # nearly no key looks like this
    with pytest.raises(InvalidValueError):
        checked_settings({"mode": text})


@pytest.mark.parametrize(
    ("value", "fits"),
    [
        ("x" * 24, True), ("x" * 25, False),
        ("ab " * 21 + "a", True), ("ab " * 21 + "ab", False),
        (2**31 - 1, True), (2**31, False), (-(2**31), False),
        ("xyz12xyz", True), ("x1y2zzzz", False), ("x1y2zzz", True), ("xy1zzzzz", True),
        ("abc12def", False), ("abcdef12", True), ("12345678", True), ("1234567a", True), ("12a45678", False),
    ],
)  # fmt: skip
def test_where_a_name_ends_and_a_key_begins(value: Any, fits: bool) -> None:
    if fits:
        assert checked_settings({"mode": value}) == {"mode": value}
    else:
        with pytest.raises(InvalidValueError):
            checked_settings({"mode": value})


def test_a_name_has_an_end_too() -> None:
    assert checked_settings({"x" * 64: 1}) == {"x" * 64: 1}
