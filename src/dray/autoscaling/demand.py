"""Waiting pods as units that must share a node, and equal units as kinds. No I/O.

Pods that share an unallocated claim form one unit, because the claim's devices will be on one node. Units of a kind
are interchangeable, so planning for a thousand equal pods takes no longer than for ten. Pods that wait for something
other than a node (a scheduling gate, a missing claim) are not part of the demand.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from dray.api import podclaims
from dray.api.naming import name_of
from dray.api.reasons.groups import WAITING, WRONG
from dray.api.reasons.nodes import Unschedulable
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.sim.cluster import Cluster

_ENCODE = msgspec.json.Encoder(order="deterministic").encode


ONE_NODE = "autoscaling.dray.dev/one-node"  # annotation of pods in a trial: pods with the same value must share a node


class Unit(msgspec.Struct, frozen=True):
    """Pods that must be placed on one node together, with the claims that they use."""

    pods: tuple[Pod, ...]
    claims: tuple[ResourceClaim, ...] = ()


class PodKind(msgspec.Struct, frozen=True):
    """Interchangeable units, in the order in which they are served."""

    units: tuple[Unit, ...]

    @property
    def first(self) -> Unit:
        return self.units[0]

    @property
    def pods(self) -> tuple[str, ...]:
        return tuple(name_of(pod) for unit in self.units for pod in unit.pods)


class Demand(msgspec.Struct, frozen=True):
    """Units that wait for nodes, by kind, and pods that no node can help because they wait for something else."""

    kinds: tuple[PodKind, ...]
    blocked: tuple[Pod, ...] = ()

    @property
    def pods(self) -> int:
        """Number of pods in all units."""
        return sum(len(unit.pods) for kind in self.kinds for unit in kind.units)


def demand_of(cluster: Cluster) -> Demand:
    """Return the demand of a cluster, highest priority first, then oldest first."""
    waiting = cluster.waiting()
    found = [pod for pod in cluster.all(Pod) if not pod.spec.nodeName and not podclaims.is_finished(pod)]
    found.sort(key=lambda pod: (-(pod.spec.priority or 0), pod.metadata.creationTimestamp or ""))
    blocked = [pod for pod in found if not _may_be_helped(cluster, pod, waiting.get(name_of(pod)))]
    names = {pod.metadata.uid for pod in blocked}
    units = units_of(cluster, [pod for pod in found if pod.metadata.uid not in names])
    return Demand(tuple(kinds_of(cluster, units)), tuple(blocked))


def _may_be_helped(cluster: Cluster, pod: Pod, why: Unschedulable | None) -> bool:
    """Whether a pod was refused for a reason that a new node could change."""
    return why is not None and may_be_placed(why) and cluster.problem_of(pod) is None


def may_be_placed(why: Unschedulable) -> bool:
    """Whether a new node could help a refused pod. False for pods whose group is incomplete or inconsistent."""
    return why.group is None or why.group.code not in WAITING | WRONG


def units_of(cluster: Cluster, pods: Iterable[Pod]) -> list[Unit]:
    """Group pods that share an unallocated claim or must be on one node into units.

    Other pods form units of their own.
    """
    members: dict[str, list[Pod]] = {}  # by the uid of the unit's first pod
    home: dict[str, str] = {}  # uid of a claim → unit
    claims: dict[str, dict[str, ResourceClaim]] = {}
    for pod in pods:
        own = {claim.metadata.uid: claim for _, claim in cluster.model.objects.claims_of(pod)}
        shared = [uid for uid, claim in own.items() if claim.status.allocation is None]
        if ONE_NODE in pod.metadata.annotations:
            shared.append(f"{pod.metadata.namespace}/{pod.metadata.annotations[ONE_NODE]}")
        units = dict.fromkeys(home[uid] for uid in shared if uid in home)
        unit = next(iter(units), pod.metadata.uid)
        for other in [*units][1:]:  # the pod connects units that were separate before
            members[unit] += members.pop(other)
            claims[unit] |= claims.pop(other)
            home.update({uid: unit for uid, at in home.items() if at == other})
        members.setdefault(unit, []).append(pod)
        claims.setdefault(unit, {}).update(own)
        home.update(dict.fromkeys(shared, unit))
    return [Unit(tuple(there), tuple(claims[unit].values())) for unit, there in members.items()]


def kinds_of(cluster: Cluster, units: Sequence[Unit]) -> list[PodKind]:
    """Group equal units into kinds, in order of the first unit."""
    found: dict[bytes, list[Unit]] = {}
    picky = any(_minds_neighbours(pod) for pod in cluster.all(Pod))
    for unit in units:
        found.setdefault(_shape(cluster, unit, labels=picky), []).append(unit)
    return [PodKind(tuple(alike)) for alike in found.values()]


def _shape(cluster: Cluster, unit: Unit, *, labels: bool) -> bytes:
    """Return a key of everything in a unit that affects scheduling, without names."""
    numbers = {claim.metadata.name: number for number, claim in enumerate(unit.claims)}
    claims = [[claim.spec, claim.status.allocation] for claim in unit.claims]
    return _ENCODE([claims, [_pod_shape(cluster, pod, numbers, labels=labels) for pod in unit.pods]])


def _pod_shape(cluster: Cluster, pod: Pod, numbers: dict[str, int], *, labels: bool) -> list[object]:
    """Return everything in a pod that affects scheduling. Claims are given by their number in the unit.

    With `labels`, labels of the pod count too.
    """
    spec = pod.spec
    containers = [[one.resources, one.ports, one.restartPolicy] for one in (*spec.initContainers, *spec.containers)]
    uses = [numbers.get(use.claim or "") for use in podclaims.uses_of(pod, cluster.model.objects.group_of(pod))]
    return [
        pod.metadata.namespace,
        pod.metadata.labels if labels else None,
        [len(spec.initContainers), containers, uses, spec.priority, spec.nodeSelector, spec.affinity, spec.tolerations],
        [spec.overhead, spec.resources, spec.hostNetwork, spec.schedulerName, spec.topologySpreadConstraints],
    ]


def _minds_neighbours(pod: Pod) -> bool:
    """Whether a pod has affinity rules about other pods, or topology spread constraints."""
    affinity = pod.spec.affinity
    by_pods = affinity is not None and (affinity.podAffinity is not None or affinity.podAntiAffinity is not None)
    return by_pods or bool(pod.spec.topologySpreadConstraints)
