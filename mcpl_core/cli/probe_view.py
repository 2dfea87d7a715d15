"""How a probed server looks to a person.

Owns: the lines and their colours. Does not own: the facts (``probe_facts``).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .output import Output

__all__ = ("ProbeView",)

_YES, _NO = "\u2713", "\u2717"


class ProbeView:
    """Prints facts.

    Args:
        output: where to.
    """

    def __init__(self, output: Output) -> None:
        self._output = output

    def server(self, facts: dict[str, Any]) -> None:
        """Identity, mode, manifest, capabilities and feature sets."""
        info = facts["server"]
        self._output.line(f"{info['name']} {info['version']}", "bold")
        self._member("endpoint", facts["endpoint"])
        self._member("protocol", f"MCP {facts['protocolVersion']}")
        self._member("mode", _MODES.get(facts["mode"], facts["mode"]))
        if facts["instructions"]:
            self._member("instructions", _short(facts["instructions"]))
        if facts["manifest"] is not None:
            self._manifest(facts["manifest"])
            self._receipt(facts["receipt"])
            self._capabilities(facts["capabilities"])
            self._feature_sets(facts["featureSets"])

    def tools(self, tools: list[dict[str, Any]]) -> None:
        """The tools of the server."""
        self._title(f"tools ({len(tools)})")
        width = max((len(tool["name"]) for tool in tools), default=0)
        for tool in tools:
            self._output.line(f"  {tool['name']:<{width}}  {_short(tool.get('description') or '')}".rstrip())

    def channels(self, channels: list[dict[str, Any]]) -> None:
        """The channels of the server."""
        self._title(f"channels ({len(channels)})")
        for channel in channels:
            self._output.line(f"  {channel['id']}  {channel['label']}  ({channel['type']}, {channel['direction']})")

    def skipped(self, what: str, why: str) -> None:
        """Something could not be asked for."""
        self._title(what)
        self._output.line(f"  {_NO} {why}", "yellow")

    def call(self, facts: dict[str, Any]) -> None:
        """What a tool answered."""
        self._title(f"{facts['tool']} {'failed' if facts['isError'] else 'answered'}")
        style = "red" if facts["isError"] else ""
        for line in facts["text"].splitlines():
            self._output.line(f"  {line}", style)
        others = [block.get("type") for block in facts["content"] if block.get("type") != "text"]
        if others:
            self._output.line(f"  and blocks of other types: {', '.join(map(str, others))}", "dim")
        if "structuredContent" in facts:
            for line in json.dumps(facts["structuredContent"], indent=2, ensure_ascii=False).splitlines():
                self._output.line(f"  {line}", "dim")

    def event(self, facts: dict[str, Any]) -> None:
        """One event, as it comes."""
        if facts["event"] == "push/event":
            head, style = f"push  {facts['featureSet']}", "cyan"
        elif facts["event"] == "channels/incoming":
            author = facts["author"].get("name") or facts["author"].get("id") or "?"
            head, style = f"chat  {facts['channel']['label']}  {author}:", "green"
        else:
            head, style = f"host  {facts['event']}", "magenta"
        tags = f"  [{' '.join(facts['tags'])}]" if facts["tags"] else ""
        self._output.line(f"{head}  {_short(facts['text'], 500)}{tags}", style)

    def remark(self, text: str, *, good: bool) -> None:
        """Something that happened beside the events."""
        self._output.line(f"      {text}", "dim" if good else "yellow")

    # -- parts

    def _title(self, text: str) -> None:
        self._output.line("")
        self._output.line(text, "bold")

    def _member(self, name: str, text: str, style: str = "") -> None:
        self._output.line(f"  {name:<12}  {text}", style)

    def _manifest(self, manifest: dict[str, Any]) -> None:
        self._member("manifest", f"MCPL {manifest['version']}")
        announced, computed = manifest["announcedRevision"], manifest["computedRevision"]
        if announced is None:
            self._member("revision", f"{computed} (computed; none is announced)")
        elif manifest["matches"]:
            self._member("revision", f"{computed} {_YES} as announced", "green")
        else:
            self._member("revision", f"{computed} {_NO} announced is {json.dumps(announced)}", "red")
        for problem in manifest["problems"]:
            self._member("problem", f"{problem['code']} at {problem['path']}: {problem['detail']}", "yellow")

    def _receipt(self, receipt: dict[str, Any] | None) -> None:
        if receipt is None:
            self._member("receipt", "none", "yellow")
        elif "malformed" in receipt:
            self._member("receipt", f"malformed: {receipt['malformed']}", "red")
        elif receipt["accepted"]:
            self._member("receipt", "accepted" + (f", {receipt['mode']}" if "mode" in receipt else ""), "green")
        else:
            reason = f": {receipt['reason']}" if "reason" in receipt else ""
            self._member("receipt", f"refused, {receipt['fallback']}{reason}", "red")
        for note in (receipt or {}).get("notes", ()):
            self._member("note", _short(note), "dim")

    def _capabilities(self, capabilities: list[dict[str, Any]]) -> None:
        self._title("capabilities")
        shown: tuple[str, ...] = ()
        for row in capabilities:
            segments = tuple(row["path"].split("."))
            for line in _branches(shown, segments):
                self._output.line(f"    {line}", "dim")
            shown = segments
            mark, style = (_YES, "green") if row["granted"] else (_NO, "red")
            word = "granted" if row["granted"] else "denied"
            self._output.line(f"  {mark} {'  ' * (len(segments) - 1)}{segments[-1]}  ({word})", style)
        if not capabilities:
            self._output.line("  none")

    def _feature_sets(self, feature_sets: list[dict[str, Any]]) -> None:
        self._title(f"feature sets ({len(feature_sets)})")
        for row in feature_sets:
            mark, style = (_YES, "green") if row["enabled"] else (_NO, "red")
            why = "" if row["enabled"] else f"  {row['reason']}"
            missing = f": {', '.join(row['missing'])}" if row["missing"] and not row["enabled"] else ""
            self._output.line(f"  {mark} {row['name']}{why}{missing}", style)
            if row["description"]:
                self._output.line(f"    {_short(str(row['description']))}", "dim")


_MODES = {
    "mcpl": "mcpl (full peer)",
    "mcp-only": "mcp-only (plain MCP: tools work, nothing else does)",
    "close": "close (it refused the policy)",
}


def _branches(before: tuple[str, ...], now: tuple[str, ...]) -> Iterator[str]:
    """The nodes above a leaf that were not shown with the leaf before."""
    for depth in range(len(now) - 1):
        if before[: depth + 1] != now[: depth + 1]:
            yield "  " * depth + now[depth]


def _short(text: str, width: int = 100) -> str:
    """The first line, cut."""
    line = " ".join(text.split())
    return line if len(line) <= width else line[: width - 1] + "\u2026"
