"""The options of a connection to a pod or a node: exec, attach, port-forward and the proxy of nodes.

Clients send them as a query. Admission sees them as an object of a kind of their own.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from dray.api.errors import BadRequest
from dray.api.wire import Wire

_FALSE = ("0", "false")
_PORT = re.compile("[0-9]{1,5}")


class PodAttachOptions(Wire, frozen=True, kw_only=True):
    """The streams of a container that a client attaches to."""

    stdin: bool = False
    stdout: bool = False
    stderr: bool = False
    tty: bool = False
    container: str = ""


class PodExecOptions(PodAttachOptions, frozen=True, kw_only=True):
    """A command that runs in a container, and its streams."""

    command: tuple[str, ...] = ()


class PodPortForwardOptions(Wire, frozen=True):
    """The ports of a pod that a client names beforehand; most name them later, inside the connection."""

    ports: tuple[int, ...] = ()


class NodeProxyOptions(Wire, frozen=True):
    """The path that is asked for on a node."""

    path: str = ""


ConnectOptions = PodExecOptions | PodAttachOptions | PodPortForwardOptions | NodeProxyOptions


def connect_options(subresource: str, query: Sequence[tuple[str, str]]) -> ConnectOptions:
    """Read the options of `exec`, `attach` or `portforward` from a query. Raises BadRequest for a port that is none."""
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
    """Whether a parameter is set: any value but 0 and false means true, as in all queries of Kubernetes."""
    return value is not None and value.lower() not in _FALSE


def port_number(port: str) -> int:
    """The number that a client wrote for a port. Raises BadRequest for anything else."""
    if not _PORT.fullmatch(port) or not 0 < int(port) < 65536:
        raise BadRequest(f"port {port[:16]!r}: expected a number from 1 to 65535")
    return int(port)
