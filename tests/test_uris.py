"""``mcpl://`` URIs: the three values, and each reason to refuse one. The files of vectors have more cases."""

from __future__ import annotations

import dataclasses
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpl_core.errors import InvalidValueError
from mcpl_core.uris import McplUri, UriErrorCode


def refused(text: str) -> str:
    with pytest.raises(InvalidValueError) as caught:
        McplUri.parse(text)
    assert caught.value.code in get_args(UriErrorCode)
    return caught.value.code


@pytest.mark.spec("RFC4-5-1", "RFC4-5-2", "RFC4-3-1", "RFC4-2.2-2")
def test_the_three_values_are_kept_apart() -> None:
    text = "MCPL://EIDOVERSE.Animalabs.AI:443?world=abc"
    uri = McplUri.parse(text)
    assert uri.configured == text
    assert uri.canonical == "mcpl://eidoverse.animalabs.ai/?world=abc"
    assert uri.resolved == "wss://eidoverse.animalabs.ai/?world=abc"
    with pytest.raises(dataclasses.FrozenInstanceError):
        uri.canonical = text  # type: ignore[misc]


def test_two_spellings_of_one_endpoint_are_equal() -> None:
    one, other = McplUri.parse("mcpl://h"), McplUri.parse("MCPL://H:443/")
    assert one == other and hash(one) == hash(other) and one.configured != other.configured
    assert one != McplUri.parse("mcpl://h/x")


@pytest.mark.spec("RFC4-2-1", "RFC4-2-3", "RFC4-2-4")
@pytest.mark.parametrize("host", ["example.com", "localhost", "127.0.0.1", "[::1]"])
def test_every_host_is_reached_securely(host: str) -> None:
    uri = McplUri.parse(f"mcpl://{host}/x")
    assert uri.resolved == f"wss://{host}/x"
    assert McplUri.parse(f"mcpl://{host}:80/x").resolved == f"wss://{host}:80/x"


@pytest.mark.parametrize(
    ("text", "origin"),
    [
        ("mcpl://H", "wss://h"),
        ("mcpl://h:8443/a/b?c=/d", "wss://h:8443"),
        ("mcpl://[2001:DB8::1]:1/x", "wss://[2001:db8::1]:1"),
        ("mcpl://h?x", "wss://h"),
    ],
)
def test_the_origin_is_scheme_host_and_port(text: str, origin: str) -> None:
    assert McplUri.parse(text).origin == origin


def test_a_query_is_not_printed() -> None:
    uri = McplUri.parse("mcpl://h:8443/room?token=secret")
    assert str(uri) == "mcpl://h:8443"
    assert "secret" not in f"{uri} {uri!r}"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "h",
        "//h",
        "wss://h/",
        "mcp://h/",
        pytest.param("mcpls://h/", marks=pytest.mark.spec("RFC4-2-2")),
        "mcpl:h",
        "mcpl:/h",
        "mcpl:\\\\h",
        " mcpl://h",
        "\ufeffmcpl://h",
    ],
)
def test_a_text_without_the_scheme_is_refused(text: str) -> None:
    assert refused(text) == "scheme"


@pytest.mark.parametrize("value", [None, 5, b"mcpl://h", ["mcpl://h"]])
def test_what_is_no_text_is_refused(value: Any) -> None:
    assert refused(value) == "scheme"


@pytest.mark.spec("RFC4-2.1-5")
@pytest.mark.parametrize("character", [*map(chr, range(0x21)), "\x7f", "\\", "\ud800", "\udfff"])
@pytest.mark.parametrize("frame", ["mcpl://{}h/", "mcpl://h{}", "mcpl://h/a{}b", "mcpl://h/?q={}", "mcpl://h/.{}./#"])
def test_a_character_that_a_parser_repairs_is_refused(character: str, frame: str) -> None:
    assert refused(frame.format(character)) == "character"


@pytest.mark.spec("RFC4-2.1-1")
@pytest.mark.parametrize("text", ["mcpl://h/x#frag", "mcpl://h#", "mcpl://h/?q#", "mcpl://#"])
def test_a_fragment_is_refused_even_when_empty(text: str) -> None:
    assert refused(text) == "fragment"


@pytest.mark.spec("RFC4-2.1-3")
@pytest.mark.parametrize("text", ["mcpl://", "mcpl:///x", "mcpl:////x", "mcpl://?h", "mcpl://:443/x", "mcpl://:"])
def test_an_authority_without_a_host_is_refused(text: str) -> None:
    assert refused(text) == "empty_authority"


@pytest.mark.spec("RFC4-2.1-2")
@pytest.mark.parametrize("text", ["mcpl://u:p@h/x", "mcpl://u@h", "mcpl://@h", "mcpl://a@b@h", "mcpl://@"])
def test_userinfo_is_refused(text: str) -> None:
    assert refused(text) == "userinfo"


def test_an_at_sign_after_the_authority_is_ordinary() -> None:
    assert McplUri.parse("mcpl://h/@a?b@c").canonical == "mcpl://h/@a?b@c"


@pytest.mark.spec("RFC4-2.1-4", "RFC4-3.2-1")
@pytest.mark.parametrize("segment", [".", "..", "%2e", "%2E", ".%2e", "%2E.", "%2e%2E"])
@pytest.mark.parametrize("frame", ["mcpl://h/{}", "mcpl://h/{}/b", "mcpl://h/a/{}?q", "mcpl://h//{}/"])
def test_a_dot_segment_is_refused(segment: str, frame: str) -> None:
    assert refused(frame.format(segment)) == "dot_segment"


@pytest.mark.spec("RFC4-3.2-2", "RFC4-3-2")
@pytest.mark.parametrize(
    "rest", ["/a%2fb", "/...", "/.a", "/a.", "/%2e%2e%2e", "/x?../..", "/?a=1&a=2&b", "/%7E", "/?"]
)
def test_what_only_looks_like_one_is_kept_as_written(rest: str) -> None:
    uri = McplUri.parse(f"mcpl://h{rest}")
    assert (uri.canonical, uri.resolved) == (f"mcpl://h{rest}", f"wss://h{rest}")


@pytest.mark.parametrize("port", ["65536", "99999", "80a", "-1", "+1", "%34", "\u0663", "1.0", "9" * 5000])
@pytest.mark.parametrize("host", ["h", "[::1]"])
def test_a_port_out_of_range_is_refused(host: str, port: str) -> None:
    assert refused(f"mcpl://{host}:{port}/x") == "port"


@pytest.mark.parametrize(
    ("port", "shown"), [("", ""), ("443", ""), ("0443", ""), ("0", ":0"), ("65535", ":65535"), ("0" * 5000 + "7", ":7")]
)
def test_a_port_is_written_in_its_shortest_form(port: str, shown: str) -> None:
    assert McplUri.parse(f"mcpl://h:{port}/x").canonical == f"mcpl://h{shown}/x"


@pytest.mark.parametrize(
    "host",
    ["[::1", "[::1]x", "[::g]", "[]", "::1", "h:1", "a%2fb", "%00", "a^b", "1.2.3.256", "\u00ad", "\u3000", "<h>"],
)
def test_a_host_that_no_url_can_have_is_refused(host: str) -> None:
    assert refused(f"mcpl://{host}:1/x") == "host"


@pytest.mark.spec("RFC4-3.1-1")
@pytest.mark.parametrize(
    ("host", "canonical"),
    [
        ("\u00fcnicode.example", "xn--nicode-2ya.example"),
        ("fa\u00df.example", "xn--fa-hia.example"),
        ("\uff25\uff38.example", "ex.example"),
        ("a\u3002b", "a.b"),
        ("ex%41mple", "example"),
        ("0x7f.1", "127.0.0.1"),
        ("[0:0::1]", "[::1]"),
    ],
)
def test_hosts_take_the_form_of_a_special_scheme(host: str, canonical: str) -> None:
    assert McplUri.parse(f"mcpl://{host}").canonical == f"mcpl://{canonical}/"


_TEXT = st.text(st.characters(exclude_characters="#", exclude_categories=["Cs"]), max_size=12)
_HOSTS = st.sampled_from(["h", "H.example", "\u00fc.example", "[2001:DB8::1]", "127.1", "localhost"]) | _TEXT
_PORTS = st.sampled_from(["", ":", ":443", ":8443"])
_RESTS = st.lists(st.sampled_from(["/", "?", ".", "%2e", "%7E", "a", "=", "&", "'", "\u00fc", "|"]) | _TEXT).map(
    "".join
)


@given(_HOSTS, _PORTS, _RESTS)
@example("h", "", "/a/../b")
def test_the_canonical_form_of_a_canonical_form_is_itself(host: str, port: str, rest: str) -> None:
    try:
        uri = McplUri.parse(f"mcpl://{host}{port}{rest}")
    except InvalidValueError as exc:
        assert exc.code in get_args(UriErrorCode)
        return
    again = McplUri.parse(uri.canonical)
    assert (again.canonical, again.resolved) == (uri.canonical, uri.resolved)
    assert uri.resolved == "wss" + uri.canonical.removeprefix("mcpl")
    assert uri.canonical.isascii() and uri.resolved.startswith(uri.origin + "/")


@given(st.text())
def test_a_text_is_read_or_refused_with_a_code(text: str) -> None:
    for candidate in (text, "mcpl://" + text):
        try:
            assert McplUri.parse(candidate).configured == candidate
        except InvalidValueError as exc:
            assert exc.code in get_args(UriErrorCode)
