"""Other allocators beside this scheduler, and devices allocated to two claims.

dray's API server gives each device to one claim. Kubernetes' API server does not check this, so two schedulers that
allocate from one pool can give the same device to two claims. This module tracks the claims that hold each
exclusively allocated device. A binding checks here after its own allocation was written and seen: a claim that
already holds a device was first. Devices held by two claims are always reported. Left out: shares and counters, which
are sums (`dray.api.allocations`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter as Tally
from collections.abc import Container, Iterable

from dray.api.allocations import DeviceId, taken_by, taken_by_claim
from dray.api.errors import Timeout
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.client import Deltas, EventRecorder, Informer, Key, key_of
from dray.scheduler.metrics import ALLOCATED_TWICE

log = logging.getLogger(__name__)

SEEN_SECONDS = 10.0  # seconds within which the informer must deliver a write; otherwise the watch is broken
REASON = "DeviceAllocatedTwice"


class AllocatedDevices:
    """Claims that hold each device, according to the informer of claims."""

    def __init__(self, claims: Informer[ResourceClaim], recorder: EventRecorder) -> None:
        self._claims = claims
        self._recorder = recorder
        self._holders: dict[DeviceId, dict[Key, None]] = {}
        self._waits: dict[Key, list[tuple[str, asyncio.Future[None]]]] = {}
        self._twice: set[DeviceId] = set()
        claims.add_handler(self._on_claims)

    @property
    def twice(self) -> dict[DeviceId, list[Key]]:
        """The devices held by more than one claim, with these claims as (namespace, name)."""
        return {device: [*self._holders[device]] for device in self._twice}

    async def rival_of(self, written: ResourceClaim) -> str:
        """Wait until the informer has seen a written allocation. Returns a description of another claim with its
        devices.

        Returns "" if there is none. A watch delivers changes in the server's order, so all earlier allocations are
        known by then; allocations written later are not seen. Raises Timeout if the informer does not see the write.
        """
        key = key_of(written)
        await self._seen(key, written)
        for device in taken_by_claim(written).devices:
            for other in self._holders.get(device, ()):
                if other != key:
                    return f"{device} belongs to resourceclaim {other[0]}/{other[1]}"
        return ""

    async def _seen(self, key: Key, written: ResourceClaim) -> None:
        """Wait until the informer has the written version of a claim, or a newer one.

        Raises Timeout after SEEN_SECONDS.
        """
        copy = self._claims.get(*key)
        if copy is not None and _has_come(copy.metadata.resourceVersion, written.metadata.resourceVersion):
            return
        future = asyncio.get_running_loop().create_future()
        wait = written.metadata.resourceVersion, future
        self._waits.setdefault(key, []).append(wait)
        try:
            async with asyncio.timeout(SEEN_SECONDS):
                await future
        except TimeoutError:
            raise Timeout(f"the watch of claims did not show {key[0]}/{key[1]} for {SEEN_SECONDS:g} s") from None
        finally:
            waits = self._waits[key]
            waits.remove(wait)
            if not waits:
                del self._waits[key]

    def _on_claims(self, deltas: Deltas[ResourceClaim]) -> None:
        for old, new in deltas:
            earlier = old.status.allocation if old is not None else None
            current = new.status.allocation if new is not None else None
            if earlier is not current:
                before, after = taken_by(earlier).devices, taken_by(current).devices
                if before != after:
                    self._move(key_of(new or old), before, after)  # type: ignore[arg-type]  # one of them is not None
            if new is not None and self._waits:
                self._tell_waiting(new)

    def _move(self, key: Key, before: Iterable[DeviceId], after: Iterable[DeviceId]) -> None:
        """Update the holders of devices after a claim's allocation changed."""
        for device in before:
            holders = self._holders.get(device, {})
            holders.pop(key, None)
            if not holders:
                self._holders.pop(device, None)
        for device in after:
            self._holders.setdefault(device, {})[key] = None
        for device in {*before, *after}:
            if device in self._twice or len(self._holders.get(device, ())) > 1:
                self._judge(device)

    def _judge(self, device: DeviceId) -> None:
        """Record whether a device is held by several claims, and report this once in the log and as events."""
        holders = self._holders.get(device, {})
        if len(holders) < 2:
            self._twice.discard(device)
            ALLOCATED_TWICE.of().value = len(self._twice)
        elif device not in self._twice:
            self._twice.add(device)
            ALLOCATED_TWICE.of().value = len(self._twice)
            names = " and ".join(f"{namespace}/{name}" for namespace, name in holders)
            text = f"device {device} is allocated to the claims {names}"
            log.error("%s", text)
            for key in holders:
                if (claim := self._claims.get(*key)) is not None:
                    self._recorder.warning(claim, REASON, text)

    def _tell_waiting(self, claim: ResourceClaim) -> None:
        """End the waits for this version of a claim."""
        for version, future in self._waits.get(key_of(claim), ()):
            if not future.done() and _has_come(claim.metadata.resourceVersion, version):
                future.set_result(None)


def assigned(pools: Container[str], piece: ResourceSlice) -> bool:
    """Whether the driver or pool of a slice is among those assigned to this scheduler, as DRIVER or DRIVER/POOL."""
    return piece.spec.driver in pools or f"{piece.spec.driver}/{piece.spec.pool.name}" in pools


def other_schedulers(pods: Iterable[Pod], ours: Container[str]) -> str:
    """Return other schedulers with their number of pods, like `default-scheduler (3 pods)`, separated by commas.

    Returns "" if there are none. The scheduler with the most pods comes first. `ours` are the names to leave out.
    """
    names = Tally(pod.spec.schedulerName for pod in pods if pod.spec.schedulerName not in ours)
    return ", ".join(f"{name} ({count} {'pod' if count == 1 else 'pods'})" for name, count in names.most_common())


def _has_come(seen: str, wanted: str) -> bool:
    """Whether a copy's resource version is at least as new as a write's. Resource versions are increasing numbers.

    Versions that are no decimal numbers must be equal.
    """
    return seen == wanted or (seen.isdecimal() and wanted.isdecimal() and int(seen) > int(wanted))
