"""Simulated nodes: one task runs all of them through the API, like real nodes.

Each node is registered as ready, with a lease and its devices. A scheduled pod passes the same check as on a real
node (its claims are allocated and reserved) before it is reported as running. Existing nodes with matching labels are
adopted: they get a lease and their pods run; other fields stay unchanged. Pods of Jobs end by themselves. Left out:
running processes, and node failures: a simulated node fails only if a client writes so.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Sequence
from typing import Any, cast

from dray.api import podclaims
from dray.api.claim_access import Knowledge, Purpose, claim_problem
from dray.api.errors import AlreadyExists, ApiError, Conflict, NotFound
from dray.api.gates import FeatureGates, declared_features
from dray.api.podclaims import Sharing
from dray.api.reasons import wording
from dray.api.reasons.claims import ClaimProblem
from dray.api.selectors.labels import LabelRequirements
from dray.api.simulated import BY_SIMULATION, POD_RANGE, RUNS_NO_PODS, SIMULATED, Network, pod_address
from dray.api.times import micro_timestamp, timestamp
from dray.api.types.coordination import Lease
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from dray.api.wire import Tree
from dray.client import Client, Controller, Deltas, SharedInformers, change_status, with_fields
from dray.client.consumers import ClaimConsumers
from dray.client.events import EventRecorder
from dray.client.interface import T
from dray.node.identity import refreshed
from dray.node.played import BadAnnotation, exit_code, run_seconds
from dray.sim import hardware, lifecycle

log = logging.getLogger(__name__)

LEASE_SECONDS = 10.0
LEASES_A_SECOND = 20  # lease renewals per second; with many nodes, each renews less often
WORKERS = 16
RESTART_SECONDS = 1.0  # minimum seconds between restarts

NamespacedName = tuple[str, str]


async def register(
    client: Client,
    count: int,
    devices: int,
    profiled: Sequence[Tree] = (),
    gates: FeatureGates = FeatureGates(),  # noqa: B008 (immutable)
) -> None:
    """Create missing nodes, leases, slices and classes. `SimulatedNodes` then runs the nodes."""
    now, nodes = _now(), count + sum(tree["kind"] == "Node" for tree in profiled)
    if devices and count:
        await _ensure(client, DeviceClass, hardware.class_tree())
    for number in range(count):
        node = await _register_node(client, hardware.node_tree(number, now), nodes, gates)
        for piece in hardware.slice_trees(number, devices, node.metadata.uid):
            await _ensure(client, ResourceSlice, piece)
    await _register_trees(client, profiled, nodes, gates)


async def _register_trees(client: Client, trees: Sequence[Tree], nodes: int, gates: FeatureGates) -> None:
    """Create missing nodes, slices and classes from manifests. A node must precede its slices."""
    uids: dict[str, str] = {}
    for tree in trees:
        match tree["kind"]:
            case "Node":
                uids[tree["metadata"]["name"]] = (await _register_node(client, tree, nodes, gates)).metadata.uid
            case "ResourceSlice" if "nodeName" not in tree["spec"]:  # its devices span nodes, so no node owns the slice
                await _ensure(client, ResourceSlice, tree)
            case "ResourceSlice":
                node_name = tree["spec"]["nodeName"]
                uid = uids.get(node_name) or (await client.get(Node, node_name)).metadata.uid
                owners = [hardware.owner_tree(node_name, uid)]
                metadata = {**tree["metadata"], "ownerReferences": owners}
                await _ensure(client, ResourceSlice, {**tree, "metadata": metadata})
            case _:
                await _ensure(client, DeviceClass, tree)


async def _register_node(client: Client, tree: Tree, nodes: int, gates: FeatureGates) -> Node:
    """Create a node with its status and lease, if missing. Returns the node."""
    name = tree["metadata"]["name"]
    await _ensure(client, Node, tree)
    await _mark(client, await client.get(Node, name))
    features = declared_features(gates)
    told = {**tree["status"], "declaredFeatures": [*features]} if features else tree["status"]
    node = await change_status(client, await client.get(Node, name), lambda node: refreshed(node.status, told))
    await _ensure(client, Lease, hardware.lease_tree(name, _precisely_now(), lease_seconds(nodes), node.metadata.uid))
    return node


def renewal_seconds(count: int) -> float:
    """Return the seconds between two renewals of each lease, for this number of nodes."""
    return max(LEASE_SECONDS, count / LEASES_A_SECOND)


def lease_seconds(count: int) -> int:
    """Return the duration of a lease: four renewal periods.

    In seconds. `count` is the number of simulated nodes.
    """
    return int(4 * renewal_seconds(count))


async def _tell(client: Client, obj: T, fields: dict[str, Any]) -> T:
    """Write fields of an object's status. Returns the updated object."""
    return await change_status(client, obj, lambda obj: with_fields(cast(Any, obj).status, fields))


async def _mark(client: Client, node: Node) -> None:
    """Add the annotation that no processes run for the node's pods.

    Does nothing if the node has the annotation.
    """
    if node.metadata.annotations.get(RUNS_NO_PODS) != BY_SIMULATION:
        await client.patch(Node, node.metadata.name, {"metadata": {"annotations": {RUNS_NO_PODS: BY_SIMULATION}}})


async def _ensure(client: Client, type_: type, tree: dict[str, object]) -> None:
    """Create an object unless it exists. Logs and ignores kinds that the server does not serve."""
    try:
        await client.create(type_, tree)
    except AlreadyExists:
        return
    except NotFound as error:  # the API group is not served: a cluster without devices
        log.info("simulated nodes go without: %s", error)


class SimulatedNodes:
    """`count` nodes with `devices` devices each, plus the nodes of profiles (`dray.sim.profiles.objects_of`)."""

    def __init__(
        self,
        client: Client,
        informers: SharedInformers,
        count: int,
        devices: int,
        *,
        gates: FeatureGates = FeatureGates(),  # noqa: B008 (immutable)
        profiled: Sequence[Tree] = (),
        adopted: LabelRequirements | None = None,
        job_seconds: float = math.inf,
        pod_range: Network = POD_RANGE,
    ) -> None:
        self._client = client
        self.registered = asyncio.Event()  # set when all nodes exist
        self._adopted = adopted
        self._job_seconds = job_seconds
        self._pod_range = pod_range
        self._plain = count
        self._devices = devices
        self._profiled = profiled
        self._own = {tree["metadata"]["name"]: tree["status"] for tree in profiled if tree["kind"] == "Node"}
        self._numbers = {name: n for n, name in enumerate([*map(hardware.node_name, range(count)), *self._own])}
        self._taken_over: set[str] = set()  # adopted nodes
        self._unmarked: set[str] = set()  # adopted nodes without the annotation that no processes run
        self._pods = informers.informer(Pod)
        self._nodes = informers.informer(Node)
        self._claims = informers.informer(ResourceClaim)
        self._gates = gates
        self._serves_devices = gates.enabled("DynamicResourceAllocation")
        self._known = Knowledge(Sharing.of(gates))
        self._consumers = ClaimConsumers(informers, groups=self._known.sharing.groups)
        self._recorder = EventRecorder(client, "kubelet")
        self._controller: Controller[NamespacedName] = Controller("simulated_nodes", self._reconcile, workers=WORKERS)
        self._ends: dict[str, float] = {}  # uid of a running pod → end time on the loop's clock
        self._pods.add_handler(self._on_pods)
        self._claims.add_handler(self._on_claims)
        if adopted is not None:
            self._nodes.add_handler(self._on_nodes)

    async def run(self) -> None:
        """Register the nodes and simulate them until cancelled."""
        await register(self._client, self._plain, self._devices, self._profiled, self._gates)
        self.registered.set()
        async with asyncio.TaskGroup() as group:
            group.create_task(self._controller.run())
            group.create_task(self._recorder.run())
            group.create_task(self._renew())

    # -- adding and removing nodes

    async def add(self, trees: Sequence[Tree]) -> None:
        """Register more nodes, or slices of existing nodes, and simulate them from now on."""
        for tree in trees:
            if tree["kind"] == "Node":
                self.adopt(tree["metadata"]["name"])
        await _register_trees(self._client, trees, len(self._numbers), self._gates)

    def adopt(self, name: str) -> int:
        """Simulate a node that is or will be registered. Returns its number, from which its address is derived.

        A known node keeps its number.
        """
        return self._numbers.setdefault(name, 1 + max(self._numbers.values(), default=-1))

    async def remove(self, name: str) -> None:
        """Delete a node and its lease. Controllers then delete its slices and pods.

        Does nothing about a node or lease that does not exist.
        """
        self._numbers.pop(name, None)
        for type_, namespace in ((Node, ""), (Lease, "kube-node-lease")):
            with contextlib.suppress(NotFound):
                await self._client.delete(type_, name, namespace)

    async def _renew(self) -> None:
        """Renew leases in turn until cancelled, each every ten seconds as long as there are few nodes."""
        while True:
            names = [*self._numbers]
            count = len(names)
            if not names:
                await asyncio.sleep(LEASE_SECONDS)
            for name in names:
                await asyncio.sleep(renewal_seconds(count) / count)
                try:
                    spec = {"renewTime": _precisely_now(), "leaseDurationSeconds": lease_seconds(count)}
                    await self._client.patch(Lease, name, {"spec": spec}, "kube-node-lease")
                    await self._recover(name)
                except ApiError as error:
                    log.debug("lease of %s: %s", name, error)

    async def _recover(self, name: str) -> None:
        """Report a node as ready again if it was marked as not ready because this process was too slow."""
        node = self._nodes.get("", name)
        if node is not None and any(c.type == "Ready" and c.status != "True" for c in node.status.conditions):
            conditions = hardware.conditions(_now())
            await _tell(self._client, node, {"conditions": conditions})

    # -- informer handlers

    def _on_pods(self, deltas: Deltas[Pod]) -> None:
        for old, new in deltas:
            if new is None:
                assert old is not None
                self._ends.pop(old.metadata.uid, None)
            elif new.spec.nodeName in self._numbers:
                self._controller.queue.add((new.metadata.namespace, new.metadata.name))

    def _on_nodes(self, deltas: Deltas[Node]) -> None:
        """Adopt nodes whose labels match, and release nodes whose labels no longer match."""
        for delta in deltas:
            name = delta.object.metadata.name
            wanted = delta.new is not None and self._adopts(delta.new)
            if name in self._taken_over and not wanted:
                self._taken_over.discard(name)
                self._unmarked.discard(name)
                self._numbers.pop(name, None)
                self._controller.queue.add(("", name))
            elif wanted and name not in self._numbers:
                self._taken_over.add(name)
                self._unmarked.add(name)
                self.adopt(name)
                self._controller.queue.add(("", name))

    def _adopts(self, node: Node) -> bool:
        """Whether a node has matching labels and no kubelet endpoint, so that no real kubelet runs it."""
        assert self._adopted is not None
        is_real = bool(node.status.daemonEndpoints.kubeletEndpoint.Port)
        return self._adopted.matches(node.metadata.labels) and not is_real

    def _on_claims(self, deltas: Deltas[ResourceClaim]) -> None:
        for _, claim in deltas:
            if claim is None or claim.status.allocation is None:
                continue  # no pod can start with this claim
            for pod in self._consumers.consumers(claim.metadata.namespace, claim.metadata.name):
                if pod.metadata.uid not in self._ends and pod.spec.nodeName in self._numbers:
                    self._controller.queue.add((pod.metadata.namespace, pod.metadata.name))

    # -- one pod

    async def _reconcile(self, key: NamespacedName) -> float | None:
        """Process a pod, or a node if the namespace is empty. Returns the seconds until the next step, or None.

        `key` is (namespace, name). None if nothing is left to do until something changes.
        """
        if not key[0]:
            await self._adopt(key[1])
            return None
        pod = self._pods.get(*key)
        if pod is None or pod.spec.nodeName not in self._numbers or pod.spec.nodeName in self._unmarked:
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

    async def _adopt(self, name: str) -> None:
        """Complete an adopted node (annotation, lease, conditions) and queue its pods.

        Lets go of a node that is no longer adopted. Does nothing if the node is gone.
        """
        node = self._nodes.get("", name)
        if node is None:
            return
        if name not in self._numbers:
            await self._let_go(node)
            return
        await _mark(self._client, node)
        self._unmarked.discard(name)
        await _ensure(self._client, Lease, hardware.lease_tree(name, _precisely_now(), lease_seconds(1)))
        if not any(condition.type == "Ready" for condition in node.status.conditions):
            await _tell(self._client, node, {"conditions": hardware.conditions(_now())})
        for pod in self._pods.list():
            if pod.spec.nodeName == name:
                self._controller.queue.add((pod.metadata.namespace, pod.metadata.name))

    async def _let_go(self, node: Node) -> None:
        """Remove the annotation from a released node, so that a real kubelet may run its pods."""
        meta = node.metadata
        if meta.annotations.get(RUNS_NO_PODS) == BY_SIMULATION and meta.labels.get(SIMULATED) != "true":
            with contextlib.suppress(NotFound):
                await self._client.patch(Node, meta.name, {"metadata": {"annotations": {RUNS_NO_PODS: None}}})

    async def _remove(self, pod: Pod) -> None:
        """Delete a terminating pod. A pod with finalizers is reported as finished first."""
        if pod.metadata.finalizers and not podclaims.is_finished(pod):
            await self._report(pod, lifecycle.finished(pod, _now(), 0))
        try:
            await self._client.delete(Pod, pod.metadata.name, pod.metadata.namespace, uid=pod.metadata.uid, grace=0)
        except (NotFound, Conflict):
            return

    async def _start(self, pod: Pod) -> float | None:
        """Start a pod if its claims are ready. Returns the seconds until it ends, or None.

        None if the pod does not start or runs until stopped. A pod whose claims are not ready gets a warning event.
        """
        problem = self._not_admitted(pod)
        if problem is not None:
            text = wording.claim_problem(problem)
            self._recorder.warning(pod, "FailedPrepareDynamicResources", f"Failed to prepare dynamic resources: {text}")
            return None
        seconds = self._seconds(pod)
        self._ends[pod.metadata.uid] = asyncio.get_running_loop().time() + (math.inf if seconds is None else seconds)
        if pod.status.phase != "Running" or pod.status.podIP != self._pod_address(pod):
            restarts = max((s.restartCount for s in pod.status.containerStatuses), default=0)
            try:
                await self._report(pod, self._running(pod, restarts))
            except ApiError:
                self._ends.pop(pod.metadata.uid, None)  # not running yet; the next attempt starts the pod
                raise
        return seconds

    async def _advance(self, pod: Pod) -> float | None:
        """Finish or restart a running pod when its time is up. Returns the seconds until the next step, or None.

        None if the pod has finished or runs until stopped.
        """
        seconds = self._seconds(pod)
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
            await self._report(pod, self._running(pod, restarts))
            return again
        await self._report(pod, lifecycle.finished(pod, _now(), code))
        return None

    def _seconds(self, pod: Pod) -> float | None:
        """Return how long a pod runs, or None if it runs until stopped.

        The pod's annotation takes precedence. Pods of Jobs have a default.
        """
        seconds = run_seconds(pod.metadata.annotations)
        if seconds is None and lifecycle.belongs_to_job(pod) and not math.isinf(self._job_seconds):
            return self._job_seconds
        return seconds

    def _not_admitted(self, pod: Pod) -> ClaimProblem | None:
        """Return the claim problem for which a real node would not start the pod, or None.

        None also if the nodes serve no devices.
        """
        if not self._serves_devices:
            return None  # a node without DRA does not check claims
        group = self._consumers.group_of(pod)
        for use in podclaims.uses_of(pod, group):
            claim = self._claims.get(pod.metadata.namespace, use.claim) if use.claim else None
            problem = claim_problem(Purpose.START, pod, use, claim, group, self._known) if use.needed else None
            if problem is not None:
                return problem
        return None

    async def _report(self, pod: Pod, status: dict[str, object]) -> None:
        try:
            await _tell(self._client, pod, status)
        except (NotFound, Conflict):
            self._ends.pop(pod.metadata.uid, None)

    def _running(self, pod: Pod, restarts: int = 0) -> dict[str, object]:
        node_address = hardware.address(self._numbers.get(pod.spec.nodeName, 0))
        return lifecycle.running(pod, _now(), node_address, self._pod_address(pod), restarts)

    def _pod_address(self, pod: Pod) -> str:
        return pod_address(self._pod_range, pod.metadata.uid)


def _now() -> str:
    return timestamp(time.time())


def _precisely_now() -> str:
    return micro_timestamp(time.time())
