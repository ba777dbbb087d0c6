"""The scheduler, put together: informers → handlers → picture and queue → loop → bindings and what pods are told.

Left out: everything but the wiring, and who is leader (`dray.client.leader`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping

from dray.allocator import Features, Index
from dray.api.extended_resources import is_special
from dray.api.gates import FeatureGates
from dray.api.podclaims import Sharing, made_for
from dray.api.types.core import Namespace, Node, Pod
from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.scheduling import PodGroup
from dray.client import Client, SharedInformers
from dray.client.consumers import ClaimConsumers
from dray.core.attempt import Placement
from dray.core.configuration import Configuration
from dray.core.devices import Devices
from dray.core.queue import SchedulingQueue
from dray.scheduler.binding import Binder
from dray.scheduler.conditions import BindingConditions
from dray.scheduler.handlers import SchedulerHandlers
from dray.scheduler.hints import Hints
from dray.scheduler.loop import GiveWay, SchedulingLoop
from dray.scheduler.parts import SchedulerParts
from dray.scheduler.tasks import Tasks
from dray.scheduler.telling import Teller
from dray.scheduler.thinking import Thinker
from dray.verdicts.neighbours import Neighbours
from dray.verdicts.nodes import NodeTable

BINDINGS_IN_FLIGHT = 100
SPECIAL_BY_POD = "extended resource claims by pod"


class Scheduler:
    """Places the pods of its profiles. A process that has the API server too says how to give way to its requests."""

    def __init__(
        self,
        client: Client,
        gates: FeatureGates,
        configuration: Configuration | None = None,
        *,
        informers: SharedInformers | None = None,
        give_way: GiveWay | None = None,
    ) -> None:
        self._owns_informers = informers is None
        self._informers = informers = informers or SharedInformers(client)
        profiles, sharing = (configuration or Configuration()).profiles, Sharing.of(gates)
        self._namespaces = informers.informer(Namespace)
        consumers = ClaimConsumers(informers, groups=sharing.groups)
        find_claim = informers.informer(ResourceClaim).get
        self.queue, self.table = SchedulingQueue(time.monotonic), NodeTable()
        has_conditions = gates.served("DRADeviceBindingConditions")
        timeouts = {name: profile.binding_timeout for name, profile in profiles.items() if has_conditions}
        self.devices = self._devices(gates, consumers, timeouts)
        self._thinker = Thinker(self.queue)
        self._tasks = Tasks(BINDINGS_IN_FLIGHT)
        self._teller = Teller(client, self._tasks, time.monotonic)
        conditions = BindingConditions(timeouts, sharing, self._tasks, self._teller, find_claim, time.time)
        parts = SchedulerParts(
            self.queue, self.table, self.devices, self._teller, self._tasks, self._thinker, conditions
        )
        self._hints = Hints(parts)
        placement = Placement(self.table, Neighbours(self.table, self._namespace_labels), self.devices)
        binder = Binder(client, sharing, conditions.ready if has_conditions else None, consumers.uses, find_claim)
        pods = informers.informer(Pod)
        self.loop = SchedulingLoop(parts, self._hints, placement, binder, profiles, pods, give_way)
        handlers = SchedulerHandlers(parts, self._hints, informers, consumers, profiles)
        self._listen(handlers, gates, sharing)

    def _devices(
        self, gates: FeatureGates, consumers: ClaimConsumers, binding_timeouts: Mapping[str, float]
    ) -> Devices:
        claims = self._informers.informer(ResourceClaim)
        claims.add_index(SPECIAL_BY_POD, _owner_of_special)

        def special_of(pod: Pod) -> ResourceClaim | None:
            return next(iter(claims.by_index(SPECIAL_BY_POD, pod.metadata.uid)), None)

        return Devices(
            index_of(gates, defers=True),
            claims.get,
            consumers.group_of,
            self.table,
            gates,
            time.monotonic,
            binding_timeouts,
            special_of,
            consumers.is_in_use,
        )

    def _listen(self, handlers: SchedulerHandlers, gates: FeatureGates, sharing: Sharing) -> None:
        informers = self._informers
        if gates.enabled("DynamicResourceAllocation"):
            informers.informer(ResourceClaim).add_handler(handlers.on_claims)
            informers.informer(DeviceClass).add_handler(handlers.on_classes)
            informers.informer(ResourceSlice).add_handler(handlers.on_slices)
        if sharing.groups:
            informers.informer(PodGroup).add_handler(handlers.on_groups)
        if gates.enabled("DRADeviceTaints"):
            informers.informer(DeviceTaintRule).add_handler(handlers.on_taint_rules)
        informers.informer(Pod).add_handler(handlers.on_pods)
        informers.informer(Node).add_handler(handlers.on_nodes)

    async def run(self) -> None:
        """Schedule until cancelled; bindings under way are broken off and give back what they can."""
        try:
            await self._informers.start()
            await self._informers.synced()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._teller.run(), name="scheduler events")
                group.create_task(self.loop.run(), name="scheduler loop")
        finally:
            self._hints.close()
            await self._thinker.close()
            await self._tasks.cancel()
            if self._owns_informers:
                await self._informers.stop()

    def _namespace_labels(self, name: str) -> dict[str, str]:
        namespace = self._namespaces.get("", name)
        return namespace.metadata.labels if namespace is not None else {}


def _owner_of_special(claim: ResourceClaim) -> list[str]:
    owner = made_for(claim, "Pod") if is_special(claim) else None
    return [owner.uid] if owner is not None else []


def index_of(gates: FeatureGates, *, defers: bool = False) -> Index:
    """An index of devices with the features that are on."""
    return Index(Features.from_gates(gates.enabled), defers=defers)
