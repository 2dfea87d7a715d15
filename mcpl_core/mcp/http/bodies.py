"""The bodies of answers, read within bounds and to an end.

Owns: undoing the one coding that some servers use though none was asked for, giving a body piece by piece, and reading
a whole one up to a limit. Does not own: what is in it (``events``, ``watching``).

Of a few bytes a coding can make very many; here they are made piece by piece, and only as long as somebody wants more.
"""

from __future__ import annotations

import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TypeAlias

import anyio
import httpx2

from ...errors import TransportError

__all__ = ("decoded_pieces", "each_piece", "read_body", "read_error_body")

#: What ``zlib`` is told so that it finds out which of both it is.
_GZIP_OR_ZLIB = 32 + zlib.MAX_WBITS
_KNOWN = frozenset({"gzip", "x-gzip", "deflate"})
#: The most bytes that are decoded at once.
_PIECE = 64 * 1024
#: Seconds for the body beside a status that is no success. The status is an answer without it.
_ERROR_BOUND = 5.0

_Decode: TypeAlias = Callable[[bytes], Iterator[bytes]]


async def each_piece(response: httpx2.Response, take: Callable[[bytes], bool]) -> None:
    """Gives the body to ``take`` piece by piece, until it ends or ``take`` returns true. The response is closed then.

    Raises:
        TransportError: it is coded in a way that is not undone, or wrongly.
        httpx2.HTTPError: reading failed.
    """
    fault: TransportError | None = None
    try:
        decode = _decoder(response)
        with anyio.CancelScope() as scope:
            async for raw in _raw(response):
                try:
                    enough = not scope.cancel_called and any(take(piece) for piece in decode(raw))
                except zlib.error:
                    enough, fault = True, TransportError("the body of the answer is not what its coding says")
                if enough:
                    # Cancelled, not left: only so does the stream end in all its layers.
                    scope.cancel()
    finally:
        with anyio.CancelScope(shield=True):
            await response.aclose()
    if fault is not None:
        raise fault


async def decoded_pieces(response: httpx2.Response) -> AsyncIterator[bytes]:
    """The body as it was before it was coded, for whoever pulls it. Where it is coded wrongly, nothing more comes.

    Raises:
        TransportError: it is coded in a way that is not undone.
    """
    decode = _decoder(response)
    broken = False
    async for raw in _raw(response):
        try:
            for piece in () if broken else decode(raw):
                yield piece
        except zlib.error:
            # Read on, not left: only so does the stream end in all its layers.
            broken = True


async def read_body(response: httpx2.Response, limit: int) -> bytes | None:
    """The whole body, ``None`` when it has more than ``limit`` bytes; see ``each_piece``."""
    text = bytearray()

    def take(piece: bytes) -> bool:
        nonlocal text
        text += piece
        return len(text) > limit

    await each_piece(response, take)
    return None if len(text) > limit else bytes(text)


async def read_error_body(response: httpx2.Response, limit: int) -> bytes:
    """The body beside a status that is no success; nothing where it is too long, does not end soon or cannot be read:
    whatever becomes of it, the status was the answer."""
    text: bytes | None = None
    with anyio.move_on_after(_ERROR_BOUND):
        try:
            text = await read_body(response, limit)
        except Exception:
            return b""
    return text or b""


def _raw(response: httpx2.Response) -> AsyncIterator[bytes]:
    # What is whole already (a carrier of the caller's own made it) is decoded too.
    return response.aiter_bytes() if response.is_stream_consumed else response.aiter_raw()


def _decoder(response: httpx2.Response) -> _Decode:
    given = [each.strip().lower() for each in response.headers.get("content-encoding", "").split(",")]
    known = [each for each in given if each in _KNOWN]
    if not known or response.is_stream_consumed:
        return lambda raw: iter((raw,))
    if len(known) > 1:
        raise TransportError("the body of the answer is coded more than once")
    return _inflater()


def _inflater() -> _Decode:
    made = zlib.decompressobj(_GZIP_OR_ZLIB)

    def decode(raw: bytes) -> Iterator[bytes]:
        while raw:
            if piece := made.decompress(raw, _PIECE):
                yield piece
            # What comes after the end of the coded text means nothing.
            raw = b"" if made.eof else made.unconsumed_tail

    return decode
