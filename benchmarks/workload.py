"""What is sent in every scenario, and the orders that a contender's process gets.

Owns: the messages, their sizes, and ``Order``, the JSON text that says what one process has to do. Does not own: how it
is measured (``meter``, ``drive``), and who takes part (``catalog``). Nothing here is timed or random: all contenders,
those of other languages as well, send the same.
"""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = ("FLOOD_ROUND", "LARGE", "NOTE_BYTES", "SMALL", "WIDTHS", "Order", "large", "slow_note")

#: The params of a small message: about 100 bytes of JSON.
SMALL: dict[str, Any] = {
    "sessionId": "sess-0123456789abcdef",
    "channel": "general",
    "seq": 12345,
    "text": "hello world, how are you?",
}

#: How many requests are in flight.
WIDTHS = {"A": 1, "B": 64, "E": 16, "T": 64}

#: Bytes of the one long string in a large message.
LARGE = {"D1": 1 << 20, "D16": 1 << 24}

#: Notifications that are sent between two looks at the clock.
FLOOD_ROUND = 500

#: Bytes on the wire, about, of a notification for the stalled reader.
NOTE_BYTES = 1000

_ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


class Order(msgspec.Struct, frozen=True, omit_defaults=True):
    """What one process has to do. Travels as JSON in the arguments of the process.

    Attributes:
        scenario: ``A``, ``B``, ``C``, ``D1``, ...
        link: ``stdio``, ``ws`` or ``memory``.
        loop: ``asyncio``, ``uvloop`` or ``trio``.
        style: the contender's own word for how it is used (``pull``, ``router``, ``tool``, ...).
        seconds: how long the timed part lasts.
        warm_up: seconds of the same before it.
        flood_limit: notifications in one flood, for libraries that take any number and are long in sending them.
        stalled_bytes: how much is sent to the reader that stalls.
        settle: seconds after which a stalled pair is measured although it did not come to rest.
        gate: the file whose existence ends the stall.
        cpus: one for the client and one for the server; empty: wherever the system likes.
        servers: how many servers one host has.
    """

    scenario: str
    link: str = "stdio"
    loop: str = "asyncio"
    style: str = ""
    seconds: float = 0.5
    warm_up: float = 0.25
    flood_limit: int = 1 << 62
    stalled_bytes: int = 200_000_000
    settle: float = 15.0
    gate: str = ""
    cpus: tuple[int, ...] = ()
    servers: int = 200

    @property
    def text(self) -> str:
        """As an argument of a process."""
        return msgspec.json.encode(self).decode()

    @classmethod
    def read(cls, text: str) -> Order:
        """The order that ``text`` gave."""
        return msgspec.json.decode(text, type=cls)


def large(scenario: str) -> dict[str, Any]:
    """The params of a large message: one long string, so that framing and copying are what costs."""
    size = LARGE[scenario]
    block = "".join(_ALPHABET[index * 7919 % 64] for index in range(8192))
    return {"data": (block * (size // len(block) + 1))[:size]}


def slow_note(number: int, data: str = "x" * (NOTE_BYTES - 100)) -> dict[str, Any]:
    """The params of one notification for the stalled reader."""
    return {"seq": number, "data": data}
