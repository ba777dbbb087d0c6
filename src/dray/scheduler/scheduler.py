"""Wiring of the scheduler: informers → core → loop → bindings and status of pods.

Left out: everything but the wiring, and leader election (`dray.client.leader`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Container, Mapping
from typing import Any

from dray.api.gates import FeatureGates
from dray.api.podclaims import Sharing
from dray.api.types.core import Pod
from dray.api.types.policy import PodDisruptionBudget
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.background import Background
from dray.client import Client, SharedInformers
from dray.client.metrics import OBJECT_FIGURES
from dray.client.readiness import Readiness
from dray.core.configuration import Configuration
from dray.core.core import SchedulerCore
from dray.scheduler import rule_log
from dray.scheduler.background_search import BackgroundSearch
from dray.scheduler.binding import Binder
from dray.scheduler.conditions import BindingConditions
from dray.scheduler.feed import InformerFeed
from dray.scheduler.gang_loop import GangLoop
from dray.scheduler.group_status import GroupConditions, GroupReporter
from dray.scheduler.informed import InformedObjects
from dray.scheduler.loop import GiveWay, SchedulingLoop
from dray.scheduler.object_metrics import ObjectMetrics
from dray.scheduler.pod_status import PodStatusWriter
from dray.scheduler.preempting import Preempting
from dray.scheduler.rivals import AllocatedDevices, other_schedulers
from dray.scheduler.tasks import Tasks

log = logging.getLogger(__name__)

BINDINGS_IN_FLIGHT = 100
DISPENSABLE: Mapping[type[Any], str] = {
    PodDisruptionBudget: "no pod is preempted, since disruption budgets are unknown",
    PodGroup: "pods of PodGroups wait",
}
"""Consequence of a missing read permission, for kinds without which most pods can still be placed."""


class Scheduler:
    """Schedules the pods of its profiles.

    A process that also runs the API server passes `give_way`, so that requests go first, and a shared `Background`.
    """

    def __init__(
        self,
        client: Client,
        gates: FeatureGates,
        configuration: Configuration | None = None,
        *,
        informers: SharedInformers | None = None,
        give_way: GiveWay | None = None,
        background: Background | None = None,
        readiness: Readiness | None = None,
        holds_devices: bool = True,
        allocates_from: Container[str] = (),
    ) -> None:
        """`holds_devices`: the API server gives each device to one claim, as dray's does.

        `allocates_from`: drivers and pools assigned to this scheduler, as DRIVER or DRIVER/POOL; empty for all.
        """
        self._owns_informers = informers is None
        self._informers = informers = informers or SharedInformers(client)
        profiles, sharing = (configuration or Configuration()).profiles, Sharing.of(gates)
        has_groups = gates.served("GenericWorkload")
        objects = InformedObjects(informers, groups=sharing.groups, workloads=has_groups)
        has_conditions = gates.served("DRADeviceBindingConditions")
        timeouts = {name: profile.binding_timeout for name, profile in profiles.items() if has_conditions}
        self.core = SchedulerCore(objects, gates, profiles, time.time, defers=True, binding_timeouts=timeouts)
        rule_log.observe(self.core.state.placement, self.core.state.table)
        self._owns_background = background is None
        self._background = background or Background()
        self._background_search = BackgroundSearch(self.core.queue, self._background)
        self._tasks = Tasks(BINDINGS_IN_FLIGHT)
        self._pod_status = PodStatusWriter(client, self._tasks, time.monotonic)
        conditions = BindingConditions(timeouts, sharing, self._tasks, self._pod_status, objects.claim, time.time)
        groups = GroupConditions(client, informers, self._tasks, profiles) if has_groups else GroupReporter()
        preempting = Preempting(client, self.core, self._tasks, self._pod_status.recorder, objects.group_of)
        self._feed = InformerFeed(self.core, self._pod_status, groups, conditions, preempting, allocates_from)
        ready = conditions.ready if has_conditions else None
        self.allocated = AllocatedDevices(informers.informer(ResourceClaim), self._pod_status.recorder)
        rival_of = None if holds_devices else self.allocated.rival_of
        binder = Binder(client, sharing, ready, objects.uses, objects.claim, rival_of)
        pods = self._pods = informers.informer(Pod)
        self._profiles, self._holds_devices, self._allocates_from = profiles, holds_devices, allocates_from
        self._budgets = informers.informer(PodDisruptionBudget)
        gangs = GangLoop(
            self.core,
            client,
            binder,
            sharing,
            self._pod_status,
            groups,
            self._tasks,
            informers,
            preempting,
            objects,
        )
        self._gangs = gangs if has_groups else None
        self.loop = SchedulingLoop(
            self.core,
            self._feed,
            self._pod_status,
            groups,
            self._tasks,
            self._background_search,
            binder,
            gangs,
            preempting,
            pods,
            give_way,
        )
        self._feed.listen(informers, gates, sharing)
        if has_groups:
            gangs.listen()
        self._readiness = readiness or Readiness()
        self._readiness.check("scheduler", self.problems)

    def problems(self) -> list[str]:
        """Return the read permissions denied by the server without which no pod can be placed correctly.

        The list is empty if pods can be placed. Permissions for dispensable kinds are left out.
        """
        return [refusal for type_, refusal in self._informers.denied.items() if type_ not in DISPENSABLE]

    def _report_others(self) -> None:
        """Log which other schedulers have pods in the cluster, and how double allocation of devices is prevented."""
        if others := other_schedulers(self._pods.list(), self._profiles):
            kept = "each device is held for one claim by the API server"
            if not self._holds_devices:
                kept = "this API server lets two schedulers allocate one device; assign each pool to one of them"
            log.warning("other schedulers have pods here: %s; %s", others, kept)

    async def _know_the_cluster(self) -> None:
        """Wait for the first lists of all kinds, including denied kinds that are needed for correct decisions."""
        await self._informers.start()
        await self._informers.settled()
        denied = self._informers.denied
        for type_, consequence in DISPENSABLE.items():
            if type_ in denied:
                log.error("without that permission %s", consequence)
        if problems := self.problems():
            log.error("no pod is placed until these permissions are granted: %s", "; ".join(problems))
        await self._informers.synced(without=DISPENSABLE.keys() & denied.keys())
        self.core.preempts = self._budgets.has_synced

    async def run(self) -> None:
        """Schedule pods until cancelled. Running bindings are then cancelled and undone as far as possible."""
        try:
            await self._know_the_cluster()
            self._readiness.start()
            self._report_others()
            if self._gangs is not None:
                await self._gangs.recover()
            with OBJECT_FIGURES.shown(lambda: ObjectMetrics.of(self._informers)):
                await self._work()
        finally:
            self._feed.close()
            self.loop.close()
            await self._background_search.close()
            if self._owns_background:
                await self._background.close()
            await self._tasks.cancel()
            if self._owns_informers:
                await self._informers.stop()

    async def _work(self) -> None:
        """Run event writer, missing-claim reports, scheduling loop and gang cleanup until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._pod_status.run(), name="scheduler events")
            group.create_task(self._feed.report_missing(), name="scheduler reports")
            group.create_task(self.loop.run(), name="scheduler loop")
            if self._gangs is not None:
                group.create_task(self._gangs.release_leftovers(), name="scheduler leftovers")
