"""The channels of exec, attach and port-forward: their numbers, sub-protocols, and how a command's end is told. Pure.

A message is one byte, the channel, and data. API server and node agent speak the same form to each other that clients
speak to the API server. Left out: sockets, and older forms (`dray.apiserver.streaming`).
"""

from __future__ import annotations

from dray.api.wire import Tree

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
CLOSE = 255  # followed by the number of the channel that ends; since version 5
V5, V4, V3, V2, V1 = (f"v{number}.channel.k8s.io" if number > 1 else "channel.k8s.io" for number in (5, 4, 3, 2, 1))
BASE64_V4, BASE64_V1 = "v4.base64.channel.k8s.io", "base64.channel.k8s.io"
PORT_FORWARD = "portforward.k8s.io"
PORT_FORWARD_TUNNEL = "SPDY/3.1+portforward.k8s.io"

SUCCESS: Tree = {"metadata": {}, "status": "Success"}


def ended_with(code: int) -> Tree:
    """How a command that ended is told."""
    if code == 0:
        return SUCCESS
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: {code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": str(code)}]},
    }


def failed(text: str) -> Tree:
    """How it is told that a command, or a connection, could not be had."""
    return {"metadata": {}, "status": "Failure", "message": text, "reason": "InternalError", "code": 500}
