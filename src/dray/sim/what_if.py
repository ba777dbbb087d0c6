"""Questions to a simulated cluster: does a manifest fit, where, and how many more of it.

The answer is what the scheduler would do with the pods one after the other, after the pods that wait already. Every
question is asked in a trial, so the cluster stays as it is. Left out: what is supposed first (`changes`), preemption, and
quotas, which refuse objects before a scheduler sees them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence

import msgspec
from msgspec.structs import replace

from dray.api import podclaims
from dray.api.allocations import DeviceId
from dray.api.reasons.claims import ClaimProblem
from dray.api.reasons.nodes import Unschedulable
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup, PriorityClass
from dray.sim.cluster import Cluster
from dray.sim.demands import Demand


class DeviceUse(msgspec.Struct, frozen=True):
    """A device that a pod gets. A claim that a template makes goes by the name of the pod's entry."""

    claim: str
    request: str
    device: DeviceId


class PodOutcome(msgspec.Struct, frozen=True):
    """Where a pod goes, or why it waits: `why` after it was tried, `problem` or `gates` where it cannot be tried."""

    pod: str
    node: str = ""
    devices: tuple[DeviceUse, ...] = ()
    why: Unschedulable | None = None
    problem: ClaimProblem | None = None
    gates: tuple[str, ...] = ()


class HowMany(msgspec.Struct, frozen=True):
    """How many copies fit. `end` is the first pod that found no place; None where the limit was reached before."""

    copies: int
    end: PodOutcome | None


def outcomes(cluster: Cluster, pods: Iterable[Pod]) -> tuple[PodOutcome, ...]:
    """What became of pods."""
    waiting = cluster.waiting()
    return tuple(_outcome(cluster, pod, waiting) for pod in pods)


def place(cluster: Cluster, demand: Demand) -> tuple[PodOutcome, ...]:
    """Submit what a manifest asks for, and say what became of it. To be called in a trial."""
    return outcomes(cluster, _submit(cluster, demand.copy(next(_free_numbers(cluster, demand)))))


def how_many(cluster: Cluster, demand: Demand, limit: int) -> HowMany:
    """How many copies of a manifest fit, each whole, one after the other."""
    with cluster.fork() as trial:
        for copies, number in enumerate(_free_numbers(trial, demand)):
            if copies == limit:
                break
            pods = _submit(trial, demand.copy(number))
            if not all(_is_placed(trial, pod) for pod in pods):
                end = next(one for one in outcomes(trial, pods) if not one.node)
                return HowMany(copies, end)
    return HowMany(limit, None)


def _free_numbers(cluster: Cluster, demand: Demand) -> Iterator[int]:
    """The numbers of copies whose pods have names that nobody has."""
    for number in itertools.count():
        suffix = f"-{number}" if number else ""
        if not any(cluster.get(Pod, f"{p.metadata.name}{suffix}", p.metadata.namespace) for p in demand.pods):
            yield number


def _submit(cluster: Cluster, demand: Demand) -> Sequence[Pod]:
    for one in demand.others:
        kept = isinstance(one, ResourceClaim | PodGroup)  # one that exists stays as it is, with its devices
        if not kept or cluster.get(type(one), one.metadata.name, one.metadata.namespace) is None:
            cluster.add(one)
    for pod in demand.pods:
        cluster.submit(_with_priority(cluster, pod))
    cluster.settle()
    return demand.pods


def _with_priority(cluster: Cluster, pod: Pod) -> Pod:
    """The pod with the priority that admission would give it."""
    if pod.spec.priority is not None:
        return pod
    name = pod.spec.priorityClassName
    found = (one for one in cluster.all(PriorityClass) if (one.metadata.name == name if name else one.globalDefault))
    chosen = next(found, None)
    return pod if chosen is None else replace(pod, spec=replace(pod.spec, priority=chosen.value))


def _is_placed(cluster: Cluster, pod: Pod) -> bool:
    found = cluster.get(Pod, pod.metadata.name, pod.metadata.namespace)
    return found is not None and bool(found.spec.nodeName)


def _outcome(cluster: Cluster, pod: Pod, waiting: dict[str, Unschedulable]) -> PodOutcome:
    name = f"{pod.metadata.namespace}/{pod.metadata.name}"
    found = cluster.get(Pod, pod.metadata.name, pod.metadata.namespace)
    assert found is not None  # it was submitted, and no time has passed
    if found.spec.nodeName:
        return PodOutcome(name, found.spec.nodeName, tuple(_devices(cluster, found)))
    gates = tuple(gate.name for gate in found.spec.schedulingGates)
    return PodOutcome(name, why=waiting.get(name), problem=cluster.problem_of(found), gates=gates)


def _devices(cluster: Cluster, pod: Pod) -> Iterator[DeviceUse]:
    group = cluster.get(PodGroup, podclaims.group_name(pod), pod.metadata.namespace)
    for use in podclaims.uses_of(pod, group):
        claim = cluster.get(ResourceClaim, use.claim, pod.metadata.namespace) if use.claim else None
        if claim is None or claim.status.allocation is None:
            continue
        for result in claim.status.allocation.devices.results:
            device = DeviceId(result.driver, result.pool, result.device)
            yield DeviceUse(use.entry if use.generated else claim.metadata.name, result.request, device)
