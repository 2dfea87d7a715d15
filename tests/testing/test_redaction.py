"""What is taken out, what stays, and that it takes no longer than the text is long."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidValueError
from mcpl_core.testing.redaction import DEFAULT_REDACTION, NO_REDACTION, REDACTED, Redaction
from tests.effort import effort


@pytest.mark.parametrize(
    "name",
    ["password", "apiKey", "API_KEY", "x-api-key", "Authorization", "accessToken", "refresh_token", "clientSecret",
     "token", "githubToken", "Set-Cookie", "private_key", "dbPassword", "credentials"],
)  # fmt: skip
def test_members_with_these_names_are_secret(name: str) -> None:
    for secret in ("hunter2", 1234, ["a", "b"], {"value": "hunter2"}):
        value, paths = DEFAULT_REDACTION.value({"params": {name: secret}, "other": 1})
        assert value == {"params": {name: REDACTED}, "other": 1}
        assert len(paths) == 1


@pytest.mark.parametrize(
    "value",
    [
        {"_meta": {"progressToken": "abc"}},
        {"nextPageToken": "abc", "cursor": "x"},
        {"usage": {"inputTokens": 3}},
        {"password": None, "token": "", "secret": [], "credentials": {}, "apiKey": False},
        {"inputSchema": {"properties": {"password": {"type": "string"}}, "required": ["password"]}},
        {"text": "a basic understanding of bearer bonds, see https://example.org/a?b=c"},
        {"revision": "sha256:" + "a" * 64},
    ],
)
def test_what_is_no_secret_stays(value: dict[str, Any]) -> None:
    assert DEFAULT_REDACTION.value(value) == (value, ())


def test_a_value_among_schemas_is_no_schema() -> None:
    value, paths = DEFAULT_REDACTION.value({"arguments": {"properties": {"password": "hunter2"}}})
    assert value == {"arguments": {"properties": {"password": REDACTED}}}
    assert paths == ("$.arguments.properties.password",)


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Authorization: Bearer abcDEF123.456", "Authorization: Bearer [redacted]"),
        ("basic dXNlcjpwYXNz", "basic [redacted]"),
        ("see https://user:pw@example.org/x", "see https://[redacted]@example.org/x"),
        ("wss://host/path?a=1&token=abc&b=2", "wss://host/path?a=1&token=[redacted]&b=2"),
        ("key sk-abcdefghijklmnop1234 end", "key [redacted] end"),
        ("ghp_" + "a1" * 12, "[redacted]"),
        ("AKIAABCDEFGHIJKLMNOP", "[redacted]"),
        ("jwt eyJhbGciOi.eyJzdWIiOjEy.sig-nature", "jwt [redacted]"),
        ("-----BEGIN RSA PRIVATE KEY-----\nMIIE+/=\n-----END RSA PRIVATE KEY-----",
         "-----BEGIN RSA PRIVATE KEY-----[redacted]-----END RSA PRIVATE KEY-----"),
        ("DB_PASSWORD=hunter22 next", "DB_PASSWORD=[redacted] next"),
        ('{"password": "hunter22", "a": 1}', '{"password": "[redacted]", "a": 1}'),
        ('{\\"api_key\\": \\"hunter22\\"}', '{\\"api_key\\": \\"[redacted]\\"}'),
    ],
)  # fmt: skip
def test_shapes_inside_strings(text: str, left: str) -> None:
    assert DEFAULT_REDACTION.text(text) == left
    value, paths = DEFAULT_REDACTION.value({"content": [{"text": text}]})
    assert value == {"content": [{"text": left}]}
    assert paths == ("$.content[0].text",)


def test_rules_of_ones_own_come_on_top() -> None:
    rules = DEFAULT_REDACTION.adding(names=["Room-Number"], patterns=[r"agent \d+", re.compile("(?P<secret>x+)y")])
    value, paths = rules.value({"roomNumber": 7, "password": "p", "text": "agent 007 says xxy and y"})
    assert value == {
        "roomNumber": REDACTED,
        "password": REDACTED,
        "text": "[redacted] says [redacted]y and y",
    }
    assert set(paths) == {"$.roomNumber", "$.password", "$.text"}


def test_a_pattern_that_is_none() -> None:
    with pytest.raises(InvalidValueError) as caught:
        NO_REDACTION.adding(patterns=["("])
    assert caught.value.code == "pattern"


def test_an_optional_group_that_found_nothing_takes_nothing_out() -> None:
    assert Redaction().adding(patterns=["a(?P<secret>b)?"]).text("a ab") == "a a[redacted]"


def test_no_rules_take_nothing_out() -> None:
    value = {"password": "hunter2", "text": "Bearer abcDEF123"}
    assert NO_REDACTION.value(value) == (value, ())


def test_what_was_taken_out_before_is_not_told_again() -> None:
    assert DEFAULT_REDACTION.value({"password": REDACTED}) == ({"password": REDACTED}, ())


def test_deep_values_are_no_trouble() -> None:
    deep: Any = {"password": "x"}
    for _ in range(5000):
        deep = [deep]
    value, paths = DEFAULT_REDACTION.value(deep)
    assert len(paths) == 1
    while isinstance(value, list):
        (value,) = value
    assert value == {"password": REDACTED}


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_a_second_time_finds_nothing(value: Any) -> None:
    once, _ = DEFAULT_REDACTION.value(value)
    assert DEFAULT_REDACTION.value(once) == (once, ())


@pytest.mark.parametrize(
    "piece",
    ["eyJ", "eyJ-", "sk-", "a" * 50, "Bearer ", "bearer x", "://", "://a:", "?token", "-----BEGIN PRIVATE KEY-----",
     "-----BEGIN ", "password", "password:", "key=", "A", "\\", "token=\\\""],
)  # fmt: skip
def test_hostile_text_takes_linear_time(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    assert effort(lambda: DEFAULT_REDACTION.text(text)) < 2000
