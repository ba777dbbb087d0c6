"""Serve `pods/exec`, `pods/attach` and `pods/portforward`: from an upgrade request to a connection with a node.

Errors in a request are answered before the connection is upgraded. The caller has authorized the request.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from dray.api import channels
from dray.api.channels import ERROR, RESIZE, STDERR, STDIN, STDOUT
from dray.api.errors import BadRequest, Forbidden
from dray.apiserver.request import Request
from dray.apiserver.streaming.duplex import Duplex
from dray.apiserver.streaming.options import ConnectOptions, PodAttachOptions, PodExecOptions, PodPortForwardOptions

if TYPE_CHECKING:  # most servers start without a stream, and the imports of streams take long
    import aiohttp

    from dray.apiserver.streaming.clients import SpdyClient, WebSocketClient

STREAMED = ("exec", "attach", "portforward")
_EXEC_WS = (channels.V5, channels.V4, channels.BASE64_V4, channels.V1, channels.BASE64_V1)
_EXEC_SPDY = (channels.V4, channels.V3, channels.V2, channels.V1)
_FORWARD_WS = (channels.PORT_FORWARD_TUNNEL, channels.V4)

TakeOver = Callable[[bytes], Duplex]
ReserveStream = Callable[[], AbstractContextManager[None]]
"""Reserves one of the user's streams; raises TooManyRequests if none is left."""
Dial = Callable[[Request, str, Sequence[tuple[str, str]]], Awaitable["aiohttp.ClientWebSocketResponse"]]
"""Connects to the node of a pod, with the request, the node's path (exec/CONTAINER, …) and parameters."""
Container = Callable[[Request, str], str]
"""Returns the container for the name that the client gave."""


class Upgrade(NamedTuple):
    """A request to upgrade the connection to another protocol."""

    protocol: str  # new protocol: websocket or spdy/3.1
    headers: Mapping[str, str]
    offered: str  # subprotocols, separated by commas
    take_over: TakeOver


def upgrade_of(headers: Sequence[tuple[bytes, bytes]], take_over: TakeOver | None) -> Upgrade:
    """Return the upgrade that a client requests: to WebSocket or SPDY.

    Raises BadRequest if it requests neither, or if `take_over` is None because the connection cannot be taken over.
    """
    plain = {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
    versions = [value.decode("latin-1") for name, value in headers if name == b"x-stream-protocol-version"]
    protocol = plain.get("upgrade", "").lower()
    if take_over is None or protocol not in ("websocket", "spdy/3.1"):
        raise BadRequest("Upgrade request required")
    offered = plain.get("sec-websocket-protocol", "") if protocol == "websocket" else ",".join(versions)
    return Upgrade(protocol, plain, offered, take_over)


class PodStreams:
    """Serves exec, attach and port-forward connections into pods."""

    def __init__(self, dial: Dial, container: Container) -> None:
        self._dial = dial
        self._container = container

    async def serve(self, request: Request, options: ConnectOptions, upgrade: Upgrade, place: ReserveStream) -> None:
        """Serve a connection until either side ends it. Raises ApiError while the client still expects HTTP."""
        if isinstance(options, PodPortForwardOptions):
            await self._forward(request, options.ports, upgrade, place)
        elif isinstance(options, PodAttachOptions):
            await self._converse(request, options, upgrade)

    # -- exec and attach

    async def _converse(self, request: Request, options: PodAttachOptions, upgrade: Upgrade) -> None:
        """Serve exec or attach.

        Raises BadRequest if neither stdin, stdout nor stderr is requested, or exec has no command.
        """
        wishes = ((STDIN, options.stdin), (STDOUT, options.stdout), (STDERR, options.stderr))
        asked = {channel for channel, wanted in wishes if wanted}
        tty = options.tty
        if not asked:
            raise BadRequest("you must specify at least 1 of stdin, stdout, stderr")
        if tty:
            asked.discard(STDERR)  # a terminal has a single output
        commands = options.command if isinstance(options, PodExecOptions) else ()
        if request.subresource == "exec" and not commands:
            raise BadRequest("you must specify at least one command for the container")
        container = self._container(request, options.container)
        wanted = [("command", command) for command in commands] + ([("tty", "1")] if tty else [])
        wanted += [(name, "1") for channel, name in ((0, "input"), (1, "output"), (2, "error")) if channel in asked]
        protocol = _agreed(upgrade, _EXEC_WS if upgrade.protocol == "websocket" else _EXEC_SPDY)
        node = await self._dial(request, f"{request.subresource}/{container}", wanted)
        try:
            client = await _client(request.user.name, upgrade, protocol, asked, tty)
        except BaseException:
            await node.close()
            raise
        if client is None:
            await node.close()
            return
        from dray.apiserver.streaming.relay import relay

        await relay(client, node)

    # -- port-forward

    async def _forward(self, request: Request, ports: Sequence[int], upgrade: Upgrade, place: ReserveStream) -> None:
        """Serve port-forward over SPDY or WebSockets until the client disconnects."""
        from dray.apiserver.streaming.portforward import check_ports, forward_channels, forward_spdy
        from dray.apiserver.streaming.spdy import SpdyConnection
        from dray.apiserver.streaming.websockets import MessageBytes, WebSocket

        self._container(request, "")  # check that the pod exists and has a node

        user = request.user.name

        @asynccontextmanager
        async def connect(port: int) -> AsyncIterator[aiohttp.ClientWebSocketResponse]:
            with place():
                node = await self._dial(request, "portForward", [("port", str(port))])
                try:
                    yield node
                finally:
                    await node.close()

        if upgrade.protocol != "websocket":
            protocol = _agreed(upgrade, (channels.PORT_FORWARD,))
            await forward_spdy(SpdyConnection(upgrade.take_over(_spdy_head(protocol)), user), connect)
            return
        protocol = _agreed(upgrade, _FORWARD_WS)
        tunnelled = protocol == channels.PORT_FORWARD_TUNNEL
        if not tunnelled:
            check_ports(ports)
        socket = WebSocket(upgrade.take_over(_websocket_head(upgrade, protocol)), user)
        if tunnelled:
            await forward_spdy(SpdyConnection(MessageBytes(socket), user), connect)
        else:
            await forward_channels(socket, ports, connect)


async def _client(
    user: str, upgrade: Upgrade, protocol: str, asked: set[int], tty: bool
) -> WebSocketClient | SpdyClient | None:
    """Upgrade the connection and return the client, or None if it did not open its streams in time.

    `asked` are the numbers of the channels that the client requests. Raises BadRequest if a WebSocket handshake is
    invalid.
    """
    from dray.apiserver.streaming.clients import SpdyClient, WebSocketClient
    from dray.apiserver.streaming.spdy import SpdyConnection
    from dray.apiserver.streaming.websockets import WebSocket

    if upgrade.protocol == "websocket":
        client = WebSocketClient(WebSocket(upgrade.take_over(_websocket_head(upgrade, protocol)), user), protocol)
        await client.greet(asked & {STDOUT, STDERR})
        return client
    resizes = {RESIZE} if tty and protocol in (channels.V4, channels.V3) else set()
    spdy = SpdyClient(SpdyConnection(upgrade.take_over(_spdy_head(protocol)), user), protocol)
    if await spdy.open({ERROR} | asked | resizes):
        return spdy
    await spdy.finish(channels.failed("the client did not open its streams in time"))
    return None


def _agreed(upgrade: Upgrade, known: Sequence[str]) -> str:
    """Return the subprotocol that both sides know; "" if the client offers none. Raises Forbidden if none matches."""
    from dray.apiserver.streaming.websockets import chosen

    protocol = chosen(upgrade.offered, known)
    if not protocol and upgrade.offered:
        raise Forbidden(f"unable to upgrade: none of {upgrade.offered} is spoken here; known are {', '.join(known)}")
    return protocol


def _websocket_head(upgrade: Upgrade, protocol: str) -> bytes:
    """Return the response that upgrades to a WebSocket. Raises BadRequest if the handshake is invalid."""
    from dray.apiserver.streaming.websockets import handshake

    try:
        return handshake(upgrade.headers, protocol)
    except ValueError as error:
        raise BadRequest(str(error)) from error


def _spdy_head(protocol: str) -> bytes:
    """Return the response that upgrades to SPDY. An empty `protocol` is not mentioned."""
    lines = ["HTTP/1.1 101 Switching Protocols", "Upgrade: SPDY/3.1", "Connection: Upgrade"]
    if protocol:
        lines.append(f"X-Stream-Protocol-Version: {protocol}")
    return "\r\n".join([*lines, "", ""]).encode()
