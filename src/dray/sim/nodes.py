"""Simulated nodes: one task plays them all, through the API like real ones.

Each node is registered ready, with a lease and its devices; a pod that the scheduler puts there passes the same check
as on a real node (its claims are allocated and reserved for it) before it is reported running. Left out: anything that
executes, and health of nodes: they do not fail unless somebody writes so.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time

from dray.api import podclaims
from dray.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from dray.api.gates import FeatureGates
from dray.api.podclaims import Sharing
from dray.api.types.coordination import Lease
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from dray.client import Client, Controller, Deltas, PatchKind, SharedInformers
from dray.client.clock import micro_timestamp, timestamp
from dray.client.consumers import Consumers
from dray.client.events import EventRecorder
from dray.node.played import BadAnnotation, exit_code, run_seconds
from dray.sim import hardware, lifecycle

log = logging.getLogger(__name__)

LEASE_SECONDS = 10.0
LEASES_A_SECOND = 20  # many nodes renew less often each, so that a quiet cluster stays quiet
WORKERS = 16
RESTART_SECONDS = 1.0  # between restarts at the least, however short a pod runs

Key = tuple[str, str]


async def register(client: Client, count: int, devices: int) -> None:
    """Create what is missing of nodes, leases, slices and the driver's class. They exist then; `SimulatedNodes` run."""
    now = _now()
    if devices:
        await _ensure(client, DeviceClass, hardware.class_tree())
    for number in range(count):
        tree = hardware.node_tree(number, now)
        await _ensure(client, Node, tree)
        name = tree["metadata"]["name"]
        node = await client.patch(Node, name, {"status": tree["status"]}, subresource="status")
        await _ensure(client, Lease, hardware.lease_tree(number, _precisely_now()))
        for piece in hardware.slice_trees(number, devices, node.metadata.uid):
            await _ensure(client, ResourceSlice, piece)


async def _ensure(client: Client, type_: type, tree: dict[str, object]) -> None:
    try:
        await client.create(type_, tree)
    except AlreadyExists:
        return
    except NotFound as error:  # its group is not served: a cluster without devices
        log.info("simulated nodes go without: %s", error)


class SimulatedNodes:
    """`count` nodes with `devices` devices each."""

    def __init__(
        self,
        client: Client,
        informers: SharedInformers,
        count: int,
        devices: int,
        *,
        gates: FeatureGates = FeatureGates(),  # noqa: B008 (immutable)
    ) -> None:
        self._client = client
        self._count = count
        self._devices = devices
        self._numbers = {hardware.node_name(n): n for n in range(count)}
        self._pods = informers.informer(Pod)
        self._claims = informers.informer(ResourceClaim)
        self._serves_devices = gates.enabled("DynamicResourceAllocation")
        self._sharing = Sharing.of(gates)
        self._consumers = Consumers(informers, groups=self._sharing.groups)
        self._recorder = EventRecorder(client, "kubelet")
        self._controller: Controller[Key] = Controller("simulated_nodes", self._reconcile, workers=WORKERS)
        self._ends: dict[str, float] = {}  # uid of a pod that runs → when its time is up, in the loop's time
        self._pods.add_handler(self._on_pods)
        self._claims.add_handler(self._on_claims)

    async def run(self) -> None:
        """Bring the nodes up and play them until cancelled."""
        await register(self._client, self._count, self._devices)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run())
            group.create_task(self._recorder.run())
            group.create_task(self._renew())

    async def _renew(self) -> None:
        """Renew leases in turn, each every ten seconds while there are few."""
        pause = max(LEASE_SECONDS / max(1, self._count), 1 / LEASES_A_SECOND)
        while self._numbers:
            for name in self._numbers:
                await asyncio.sleep(pause)
                try:
                    patch = {"spec": {"renewTime": _precisely_now()}}
                    await self._client.patch(Lease, name, patch, "kube-node-lease")
                except ApiError as error:
                    log.debug("lease of %s: %s", name, error)

    # -- what makes us look

    def _on_pods(self, deltas: Deltas[Pod]) -> None:
        for old, new in deltas:
            if new is None:
                assert old is not None
                self._ends.pop(old.metadata.uid, None)
            elif new.spec.nodeName in self._numbers:
                self._controller.queue.add((new.metadata.namespace, new.metadata.name))

    def _on_claims(self, deltas: Deltas[ResourceClaim]) -> None:
        for _, claim in deltas:
            if claim is None or claim.status.allocation is None:
                continue  # nobody can start with it
            for pod in self._consumers.of(claim.metadata.namespace, claim.metadata.name):
                if pod.metadata.uid not in self._ends and pod.spec.nodeName in self._numbers:
                    self._controller.queue.add((pod.metadata.namespace, pod.metadata.name))

    # -- one pod

    async def _reconcile(self, key: Key) -> float | None:
        pod = self._pods.get(*key)
        if pod is None or pod.spec.nodeName not in self._numbers:
            return None
        if pod.metadata.deletionTimestamp is not None:
            await self._remove(pod)
            return None
        if podclaims.is_finished(pod):
            return None
        try:
            run_seconds(pod.metadata.annotations)
            exit_code(pod.metadata.annotations)
        except BadAnnotation as error:
            await self._report(pod, lifecycle.refused("BadAnnotation", str(error)))
            return None
        if pod.metadata.uid in self._ends:
            return await self._advance(pod)
        return await self._start(pod)

    async def _remove(self, pod: Pod) -> None:
        """Stop a deleted pod. One that stays for others (foreground deletion) must say that it uses nothing more."""
        if pod.metadata.finalizers and not podclaims.is_finished(pod):
            await self._report(pod, lifecycle.finished(pod, _now(), 0))
        try:
            await self._client.delete(Pod, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid, grace=0)
        except (NotFound, Conflict):
            return

    async def _start(self, pod: Pod) -> float | None:
        problem = self._not_admitted(pod)
        if problem:
            self._recorder.warning(
                pod, "FailedPrepareDynamicResources", f"Failed to prepare dynamic resources: {problem}"
            )
            return None
        seconds = run_seconds(pod.metadata.annotations)
        self._ends[pod.metadata.uid] = asyncio.get_running_loop().time() + (math.inf if seconds is None else seconds)
        if pod.status.phase != "Running":
            await self._report(pod, lifecycle.running(pod, _now(), self._address(pod)))
        return seconds

    async def _advance(self, pod: Pod) -> float | None:
        """Let time pass for a pod that runs: finish or restart it when its time is up."""
        seconds = run_seconds(pod.metadata.annotations)
        if seconds is None:
            return None
        now = asyncio.get_running_loop().time()
        left = self._ends[pod.metadata.uid] - now
        if left > 0:
            return left
        code = exit_code(pod.metadata.annotations)
        if lifecycle.restarts_after(pod, code):
            restarts = 1 + max((s.restartCount for s in pod.status.containerStatuses), default=0)
            again = max(RESTART_SECONDS, seconds)
            self._ends[pod.metadata.uid] = now + again
            await self._report(pod, lifecycle.running(pod, _now(), self._address(pod), restarts))
            return again
        await self._report(pod, lifecycle.finished(pod, _now(), code))
        return None

    def _not_admitted(self, pod: Pod) -> str:
        """Why a real node would not start this pod yet; empty when it would."""
        if not self._serves_devices:
            return ""  # it would not even look
        for use in self._consumers.uses(pod):
            if not use.needed:
                continue
            claim = self._claims.get(pod.metadata.namespace, use.claim) if use.claim else None
            if claim is None:
                return f"ResourceClaim of entry {use.entry} does not exist"
            if use.generated and not self._is_made_for(claim, pod):
                return f"ResourceClaim {claim.metadata.name} was not created for pod {pod.metadata.name}"
            if claim.status.allocation is None:
                return f"ResourceClaim {claim.metadata.name} is not allocated"
            if not podclaims.may_use(claim, pod, self._sharing):
                return (
                    f"pod {pod.metadata.name} ({pod.metadata.uid}) is not allowed to use "
                    f"ResourceClaim {claim.metadata.name} ({claim.metadata.uid})"
                )
        return ""

    async def _report(self, pod: Pod, status: dict[str, object]) -> None:
        patch = {"metadata": {"uid": pod.metadata.uid}, "status": status}
        try:
            await self._client.patch(
                Pod, pod.metadata.name, patch, pod.metadata.namespace, kind=PatchKind.STRATEGIC, subresource="status"
            )
        except (NotFound, Conflict):
            self._ends.pop(pod.metadata.uid, None)

    def _address(self, pod: Pod) -> str:
        return hardware.address(self._numbers[pod.spec.nodeName])

    def _is_made_for(self, claim: ResourceClaim, pod: Pod) -> bool:
        """Whether a generated claim is the pod's own or its group's; a group is told by its name."""
        return podclaims.is_controlled_by(claim, pod.metadata.uid) or podclaims.is_made_for_group(
            claim, podclaims.group_name(pod)
        )


def _now() -> str:
    return timestamp(time.time())


def _precisely_now() -> str:
    return micro_timestamp(time.time())
