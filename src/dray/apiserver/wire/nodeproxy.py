"""`nodes/proxy`: forward GET requests to a node's HTTP endpoints.

Only plain GET requests are forwarded, without the client's headers: streams into containers require other permissions
and cannot be reached this way. The caller has authorized the request.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import NamedTuple
from urllib.parse import quote

from dray.api.errors import BadRequest, MethodNotAllowed, ServiceUnavailable
from dray.apiserver.request import Request
from dray.apiserver.wire.logs import NodeLogs

_MOST_BYTES = 16 << 20  # maximum bytes of a node's metrics


class Relayed(NamedTuple):
    """Answer of a node: code, content type and pieces as they arrive."""

    code: int
    content_type: bytes
    pieces: AsyncGenerator[bytes, None]


class NodeProxy:
    """Sends requests to nodes, over the connections for logs."""

    def __init__(self, nodes: NodeLogs) -> None:
        self._nodes = nodes

    async def relay(self, request: Request, method: str, tail: str, query: bytes) -> Relayed:
        """Return the node's answer for a path. `tail` is the path on the node.

        Raises MethodNotAllowed for a method other than GET, BadRequest for a malformed node name, ServiceUnavailable
        if the node does not answer.
        """
        if method != "GET":
            raise MethodNotAllowed(f"nodes/proxy: only GET is passed on, not {method}")
        pieces = self._nodes.read(_plain(request.name), quote(tail, safe="/"), query.decode("latin-1"))
        head = await anext(pieces)
        code, _, content_type = head.partition(b" ")
        return Relayed(int(code), content_type, pieces)

    async def text(self, node: str, path: str) -> str:
        """Return the complete text at a node's path.

        Raises ServiceUnavailable if the node does not answer, answers with another code than 200, or sends too much.
        """
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
    """Return the node name without scheme and port, which clients may add: https:NODE:10250. Raises BadRequest."""
    words = name.split(":")
    if len(words) == 3 and words[0] in ("http", "https", ""):
        words = words[1:]
    if len(words) > 2 or (len(words) == 2 and not words[1].isdigit()):
        raise BadRequest(f"invalid node request {name!r}: expected NODE, NODE:PORT or SCHEME:NODE:PORT")
    return words[0]
