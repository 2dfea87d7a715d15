"""Bodies of answers: what is coded, what is too long, what does not end."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import AsyncIterator
from typing import Any

import anyio
import httpx2
import pytest

from mcpl_core.errors import TransportError
from mcpl_core.mcp.http import bodies
from mcpl_core.mcp.http.bodies import decoded_pieces, each_piece, read_body, read_error_body
from tests.mcp.http.fakes import Body

pytestmark = pytest.mark.anyio

TEXT = b"hello " * 50_000


def coded(text: bytes, coding: str | None = None, status: int = 200) -> tuple[httpx2.Response, Body]:
    body = Body(text)
    headers = {} if coding is None else {"content-encoding": coding}
    return httpx2.Response(status, headers=headers, stream=body), body


@pytest.mark.parametrize(
    ("coding", "text"),
    [
        (None, TEXT),
        ("identity", TEXT),
        ("utf-8", TEXT),
        ("gzip", gzip.compress(TEXT, mtime=0)),
        ("X-GZIP , identity", gzip.compress(TEXT, mtime=0)),
        ("deflate", zlib.compress(TEXT)),
        ("gzip", gzip.compress(TEXT, mtime=0) + b"what comes afterwards"),
    ],
)
async def test_a_body_is_what_it_was_before_it_was_coded(coding: str | None, text: bytes) -> None:
    response, body = coded(text, coding)
    assert await read_body(response, len(TEXT)) == TEXT
    assert body.closed
    response, _ = coded(text, coding)
    assert b"".join([piece async for piece in decoded_pieces(response)]) == TEXT


async def test_a_body_that_is_whole_already_is_not_decoded_twice() -> None:
    response = httpx2.Response(200, headers={"content-encoding": "gzip"}, content=gzip.compress(TEXT, mtime=0))
    assert await read_body(response, len(TEXT)) == TEXT


@pytest.mark.parametrize(
    ("coding", "text"), [("gzip", b"no gzip"), ("gzip, gzip", gzip.compress(gzip.compress(b"", mtime=0), mtime=0))]
)
async def test_what_cannot_be_decoded(coding: str, text: bytes) -> None:
    response, body = coded(text, coding)
    with pytest.raises(TransportError) as caught:
        await read_body(response, 1000)
    assert caught.value.__cause__ is None
    assert body.closed


async def test_what_cannot_be_decoded_gives_nothing_to_whoever_pulls_it() -> None:
    response, _ = coded(b"no gzip", "gzip")
    assert [piece async for piece in decoded_pieces(response)] == []
    response, _ = coded(b"", "gzip, gzip")
    with pytest.raises(TransportError):
        assert [piece async for piece in decoded_pieces(response)]


@pytest.mark.spec("R-mcphttp-24")
async def test_a_few_bytes_do_not_become_very_many() -> None:
    pieces: list[int] = []

    def take(piece: bytes) -> bool:
        pieces.append(len(piece))
        return len(pieces) == 2

    response, body = coded(gzip.compress(bytes(50_000_000)), "gzip")
    await each_piece(response, take)
    assert pieces == [64 * 1024] * 2
    assert body.closed


@pytest.mark.parametrize("limit", [len(TEXT), len(TEXT) - 1])
async def test_the_limit_of_a_body(limit: int) -> None:
    response, body = coded(TEXT)
    assert await read_body(response, limit) == (TEXT if limit == len(TEXT) else None)
    assert body.closed


@pytest.mark.spec("R-mcphttp-23")
async def test_the_body_of_an_error_may_be_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    class Breaking(Body):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield self.text
            raise httpx2.ReadError("reset")

    class Endless(Body):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            yield self.text
            await anyio.sleep_forever()

    async def read(stream: Any) -> bytes:
        return await read_error_body(httpx2.Response(500, stream=stream), 10)

    monkeypatch.setattr(bodies, "_ERROR_BOUND", 0)
    for stream in (Breaking(b"a"), Endless(b"a")):
        assert await read(stream) == b""
        assert stream.closed
    monkeypatch.undo()
    assert await read(Body(b"a" * 10)) == b"a" * 10
    assert await read(Body(b"a" * 11)) == b""


async def test_what_comes_after_enough_is_not_given() -> None:
    class Hasty(Body):
        async def __aiter__(self) -> AsyncIterator[bytes]:
            for _ in range(3):
                yield self.text

    pieces: list[bytes] = []

    def take(piece: bytes) -> bool:
        pieces.append(piece)
        return True

    await each_piece(httpx2.Response(200, stream=Hasty(b"a")), take)
    assert pieces == [b"a"]
