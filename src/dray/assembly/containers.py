"""Containers of a cluster's node agents that outlive the cluster's process, and their end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

from dray.assembly.description import counted

if TYPE_CHECKING:
    from dray.node.runtime import ContainerKey, Runtime


def running(directory: Path, node: str = "*") -> list[tuple[Runtime, ContainerKey]]:
    """The containers below a cluster's directory that run, of one node or of all, each with what can end it."""
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
    """What is to be said of containers that go on when the cluster has ended; empty where there are none."""
    number = len(running(directory))
    rest = "left running: the next `dray up` finds them again, `dray delete` ends them"
    return f"{counted(number, 'container')} {rest}" if number else ""


async def end(directory: Path, node: str = "*") -> None:
    """End them at once."""
    await asyncio.gather(*(runtime.stop(key, 0) for runtime, key in running(directory, node)))
