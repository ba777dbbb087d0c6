"""Containers of a cluster's node agents that outlive the cluster's process, and their end."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dray.node.runtime import Key, Runtime


def running(directory: Path) -> list[tuple[Runtime, Key]]:
    """The containers below a cluster's directory that run, each with what can end it."""
    from dray.node.process import ProcessWrapper
    from dray.node.supervised import Supervised

    nodes = directory / "nodes"
    runtimes = [Supervised(root, ProcessWrapper()) for root in nodes.iterdir()] if nodes.is_dir() else []
    return [
        (runtime, attempt.key)
        for runtime in runtimes
        for pod in runtime.pods()
        for attempt in runtime.attempts(pod)
        if attempt.running
    ]


def end(directory: Path) -> int:
    """End them at once; how many there were."""

    async def stop() -> int:
        found = running(directory)
        await asyncio.gather(*(runtime.stop(key, 0) for runtime, key in found))
        return len(found)

    return asyncio.run(stop())
