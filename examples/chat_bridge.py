"""A bridge from a chat room to an agent: people come with ``nc 127.0.0.1 7000``, the host over this program's standard
input and output.

    python examples/chat_bridge.py 7000    where people come; 0 takes a free port, which is printed

The room is one channel. What people write goes to the host with tags that say whether the agent was spoken to; what the
host publishes goes to everybody in the room.
"""

import sys
from datetime import UTC, datetime
from itertools import count

import anyio
from anyio.abc import SocketStream
from anyio.streams.buffered import BufferedByteReceiveStream

from mcpl_core import McplError
from mcpl_core.protocol import (
    ChannelDescriptor,
    ChannelsPublishParams,
    ChannelsPublishResult,
    IncomingMessage,
    MessageAuthor,
)
from mcpl_core.server import Context, McplServer

ROOM = ChannelDescriptor(id="chat:room", type="chat", label="The room", direction="bidirectional")

#: Seconds; who does not read for so long is not written to any more.
PATIENCE = 2.0

server = McplServer("chat-bridge", "1.0.0")
server.feature_set(
    "chat.bridge", "Brings a chat room", uses=["channels.register", "channels.incoming", "channels.publish"]
)
people: set[SocketStream] = set()
hosts: set[anyio.abc.ObjectSendStream[IncomingMessage]] = set()
numbers = count(1)


@server.on_ready
async def bridge(ctx: Context) -> None:
    """Runs for as long as the host stays: from the room to the host."""
    said, heard = anyio.create_memory_object_stream[IncomingMessage](100)
    async with said, heard:
        # What is said while the channel is being registered waits in the stream.
        hosts.add(said)
        try:
            await ctx.register_channels([ROOM])
            async for message in heard:
                try:
                    await ctx.incoming([message])
                except McplError as exc:
                    print(f"the agent did not hear it: {exc}", file=sys.stderr)
        finally:
            hosts.discard(said)


@server.handler("channels/publish", ordered=True)
async def publish(ctx: Context, params: ChannelsPublishParams) -> ChannelsPublishResult:
    """From the host to the room."""
    if params.channel_id != ROOM.id:
        return ChannelsPublishResult(delivered=False, reason="unknown_channel")
    for person in tuple(people):
        try:
            with anyio.fail_after(PATIENCE):
                await person.send(f"agent: {params.text}\n".encode())
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, TimeoutError):
            people.discard(person)
    return ChannelsPublishResult(delivered=True, message_id=f"m{next(numbers)}")


async def join(person: SocketStream) -> None:
    """One person in the room; the first line is their name."""
    async with person:
        lines = BufferedByteReceiveStream(person)
        try:
            name = (await lines.receive_until(b"\n", 100)).decode()
            people.add(person)
            while True:
                await say(name, (await lines.receive_until(b"\n", 10_000)).decode())
        except (anyio.IncompleteRead, anyio.DelimiterNotFound, anyio.BrokenResourceError, UnicodeDecodeError):
            people.discard(person)


async def say(name: str, text: str) -> None:
    message = IncomingMessage(
        channel_id=ROOM.id,
        message_id=f"m{next(numbers)}",
        author=MessageAuthor(id=name, name=name),
        timestamp=datetime.now(UTC).isoformat(),
        content=text,
        tags=["chat:from-human", "chat:group", "chat:mention" if "@agent" in text else "chat:ambient"],
    )
    for host in tuple(hosts):
        await host.send(message)


async def main(port: int) -> None:
    async with anyio.create_task_group() as tasks:
        listener = await anyio.create_tcp_listener(local_host="127.0.0.1", local_port=port)
        print(f"the room is at {listener.extra(anyio.abc.SocketAttribute.local_port)}", file=sys.stderr, flush=True)
        tasks.start_soon(listener.serve, join)
        await server.serve_stdio()
        tasks.cancel_scope.cancel()


if __name__ == "__main__":
    anyio.run(main, int(sys.argv[1]) if len(sys.argv) > 1 else 7000)
