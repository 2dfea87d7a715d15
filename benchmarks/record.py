"""What is kept of a series: a JSON file, and the words on the machine that made it.

Owns: the shape of the file, and putting several together. Does not own: what is in it (``figures``, ``targets``).
"""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Iterable, Sequence
from importlib import metadata
from pathlib import Path

import msgspec
from msgspec.structs import replace

from .figures import Row, Sample
from .targets import Beside, Verdict

__all__ = ("Record", "combine", "machine", "read_record", "write_record")

_DISTRIBUTIONS = ("mcp-live-core", "msgspec", "anyio", "trio", "uvloop", "websockets", "mcp", "pygls",
                  "agent-client-protocol", "rfc8785")  # fmt: skip


class Record(msgspec.Struct, frozen=True):
    """One series.

    Attributes:
        machine: what it ran on, with which versions, and the command.
        samples: everything that was measured.
    """

    machine: dict[str, str]
    samples: list[Sample]


def machine() -> dict[str, str]:
    """This machine's kind, how busy it is, and the versions of what takes part. Nothing that names it."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    facts = {
        "kind": f"{platform.system()} on {platform.machine()}, {cores} cores",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
    }
    if hasattr(os, "getloadavg"):
        facts["load"] = f"{os.getloadavg()[0]:.1f}"
    if node := shutil.which("node"):
        facts["node"] = subprocess.run([node, "--version"], capture_output=True, text=True).stdout.strip()
    for name in _DISTRIBUTIONS:
        try:
            facts[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return facts


def combine(records: Sequence[Record]) -> Record:
    """Several series of one machine as one: the rounds of each come after those before."""
    samples: list[Sample] = []
    rounds = 0
    for record in records:
        samples += (replace(sample, round=sample.round + rounds) for sample in record.samples)
        rounds = 1 + max((sample.round for sample in samples), default=-1)
    return Record(records[-1].machine, samples)


def read_record(path: Path) -> Record:
    """A file that ``write_record`` wrote.

    Raises:
        msgspec.DecodeError, OSError: it is none.
    """
    return msgspec.json.decode(path.read_bytes(), type=Record)


def write_record(
    path: Path, record: Record, rows: Iterable[Row], verdicts: Iterable[Verdict], compared: Iterable[Beside]
) -> None:
    """Everything as JSON; all but the samples follows from them, and is there for other readers."""
    judged = [
        {**verdict.target._asdict(), "value": verdict.value, "met": verdict.met, "rounds": verdict.rounds}
        for verdict in verdicts
    ]
    beside = [{**one.comparison._asdict(), "value": one.value, "rounds": one.rounds} for one in compared]
    whole = {
        "machine": record.machine,
        "samples": record.samples,
        "rows": list(rows),
        "verdicts": judged,
        "beside": beside,
    }
    path.write_bytes(msgspec.json.format(msgspec.json.encode(whole), indent=1) + b"\n")
