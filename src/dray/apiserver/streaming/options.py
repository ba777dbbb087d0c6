"""Options of a connection to a pod or node: exec, attach, port-forward and node proxy.

Clients send them as a query. Admission sees them as an object.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dray.api.errors import BadRequest
from dray.api.wire import Wire

_FALSE = ("0", "false")
_PORT = re.compile("[0-9]{1,5}")


class PodAttachOptions(Wire, frozen=True, kw_only=True):
    """Streams of a container that a client attaches to."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    container: str = ""


class PodExecOptions(PodAttachOptions, frozen=True, kw_only=True):
    """A command to run in a container, and its streams."""

    command: tuple[str, ...] = ()


class PodPortForwardOptions(Wire, frozen=True):
    """Ports of a pod that a client names in the request. Most clients name them later, inside the connection."""

    ports: tuple[int, ...] = ()


class NodeProxyOptions(Wire, frozen=True):
    """Requested path on a node."""

    path: str = ""


ConnectOptions = PodExecOptions | PodAttachOptions | PodPortForwardOptions | NodeProxyOptions


def connect_options(subresource: str, query: Sequence[tuple[str, str]]) -> ConnectOptions:
    """Return the options of `exec`, `attach` or `portforward` in a query. Raises BadRequest for an invalid port."""
    if subresource == "portforward":
        return PodPortForwardOptions(
            tuple(port_number(port) for name, value in query if name == "ports" for port in value.split(","))
        )
    first = dict(reversed(query))
    given = {
        "stdin": _flag(first.get("stdin")),
        "stdout": _flag(first.get("stdout")),
        "stderr": _flag(first.get("stderr")),
        "tty": _flag(first.get("tty")),
    }
    container = first.get("container", "")
    if subresource == "attach":
        return PodAttachOptions(**given, container=container)
    command = tuple(value for name, value in query if name == "command")
    return PodExecOptions(**given, container=container, command=command)


def _flag(value: str | None) -> bool:
    """Return whether a parameter is set. Any value except 0 and false is true, as in Kubernetes."""
    return value is not None and value.lower() not in _FALSE


def port_number(port: str) -> int:
    """Return a port as a number. Raises BadRequest unless it is a number from 1 to 65535."""
    if not _PORT.fullmatch(port) or not 0 < int(port) < 65536:
        raise BadRequest(f"port {port[:16]!r}: expected a number from 1 to 65535")
    return int(port)
