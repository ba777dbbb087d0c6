"""What a pod requests from a node, as numbers: cpu, memory and other resources, and host ports.

The numbers are computed once for each pod, because quantities are slow to parse and the requests of a waiting pod
rarely change. Left out: comparing them with a node (`node_rules`).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from functools import lru_cache

import msgspec

from dray.api.extended_resources import ClassesByResource, Needs, extended_resource_claim, needs_of
from dray.api.host_ports import Port, host_ports
from dray.api.quantity import Quantity
from dray.api.types.core import Container, Pod, PodSpec
from dray.api.types.resource import ResourceClaim

CPU = "cpu"
DEFAULT_CPU = 100  # millicores, what a container without a request counts for in scores, as in Kubernetes
DEFAULT_MEMORY = 200 * 1024 * 1024

ResourceAmounts = dict[str, int]


@lru_cache(maxsize=4096)
def amount(resource: str, text: str) -> int:
    """Convert a quantity to a whole number: millicores for cpu, units for other resources (bytes for memory), rounded
    up.

    Raises as `Quantity.parse` does if the text is no quantity.
    """
    quantity = Quantity.parse(text)
    return quantity.milli() if resource == CPU else -(-quantity.milli() // 1000)


def amounts(quantities: Mapping[str, str]) -> ResourceAmounts:
    return {name: amount(name, text) for name, text in quantities.items()}


class PodDemand(msgspec.Struct, frozen=True):
    """The resources and ports that one pod takes from a node."""

    amounts: ResourceAmounts
    scored_cpu: int
    scored_memory: int
    ports: frozenset[Port]
    extended: tuple[str, ...]  # names of extended resources, which a device plugin or DRA devices provide

    @property
    def signature(self) -> tuple[tuple[str, int], ...]:
        return tuple(sorted(self.amounts.items()))


class Candidate:
    """A pod that needs a node, with values that the rules derive from its spec.

    Pods of one template share their spec object. `like` is an earlier candidate; if it has the same spec, its derived
    values are reused.
    """

    __slots__ = ("demand", "extended", "needs", "pod", "signatures", "spec")

    def __init__(self, pod: Pod, like: Candidate | None = None) -> None:
        self.pod = pod
        self.spec: PodSpec = pod.spec
        self.demand: PodDemand
        self.signatures: dict[str, Hashable]  # what each filter looks at, once it was asked
        self.extended: ClassesByResource = {}  # the resources that devices serve, where no device plugin does
        self.needs: dict[frozenset[str], Needs]  # what it needs of devices, by the resources that they serve
        if like is not None and like.spec is pod.spec:
            self.demand, self.signatures = like.demand, like.signatures
            self.extended, self.needs = like.extended, like.needs
        else:
            self.demand, self.signatures, self.needs = demand_of(pod), {}, {}

    def serve(self, extended: ClassesByResource) -> None:
        """Set the extended resources that DRA devices currently provide."""
        if extended != self.extended:
            self.extended, self.needs, self.signatures = extended, {}, {}

    def extended_resource_claim(self, resources: frozenset[str]) -> ResourceClaim:
        """Return the claim that requests devices for some extended resources."""
        if resources not in self.needs:
            self.needs[resources] = needs_of(self.pod, {name: self.extended[name] for name in resources})
        return extended_resource_claim(self.pod, self.needs[resources])


def containers_demand(pod: Pod) -> ResourceAmounts:
    """Return the resources that a pod's containers request: the larger of what runs together and what an init
    container needs.
    """
    spec = pod.spec
    together: ResourceAmounts = {}
    for container in spec.containers:
        _add(together, _requests(container))
    sidecars: ResourceAmounts = {}
    peak: ResourceAmounts = {}
    for container in spec.initContainers:
        requests = _requests(container)
        if container.restartPolicy == "Always":
            _add(sidecars, requests)
            requests = dict(sidecars)
        else:
            requests = _sum(requests, sidecars)
        _raise(peak, requests)
    _add(together, sidecars)
    _raise(together, peak)
    return together


def demand_of(pod: Pod) -> PodDemand:
    """Return the requests of the containers, or those of the pod as a whole, plus the overhead of its RuntimeClass."""
    spec = pod.spec
    together = containers_demand(pod)
    if spec.resources is not None:
        together.update(amounts(spec.resources.requests or spec.resources.limits))
    _add(together, amounts(spec.overhead))
    together = {name: value for name, value in together.items() if value}
    count = len(spec.containers)
    return PodDemand(
        together,
        together.get(CPU) or DEFAULT_CPU * count,
        together.get("memory") or DEFAULT_MEMORY * count,
        frozenset(host_ports(spec.containers)),
        tuple(name for name in together if "/" in name),
    )


def _requests(container: Container) -> ResourceAmounts:
    resources = container.resources
    return amounts({**resources.limits, **resources.requests})


def _add(total: ResourceAmounts, more: Mapping[str, int]) -> None:
    for name, value in more.items():
        total[name] = total.get(name, 0) + value


def _sum(a: Mapping[str, int], b: Mapping[str, int]) -> ResourceAmounts:
    total = dict(a)
    _add(total, b)
    return total


def _raise(total: ResourceAmounts, other: Mapping[str, int]) -> None:
    for name, value in other.items():
        total[name] = max(total.get(name, 0), value)
