"""Channels of exec, attach and port-forward: channel numbers, subprotocols and the exit status message.

A message is one byte for the channel, followed by data. The API server and the node agent use the same protocol
between each other as clients use with the API server. Sockets and older protocols are in
`dray.apiserver.streaming`. All functions are pure.
"""

from __future__ import annotations

from dray.api.wire import Tree

STDIN, STDOUT, STDERR, ERROR, RESIZE = range(5)
CLOSE = 255  # followed by the number of the closed channel; since protocol version 5
V5, V4, V3, V2, V1 = (f"v{number}.channel.k8s.io" if number > 1 else "channel.k8s.io" for number in (5, 4, 3, 2, 1))
BASE64_V4, BASE64_V1 = "v4.base64.channel.k8s.io", "base64.channel.k8s.io"
PORT_FORWARD = "portforward.k8s.io"
PORT_FORWARD_TUNNEL = "SPDY/3.1+portforward.k8s.io"

SUCCESS: Tree = {"metadata": {}, "status": "Success"}


def ended_with(code: int) -> Tree:
    """Return the Status object that reports the exit code of a command: success for 0, otherwise NonZeroExitCode."""
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
    """Return the Status object that reports that a command or connection could not be started."""
    return {"metadata": {}, "status": "Failure", "message": text, "reason": "InternalError", "code": 500}
