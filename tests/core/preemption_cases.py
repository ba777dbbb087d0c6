"""Random small clusters for preemption, and Kubernetes' rule for victims as plain arithmetic about them.

The reference knows nothing of the program: pods are plain records, fitting is adding numbers and trying every choice of
devices. `Case.objects` writes the same cluster as objects.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

import msgspec

from dray.api.types.core import Node, Pod
from dray.api.types.policy import PodDisruptionBudget
from dray.api.types.resource import DeviceClass, ResourceClaim, ResourceSlice
from dray.api.types.scheduling import PodGroup
from dray.api.wire import Wire
from tests import objects

CPU = 4
CARD = 4  # memory of a card that is divided into partitions, and of a device that is shared
PARTS = {"whole": 4, "half-0": 2, "half-1": 2, "quarter-0": 1, "quarter-1": 1, "quarter-2": 1, "quarter-3": 1}
PREEMPTOR = "preemptor"


@dataclass(frozen=True)
class Want:
    """What a claim asks for: so many plain devices, a partition of a size, or a share of so much."""

    kind: str
    amount: int


@dataclass
class Claim:
    name: str
    want: Want
    devices: list[str] = field(default_factory=list)  # that it holds
    group: str = ""  # the group that it is reserved for


@dataclass
class Member:
    """A pod. Claims are named, since pods share some."""

    name: str
    node: str
    priority: int
    cpu: int = 0
    port: int = 0
    claims: list[str] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    hates: str = ""  # the value of the label `app` of pods that it does not want on its node
    started: int = 0
    group: str = ""


@dataclass
class Case:
    nodes: dict[str, int]  # name → plain devices; a node with devices has a card and a shared device, too
    members: list[Member] = field(default_factory=list)
    claims: dict[str, Claim] = field(default_factory=dict)
    budgets: dict[str, int] = field(default_factory=dict)  # value of `app` → disruptions that are allowed
    groups: set[str] = field(default_factory=set)  # that go as a whole

    @property
    def preemptor(self) -> Member:
        return next(one for one in self.members if one.name == PREEMPTOR)

    # -- the reference

    def fits(self, node: str, gone: Iterable[str]) -> bool:
        """Whether the preemptor fits on a node when these pods are gone."""
        absent, wanted = {*gone, PREEMPTOR}, self.preemptor
        there = [one for one in self.members if one.name not in absent]
        here = [one for one in there if one.node == node]
        return (
            sum(one.cpu for one in here) + wanted.cpu <= CPU
            and not any(one.port == wanted.port for one in here if wanted.port)
            and not any(one.labels.get("app") == wanted.hates for one in here if wanted.hates)
            and not any(one.hates == wanted.labels.get("app") for one in here if one.hates)
            and self._devices_fit(node, there)
        )

    def _devices_fit(self, node: str, there: list[Member]) -> bool:
        used = {name for one in there for name in one.claims}
        grouped = {one.group for one in there if one.group}
        held = [one for one in self.claims.values() if one.name in used or one.group in grouped]
        kept = {one.name for one in held if one.devices}  # the preemptor may share a claim with its victims
        wants = [self.claims[name].want for name in self.preemptor.claims if name not in kept]
        if any(name in kept and self.node_of(name) != node for name in self.preemptor.claims):
            return False
        mine = [device for one in held for device in one.devices if device.startswith(f"{node}/")]
        plain = self.nodes[node] - sum("/plain" in device for device in mine)
        card = CARD - sum(PARTS[device.split("/")[1]] for device in mine if device.split("/")[1] in PARTS)
        shared = CARD - sum(one.want.amount for one in held for device in one.devices if device == f"{node}/shared")
        if not self.nodes[node] and wants:
            return False
        taken = {device.split("/")[1] for device in mine}
        plain -= sum(want.amount for want in wants if want.kind == "plain")
        shared -= sum(want.amount for want in wants if want.kind == "share")
        return plain >= 0 and shared >= 0 and _parts_fit([w.amount for w in wants if w.kind == "part"], card, taken)

    def node_of(self, claim: str) -> str:
        return self.claims[claim].devices[0].split("/")[0]

    def units(self, node: str) -> list[list[Member]]:
        """The pods and groups on a node that are less important than the preemptor, the most important first."""
        found: dict[str, list[Member]] = {}
        for one in self.members:
            if one.node == node and one.priority < self.preemptor.priority:
                whole = [other for other in self.members if other.group == one.group and other.node]
                found[one.group or one.name] = whole if one.group in self.groups else [one]
                if one.group not in self.groups:
                    found[one.name] = [one]
        unique = {min(member.name for member in unit): unit for unit in found.values()}
        return sorted(unique.values(), key=self._importance)

    def _importance(self, unit: list[Member]) -> tuple[Any, ...]:
        is_group = unit[0].group in self.groups
        started = min(one.started for one in unit)
        return -unit[0].priority, not is_group, -len(unit), started, min(f"uid-{one.name}" for one in unit)

    def violating(self, units: list[list[Member]]) -> dict[str, int]:
        left, found = dict(self.budgets), dict[str, int]()
        for unit in units:
            for one in sorted(unit, key=lambda one: one.name):
                app = one.labels.get("app", "")
                if app in left:
                    left[app] -= 1
                    if left[app] < 0:
                        found[unit[0].name] = found.get(unit[0].name, 0) + 1
        return found

    def victims(self, node: str) -> tuple[list[list[Member]], int] | None:
        """Kubernetes' rule on one node: the victims and how many violate a budget; None where nothing helps."""
        units = self.units(node)
        gone = {one.name for unit in units for one in unit}
        if not units or not self.fits(node, gone):
            return None
        violating = self.violating(units)
        victims = []
        for unit in sorted(units, key=lambda unit: unit[0].name not in violating):
            names = {one.name for one in unit}
            if self.fits(node, gone - names):
                gone -= names
            else:
                victims.append(unit)
        victims.sort(key=self._importance)
        return victims, sum(violating.get(unit[0].name, 0) for unit in victims)

    def rank(self, found: tuple[list[list[Member]], int]) -> tuple[int, ...]:
        victims, violated = found
        highest = max(unit[0].priority for unit in victims)
        pods = [one for unit in victims for one in unit]
        total = sum(one.priority + 2**31 for one in pods)
        started = min(one.started for one in pods if one.priority == highest)
        return violated, highest, total, len(pods), -started

    # -- as objects

    def objects(self) -> Iterator[Wire]:
        yield _typed(DeviceClass, objects.device_class())
        for name, devices in self.nodes.items():
            yield _typed(Node, _node(name))
            if devices:
                yield _typed(ResourceSlice, _counters(name))
                yield _typed(ResourceSlice, _cards(name))
                yield _typed(ResourceSlice, _plain(name, devices))
        for app, allowed in self.budgets.items():
            tree = {"metadata": {"name": app, "namespace": "default", "uid": app}}
            status = {"currentHealthy": 9, "desiredHealthy": 1, "expectedPods": 9, "disruptionsAllowed": allowed}
            spec = {"selector": {"matchLabels": {"app": app}}}
            yield _typed(PodDisruptionBudget, {**tree, "spec": spec, "status": status})
        for group in sorted({one.group for one in self.members if one.group}):
            mode = {"disruptionMode": {"all": {}}} if group in self.groups else {}
            priority = next(one.priority for one in self.members if one.group == group)
            meta = {"name": group, "namespace": "default", "uid": f"uid-{group}"}
            own = [{"name": name, "resourceClaimName": name} for name, one in self.claims.items() if one.group == group]
            yield _typed(PodGroup, {"metadata": meta, "spec": {"priority": priority, "resourceClaims": own, **mode}})
        for claim in self.claims.values():
            yield _typed(ResourceClaim, self._claim(claim))
        for one in self.members:
            yield pod_of(one)

    def _claim(self, claim: Claim) -> dict[str, Any]:
        users = [{"resource": "pods", "name": one.name, "uid": f"uid-{one.name}"} for one in self._users(claim)]
        if claim.group:
            users = [_group_user(claim.group)]
        status = {"allocation": _allocation(claim), "reservedFor": users} if claim.devices else None
        meta = {"uid": f"uid-{claim.name}"}
        return objects.claim(claim.name, _request(claim.want), namespace="default", metadata=meta, status=status)

    def _users(self, claim: Claim) -> list[Member]:
        return [one for one in self.members if claim.name in one.claims and one.node]


def _parts_fit(sizes: list[int], memory: int, taken: set[str]) -> bool:
    free = [name for name in PARTS if name not in taken]
    for chosen in itertools.permutations(free, len(sizes)):
        if all(PARTS[name] == size for name, size in zip(chosen, sizes, strict=True)) and sum(sizes) <= memory:
            return True
    return False


def pod_of(one: Member) -> Pod:
    spec: dict[str, Any] = {}
    if one.hates:
        selector = {"labelSelector": {"matchLabels": {"app": one.hates}}, "topologyKey": "kubernetes.io/hostname"}
        spec["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selector]}}
    if one.group:
        spec["schedulingGroup"] = {"podGroupName": one.group}
    container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": str(one.cpu)}} if one.cpu else {}}
    if one.port:
        container["ports"] = [{"containerPort": one.port, "hostPort": one.port, "protocol": "TCP"}]
    status = {"startTime": f"2026-01-01T00:{one.started:02}:00Z", "phase": "Running"} if one.node else {}
    meta = {"uid": f"uid-{one.name}", "labels": one.labels}
    entries = [{"name": name, "resourceClaimName": name} for name in one.claims]
    tree = objects.pod(
        one.name,
        namespace="default",
        node=one.node,
        metadata=meta,
        status=status,
        containers=[container],
        priority=one.priority,
        resourceClaims=entries,
        **spec,
    )
    return msgspec.convert(tree, Pod)


def _typed(type_: type[Any], tree: dict[str, Any]) -> Any:
    return msgspec.convert(tree, type_)


def _node(name: str) -> dict[str, Any]:
    allocatable = {"cpu": str(CPU), "memory": "8Gi", "pods": "20"}
    return objects.node(name, labels={"kubernetes.io/hostname": name}, allocatable=allocatable)


def _plain(node: str, devices: int) -> dict[str, Any]:
    kind = {"attributes": {"kind": {"string": "plain"}}}
    made = [{"name": f"plain-{number}", **kind} for number in range(devices)]
    return objects.resource_slice(f"{node}-plain", *made, node=node, pool=f"{node}-plain")


def _cards(node: str) -> dict[str, Any]:
    """A pool with one card in partitions, and one device that is shared. Counters are in a slice of their own."""
    parts = []
    for name, size in PARTS.items():
        draws = [{"counterSet": "card", "counters": {"memory": {"value": str(size)}}}]
        kind = {"kind": {"string": "part"}, "size": {"int": size}}
        parts.append({"name": name, "attributes": kind, "consumesCounters": draws})
    shared = {
        "name": "shared",
        "attributes": {"kind": {"string": "share"}},
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": str(CARD)}},
    }
    return objects.resource_slice(f"{node}-card", *parts, shared, node=node, pool=f"{node}-card", count=2)


def _counters(node: str) -> dict[str, Any]:
    counters = [{"name": "card", "counters": {"memory": {"value": str(CARD)}}}]
    pool = f"{node}-card"
    return objects.resource_slice(f"{node}-counters", node=node, pool=pool, count=2, sharedCounters=counters)


def _request(want: Want) -> dict[str, Any]:
    kind = f"device.attributes['{objects.DRIVER}'].kind == '{want.kind}'"
    match want.kind:
        case "plain":
            return objects.request(allocationMode="ExactCount", count=want.amount, selectors=[kind])
        case "part":
            size = f"device.attributes['{objects.DRIVER}'].size == {want.amount}"
            return objects.request(allocationMode="ExactCount", count=1, selectors=[f"{kind} && {size}"])
    asked = {"capacity": {"requests": {"memory": str(want.amount)}}}
    return objects.request(allocationMode="ExactCount", count=1, selectors=[kind], **asked)


def _allocation(claim: Claim) -> dict[str, Any]:
    results = []
    for device in claim.devices:
        node, name = device.split("/")
        pool = f"{node}-plain" if name.startswith("plain") else f"{node}-card"
        result = {"request": "r", "driver": objects.DRIVER, "pool": pool, "device": name}
        if name == "shared":
            result |= {"shareID": f"share-{claim.name}", "consumedCapacity": {"memory": str(claim.want.amount)}}
        results.append(result)
    at = {"key": "metadata.name", "operator": "In", "values": [claim.devices[0].split("/")[0]]}
    return {"devices": {"results": results}, "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [at]}]}}


def _group_user(name: str) -> dict[str, str]:
    return {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": name, "uid": f"uid-{name}"}


@dataclass
class GangCase(Case):
    """A cluster with a gang that preempts. The pod PREEMPTOR stands for those of its pods that are put on one node."""

    gang: list[Member] = field(default_factory=list)
    min_count: int = 0

    def gang_fits(self, gone: Iterable[str]) -> bool:
        """Whether enough pods of the gang fit when these pods are gone: tries every way to put them on nodes."""
        absent = [*gone]
        answers: dict[tuple[str, tuple[int, ...]], bool] = {}

        def together(node: str, who: tuple[int, ...]) -> bool:
            if (node, who) not in answers:
                answers[node, who] = self._fit_together(node, [self.gang[at] for at in who], absent)
            return answers[node, who]

        for places in itertools.product((*self.nodes, ""), repeat=len(self.gang)):
            if sum(map(bool, places)) >= self.min_count and all(
                together(node, tuple(at for at, place in enumerate(places) if place == node))
                for node in {*places} - {""}
            ):
                return True
        return False

    def _fit_together(self, node: str, here: list[Member], gone: list[str]) -> bool:
        ports = [one.port for one in here if one.port]
        if len(ports) > 1:
            return False
        one = self.preemptor
        one.cpu, one.port = sum(member.cpu for member in here), sum(ports)
        one.claims = [name for member in here for name in member.claims]
        return self.fits(node, gone)

    def gang_victims(self) -> tuple[list[list[Member]], int] | None:
        """Kubernetes' rule with the whole cluster in the place of a node."""
        found = {unit[0].name: unit for node in self.nodes for unit in self.units(node)}
        units = sorted(found.values(), key=self._importance)
        gone = {one.name for unit in units for one in unit}
        if not units or not self.gang_fits(gone):
            return None
        violating, victims = self.violating(units), []
        for unit in sorted(units, key=lambda unit: unit[0].name not in violating):
            names = {one.name for one in unit}
            if self.gang_fits(gone - names):
                gone -= names
            else:
                victims.append(unit)
        return victims, sum(violating.get(unit[0].name, 0) for unit in victims)

    def objects(self) -> Iterator[Wire]:
        meta = {"name": "gang", "namespace": "default", "uid": "uid-gang"}
        spec = {"schedulingPolicy": {"gang": {"minCount": self.min_count}}, "priority": self.preemptor.priority}
        yield _typed(PodGroup, {"metadata": meta, "spec": spec})
        yield from (one for one in super().objects() if not (isinstance(one, Pod) and one.metadata.name == PREEMPTOR))
        yield from map(pod_of, self.gang)


# -- chance


def random_gang_case(chance: random.Random) -> GangCase:
    """Nodes that are mostly full, and a gang that may not fit without somebody's end."""
    case = GangCase({f"n{number}": chance.choice((0, 2, 3, 4)) for number in range(chance.randint(1, 3))})
    for app in "ab":
        if chance.random() < 0.4:
            case.budgets[app] = chance.randint(0, 2)
    for number in range(chance.randint(2, 9)):
        _join(case, f"p{number}", chance)
    priority, app = chance.choice((3, 5, 10)), {"app": chance.choice("abc")}
    for number in range(chance.randint(2, 3)):
        one = Member(f"gang-{number}", "", priority, cpu=chance.randint(0, 3), labels=app, group="gang")
        one.port = chance.choice((0, 0, 0, 80))
        if chance.random() < 0.7:
            case.claims[f"{one.name}-c"] = Claim(f"{one.name}-c", _want(chance))
            one.claims = [f"{one.name}-c"]
        case.gang.append(one)
    case.min_count = len(case.gang) - chance.choice((0, 0, 1))
    case.members.append(Member(PREEMPTOR, "", priority, labels=app))
    return case


def random_case(chance: random.Random) -> Case:
    """Nodes that are mostly full, and a pod that does not fit without somebody's end."""
    case = Case({f"n{number}": chance.choice((0, 2, 3, 4)) for number in range(chance.randint(1, 4))})
    for app in "ab":
        if chance.random() < 0.4:
            case.budgets[app] = chance.randint(0, 2)
    for number in range(chance.randint(2, 12)):
        _join(case, f"p{number}", chance)
    wanted = Member(PREEMPTOR, "", chance.choice((3, 5, 10)), cpu=chance.randint(0, CPU))
    wanted.labels = {"app": chance.choice("abc")}
    wanted.port = chance.choice((0, 0, 0, 80))
    wanted.hates = chance.choice(("", "", "", "a"))
    for number in range(chance.choice((0, 1, 1, 2))):
        name = f"mine-{number}"
        case.claims[name] = Claim(name, _want(chance))
        wanted.claims.append(name)
    if any(one.claims for one in case.members) and chance.random() < 0.1:
        wanted.claims.append(chance.choice([name for one in case.members for name in one.claims]))
        wanted.claims = [*dict.fromkeys(wanted.claims)]
    case.members.append(wanted)
    return case


def _want(chance: random.Random) -> Want:
    kind = chance.choice(("plain", "plain", "part", "share"))
    return Want(kind, chance.choice((1, 2, 4) if kind == "part" else (1, 2, 3)))


def _join(case: Case, name: str, chance: random.Random) -> None:
    """Let a pod run where it fits, as the reference sees it; it joins nobody where it fits nowhere."""
    one = Member(
        PREEMPTOR, "", chance.choice((0, 1, 1, 4, 10)), cpu=chance.randint(0, 2), started=chance.randint(1, 59)
    )
    one.labels = {"app": chance.choice("abc")}
    one.port = chance.choice((0, 0, 0, 80))
    one.hates = chance.choice(("", "", "", "", "b"))
    case.members.append(one)
    sharers = [other for other in case.members if other.claims and not other.group]
    if sharers and chance.random() < 0.2:
        one.claims = [*chance.choice(sharers).claims]
    elif chance.random() < 0.6:
        case.claims[f"{name}-c"] = Claim(f"{name}-c", _want(chance))
        one.claims = [f"{name}-c"]
    nodes = [node for node in chance.sample([*case.nodes], len(case.nodes)) if case.fits(node, ())]
    if not nodes:
        case.members.remove(one)
        case.claims.pop(f"{name}-c", None)
        return
    one.name, one.node = name, nodes[0]
    for claim in (case.claims[known] for known in one.claims if not case.claims[known].devices):
        claim.devices = _choose(case, claim, nodes[0])
    _group(case, one, chance)


def _choose(case: Case, claim: Claim, node: str) -> list[str]:
    """Devices on a node for a claim that fits there."""
    if claim.want.kind == "share":
        return [f"{node}/shared"]
    taken = {device for other in case.claims.values() for device in other.devices}
    if claim.want.kind == "plain":
        names = [f"{node}/plain-{number}" for number in range(case.nodes[node])]
        return [name for name in names if name not in taken][: claim.want.amount]
    sized = [f"{node}/{name}" for name, size in PARTS.items() if size == claim.want.amount]
    return [name for name in sized if name not in taken][:1]


def _group(case: Case, one: Member, chance: random.Random) -> None:
    """Perhaps let a pod join a group of the same priority, and its claim belong to the group."""
    if chance.random() < 0.7:
        return
    group = f"g{one.priority}"
    one.group = group
    if chance.random() < 0.5 and not any(other.group == group for other in case.members if other is not one):
        case.groups.add(group)
    shared = [other for other in case.members if other is not one and set(other.claims) & set(one.claims)]
    if not shared and one.claims and chance.random() < 0.3:
        for name in one.claims:
            case.claims[name].group = group
