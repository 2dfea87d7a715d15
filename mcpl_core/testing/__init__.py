"""For the tests of projects that build on this package: transports without a process, recording, replaying.

left, right = memory_transports()                    # two ends in one event loop
script = ScriptedTransport()                         # a peer made of calls
async with RawPeer(left) as peer: ...                # exactly these bytes, nothing answered

recorder = Recorder("session.jsonl")                 # without secrets
async with McplConnection(recorder.tap(transport)) as conn: ...

report = await Replayer(read_transcript("session.jsonl"), role="host", ignore=["timestamp"]).run(transport)
assert report.same, report
"""

from ..transports.memory import MemoryTransport, ScriptedTransport, memory_transports
from ..transports.tap import Direction, TapObserver, TappedTransport
from .raw import RawPeer
from .recorder import Recorder
from .redaction import DEFAULT_REDACTION, NO_REDACTION, REDACTED, Redaction
from .replayer import Difference, Replayer, ReplayReport
from .transcripts import Entry, Role, decode_entry, encode_entry, read_transcript

__all__ = (
    "DEFAULT_REDACTION",
    "NO_REDACTION",
    "REDACTED",
    "Difference",
    "Direction",
    "Entry",
    "MemoryTransport",
    "RawPeer",
    "Recorder",
    "Redaction",
    "ReplayReport",
    "Replayer",
    "Role",
    "ScriptedTransport",
    "TapObserver",
    "TappedTransport",
    "decode_entry",
    "encode_entry",
    "memory_transports",
    "read_transcript",
)
