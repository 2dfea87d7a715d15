"""Outgoing text, piece by piece."""

from __future__ import annotations

from typing import Any

import pytest

from mcpl_core.host import DENY_ALL, HostPolicy
from mcpl_core.host.outgoing import Outgoing
from tests.host.raw_server import ALL, CHANNEL, MANIFEST, RawServer, embedded

pytestmark = pytest.mark.anyio

EVERYTHING = HostPolicy.allow(*ALL)
ONE = CHANNEL["id"]
TWO = "chat:#random"
CHANNELS = {"channels": [CHANNEL, {**CHANNEL, "id": TWO}]}


async def sent(raw: RawServer) -> list[Any]:
    await raw.settled()
    return [
        (each["method"].rpartition("/")[2], each["params"])
        for each in raw.heard
        if each.get("method", "").startswith("channels/outgoing/")
    ]


@pytest.mark.spec("14.3-5")
async def test_one_count_goes_over_all_channels_and_servers() -> None:
    async with embedded(EVERYTHING) as (raw, session), embedded(EVERYTHING) as (other_raw, other):
        for peer in (raw, other_raw):
            await peer.served("channels/register", CHANNELS)
        outgoing = Outgoing("inf_1", "conv")
        for link, channel, text in (
            (session.link, ONE, "a"),
            (session.link, TWO, "b"),
            (other.link, ONE, "c"),
            (session.link, ONE, "d"),
        ):
            assert outgoing.chunk(link, channel, moderated=text)
        chunks = [params for _, params in await sent(raw)] + [params for _, params in await sent(other_raw)]
        assert [(each["channelId"], each["index"], each["delta"]) for each in chunks] == [
            (ONE, 0, "a"), (TWO, 1, "b"), (ONE, 3, "d"), (ONE, 2, "c"),
        ]  # fmt: skip
        assert {(each["inferenceId"], each["conversationId"]) for each in chunks} == {("inf_1", "conv")}


@pytest.mark.spec("14.3-7")
async def test_each_stream_is_closed_once_with_its_whole_text() -> None:
    async with embedded(EVERYTHING) as (raw, session):
        await raw.served("channels/register", CHANNELS)
        outgoing = Outgoing("inf_1")
        for channel, text in ((ONE, "a"), (TWO, "x"), (ONE, "b")):
            outgoing.chunk(session.link, channel, moderated=text)
        outgoing.complete_all()
        outgoing.complete_all()
        assert not outgoing.chunk(session.link, ONE, moderated="late")
        closing = [params for kind, params in await sent(raw) if kind == "complete"]
        assert [(each["channelId"], each["content"]) for each in closing] == [
            (ONE, [{"type": "text", "text": "ab"}]),
            (TWO, [{"type": "text", "text": "x"}]),
        ]
        assert "conversationId" not in closing[0]


@pytest.mark.spec("14.3-2")
async def test_who_did_not_declare_streaming_hears_nothing() -> None:
    manifest = {**MANIFEST, "channels": {"register": True, "publish": True}}
    async with embedded(EVERYTHING, manifest) as (raw, session):
        await raw.served("channels/register", CHANNELS)
        outgoing = Outgoing("inf_1")
        assert not outgoing.chunk(session.link, ONE, moderated="a")
        outgoing.complete_all()
        assert await sent(raw) == []


async def test_who_was_not_granted_streaming_hears_nothing() -> None:
    async with embedded(HostPolicy.allow("channels.register", "channels.publish")) as (raw, session):
        await raw.served("channels/register", CHANNELS)
        assert not Outgoing("inf_1").chunk(session.link, ONE, moderated="a")
        assert await sent(raw) == []


@pytest.mark.spec("14.3-3")
async def test_only_the_server_that_registered_the_channel_hears() -> None:
    async with embedded(EVERYTHING) as (raw, session), embedded(EVERYTHING) as (other_raw, other):
        await raw.served("channels/register", CHANNELS)
        outgoing = Outgoing("inf_1")
        assert not outgoing.chunk(other.link, ONE, moderated="a")
        assert outgoing.chunk(session.link, ONE, moderated="a")
        assert await sent(other_raw) == []


@pytest.mark.spec("14.3-4")
async def test_nothing_is_sent_but_what_was_handed_in_for_a_channel() -> None:
    async with embedded(EVERYTHING) as (raw, session):
        await raw.served("channels/register", CHANNELS)
        outgoing = Outgoing("inf_1")
        # Undecided: there is no such channel, so nothing is withheld for it either.
        assert not outgoing.chunk(session.link, "undecided", moderated="private")
        outgoing.chunk(session.link, ONE, moderated="public")
        outgoing.complete_all()
        texts = str(await sent(raw))
        assert ("private" in texts, texts.count("public")) == (False, 2)


async def test_what_goes_in_the_middle_stops_the_stream() -> None:
    async with embedded(EVERYTHING) as (raw, session):
        await raw.served("channels/register", CHANNELS)
        outgoing = Outgoing("inf_1")
        assert outgoing.chunk(session.link, ONE, moderated="a")
        session.adopt(DENY_ALL)
        assert not outgoing.chunk(session.link, ONE, moderated="b")
        outgoing.complete_all()
        assert [kind for kind, _ in await sent(raw)] == ["chunk"]


async def test_a_server_that_does_not_read_gets_the_whole_at_the_end() -> None:
    async with embedded(EVERYTHING) as (raw, session):
        await raw.served("channels/register", CHANNELS)
        outgoing = Outgoing("inf_1")
        raw.transport.stalled = True
        for text in "abc":
            assert outgoing.chunk(session.link, ONE, moderated=text)
        raw.transport.release()
        outgoing.complete_all()
        heard = await sent(raw)
        assert [kind for kind, _ in heard] == ["chunk", "complete"]
        assert heard[1][1]["content"] == [{"type": "text", "text": "abc"}]
