"""Containers of a cluster's node agents that continue after the cluster's process has ended, and their termination."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from dray.assembly.description import counted

if TYPE_CHECKING:
    from dray.node.runtime import ContainerKey, Runtime


def running(directory: Path, node: str = "*") -> list[tuple[Runtime, ContainerKey]]:
    """Return the running containers below a cluster's directory, of one node or all, each with its runtime."""
    from dray.node.process import ProcessWrapper
    from dray.node.supervised import Supervised

    runtimes = [Supervised(root, ProcessWrapper()) for root in (directory / "nodes").glob(node)]
    return [
        (runtime, attempt.key)
        for runtime in runtimes
        for pod in runtime.pods()
        for attempt in runtime.attempts(pod)
        if attempt.running
    ]


def left(directory: Path) -> str:
    """Return the message about containers that continue after the cluster's end, or ""."""
    number = len(running(directory))
    rest = "left running: the next `dray up` finds them again, `dray delete` ends them"
    return f"{counted(number, 'container')} {rest}" if number else ""


async def end(directory: Path, node: str = "*") -> None:
    """Kill the running containers of one node or all.

    `node` is the node's name, "*" for all nodes.
    """
    await asyncio.gather(*(runtime.stop(key, 0) for runtime, key in running(directory, node)))
