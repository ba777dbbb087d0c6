"""Applies informer events to the core, and regularly handles what depends only on time.

Left out: what a change means (`dray.core`), and which pod is tried (`loop`).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Container, Sequence
from typing import Any

from dray.api.gates import FeatureGates
from dray.api.podclaims import Sharing, is_finished
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.scheduling import PodGroup
from dray.client import Deltas, SharedInformers
from dray.core.core import SchedulerCore
from dray.scheduler.conditions import BindingConditions
from dray.scheduler.group_status import GroupReporter
from dray.scheduler.pod_status import PodStatusWriter
from dray.scheduler.preempting import Preempting
from dray.scheduler.rivals import assigned

LOOKS_APART = (
    # minimum seconds between two checks which waiting pods changed devices help, since devices may change constantly
    0.02
)
LOOK_SECONDS = 0.01  # maximum duration of one check before other tasks run
KINDS_AT_ONCE = 4  # groups of equal pods examined between two checks of the clock
REPORTS_APART = 0.5  # seconds between two checks for pods with missing claims


class InformerFeed:
    """Applies informer events to the core of one scheduler."""

    def __init__(
        self,
        core: SchedulerCore,
        pod_status: PodStatusWriter,
        groups: GroupReporter,
        conditions: BindingConditions,
        preempting: Preempting,
        allocates_from: Container[str] = (),
    ) -> None:
        """`allocates_from`: drivers and pools assigned to this scheduler, as DRIVER or DRIVER/POOL; empty for all."""
        self._core = core
        self._allocates_from = allocates_from
        self._preempting = preempting
        self._groups = groups
        self._pod_status = pod_status
        self._conditions = conditions
        self._looked = 0.0  # when waiting pods were last checked for helpful device changes
        self._look: asyncio.TimerHandle | None = None  # the next check

    def listen(self, informers: SharedInformers, gates: FeatureGates, sharing: Sharing) -> None:
        """Add handlers for all kinds that matter with these feature gates."""
        if gates.enabled("DynamicResourceAllocation"):
            informers.informer(ResourceClaim).add_handler(self._on_claims)
            informers.informer(DeviceClass).add_handler(self._on_changes)
            informers.informer(ResourceSlice).add_handler(self._on_slices)
        if sharing.groups or gates.served("GenericWorkload"):
            informers.informer(PodGroup).add_handler(self._on_changes)
        if gates.enabled("DRADeviceTaints"):
            informers.informer(DeviceTaintRule).add_handler(self._on_changes)
        informers.informer(Pod).add_handler(self._on_pods)
        informers.informer(Node).add_handler(self._on_changes)

    def _on_slices(self, deltas: Deltas[ResourceSlice]) -> None:
        """Apply changed slices, except those of pools assigned to other allocators."""
        if not self._allocates_from:
            self._on_changes(deltas)
            return

        def kept(piece: ResourceSlice | None) -> ResourceSlice | None:
            return piece if piece is not None and assigned(self._allocates_from, piece) else None

        ours = [(kept(old), kept(new)) for old, new in deltas]
        self._on_changes([(old, new) for old, new in ours if old is not None or new is not None])

    def close(self) -> None:
        if self._look is not None:
            self._look.cancel()

    async def report_missing(self) -> None:
        """Regularly report missing claims and groups of pods, and end expired nominations, until cancelled.

        Also looks for devices that a decision has freed without changing an object.
        """
        while True:
            await asyncio.sleep(REPORTS_APART)
            self._core.now = time.monotonic()
            for pod, why in self._core.unreported():
                self._pod_status.report_unschedulable(pod, why)
                self._groups.waits(pod, why)
            self._preempting.expire()
            self.look_soon()

    def _on_changes(self, deltas: Sequence[tuple[Any, Any]]) -> None:
        """Apply changed objects to the core."""
        core = self._core
        core.now = time.monotonic()
        for old, new in deltas:
            core.apply(old, new)
        self.look_soon()

    def _on_pods(self, deltas: Deltas[Pod]) -> None:
        """Apply changed pods, and forget the reported status of pods that have ended."""
        self._on_changes(deltas)
        if not self._pod_status.has_reported:
            return
        for old, new in deltas:
            if (gone := old if new is None else new) is not None and (new is None or is_finished(new)):
                self._pod_status.forget(gone.metadata.uid)

    def _on_claims(self, deltas: Deltas[ResourceClaim]) -> None:
        """Pass changed claims to the waits for binding conditions, and apply them."""
        for old, new in deltas if self._conditions.has_waits else ():
            if (claim := new or old) is not None:
                self._conditions.claim_changed(claim, gone=new is None)
        self._on_changes(deltas)

    def look_soon(self) -> None:
        """Schedule a check which pods the changed devices help; at once if the last check is long enough ago."""
        if self._look is None and self._core.has_device_news:
            loop = asyncio.get_running_loop()
            self._look = loop.call_at(max(loop.time(), self._looked + LOOKS_APART), self._wake_helped)

    def _wake_helped(self) -> None:
        """Wake pods that changed devices help, for at most LOOK_SECONDS. Schedules another check if pods are left."""
        self._look, self._looked = None, asyncio.get_running_loop().time()
        self._core.now = now = time.monotonic()
        while self._core.has_device_news and time.monotonic() < now + LOOK_SECONDS:
            self._core.wake_for_devices(KINDS_AT_ONCE)
        self.look_soon()  # the next check continues with the remaining pods
