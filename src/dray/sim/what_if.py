"""Questions to a simulated cluster: does a manifest fit, where, and how many copies of it.

The answer is what the scheduler would do with the pods one after the other, after the pods already waiting. Each
question is answered in a trial that leaves the cluster unchanged. Counted copies do not preempt.

Many copies are counted by placing few if all pods are equal and independent: the scheduler then fills every node, in
whatever order. Nodes with equal resources and equal devices take equally many pods and refuse the next one for the
same reasons, so one node of each kind represents the others (`Kinds`). Other copies are placed one by one. Left out:
assumed changes (`changes`), and quotas, which reject objects before scheduling.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from contextlib import contextmanager

import msgspec
from msgspec.structs import replace

from dray.allocator.bits import lowest
from dray.api.naming import name_of
from dray.api.reasons import wording
from dray.api.reasons.claims import ClaimProblem
from dray.api.reasons.nodes import Unschedulable
from dray.api.types.core import Pod, PodSpec
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PriorityClass
from dray.sim.cluster import Cluster
from dray.sim.demands import PodBatch
from dray.sim.uses import DeviceUse as DeviceUse  # part of the answers here
from dray.sim.uses import devices_of
from dray.verdicts.demand import Candidate
from dray.verdicts.nodes import NodeInfo


class Kinds:
    """Nodes that fit a pod, grouped into kinds of equal nodes. Sets of nodes are bit sets."""

    def __init__(self, kinds: list[int]) -> None:
        self._kinds = kinds
        self.examples = sum(map(lowest, kinds))  # the first node of each kind
        self.others = sum(kinds) & ~self.examples  # the nodes represented by the examples
        self._sizes = {lowest(kind): kind.bit_count() for kind in kinds}

    def size(self, position: int) -> int:
        """Return the number of nodes of the kind that the example at this position represents."""
        return self._sizes[1 << position]

    def widened(self, why: Unschedulable) -> Unschedulable:
        """Return the refusal with each example node extended to all nodes of its kind."""
        reasons = {
            reason: nodes | sum(kind for kind in self._kinds if lowest(kind) & nodes)
            for reason, nodes in why.reasons.items()
        }
        return replace(why, reasons=reasons)


def kinds_for(cluster: Cluster, pod: Pod) -> Kinds | None:
    """Group the nodes that fit a waiting pod into kinds.

    Returns None if nodes share devices or the answer is undecided.
    """
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
    """Return a key of a node's resources and their use, without its devices."""
    amounts = frozenset(info.allocatable.items()), frozenset(item for item in info.taken.items() if item[1])
    return amounts, len(info.pods), frozenset(info.ports) if candidate.demand.ports else None


def is_uniform(cluster: Cluster, demand: PodBatch) -> bool:
    """Whether all pods are equal, have their own claims, and no rule depends on other pods."""
    first = demand.pods[0]
    alike = all(pod.spec == first.spec and pod.metadata.labels == first.metadata.labels for pod in demand.pods)
    return alike and _is_solitary(first.spec) and _has_own_claims(cluster, demand) and not cluster.mind_neighbours()


def _is_solitary(spec: PodSpec) -> bool:
    """Whether a pod spec has no rules about other pods, no scheduling gates and no group."""
    affinity = spec.affinity
    attracted = affinity is not None and (affinity.podAffinity is not None or affinity.podAntiAffinity is not None)
    spread = any(one.whenUnsatisfiable == "DoNotSchedule" for one in spec.topologySpreadConstraints)
    return not (attracted or spread or spec.schedulingGates or spec.schedulingGroup or spec.workloadRef)


def _has_own_claims(cluster: Cluster, demand: PodBatch) -> bool:
    """Whether no other pod uses the claims of each pod: they come from templates, or from each copy of a single pod."""
    pod = demand.pods[0]
    names = [entry.resourceClaimName for entry in pod.spec.resourceClaims if entry.resourceClaimName]
    if not names:
        return True
    made = {one.metadata.name for one in demand.own if isinstance(one, ResourceClaim)}
    known = any(cluster.get(ResourceClaim, name, pod.metadata.namespace) is not None for name in names)
    return len(demand.pods) == 1 and made.issuperset(names) and len({*names}) == len(names) and not known


class PodOutcome(msgspec.Struct, frozen=True):
    """Node of a pod, or why the pod waits: `why` after an attempt, `problem` or `gates` if it cannot be tried."""

    pod: str
    node: str = ""
    devices: tuple[DeviceUse, ...] = ()
    why: Unschedulable | None = None
    problem: ClaimProblem | None = None
    gates: tuple[str, ...] = ()
    preempted_by: str = ""

    @property
    def words(self) -> str:
        """Text of why the pod waits."""
        if self.preempted_by:
            return f"it is preempted by pod {self.preempted_by}"
        if self.gates:
            return f"it has scheduling gates: {', '.join(self.gates)}"
        if self.why is not None:
            return wording.unschedulable(self.why)
        return wording.claim_problem(self.problem) if self.problem is not None else "it was not tried"


class HowMany(msgspec.Struct, frozen=True):
    """Number of copies that fit. `end` is the first pod that does not fit, or None if counting stopped before."""

    copies: int
    end: PodOutcome | None


def outcomes(cluster: Cluster, pods: Iterable[Pod]) -> tuple[PodOutcome, ...]:
    """Return the outcome for each of these pods.

    They are in the order of the pods.
    """
    waiting = cluster.waiting()
    return tuple(_outcome(cluster, pod, waiting) for pod in pods)


@contextmanager
def preempting(cluster: Cluster) -> Iterator[dict[str, str]]:
    """Context manager: enable preemption within the block. Gives a mapping from each preempted pod to its preemptor."""
    before, cluster.preempted = cluster.preempted, {}
    preempts, cluster.model.preempts = cluster.model.preempts, True
    try:
        yield cluster.preempted
    finally:
        cluster.model.preempts = preempts
        cluster.preempted = before | cluster.preempted


def place(cluster: Cluster, demand: PodBatch) -> tuple[PodOutcome, ...]:
    """Add the pods of a manifest and place them. Returns their outcomes. Call within a trial."""
    cluster.add(*demand.shared)
    return outcomes(cluster, _submit(cluster, demand.copy(next(_free_tags(cluster, demand)))))


def how_many(cluster: Cluster, demand: PodBatch, limit: int, is_late: Callable[[], bool] = lambda: False) -> HowMany:
    """Count the complete copies of a manifest that fit, up to `limit`; stops early when `is_late` returns true."""
    with cluster.fork() as trial:
        trial.add(*demand.shared)
        counted = _count_by_kind(trial, demand, limit) if is_uniform(trial, demand) else None
        return counted or _count_one_by_one(trial, demand, limit, is_late)


def _count_one_by_one(
    cluster: Cluster, demand: PodBatch, limit: int, is_late: Callable[[], bool] = lambda: False
) -> HowMany:
    """Count copies by placing them one by one.

    Stops at `limit` copies or when `is_late` returns True. The result has the outcome of the first pod without a
    node, or None if the count stopped early.
    """
    with cluster.fork() as trial:
        for copies, tag in enumerate(_free_tags(trial, demand)):
            if copies == limit or is_late():
                return HowMany(copies, None)
            pods = _submit(trial, demand.copy(tag))
            if not all(is_placed(trial, pod) for pod in pods):
                end = next(one for one in outcomes(trial, pods) if not one.node)
                return HowMany(copies, end)
    raise AssertionError("there are numbers without end")


def _count_by_kind(cluster: Cluster, demand: PodBatch, limit: int) -> HowMany | None:
    """Count copies of equal pods on one node of each kind; None if this is not possible.

    The count is at most `limit`. The cluster is unchanged afterwards.
    """
    with cluster.fork() as trial:
        kinds = _kinds(trial, demand)
        if kinds is None:
            return None
        copies, rest = divmod(_fill(trial, demand, kinds, limit * len(demand.pods)), len(demand.pods))
        if copies >= limit:
            return HowMany(limit, None)
        trial.among = ~kinds.others
        pods = _submit(trial, demand.copy(next(itertools.islice(_free_tags(trial, demand), copies, None))))
        end = outcomes(trial, pods)[rest]
        return HowMany(copies, replace(end, why=kinds.widened(end.why))) if end.why is not None else None


def _kinds(cluster: Cluster, demand: PodBatch) -> Kinds | None:
    """Return the kinds of nodes for the first pod of a batch, or None."""
    with cluster.fork() as trial:
        bring(trial, demand)
        pod = trial.current(demand.pods[0])
        return kinds_for(trial, pod) if pod is not None else None


def _fill(cluster: Cluster, demand: PodBatch, kinds: Kinds, limit: int) -> int:
    """Place single pods on the example nodes until none fits. Returns how many fit on all nodes, to about `limit`."""
    single, table, count = PodBatch(demand.pods[:1], demand.own), cluster.model.state.table, 0
    cluster.among = kinds.examples
    for tag in _free_tags(cluster, single, "example-"):
        (pod,) = _submit(cluster, single.copy(tag))
        found = cluster.current(pod)
        info = table.get(found.spec.nodeName) if found is not None else None
        if info is None:
            cluster.remove(Pod, pod.metadata.name, pod.metadata.namespace)
            break
        count += kinds.size(info.position)
        if count >= limit:
            break
    return count


def _free_tags(cluster: Cluster, demand: PodBatch, prefix: str = "") -> Iterator[str]:
    """Yield tags that give unused pod names.

    Without a prefix, the first tag is empty if the original names are unused.
    """
    for number in itertools.count():
        tag = f"{prefix}{number}" if prefix or number else ""
        suffix = f"-{tag}" if tag else ""
        if not any(cluster.get(Pod, f"{p.metadata.name}{suffix}", p.metadata.namespace) for p in demand.pods):
            yield tag


def _submit(cluster: Cluster, demand: PodBatch) -> Sequence[Pod]:
    bring(cluster, demand)
    cluster.settle()
    return demand.pods


def bring(cluster: Cluster, demand: PodBatch) -> None:
    """Add the claims and groups of a manifest, if missing, and its pods."""
    for one in demand.own:  # existing claims and groups keep their state
        if cluster.current(one) is None:
            cluster.add(one)
    for pod in demand.pods:
        cluster.submit(_with_priority(cluster, pod))


def _with_priority(cluster: Cluster, pod: Pod) -> Pod:
    """Return the pod with the priority that admission would set from its priority class."""
    if pod.spec.priority is not None:
        return pod
    name = pod.spec.priorityClassName
    found = (one for one in cluster.all(PriorityClass) if (one.metadata.name == name if name else one.globalDefault))
    chosen = next(found, None)
    return pod if chosen is None else replace(pod, spec=replace(pod.spec, priority=chosen.value))


def is_placed(cluster: Cluster, pod: Pod) -> bool:
    """Whether a pod currently has a node.

    False if the pod does not exist.
    """
    found = cluster.current(pod)
    return found is not None and bool(found.spec.nodeName)


def _outcome(cluster: Cluster, pod: Pod, waiting: dict[str, Unschedulable]) -> PodOutcome:
    name = name_of(pod)
    found = cluster.current(pod)
    if found is None:  # the pod was submitted and no time has passed, so it was preempted
        return PodOutcome(name, preempted_by=cluster.preempted[name])
    if found.spec.nodeName:
        return PodOutcome(name, found.spec.nodeName, tuple(devices_of(cluster.model.objects, found)))
    gates = tuple(gate.name for gate in found.spec.schedulingGates)
    return PodOutcome(name, why=waiting.get(name), problem=cluster.problem_of(found), gates=gates)
