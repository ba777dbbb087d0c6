"""Runs the controllers of a process: informers first, then, once they have everything, the controllers.

Left out: leader election and signals, which belong to the command.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from dray.api.gates import FeatureGates
from dray.client import Client, Clock, EventRecorder, SharedInformers, SystemClock
from dray.controllers.context import ControllerContext, Runnable
from dray.controllers.registry import CONTROLLERS, chosen

log = logging.getLogger(__name__)


class ControllerManager:
    """All controllers that were asked for, on one set of informers.

    `run` may be called once. `informers` may be given to share them with other parts of the process; they are started
    here and stopped only if they were made here.
    """

    def __init__(
        self,
        client: Client,
        *,
        gates: FeatureGates | None = None,
        controllers: str = "*",
        informers: SharedInformers | None = None,
        root_ca: str = "",
        accounts: Callable[[str], Client] | None = None,
        volumes: str = "",
        clock: Clock | None = None,
    ) -> None:
        self._own_informers = informers is None
        self._informers = informers or SharedInformers(client, clock=clock)
        clock = clock or SystemClock()
        self._recorder = EventRecorder(client, "controller-manager", clock=clock)
        context = ControllerContext(
            client, self._informers, self._recorder, gates or FeatureGates(), clock, root_ca, volumes, accounts
        )
        self.controllers: dict[str, Runnable] = {n: CONTROLLERS[n](context) for n in chosen(controllers, context.gates)}
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Work until cancelled; a controller that fails ends all of them."""
        try:
            await self._informers.start()
            await self._informers.synced()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._recorder.run(), name="events")
                for name, controller in self.controllers.items():
                    group.create_task(controller.run(), name=name)
                log.info("running %s", ", ".join(self.controllers))
                self.ready.set()
        finally:
            if self._own_informers:
                await self._informers.stop()
