"""Random small clusters with a gang, and an exhaustive search that knows nothing of the scheduler's.

A claim asks for devices of one driver alone, so what a node gives, or the pool of a rack, is one question each. The
exhaustive search asks the allocator that question for every way to put the pods on nodes.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from typing import Any

import msgspec

from dray.allocator import Allocated, allocate, verify
from dray.api.gates import FeatureGates
from dray.api.types.core import Node, Pod
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from dray.api.types.scheduling import PodGroup
from dray.core.attempt import Promise
from dray.core.configuration import Configuration
from dray.core.model import ClusterModel
from tests import objects
from tests.scheduler.objects import node, pod

GATES = FeatureGates.of(
    {
        "GenericWorkload": True,
        "WorkloadPodGroupResourceClaimTemplate": True,
        "TopologyAwareWorkloadScheduling": True,
    }
)
GPU, NET = "gpu.example.com", "net.example.com"
CLASSES = [
    msgspec.convert(objects.device_class(name, expression), DeviceClass)
    for name, expression in (
        (
            "gpu",
            f'device.driver == "{GPU}" && !device.allowMultipleAllocations && has(device.attributes["{GPU}"].model)',
        ),
        ("part", f'device.driver == "{GPU}" && has(device.attributes["{GPU}"].size)'),
        ("nic", f'device.driver == "{GPU}" && device.allowMultipleAllocations'),
        ("net", f'device.driver == "{NET}"'),
    )
]


@dataclass
class GangCase:
    """A cluster with one gang that waits."""

    nodes: list[Node] = field(default_factory=list)
    slices: list[ResourceSlice] = field(default_factory=list)
    claims: dict[str, ResourceClaim] = field(default_factory=dict)
    pods: list[Pod] = field(default_factory=list)
    min_count: int = 0
    group_claims: list[str] = field(default_factory=list)

    def model(self) -> ClusterModel:
        model = ClusterModel(GATES, Configuration().profiles)
        entries = [{"name": name, "resourceClaimName": name} for name in self.group_claims]
        spec = {"schedulingPolicy": {"gang": {"minCount": self.min_count}}, "resourceClaims": entries}
        tree = {"metadata": {"name": "g", "namespace": "default", "uid": "uid-g"}, "spec": spec}
        for one in (*CLASSES, *self.nodes, *self.slices, msgspec.convert(tree, PodGroup)):
            model.put(one)
        for one in (*self.claims.values(), *self.pods):
            model.put(one)
        return model

    def claims_of(self, pod: Pod) -> list[str]:
        return [entry.resourceClaimName or "" for entry in pod.spec.resourceClaims]

    def is_net(self, claim: str) -> bool:
        requests = self.claims[claim].spec.devices.requests or ()
        return any(one.exactly is not None and one.exactly.deviceClassName == "net" for one in requests)

    def rack(self, at: int) -> str:
        return self.nodes[at].metadata.labels["rack"]


def random_case(rng: random.Random) -> GangCase:
    case = GangCase()
    for number in range(rng.randint(2, 3)):
        name = f"n{number}"
        case.nodes.append(node(name, {"rack": rng.choice("ab")}, cpu=str(rng.randint(2, 4))))
        case.slices += _local_slices(rng, name)
    case.slices += _net_slices(rng)
    count = rng.randint(3, 5)
    shared = [_claim(case, f"shared{i}", rng, kinds="abgg") for i in range(rng.choice((0, 0, 1)))]
    if rng.random() < 0.35:
        case.group_claims = [_claim(case, "of-group", rng, kinds="abgg")]
    for number in range(count):
        own = [_claim(case, f"own{number}", rng)] if rng.random() < 0.9 else []
        used = [*case.group_claims, *own, *(name for name in shared if rng.random() < 0.6)]
        entries = [{"name": name, "resourceClaimName": name} for name in used]
        spec = {"resourceClaims": entries, "schedulingGroup": {"podGroupName": "g"}}
        needs = {"requests": {"cpu": rng.choice(("500m", "1", "2"))}}
        case.pods.append(pod(f"p{number}", resources=needs, **spec))
    case.min_count = count if rng.random() < 0.7 else count - 1
    return case


def _local_slices(rng: random.Random, name: str) -> Iterator[ResourceSlice]:
    devices: list[dict[str, Any]] = []
    for number in range(rng.randint(0, 3)):
        attributes = {"model": {"string": rng.choice("xy")}, "numa": {"int": rng.randint(0, 1)}}
        devices.append({"name": f"g{number}", "attributes": attributes})
    if rng.random() < 0.6:
        capacity = {"bandwidth": {"value": "10"}}
        devices.append({"name": "nic", "allowMultipleAllocations": True, "capacity": capacity})
    counters: list[dict[str, Any]] = []
    if rng.random() < 0.7:
        counters = [{"name": "memory", "counters": {"gb": {"value": "8"}}}]
        for size, copies in ((8, 1), (4, 2), (2, 4)):
            for number in range(copies):
                consumed = [{"counterSet": "memory", "counters": {"gb": {"value": str(size)}}}]
                attributes = {"size": {"int": size}}
                devices.append(
                    {"name": f"part-{size}-{number}", "attributes": attributes, "consumesCounters": consumed}
                )
    parts = [{"devices": devices}] if devices else []
    parts += [{"sharedCounters": counters}] if counters else []
    for number, part in enumerate(parts):
        tree = objects.resource_slice(f"{name}-{number}", node=name, driver=GPU, pool=name, count=len(parts), **part)
        yield msgspec.convert(tree, ResourceSlice)


def _net_slices(rng: random.Random) -> Iterator[ResourceSlice]:
    """A pool for each rack."""
    for rack in "ab":
        names = [f"d{i}" for i in range(rng.randint(0, 2))]
        if names:
            tree = objects.resource_slice(f"net-{rack}", *names, node="", driver=NET, pool=f"net-{rack}")
            del tree["spec"]["allNodes"]
            term = {"matchExpressions": [{"key": "rack", "operator": "In", "values": [rack]}]}
            tree["spec"]["nodeSelector"] = {"nodeSelectorTerms": [term]}
            yield msgspec.convert(tree, ResourceSlice)


def _claim(case: GangCase, name: str, rng: random.Random, kinds: str = "aabccddddeffg") -> str:
    """Add a claim of some kind."""
    requests, constraints = _requests(rng.choice(kinds))
    extra = {"constraints": constraints} if constraints else {}
    tree = objects.claim(name, *requests, namespace="default", metadata={"uid": f"uid-{name}"}, **extra)
    case.claims[name] = msgspec.convert(tree, ResourceClaim)
    return name


def _requests(kind: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    one = {"allocationMode": "ExactCount", "count": 1}
    of_size = [f'device.attributes["{GPU}"].size == {size}' for size in (8, 4, 2)]
    match kind:
        case "a":
            return [objects.request("r", "gpu", **one)], []
        case "b":
            return [objects.request("r", "gpu", selectors=[f'device.attributes["{GPU}"].model == "x"'], **one)], []
        case "c":
            pair = objects.request("r", "gpu", allocationMode="ExactCount", count=2)
            return [pair], [{"requests": ["r"], "matchAttribute": f"{GPU}/numa"}]
        case "d":
            ways = [
                objects.request(name, "part", selectors=[of_size[i]], **one) for name, i in (("big", 0), ("small", 2))
            ]
            return [{"name": "r", "firstAvailable": [{"name": w["name"], **w["exactly"]} for w in ways]}], []
        case "e":
            return [objects.request("r", "part", selectors=[of_size[1]], **one)], []
        case "f":
            return [objects.request("r", "nic", capacity={"requests": {"bandwidth": "4"}}, **one)], []
        case _:
            return [objects.request("r", "net", **one)], []


def exists(case: GangCase) -> bool:
    """Whether any placement of the gang exists: tries them all."""
    table = case.model().state.index.features
    demands = [_cpu(one) for one in case.pods]

    @cache
    def serves(at: int, claims: tuple[str, ...]) -> bool:
        if not claims:
            return True
        wanted = [case.claims[name] for name in claims]
        outcome = allocate(case.nodes[at], wanted, CLASSES, case.slices, features=table)
        return isinstance(outcome, Allocated)

    def is_possible(places: Sequence[int | None]) -> bool:
        used: dict[str, set[int]] = {}
        for number, at in enumerate(places):
            for name in case.claims_of(case.pods[number]) if at is not None else ():
                used.setdefault(name, set()).add(at if at is not None else 0)
        for at, one in enumerate(case.nodes):
            cpu = sum(demands[number] for number, place in enumerate(places) if place == at)
            if cpu > int(one.status.allocatable["cpu"]) * 1000:
                return False
        local = {name: where for name, where in used.items() if not case.is_net(name)}
        if any(len(where) > 1 for where in local.values()):
            return False
        net = {name: {case.rack(at) for at in where} for name, where in used.items() if case.is_net(name)}
        if any(len(racks) > 1 for racks in net.values()):
            return False
        for at in range(len(case.nodes)):
            if not serves(at, tuple(sorted(name for name, where in local.items() if at in where))):
                return False
        for rack in {case.rack(at) for at in range(len(case.nodes))}:
            at = next(at for at in range(len(case.nodes)) if case.rack(at) == rack)
            if not serves(at, tuple(sorted(name for name, racks in net.items() if rack in racks))):
                return False
        return True

    for places in product(range(-1, len(case.nodes)), repeat=len(case.pods)):
        taken = [None if at < 0 else at for at in places]
        if sum(at is not None for at in taken) >= case.min_count and is_possible(taken):
            return True
    return False


def complaints(case: GangCase, placed: Sequence[Promise]) -> list[str]:
    """What is wrong with a placement: devices that are given twice, do not match or cannot be reached."""
    results = {
        c.metadata.name: r
        for one in placed
        if one.outcome
        for c, r in zip(one.pending, one.outcome.results, strict=True)
    }
    where = {name: one.node for one in placed for name in case.claims_of(one.claims.pod)}
    found = []
    for net in (False, True):
        places: dict[str, list[str]] = {}
        for name, on in where.items():
            if case.is_net(name) == net:
                at = next(i for i, one in enumerate(case.nodes) if one.metadata.name == on)
                places.setdefault(case.rack(at) if net else on, []).append(name)
        for place, names in places.items():
            on = next(one for one in case.nodes if place in (one.metadata.name, one.metadata.labels["rack"]))
            claims = [case.claims[name] for name in names]
            found += verify([results[name] for name in names], on, claims, CLASSES, case.slices)
    return found


def _cpu(one: Pod) -> int:
    text = one.spec.containers[0].resources.requests["cpu"]
    return int(text[:-1]) if text.endswith("m") else int(text) * 1000
