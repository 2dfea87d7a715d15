"""A program that serves tools over standard input and output; one of them prints, and so does a child of it."""

from __future__ import annotations

import os
import subprocess
import sys

import anyio

from mcpl_core.mcp.serving import serve_tools


def noisy() -> str:
    """Prints."""
    print("not for the protocol")  # noqa: T201
    os.write(1, b"neither\n")
    subprocess.run([sys.executable, "-S", "-c", "print('nor this')"], check=True)
    return "done"


def fails() -> str:
    """Fails."""
    raise ValueError("no luck")


async def main() -> None:
    """Serves until the client is gone."""
    async with serve_tools([noisy, fails], name="program", version="3") as handle:
        await handle.wait_closed()


if __name__ == "__main__":
    anyio.run(main)
