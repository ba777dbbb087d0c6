"""`nodes/proxy`: what a node tells of itself over HTTP, passed on to whoever may `get` it.

Only plain GET requests are passed on, and no header of the client is: streams into containers have rights of their own,
and nobody reaches them this way. Left out: who may ask, which the caller has checked.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple
from urllib.parse import quote

from dray.api.errors import BadRequest, MethodNotAllowed, ServiceUnavailable
from dray.apiserver.request import Request
from dray.apiserver.wire.logs import NodeLogs

_MOST_BYTES = 16 << 20  # of what a node says it uses


class Relayed(NamedTuple):
    """The answer of a node, as it comes."""

    code: int
    content_type: bytes
    pieces: AsyncGenerator[bytes, None]


class NodeProxy:
    """Asks nodes, on the connections on which logs are read."""

    def __init__(self, nodes: NodeLogs) -> None:
        self._nodes = nodes

    async def relay(self, request: Request, method: str, tail: str, query: bytes) -> Relayed:
        """What the node that is named answers to a path."""
        if method != "GET":
            raise MethodNotAllowed(f"nodes/proxy: only GET is passed on, not {method}")
        pieces = self._nodes.read(_plain(request.name), quote(tail, safe="/"), query.decode("latin-1"))
        head = await anext(pieces)
        code, _, content_type = head.partition(b" ")
        return Relayed(int(code), content_type, pieces)

    async def text(self, node: str, path: str) -> str:
        """The whole of a text that a node tells; ServiceUnavailable when it does not."""
        data = b""
        async with aclosing(self._nodes.read(node, path, "")) as pieces:
            head = await anext(pieces)
            if not head.startswith(b"200 "):
                raise ServiceUnavailable(f"node {node} answered {head.split()[0].decode()} to {path}")
            async for piece in pieces:
                data += piece
                if len(data) > _MOST_BYTES:
                    raise ServiceUnavailable(f"node {node} told more than {_MOST_BYTES} bytes of {path}")
        return data.decode(errors="replace")


def _plain(name: str) -> str:
    """The name of a node without scheme and port, which clients may write around it: https:NODE:10250."""
    words = name.split(":")
    if len(words) == 3 and words[0] in ("http", "https", ""):
        words = words[1:]
    if len(words) > 2 or (len(words) == 2 and not words[1].isdigit()):
        raise BadRequest(f"invalid node request {name!r}: expected NODE, NODE:PORT or SCHEME:NODE:PORT")
    return words[0]
