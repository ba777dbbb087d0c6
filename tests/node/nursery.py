"""Agents that can be killed and started again at once: a process with everything imported, which forks them.

`python nursery.py SERVER ROOT`; each line on standard input kills the agent that runs, if any, and starts the next one,
whose pid is printed.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from dray.client.config import Config
from dray.client.http import Http
from dray.node.agent import Agent, AgentSettings
from dray.node.lifecycle import RestartDelays

NODE = "node-a"


async def live(server: str, root: Path) -> None:
    settings = AgentSettings(
        NODE, root, runtime="process", cdi_directories=(root / "cdi",), delays=RestartDelays(first=0.2, last=0.4)
    )
    async with Http(Config(server)) as client:
        await Agent(client, settings).run()


def main(server: str, root: Path) -> None:
    pid = 0
    for line in sys.stdin:
        if pid:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
        pid = 0
        if line.strip() == "end":
            return
        pid = os.fork()
        if pid == 0:
            asyncio.run(live(server, root))
        print(pid, flush=True)


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
