"""Trial of one new node of a group with the scheduler's own code: which pods fit together, and why others do not.

The node is alone in a small simulated cluster with its daemons, so the cost of a question does not depend on the size
of the real cluster. Left out, therefore: rules about other nodes, and devices that nodes share; `linked` checks those
in the whole cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec
from msgspec.structs import replace

from dray.api.allocations import DeviceId
from dray.api.gates import FeatureGates
from dray.api.reasons.claims import ClaimProblem
from dray.api.reasons.nodes import NodeVerdict
from dray.api.types.apps import DaemonSet
from dray.api.types.core import Namespace, Node, Pod
from dray.api.types.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from dray.api.types.scheduling import BasicSchedulingPolicy, PodGroup, PodGroupSchedulingPolicy
from dray.api.wire import Wire
from dray.autoscaling.demand import Unit
from dray.autoscaling.groups import NodeGroup, NodeGroups
from dray.controllers.workloads.daemons import daemon_tree, fit
from dray.sim.cluster import Cluster
from dray.sim.copies import daemon_like
from dray.sim.what_if import PodOutcome, is_placed, outcomes

_COPIED_TYPES = (DeviceClass, DeviceTaintRule, ResourceClaimTemplate, Namespace)


class Filled(msgspec.Struct, frozen=True):
    """Outcome of each pod of some units on a node, and the number of fallback steps to lower-ranked alternatives."""

    outcomes: tuple[PodOutcome, ...]
    steps: int = 0


class ClusterTemplate(msgspec.Struct, frozen=True):
    """Objects of a cluster besides its nodes: classes, templates, network-attached pools, daemons."""

    objects: tuple[Wire, ...]
    daemons: tuple[Pod | DaemonSet, ...]
    gates: FeatureGates


def template_of(cluster: Cluster, daemon_sets: Iterable[DaemonSet] = ()) -> ClusterTemplate:
    """Return the environment of new nodes in a cluster. Daemons come from DaemonSets, or else from their pods."""
    attached = [piece for piece in cluster.all(ResourceSlice) if not piece.spec.nodeName]
    pools = {(piece.spec.driver, piece.spec.pool.name) for piece in attached}
    holding = [claim for claim in cluster.all(ResourceClaim) if _holds(claim, pools)] if pools else []
    objects = [one for type_ in _COPIED_TYPES for one in cluster.all(type_)]
    objects += map(one_by_one, cluster.all(PodGroup))
    sets = [*daemon_sets]
    named = {one.metadata.uid for one in sets} | {one.metadata.name for one in sets}
    pods: dict[str, Pod] = {}
    for pod in cluster.all(Pod):
        for owner in pod.metadata.ownerReferences:
            if owner.kind == "DaemonSet" and owner.uid not in named and owner.name not in named:
                pods.setdefault(f"{pod.metadata.namespace}/{owner.name}", pod)
    return ClusterTemplate((*objects, *attached, *holding), (*sets, *pods.values()), cluster.gates)


def one_by_one(group: PodGroup) -> PodGroup:
    """Return a copy of a PodGroup whose pods are placed one by one, without topology constraint."""
    basic = PodGroupSchedulingPolicy(basic=BasicSchedulingPolicy())
    return replace(group, spec=replace(group.spec, schedulingPolicy=basic, schedulingConstraints=None))


class Trial:
    """A new node of a group for trying units. `own_pools` are the pools local to the node."""

    def __init__(self, group: NodeGroup, base: ClusterTemplate) -> None:
        self.name = f"{group.name}-new"
        made = group.template.objects(self.name)
        self.node = next(one for one in made if isinstance(one, Node))
        self.own_pools = {(one.spec.driver, one.spec.pool.name) for one in made if isinstance(one, ResourceSlice)}
        self.cluster = Cluster([*base.objects, *made], gates=base.gates)
        for daemon in base.daemons:
            self.cluster.add(*daemons_on(daemon, self.node))
        self.cluster.settle()
        for pod in [one for one in self.cluster.all(Pod) if not one.spec.nodeName]:
            self.cluster.remove(Pod, pod.metadata.name, pod.metadata.namespace)  # a daemon that does not fit this node

    def fill(self, units: Sequence[Unit]) -> Filled | None:
        """Place units one after the other. Returns what they get, or None if not all fit.

        The node is unchanged afterwards.
        """
        with self.cluster.fork() as trial:
            if not all(placed(trial, unit) for unit in units):
                return None
            found = outcomes(trial, [pod for unit in units for pod in unit.pods])
            return Filled(found, sum(steps_taken(trial, unit) for unit in units))

    def count(self, units: Sequence[Unit]) -> int:
        """Return how many of the units fit together, tried in order until one does not fit."""
        with self.cluster.fork() as trial:
            return next((number for number, unit in enumerate(units) if not placed(trial, unit)), len(units))

    def why_not(self, unit: Unit) -> NodeVerdict | ClaimProblem | None:
        """Return why the empty node refuses a unit: the refusal of its first pod without a place, or None.

        None if the unit fits.
        """
        with self.cluster.fork() as trial:
            for pod in unit.pods:
                if not placed(trial, Unit((pod,), unit.claims)):
                    found = trial.current(pod)
                    assert found is not None  # submitted above
                    return trial.problem_of(found) or next(iter(trial.verdicts(found)), None)
        return None

    def brings(self, device: DeviceId) -> bool:
        """Whether a device is local to the node, not network-attached."""
        return (device.driver, device.pool) in self.own_pools


def daemons_on(daemon: Pod | DaemonSet, node: Node) -> list[Pod | dict[str, object]]:
    """Return the pod of a DaemonSet on a node, or a copy of a daemon pod; empty if it does not run there.

    The pod of a DaemonSet is returned as manifest data.
    """
    if isinstance(daemon, Pod):
        # The affinity of a daemon pod only names its node.
        runs = fit(replace(daemon.spec, nodeName="", affinity=None), node).run
        return [daemon_like(daemon, node.metadata.name)] if runs else []
    if not fit(daemon.spec.template.spec, node).run:
        return []
    tree = daemon_tree(daemon, "", node.metadata.name)
    name = f"{daemon.metadata.name}-{node.metadata.name}"
    meta = {**tree["metadata"], "name": name, "namespace": daemon.metadata.namespace}
    meta.pop("generateName", None)
    return [{**tree, "apiVersion": "v1", "kind": "Pod", "metadata": meta}]


def _holds(claim: ResourceClaim, pools: set[tuple[str, str]]) -> bool:
    """Whether a claim has a device of one of these pools."""
    allocation = claim.status.allocation
    return allocation is not None and any((one.driver, one.pool) in pools for one in allocation.devices.results)


def add_node(cluster: Cluster, groups: NodeGroups, name: str, group: str, base: ClusterTemplate) -> None:
    """Add a new node of a group to a cluster, with its devices and daemons.

    `name` is the name of the node, `group` that of its group.
    """
    made = next(one for one in groups.groups if one.name == group).template.objects(name)
    cluster.add(*made)
    for daemon in base.daemons:
        cluster.add(*daemons_on(daemon, next(one for one in made if isinstance(one, Node))))


def withdraw(trial: Cluster, *units: Unit) -> None:
    """Delete the pods of units.

    Pods that do not exist are ignored. Claims that the pods do not control remain.
    """
    for unit in units:
        for pod in unit.pods:
            if trial.current(pod) is not None:
                trial.remove(Pod, pod.metadata.name, pod.metadata.namespace)


def submit(trial: Cluster, *units: Unit) -> None:
    """Add the claims and pods of units.

    Claims that exist are kept as they are.
    """
    for unit in units:
        for claim in unit.claims:
            if trial.current(claim) is None:
                trial.add(claim)
        for pod in unit.pods:
            trial.submit(pod)


def placed(trial: Cluster, unit: Unit) -> bool:
    """Submit a unit. Returns whether all of its pods were placed."""
    submit(trial, unit)
    trial.settle()
    return all(is_placed(trial, pod) for pod in unit.pods)


def steps_taken(trial: Cluster, unit: Unit) -> int:
    """Return the number of fallback steps to lower-ranked alternatives in the requests of a unit."""
    pods = [trial.current(pod) or pod for pod in unit.pods]
    claims = {claim.metadata.uid: claim for pod in pods for _, claim in trial.model.objects.claims_of(pod)}
    return sum(map(steps_of, claims.values()))


def steps_of(claim: ResourceClaim) -> int:
    """Return the number of fallback steps to lower-ranked alternatives in a claim's allocation.

    0 for an unallocated claim.
    """
    allocation = claim.status.allocation
    served = {one.request for one in allocation.devices.results} if allocation is not None else set()
    return sum(
        place
        for request in claim.spec.devices.requests or ()
        for place, alternative in enumerate(request.firstAvailable)
        if f"{request.name}/{alternative.name}" in served
    )
