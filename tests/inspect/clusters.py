"""Random small clusters: nodes, devices, claims and pods that get in each other's way.

Few different labels, values and names make rules meet often. All objects are as an API server would serve them. A cluster
follows from one number: drawn piece by piece, it would take hypothesis five times as long as the scheduler and explain.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

import msgspec
from msgspec.structs import replace

from dray.api.extended_resources import ANNOTATION
from dray.api.types.core import Namespace, Node, Pod
from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.scheduling import PodGroup

DRIVER = "d.example.com"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODES = ("n0", "n1", "n2")
ZONE, HOST = "zone", "kubernetes.io/hostname"
DELETED = "2026-01-01T00:00:00Z"
WITH_MODEL = f'device.attributes["{DRIVER}"].model == "a"'
HAS_MODEL = f'has(device.attributes["{DRIVER}"].model) && {WITH_MODEL}'

EXTENDED = (f"{DRIVER}/gpu", "deviceclass.resource.kubernetes.io/any", f"{DRIVER}/plugin")
APPS = ("x", "y")
ZONES = ("a", "b", "")


class Objects(tuple[Any, ...]):
    """The objects of a cluster; a claim with hundreds of consumers does not make its text endless."""

    def __repr__(self) -> str:
        return "\n".join(msgspec.json.encode(one).decode()[:2000] for one in self)


def some(dice: Random, values: Sequence[Any], most: int = 2) -> list[Any]:
    return dice.sample(values, dice.randint(0, most))


def _maybe(dice: Random) -> bool:
    return dice.random() < 0.5


def _rarely(dice: Random) -> bool:
    return dice.random() < 0.15


def _built(type_: type[Any], tree: dict[str, Any]) -> Any:
    return msgspec.convert(tree, type_)


def nodes(dice: Random, name: str) -> Node:
    zone = dice.choice(ZONES)
    taint = {"key": "k", "value": "v", "effect": dice.choice(("NoSchedule", "PreferNoSchedule"))}
    allocatable = {"cpu": dice.choice(("1", "4", "4")), "pods": dice.choice(("1", "10", "10"))}
    allocatable |= {name: dice.choice(("0", "1", "2")) for name in EXTENDED if _rarely(dice)}
    spec = {"unschedulable": _rarely(dice), "taints": [taint] if _rarely(dice) else []}
    metadata = {"name": name, "labels": {HOST: name, **({ZONE: zone} if zone else {})}}
    return _built(Node, {"metadata": metadata, "spec": spec, "status": {"allocatable": allocatable}})


# Devices


def devices(dice: Random, name: str) -> dict[str, Any]:
    model = dice.choice(("a", "a", "b", ""))
    taints = [{"key": "t", "effect": "NoSchedule"}] if _rarely(dice) else []
    attributes = {"model": {"string": model}} if model else {}
    made: dict[str, Any] = {"name": name, "attributes": attributes, "taints": taints}
    if _rarely(dice):
        made |= {"allowMultipleAllocations": True, "capacity": {"memory": {"value": "2Gi"}}}
    return made


def slices(dice: Random, number: int) -> ResourceSlice:
    pool = dice.choice(NODES)
    where: dict[str, Any] = {"nodeName": pool}
    if _rarely(dice):
        term = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}
        pool, where = "shared", {"nodeSelector": {"nodeSelectorTerms": [term]}}
    names = some(dice, ("d0", "d1", "d2"), 3)
    spec = {
        "driver": dice.choice((DRIVER, DRIVER, DRIVER, "other.example.com")),
        "pool": {"name": pool, "generation": 1, "resourceSliceCount": dice.choice((1, 1, 1, 2))},
        "devices": [devices(dice, name) for name in names],
        **where,
    }
    return _built(ResourceSlice, {"metadata": {"name": f"s{number}"}, "spec": spec})


CLASSES = (
    _built(
        DeviceClass,
        {
            "metadata": {"name": "gpu"},
            "spec": {
                "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
                "extendedResourceName": f"{DRIVER}/gpu",
            },
        },
    ),
    _built(DeviceClass, {"metadata": {"name": "any"}, "spec": {}}),
)


def requests(dice: Random) -> dict[str, Any]:
    selector = dice.choice(("", "", HAS_MODEL, WITH_MODEL))
    return {
        "deviceClassName": dice.choice(("gpu",) * 6 + ("any", "any", "missing")),
        "allocationMode": dice.choice(("ExactCount", "ExactCount", "All")),
        "count": dice.choice((1, 1, 2)),
        "selectors": [{"cel": {"expression": selector}}] if selector else [],
        "tolerations": [{"key": "t", "operator": "Exists"}] if _rarely(dice) else [],
    }


# Claims


def claims(dice: Random, name: str) -> ResourceClaim:
    wanted = [{"name": f"r{i}", "exactly": requests(dice)} for i in range(dice.choice((1, 1, 2)))]
    same = [{"matchAttribute": f"{DRIVER}/model"}] if _rarely(dice) else []
    owner = dice.choice(("", "", "p0", "p1", "g"))
    kind = "PodGroup" if owner == "g" else "Pod"
    reference = {"apiVersion": "v1", "kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "annotations": {ANNOTATION: "true"} if _rarely(dice) else {},
        "ownerReferences": [reference] if owner else [],
        "deletionTimestamp": DELETED if _rarely(dice) else None,
    }
    spec = {"devices": {"requests": wanted, "constraints": same}}
    status = allocated(dice) if dice.random() < 0.35 else {}
    return _built(ResourceClaim, {"metadata": metadata, "spec": spec, "status": status})


def allocated(dice: Random) -> dict[str, Any]:
    node = dice.choice(NODES)
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    by_zone = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}
    result = {"request": "r0", "driver": DRIVER, "pool": node, "device": dice.choice(("d0", "d1"))}
    if _rarely(dice):
        result |= {"shareID": "00000000-0000-0000-0000-000000000001", "consumedCapacity": {"memory": "2Gi"}}
    allocation: dict[str, Any] = {"devices": {"results": [result]}}
    if not _rarely(dice):
        allocation["nodeSelector"] = {"nodeSelectorTerms": [dice.choice((by_name, by_zone))]}
    if _rarely(dice):
        allocation["reservedForAnyPod"] = True
    listed = [{"resource": "pods", "name": p, "uid": f"uid-{p}"} for p in some(dice, ("p0", "q0"))]
    if _rarely(dice):
        listed = [{"resource": "pods", "name": f"f{i}", "uid": f"uid-f{i}"} for i in range(256)]
    return {"allocation": allocation, "reservedFor": listed}


# Pods


def _term(app: str, key: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def affinity(dice: Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in some(dice, ("podAffinity", "podAntiAffinity", "podAntiAffinity"), 1):
        term = _term(dice.choice(APPS), dice.choice((ZONE, HOST)))
        if _rarely(dice):
            term["namespaceSelector"] = {"matchLabels": {"team": "one"}}
        found[name] = {REQUIRED: [term]}
    if _rarely(dice):
        wanted = {"key": ZONE, "operator": "NotIn", "values": ["a"]}
        found["nodeAffinity"] = {REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}}
    return found


def spreads(dice: Random) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": dice.choice((ZONE, HOST)),
        "whenUnsatisfiable": dice.choice(("DoNotSchedule", "DoNotSchedule", "ScheduleAnyway")),
        "labelSelector": {"matchLabels": {"app": dice.choice(APPS)}},
        "nodeAffinityPolicy": dice.choice((None, "Ignore")),
        "nodeTaintsPolicy": dice.choice((None, "Honor")),
        "minDomains": dice.choice((None, None, 2)),
    }


def pods(dice: Random, name: str, *, placed: bool) -> Pod:
    container: dict[str, Any] = {"name": "c", "image": "i"}
    container["resources"] = {"requests": {"cpu": dice.choice(("100m", "1", "2"))}}
    container["resources"]["requests"] |= {name: dice.choice(("1", "2")) for name in EXTENDED if _rarely(dice)}
    container["ports"] = [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}] if _maybe(dice) else []
    spec: dict[str, Any] = {
        "containers": [container],
        "affinity": affinity(dice),
        "schedulerName": "default-scheduler",
    }
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "labels": {"app": dice.choice(APPS)}}
    status: dict[str, Any] = {"phase": "Pending"}
    if placed:
        spec["nodeName"] = dice.choice((*NODES, "unknown"))
        metadata["namespace"] = dice.choice(("default", "default", "other"))
        metadata["deletionTimestamp"] = DELETED if _rarely(dice) else None
        status["phase"] = dice.choice(("Running", "Running", "Succeeded"))
    else:
        spec["nodeSelector"] = {ZONE: "a"} if _rarely(dice) else {}
        spec["tolerations"] = [{"key": "k", "operator": "Exists"}] if _maybe(dice) else []
        if _rarely(dice):
            spec["tolerations"] += [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
        spec["topologySpreadConstraints"] = [spreads(dice) for _ in range(dice.choice((0, 1, 1, 2)))]
        status["resourceClaimStatuses"] = _uses(dice, spec)
    return _built(Pod, {"metadata": metadata, "spec": spec, "status": status})


def _uses(dice: Random, spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Claims by name, from a template or of the group; what the status of the pod says about the generated ones."""
    entries: list[dict[str, Any]] = []
    made: list[dict[str, Any]] = []
    for number, name in enumerate(some(dice, ("c0", "c1", "c2", "c3"))):
        kind = dice.choice(("name",) * 9 + ("template", "template", "group", "group", "lacking", "unneeded"))
        entry: dict[str, Any] = {"name": f"e{number}"}
        if kind == "name":
            entry["resourceClaimName"] = name
        elif kind in ("group", "lacking"):
            entry["podGroupResourceClaim"] = "shared" if kind == "group" else "nothing"
        else:
            entry["resourceClaimTemplateName"] = "t"
        if kind in ("template", "group") and dice.choice((True, True, False)):
            made.append({"name": entry["name"], "resourceClaimName": name})
        elif kind == "unneeded":
            made.append({"name": entry["name"]})
        entries.append(entry)
    if any("podGroupResourceClaim" in entry for entry in entries) or _rarely(dice):
        spec["schedulingGroup"] = {"podGroupName": dice.choice(("g",) * 5 + ("gone",))}
    spec["resourceClaims"] = entries
    return made


GROUP = _built(
    PodGroup,
    {
        "metadata": {"name": "g", "namespace": "default", "uid": "uid-g"},
        "spec": {
            "schedulingPolicy": {"basic": {}},
            "resourceClaims": [{"name": "shared", "resourceClaimTemplateName": "t"}],
        },
    },
)
NAMESPACES = tuple(
    _built(Namespace, {"metadata": {"name": name, "labels": {"team": team}}})
    for name, team in (("default", "one"), ("other", "two"))
)
TAINT_RULE = _built(
    DeviceTaintRule,
    {
        "metadata": {"name": "rule"},
        "spec": {"deviceSelector": {"pool": "n0"}, "taint": {"key": "t", "effect": "NoSchedule"}},
    },
)


def cluster(seed: int, version: str = "1") -> Objects:
    """All objects of a cluster, with two pods, p0 and p1, that have no node. Clusters use the same few names."""
    dice = Random(seed)
    made: list[Any] = [*CLASSES, GROUP, *NAMESPACES]
    made += [nodes(dice, name) for name in NODES[: dice.choice((0, 1, 2, 2, 3, 3))]]
    made += [slices(dice, number) for number in range(dice.randint(1, 4))]
    made += [claims(dice, f"c{number}") for number in range(dice.randint(2, 4))]
    made += [pods(dice, f"q{number}", placed=True) for number in range(dice.randint(0, 4))]
    made += [pods(dice, f"p{number}", placed=False) for number in range(2)]
    if _rarely(dice):
        made.append(TAINT_RULE)
    return Objects(replace(one, metadata=replace(one.metadata, resourceVersion=version)) for one in made)
