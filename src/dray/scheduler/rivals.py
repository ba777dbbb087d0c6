"""Other allocators beside this scheduler: who they are, and devices that two claims have.

The API server of dray holds each device for one claim. Kubernetes' API server does not, so two schedulers that allocate from one
pool can give a device to two claims. This module keeps, for every device that is allocated as a whole, the claims that have it.
A binding asks it after its own allocation was written and seen: a claim that is there already was first. Whatever the server,
devices that two claims have are reported. Left out: shares and counters, which are sums (`dray.api.allocations`).
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter as Tally
from collections.abc import Container, Iterable

from dray.api.allocations import DeviceId, taken_by_claim
from dray.api.errors import Timeout
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim, ResourceSlice
from dray.client import Deltas, EventRecorder, Informer, Key, key_of
from dray.scheduler.metrics import ALLOCATED_TWICE

log = logging.getLogger(__name__)

SEEN_SECONDS = 10.0  # in which the informer must deliver a write; a watch that is later is broken
REASON = "DeviceAllocatedTwice"


class AllocatedDevices:
    """The claims that have each device. Follows the informer of claims."""

    def __init__(self, claims: Informer[ResourceClaim], recorder: EventRecorder) -> None:
        self._claims = claims
        self._recorder = recorder
        self._holders: dict[DeviceId, dict[Key, None]] = {}
        self._waits: dict[Key, list[tuple[str, asyncio.Future[None]]]] = {}
        self._twice: set[DeviceId] = set()
        claims.add_handler(self._on_claims)

    @property
    def twice(self) -> dict[DeviceId, list[Key]]:
        """The devices that more than one claim has, with the claims."""
        return {device: [*self._holders[device]] for device in self._twice}

    async def rival_of(self, written: ResourceClaim) -> str:
        """Wait until the informer has seen an allocation that was written, and name a claim that had a device before it.

        Returns an empty text if there is none. A watch tells changes in the order of the server, so at that time the copy
        has every allocation that was written earlier. One that is written later is not seen here.
        """
        key = key_of(written)
        await self._seen(key, written)
        for device in taken_by_claim(written).devices:
            for other in self._holders.get(device, ()):
                if other != key:
                    return f"{device} belongs to resourceclaim {other[0]}/{other[1]}"
        return ""

    async def _seen(self, key: Key, written: ResourceClaim) -> None:
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
            before, after = taken_by_claim(old).devices, taken_by_claim(new).devices
            if before != after:
                self._move(key_of(new or old), before, after)  # type: ignore[arg-type]  # one of them is there
            if new is not None and self._waits:
                self._tell_waiting(new)

    def _move(self, key: Key, before: Iterable[DeviceId], after: Iterable[DeviceId]) -> None:
        changed = {*before, *after}
        for device in before:
            holders = self._holders.get(device, {})
            holders.pop(key, None)
            if not holders:
                self._holders.pop(device, None)
        for device in after:
            self._holders.setdefault(device, {})[key] = None
        for device in changed:
            self._judge(device)
        ALLOCATED_TWICE.of().value = len(self._twice)

    def _judge(self, device: DeviceId) -> None:
        holders = self._holders.get(device, {})
        if len(holders) < 2:
            self._twice.discard(device)
        elif device not in self._twice:
            self._twice.add(device)
            names = " and ".join(f"{namespace}/{name}" for namespace, name in holders)
            text = f"device {device} is allocated to the claims {names}"
            log.error("%s", text)
            for key in holders:
                if (claim := self._claims.get(*key)) is not None:
                    self._recorder.warning(claim, REASON, text)

    def _tell_waiting(self, claim: ResourceClaim) -> None:
        for version, future in self._waits.get(key_of(claim), ()):
            if not future.done() and _has_come(claim.metadata.resourceVersion, version):
                future.set_result(None)


def assigned(pools: Container[str], piece: ResourceSlice) -> bool:
    """Whether a slice is of a driver or pool (DRIVER or DRIVER/POOL) that is assigned to this scheduler."""
    return piece.spec.driver in pools or f"{piece.spec.driver}/{piece.spec.pool.name}" in pools


def other_schedulers(pods: Iterable[Pod], ours: Container[str]) -> str:
    """Whose pods there are besides ours: `default-scheduler (3 pods)`; empty where there are none."""
    names = Tally(pod.spec.schedulerName for pod in pods if pod.spec.schedulerName not in ours)
    return ", ".join(f"{name} ({count} {'pod' if count == 1 else 'pods'})" for name, count in names.most_common())


def _has_come(seen: str, wanted: str) -> bool:
    """Whether a copy of this version is at least as new as a write; versions of one resource are numbers that grow."""
    return seen == wanted or (seen.isdecimal() and wanted.isdecimal() and int(seen) > int(wanted))
