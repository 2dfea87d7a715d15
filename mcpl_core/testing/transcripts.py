"""Transcripts: the messages of a connection as a file, one JSON object a line.

Owns: the form of a line, writing and reading it. Does not own: what is secret (``redaction``), who records
(``recorder``) and who plays (``replayer``).

    {"time":"2026-08-30T10:00:00.000000Z","direction":"to-server","message":{"jsonrpc":"2.0", ...}}

``message`` is the message itself, byte for byte but for line breaks between its tokens. What is no JSON stands as a
string in ``text`` instead. ``redacted`` has the paths of what was taken out; ``connection`` counts connections where
a file has more than one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

import msgspec
from msgspec import UNSET, Raw, UnsetType

from ..errors import InvalidValueError
from ..wire.framing import encode_line
from ..wire.messages import DEFAULT_MAX_DEPTH
from ..wire.values import (
    decode_value,
    depth_exceeds,
    encode_value,
    has_surrogate_escape,
    hide_surrogates,
    show_surrogates,
)

__all__ = ("Entry", "Role", "Way", "decode_entry", "encode_entry", "is_json", "read_transcript")

Role: TypeAlias = Literal["host", "server"]
Way: TypeAlias = Literal["to-server", "to-host"]


@dataclass(frozen=True, slots=True)
class Entry:
    """One message of a transcript.

    Attributes:
        direction: where it went.
        message: its text: JSON, unless the peer sent something else.
        time: when it passed (ISO 8601), empty when nobody said.
        redacted: paths of what was taken out.
        connection: which connection, from 1.
    """

    direction: Way
    message: bytes
    time: str = ""
    redacted: tuple[str, ...] = ()
    connection: int = 1


class _Line(msgspec.Struct, omit_defaults=True):
    direction: Way
    time: str = ""
    connection: int = 1
    redacted: tuple[str, ...] = ()
    message: Raw | UnsetType = UNSET
    text: Raw | UnsetType = UNSET


def encode_entry(entry: Entry) -> bytes:
    """An entry as one line, ended by a line feed."""
    line = _Line(entry.direction, entry.time, entry.connection, entry.redacted)
    text = encode_line(entry.message)[:-1]
    if is_json(text):
        line.message = Raw(text)
    else:
        line.text = Raw(encode_value(entry.message.decode(errors="replace")))
    return encode_line(msgspec.json.encode(line))


def is_json(text: bytes) -> bool:
    """Whether a message can be read at all."""
    if depth_exceeds(text, DEFAULT_MAX_DEPTH):
        return False
    try:
        decode_value(text)
    except InvalidValueError:
        return False
    return True


def decode_entry(line: bytes) -> Entry:
    """The entry on one line.

    Raises:
        InvalidValueError: the line is no entry.
    """
    hidden = has_surrogate_escape(line)
    found: _Line = decode_value(hide_surrogates(line) if hidden else line, _Line)
    message, text = (
        show_surrogates(bytes(raw)) if hidden and raw is not UNSET else raw for raw in (found.message, found.text)
    )
    if (message is UNSET) == (text is UNSET):
        raise InvalidValueError("entry", "an entry has either message or text")
    content = bytes(message) if message is not UNSET else decode_value(bytes(text), str).encode()  # type: ignore[arg-type]
    return Entry(found.direction, content, found.time, found.redacted, found.connection)


def read_transcript(
    source: str | os.PathLike[str] | Iterable[bytes], *, connection: int | None = None
) -> tuple[Entry, ...]:
    """The entries of a transcript, in order.

    Args:
        source: the name of a file, or lines.
        connection: which connection's entries; left out: those of the connection that the transcript begins with.

    Raises:
        InvalidValueError: a line is no entry (``entry``; the detail names the line), or there is none
            (``transcript``).
        OSError: the file cannot be read.
    """
    if isinstance(source, str | os.PathLike):
        with open(source, "rb") as file:
            return read_transcript(file, connection=connection)
    entries = []
    for number, line in enumerate(source, 1):
        if not line.strip():
            continue
        try:
            entry = decode_entry(line)
        except InvalidValueError as exc:
            raise InvalidValueError("entry", f"line {number}: {exc.detail}", exc.path) from exc
        if connection is None:
            connection = entry.connection
        if entry.connection == connection:
            entries.append(entry)
    if not entries:
        raise InvalidValueError("transcript", "there are no messages in it")
    return tuple(entries)
