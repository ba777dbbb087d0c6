"""Nodes that are alike for a pod, so that many copies of it are counted by placing few.

Where all pods of a manifest ask for the same, and what happens on a node changes nothing for another, the scheduler goes on
until every node is full, in whatever order it fills them. Nodes with equal room and equal devices then take equally many
pods and refuse the next one for the same reasons, so one node of each kind stands for the others. Left out: manifests and
clusters for which that does not hold; their copies are placed one by one (`what_if`).
"""

from __future__ import annotations

from collections.abc import Hashable

from msgspec.structs import replace

from dray.allocator.bits import lowest
from dray.api.reasons.nodes import Unschedulable
from dray.api.types.core import Pod, PodSpec
from dray.api.types.resource import ResourceClaim
from dray.sim.cluster import Cluster
from dray.sim.demands import PodBatch
from dray.verdicts.demand import Candidate
from dray.verdicts.nodes import NodeInfo


class Kinds:
    """The nodes that a pod fits on, by kind. Sets of nodes are integers, as everywhere in the scheduler."""

    def __init__(self, kinds: list[int]) -> None:
        self._kinds = kinds
        self.examples = sum(map(lowest, kinds))  # the first node of each kind
        self.others = sum(kinds) & ~self.examples  # the nodes that they stand for
        self._sizes = {lowest(kind): kind.bit_count() for kind in kinds}

    def size(self, position: int) -> int:
        """How many nodes one of the examples stands for, itself included."""
        return self._sizes[1 << position]

    def widened(self, why: Unschedulable) -> Unschedulable:
        """What is said of the examples, said of all nodes of their kinds."""
        reasons = {
            reason: nodes | sum(kind for kind in self._kinds if lowest(kind) & nodes)
            for reason, nodes in why.reasons.items()
        }
        return replace(why, reasons=reasons)


def kinds_for(cluster: Cluster, pod: Pod) -> Kinds | None:
    """The kinds of nodes for a pod that waits; None where nodes share devices, or the answer is not known."""
    judged = cluster.judge(pod)
    if judged is None or judged.devices.undecided:
        return None
    candidate = Candidate(pod)
    found: dict[Hashable, int] = {}
    for info in cluster.model.state.table.named(judged.nodes):
        devices = cluster.model.state.index.equivalence_key(info.name)
        if devices is None:
            return None
        key = devices, _room(candidate, info)
        found[key] = found.get(key, 0) | 1 << info.position
    return Kinds([*found.values()])


def _room(candidate: Candidate, info: NodeInfo) -> Hashable:
    """What a node has and what is taken of it, which devices may take too; the devices themselves apart."""
    amounts = frozenset(info.allocatable.items()), frozenset(item for item in info.taken.items() if item[1])
    return amounts, len(info.pods), frozenset(info.ports) if candidate.demand.ports else None


def is_uniform(cluster: Cluster, demand: PodBatch) -> bool:
    """Whether all pods ask for the same, each for itself, and none minds where others are."""
    first = demand.pods[0]
    alike = all(pod.spec == first.spec and pod.metadata.labels == first.metadata.labels for pod in demand.pods)
    return alike and _is_solitary(first.spec) and _has_own_claims(cluster, demand) and not cluster.mind_neighbours()


def _is_solitary(spec: PodSpec) -> bool:
    affinity = spec.affinity
    attracted = affinity is not None and (affinity.podAffinity is not None or affinity.podAntiAffinity is not None)
    spread = any(one.whenUnsatisfiable == "DoNotSchedule" for one in spec.topologySpreadConstraints)
    return not (attracted or spread or spec.schedulingGates or spec.schedulingGroup or spec.workloadRef)


def _has_own_claims(cluster: Cluster, demand: PodBatch) -> bool:
    """Whether each pod has claims that no other pod uses: from templates, or a new one in each copy of a single pod."""
    pod = demand.pods[0]
    names = [entry.resourceClaimName for entry in pod.spec.resourceClaims if entry.resourceClaimName]
    if not names:
        return True
    made = {one.metadata.name for one in demand.own if isinstance(one, ResourceClaim)}
    known = any(cluster.get(ResourceClaim, name, pod.metadata.namespace) is not None for name in names)
    return len(demand.pods) == 1 and made.issuperset(names) and len({*names}) == len(names) and not known
