"""Runs the controllers of a process: starts the informers, then each controller once its own informers have synced.

A missing permission stops only the controllers that need it, and is reported once. Left out: leader election and
signals, which belong to the command.
"""

from __future__ import annotations

import asyncio
import dataclasses
import logging
from collections.abc import Callable, Iterator

from dray.api.errors import ApiError
from dray.api.gates import FeatureGates
from dray.client import Client, Clock, EventRecorder, InformerSelection, SharedInformers, SystemClock
from dray.client.backoff import Backoff
from dray.client.readiness import Readiness
from dray.controllers.context import ControllerContext, Runnable
from dray.controllers.registry import CONTROLLERS, chosen

log = logging.getLogger(__name__)


class ControllerManager:
    """All selected controllers on one set of informers.

    `run` may be called once. `informers` may be passed to share them with other parts of the process; they are
    started here in any case and stopped only if they were created here.
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
        readiness: Readiness | None = None,
    ) -> None:
        self._own_informers = informers is None
        self._informers = informers or SharedInformers(client, clock=clock)
        clock = clock or SystemClock()
        self._recorder = EventRecorder(client, "controller-manager", clock=clock)
        context = ControllerContext(
            client, self._informers, self._recorder, gates or FeatureGates(), clock, root_ca, volumes, accounts
        )
        self._clock = clock
        self._readiness = readiness or Readiness()
        self._needed = {name: InformerSelection(self._informers) for name in chosen(controllers, context.gates)}
        self.controllers: dict[str, Runnable] = {
            name: CONTROLLERS[name](dataclasses.replace(context, informers=needed))
            for name, needed in self._needed.items()
        }
        self.ready = asyncio.Event()

    async def run(self) -> None:
        """Run the controllers until cancelled. An exception other than an API error in one of them ends all."""
        try:
            await self._informers.start()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._recorder.run(), name="events")
                for name in self.controllers:
                    group.create_task(self._supervise(name), name=name)
                for needed in self._needed.values():
                    await needed.settled()
                log.info("running %s", ", ".join(n for n, needed in self._needed.items() if not needed.denied))
                self.ready.set()
                self._readiness.start()
        finally:
            if self._own_informers:
                await self._informers.stop()

    async def _supervise(self, name: str) -> None:
        """Run a controller once its informers have synced. Restart it with a backoff after an API error.

        If an informer may not list its objects, that is logged, and the controller starts once they can be listed.
        Ends when the controller ends by itself.
        """
        needed, backoff = self._needed[name], Backoff(self._clock)
        await needed.settled()
        if denied := needed.denied:
            log.error("controller %s does not run: %s", name, "; ".join(denied.values()))
            await needed.synced()
            log.warning("controller %s is running now", name)
        told = ""
        while True:
            try:
                await self.controllers[name].run()
                return
            except* ApiError as group:
                why = "; ".join(map(str, _leaves(group)))
                log.log(logging.DEBUG if why == told else logging.ERROR, "restarting controller %s: %s", name, why)
                told = why
            await backoff.pause()


def _leaves(group: BaseExceptionGroup[ApiError]) -> Iterator[ApiError]:
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _leaves(error)
        else:
            yield error
