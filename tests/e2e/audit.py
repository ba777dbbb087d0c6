"""What must hold at every moment of a cluster, checked on every change of a claim while a test runs.

No device goes to two claims; no entry of a pod has two generated claims; an allocated claim carries its finalizer; a pod
that runs keeps its reservations. The audit collects what it finds instead of raising, since it runs in the informer's
task; whoever owns the cluster asks for it. Left out: whether anything happens at all, which is what tests are for.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from typing import TypeVar

from dray.api.allocations import taken_by_claim
from dray.api.errors import NotFound, ServiceUnavailable
from dray.api.extended_resources import is_extended_resource_claim
from dray.api.podclaims import CLAIM_FINALIZER, GROUP_CLAIM_ANNOTATION, POD_CLAIM_ANNOTATION
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim, ResourceClaimConsumerReference
from dray.client import Client, Deltas, Object, SharedInformers

Device = tuple[str, str, str]
T = TypeVar("T", bound=Object)
GRACE = 1.0  # seconds that two copies may be apart before a pod without its reservation is a finding


class Audit:
    """Follows claims and pods with informers of its own."""

    def __init__(self, client: Client) -> None:
        self.findings: list[str] = []
        self._client = client
        self._tasks: list[asyncio.Task[None]] = []
        self._informers = SharedInformers(client)
        self._claims = self._informers.informer(ResourceClaim)
        self._pods = self._informers.informer(Pod)
        self._holders: dict[Device, set[str]] = defaultdict(set)
        self._generated: dict[tuple[str, str], set[str]] = defaultdict(set)
        self._claims.add_handler(self._on_claims)

    async def start(self) -> None:
        await self._informers.start()
        await self._informers.synced()

    async def stop(self) -> None:
        await self._informers.stop()
        for task in self._tasks:
            task.cancel()
        for result in await asyncio.gather(*self._tasks, return_exceptions=True):
            if isinstance(result, Exception):
                raise result

    def _on_claims(self, deltas: Deltas[ResourceClaim]) -> None:
        for old, new in deltas:
            if old is not None:
                self._forget(old)
            if new is not None:
                self._note(new)
            if old is not None and len(old.status.reservedFor) > len(new.status.reservedFor if new else ()):
                asyncio.get_running_loop().call_later(GRACE, self._check_running, old)

    def _forget(self, claim: ResourceClaim) -> None:
        for device in devices_of(claim):
            self._holders[device].discard(claim.metadata.uid)
        for key in _made_for(claim):
            self._generated[key].discard(claim.metadata.uid)

    def _note(self, claim: ResourceClaim) -> None:
        name = f"{claim.metadata.namespace}/{claim.metadata.name}"
        for device in devices_of(claim):
            holders = self._holders[device]
            holders.add(claim.metadata.uid)
            if len(holders) > 1:
                self.findings.append(f"device {'/'.join(device)} is allocated to {len(holders)} claims, last to {name}")
        for key in _made_for(claim):
            self._generated[key].add(claim.metadata.uid)
            if len(self._generated[key]) > 1:
                self.findings.append(f"there is more than one claim for entry {key[1]} of {key[0]}, last {name}")
        if claim.status.allocation is not None and CLAIM_FINALIZER not in claim.metadata.finalizers:
            self.findings.append(f"claim {name} is allocated without its finalizer")

    def _check_running(self, before: ResourceClaim) -> None:
        """A reservation was taken away: its pod must not run (unless it was reserved again since)."""
        namespace = before.metadata.namespace
        for reference in before.status.reservedFor:
            pod = self._pods.get(namespace, reference.name)
            if pod is not None and _leans_on(pod, reference, self._claims.get(namespace, before.metadata.name), before):
                self._tasks.append(asyncio.create_task(self._confirm(reference, before)))

    async def _confirm(self, reference: ResourceClaimConsumerReference, before: ResourceClaim) -> None:
        """Ask the server, since the copies may be further apart than the grace. The claim first: a pod may end in between."""
        namespace = before.metadata.namespace
        while True:
            try:
                claim = await self._found(ResourceClaim, before.metadata.name, namespace)
                pod = await self._found(Pod, reference.name, namespace)
                break
            except ServiceUnavailable:
                await asyncio.sleep(GRACE)
        if pod is not None and _leans_on(pod, reference, claim, before):
            self.findings.append(f"pod {reference.name} runs, but lost claim {before.metadata.name}")

    async def _found(self, kind: type[T], name: str, namespace: str) -> T | None:
        try:
            return await self._client.get(kind, name, namespace)
        except NotFound:
            return None


def _leans_on(
    pod: Pod, reference: ResourceClaimConsumerReference, claim: ResourceClaim | None, before: ResourceClaim
) -> bool:
    """Whether a pod runs for which a claim was reserved before, and is not any more.

    A claim for extended resources is given up if its pod cannot be bound. Then the pod gets another one.
    """
    extended = pod.status.extendedResourceClaimStatus
    if extended and is_extended_resource_claim(before) and extended.resourceClaimName != before.metadata.name:
        return False
    runs = pod.status.phase == "Running" and pod.metadata.deletionTimestamp is None
    same = claim is not None and claim.metadata.uid == before.metadata.uid
    kept = {r.uid for r in claim.status.reservedFor} if claim is not None and same else set()
    return runs and pod.metadata.uid == reference.uid and reference.uid not in kept


class Complaints(logging.Handler):
    """Errors that parts log: handlers and reconcilers that raised something unforeseen."""

    def __init__(self, findings: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._findings = findings

    def emit(self, record: logging.LogRecord) -> None:
        problem = record.exc_info[1] if record.exc_info else None
        self._findings.append(f"{record.name} logged: {record.getMessage()} {problem!r}")


def devices_of(claim: ResourceClaim) -> list[Device]:
    """The devices that a claim has for itself."""
    return [*taken_by_claim(claim).devices]


def _made_for(claim: ResourceClaim) -> list[tuple[str, str]]:
    """Whose claim this is: uid of the owner and entry."""
    annotations = claim.metadata.annotations
    entry = annotations.get(POD_CLAIM_ANNOTATION) or annotations.get(GROUP_CLAIM_ANNOTATION)
    return [(ref.uid, entry) for ref in claim.metadata.ownerReferences if ref.controller and entry]
