"""How a probed server looks."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.cli.output import Output
from mcpl_core.cli.probe_view import ProbeView

FACTS: dict[str, Any] = {
    "endpoint": "ws://x",
    "server": {"name": "s", "version": "1"},
    "protocolVersion": "2025-11-25",
    "instructions": None,
    "mode": "mcpl",
    "manifest": {
        "version": "0.5", "announcedRevision": "r", "computedRevision": "r", "matches": True, "problems": [],
    },
    "receipt": {"accepted": True},
    "capabilities": [
        {"path": "channels.incoming", "granted": True},
        {"path": "channels.publish", "granted": False},
        {"path": "contextHooks.beforeInference.inject.afterUser", "granted": False},
        {"path": "contextHooks.beforeInference.observe", "granted": True},
        {"path": "tools", "granted": True},
    ],
    "featureSets": [
        {"name": "a", "enabled": True, "reason": None, "missing": [], "description": "does a"},
        {"name": "b", "enabled": False, "reason": "not_selected", "missing": [], "description": None},
        {"name": "c", "enabled": False, "reason": "capability_denied", "missing": ["x", "y"], "description": "d"},
    ],
}  # fmt: skip


def shown(capsys: pytest.CaptureFixture[str], what: str, *arguments: Any, **options: Any) -> str:
    getattr(ProbeView(Output()), what)(*arguments, **options)
    return capsys.readouterr().out


def test_capabilities_are_a_tree_with_marks(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "server", FACTS)
    tree = text[text.index("capabilities\n") : text.index("feature sets")].splitlines()
    assert tree == [
        "capabilities",
        "    channels",
        "  \u2713   incoming  (granted)",
        "  \u2717   publish  (denied)",
        "    contextHooks",
        "      beforeInference",
        "        inject",
        "  \u2717       afterUser  (denied)",
        "  \u2713     observe  (granted)",
        "  \u2713 tools  (granted)",
        "",
    ]
    assert shown(capsys, "server", FACTS | {"capabilities": []}).count("  none") == 1


def test_feature_sets_say_why_they_are_off(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, "server", FACTS)
    assert text.splitlines()[-6:] == [
        "feature sets (3)",
        "  \u2713 a",
        "    does a",
        "  \u2717 b  not_selected",
        "  \u2717 c  capability_denied: x, y",
        "    d",
    ]


@pytest.mark.parametrize(
    ("change", "part"),
    [
        ({"matches": None, "announcedRevision": None}, "computed; none is announced"),
        ({"matches": False, "announcedRevision": "q"}, '\u2717 announced is "q"'),
        ({"problems": [{"code": "odd", "path": "$.x", "detail": "hm"}]}, "odd at $.x: hm"),
    ],
)
def test_manifests(change: dict[str, Any], part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert part in shown(capsys, "server", FACTS | {"manifest": FACTS["manifest"] | change})


@pytest.mark.parametrize(
    ("receipt", "part"),
    [
        (None, "receipt       none"),
        ({"malformed": "odd"}, "malformed: odd"),
        ({"accepted": True, "mode": "degraded", "notes": ["hm"]}, "accepted, degraded"),
        ({"accepted": False, "fallback": "mcp-only"}, "refused, mcp-only"),
        ({"accepted": False, "fallback": "mcp-only", "reason": "why"}, "refused, mcp-only: why"),
    ],
)
def test_receipts(receipt: Any, part: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert part in shown(capsys, "server", FACTS | {"receipt": receipt})


def test_a_plain_server_has_less_to_show(capsys: pytest.CaptureFixture[str]) -> None:
    plain = FACTS | {"manifest": None, "mode": "mcp-only", "instructions": "x\ny" * 100}
    text = shown(capsys, "server", plain)
    assert "capabilities" not in text and "plain MCP" in text
    assert "instructions  x yx" in text and "\u2026" in text


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    tools = [{"name": "long", "description": "a\nb"}, {"name": "x"}]
    assert shown(capsys, "tools", tools) == "\ntools (2)\n  long  a b\n  x\n"
    assert shown(capsys, "tools", []) == "\ntools (0)\n"
    channel = {"id": "c", "type": "chat", "label": "C", "direction": "inbound"}
    assert shown(capsys, "channels", [channel]) == "\nchannels (1)\n  c  C  (chat, inbound)\n"
    assert shown(capsys, "skipped", "tools", "no") == "\ntools\n  \u2717 no\n"


def test_calls(capsys: pytest.CaptureFixture[str]) -> None:
    blocks = [{"type": "text"}, {"type": "image"}]
    facts = {"tool": "t", "isError": False, "text": "a\nb", "content": blocks, "structuredContent": {"a": 1}}
    text = shown(capsys, "call", facts)
    assert text.startswith("\nt answered\n  a\n  b\n  and blocks of other types: image\n")
    assert '"a": 1' in text
    failed = {"tool": "t", "isError": True, "text": "", "content": []}
    assert shown(capsys, "call", failed) == "\nt failed\n"


def test_events(capsys: pytest.CaptureFixture[str]) -> None:
    push = {"event": "push/event", "featureSet": "f", "text": "hi\x1b[2J", "tags": ["a:b", "c:d"]}
    assert shown(capsys, "event", push) == "push  f  hi\\u001b[2J  [a:b c:d]\n"
    chat = {"event": "channels/incoming", "channel": {"label": "C"}, "text": "hi", "tags": [], "author": {"id": "u"}}
    assert shown(capsys, "event", chat) == "chat  C  u:  hi\n"
    assert shown(capsys, "event", {"event": "WakeSignal", "text": "", "tags": []}) == "host  WakeSignal  \n"
    assert shown(capsys, "remark", "denied", good=False) == "      denied\n"
