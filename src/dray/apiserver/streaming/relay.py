"""Relay messages between a client and a node until one of them ends."""

from __future__ import annotations

import asyncio

import aiohttp
import msgspec

from dray.api import channels
from dray.api.wire import Tree
from dray.apiserver.streaming.clients import StreamClient


async def relay(client: StreamClient, node: aiohttp.ClientWebSocketResponse) -> None:
    """Relay all messages in both directions, then send the client the final Status."""
    inward = asyncio.create_task(_to_node(client, node))
    outward = asyncio.create_task(_to_client(client, node))
    try:
        await asyncio.wait([inward, outward], return_when=asyncio.FIRST_COMPLETED)
        status = await outward if outward.done() else channels.failed("the client is gone")
    except (ConnectionError, aiohttp.ClientError) as error:
        status = channels.failed(f"the connection was lost: {error}")
    finally:
        for task in (inward, outward):
            task.cancel()
        await asyncio.gather(inward, outward, return_exceptions=True)
        await node.close()
    await client.finish(status)


async def _to_node(client: StreamClient, node: aiohttp.ClientWebSocketResponse) -> None:
    """Relay client to node, until the client disconnects."""
    while (message := await client.receive()) is not None:
        channel, data = message
        if channel in (channels.STDIN, channels.RESIZE, channels.CLOSE):
            await node.send_bytes(bytes([channel]) + data)


async def _to_client(client: StreamClient, node: aiohttp.ClientWebSocketResponse) -> Tree:
    """Relay node to client. Returns the final Status."""
    async for message in node:
        if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
            continue
        channel, data = message.data[0], message.data[1:]
        if channel == channels.ERROR:
            return _told(data)
        await client.send(channel, data)
    return channels.failed("the node ended the connection")


def _told(data: bytes) -> Tree:
    """Return the final Status in a node's message, or a failure if the message is not valid."""
    try:
        status: Tree = msgspec.json.decode(data, type=Tree)
    except msgspec.DecodeError:
        status = {}
    if status.get("status") == "Success" or isinstance(status.get("message"), str):
        return status
    return channels.failed("the node did not say how it ended")
