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
from dray.api.gates import OPTIONAL_OPERATIONS, FeatureGates
from dray.api.types.core import Namespace, Node, Pod
from dray.api.types.resource import DeviceClass, DeviceTaintRule, ResourceClaim, ResourceSlice
from dray.api.types.scheduling import PodGroup

GATES = FeatureGates.parse("AllAlpha=true,AllBeta=true")  # without its gate, the API would drop a field
DRIVER = "d.example.com"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
NODES = ("n0", "n1", "n2")
ZONE, HOST = "zone", "kubernetes.io/hostname"
DELETED = "2026-01-01T00:00:00Z"
WITH_MODEL = f'device.attributes["{DRIVER}"].model == "a"'
_KNOWN = f'has(device.attributes["{DRIVER}"].model)'
HAS_MODEL = f"{_KNOWN} && {WITH_MODEL}"
MODEL_OR_NONE = f'{_KNOWN} ? device.attributes["{DRIVER}"].model : "none"'

EXTENDED = (f"{DRIVER}/gpu", "deviceclass.resource.kubernetes.io/any", f"{DRIVER}/plugin")
APPS = ("x", "y")
ZONES = ("a", "a", "b", "b", "")
IN_ZONE_A = {"nodeSelectorTerms": [{"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["a"]}]}]}
EFFECTS = ("NoSchedule", "NoExecute", "None")  # of taints on devices
CORES = (
    {"value": "2"},
    {"value": "2", "requestPolicy": {"default": "1", "validValues": ["1", "2"]}},
    {"value": "1500m", "requestPolicy": {"default": "1", "validRange": {"min": "500m", "step": "500m", "max": "2"}}},
)
MODEL, TAGS, DERIVED = f"{DRIVER}/model", f"{DRIVER}/tags", "derived/model"  # what constraints are about
READY, BROKEN = "Attached", "Failed"  # conditions that drivers set
FROM_NODE = (
    {"mapping": {"deviceMultiplier": "1"}},
    {"mapping": {"capacityKey": "cores", "capacityMultiplier": "1"}},
    {"overhead": {"perPod": "2"}},
    {"overhead": {"perContainer": "500m"}},
)


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


def _seldom(dice: Random) -> bool:
    return dice.random() < 0.05


def _built(type_: type[Any], tree: dict[str, Any]) -> Any:
    return msgspec.convert(tree, type_)


def nodes(dice: Random, name: str) -> Node:
    zone = dice.choice(ZONES)
    taint = {"key": "k", "value": "v", "effect": dice.choice(("NoSchedule", "NoExecute", "PreferNoSchedule"))}
    allocatable = {"cpu": dice.choice(("1", "4", "8", "8")), "pods": dice.choice(("1", "10", "10", "10"))}
    allocatable |= {name: dice.choice(("0", "1", "2")) for name in EXTENDED if _seldom(dice)}
    spec = {"unschedulable": _seldom(dice), "taints": [taint] if _rarely(dice) else []}
    metadata = {"name": name, "labels": {HOST: name, **({ZONE: zone} if zone else {})}}
    status = {"allocatable": allocatable, "declaredFeatures": [OPTIONAL_OPERATIONS] if _maybe(dice) else []}
    return _built(Node, {"metadata": metadata, "spec": spec, "status": status})


# Devices


def devices(dice: Random, name: str, *, counted: bool) -> dict[str, Any]:
    model = dice.choice(("a", "a", "b", ""))
    taints = [{"key": "t", "effect": dice.choice(EFFECTS)}] if _rarely(dice) else []
    attributes: dict[str, Any] = {"model": {"string": model}} if model else {}
    if _maybe(dice):
        attributes["tags"] = {"strings": ["a", dice.choice(("b", "c"))]}
    made: dict[str, Any] = {"name": name, "attributes": attributes, "taints": taints}
    if dice.random() < 0.3:
        made |= {"allowMultipleAllocations": True, "capacity": {"cores": dice.choice(CORES)}}
    if counted and _maybe(dice):
        drawn = {"counterSet": "set", "counters": {"slots": {"value": dice.choice(("1", "2"))}}}
        if _rarely(dice):
            drawn["compatibilityGroups"] = [dice.choice(("one", "two"))]
        made["consumesCounters"] = [drawn]
    if _rarely(dice):
        made |= {"bindingConditions": [READY], "bindingFailureConditions": [BROKEN], "bindsToNode": _maybe(dice)}
    if _rarely(dice):
        made["nodeAllocatableResources"] = {"cpu": dice.choice(FROM_NODE)}
    return made


def slices(dice: Random, number: int, pool: str, *, counted: bool) -> ResourceSlice:
    made = [devices(dice, f"d{at}", counted=counted) for at in range(dice.randint(0, 4))]
    where: dict[str, Any] = {"nodeName": pool}
    if _rarely(dice):
        pool, where = dice.choice((("shared", {"nodeSelector": IN_ZONE_A}), ("everywhere", {"allNodes": True})))
    elif _rarely(dice):
        where = {"perDeviceNodeSelection": True}
        for device in made:
            device |= dice.choice(({"nodeName": pool}, {"nodeSelector": IN_ZONE_A}, {"allNodes": True}))
    spec = {
        "driver": "other.example.com" if _rarely(dice) else DRIVER,
        "pool": _pool(dice, pool, counted),
        "devices": made,
        "skipNodeOperations": ["NodePrepareResources"] if _rarely(dice) else [],
        **where,
    }
    return _built(ResourceSlice, {"metadata": {"name": f"s{number}"}, "spec": spec})


def _pool(dice: Random, name: str, counted: bool) -> dict[str, Any]:
    """Pools differ in how many slices they should have; one that shares counters has a slice more, of counters."""
    generation = 2 if _seldom(dice) else 1
    return {"name": name, "generation": generation, "resourceSliceCount": (2 if _seldom(dice) else 1) + counted}


def counters(dice: Random, piece: ResourceSlice) -> ResourceSlice:
    """The slice of the counters on which the devices of another slice draw."""
    sets = [{"name": "set", "counters": {"slots": {"value": dice.choice(("1", "2", "3"))}}}]
    where = {"nodeName": piece.spec.nodeName, "nodeSelector": piece.spec.nodeSelector, "allNodes": piece.spec.allNodes}
    where["perDeviceNodeSelection"] = piece.spec.perDeviceNodeSelection
    spec = {"driver": piece.spec.driver, "pool": piece.spec.pool, "sharedCounters": sets, **where}
    return _built(ResourceSlice, {"metadata": {"name": f"{piece.metadata.name}-counters"}, "spec": spec})


def taint_rules(dice: Random) -> DeviceTaintRule:
    chosen = some(dice, (("driver", DRIVER), ("pool", "n0"), ("device", "d0")), 3)
    spec = {"deviceSelector": dict(chosen), "taint": {"key": "t", "effect": dice.choice(EFFECTS)}}
    return _built(DeviceTaintRule, {"metadata": {"name": "rule"}, "spec": spec})


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


def requests(dice: Random, *, exact: bool = True) -> dict[str, Any]:
    selector = dice.choice(("",) * 10 + (HAS_MODEL,) * 4 + (WITH_MODEL,))
    made: dict[str, Any] = {
        "deviceClassName": dice.choice(("gpu",) * 16 + ("any", "any", "any", "missing")),
        "allocationMode": dice.choice(("ExactCount", "ExactCount", "All")),
        "count": dice.choice((1, 1, 2)),
        "selectors": [{"cel": {"expression": selector}}] if selector else [],
        "tolerations": [{"key": "t", "operator": "Exists"}] if _rarely(dice) else [],
    }
    if dice.random() < 0.3:
        made["capacity"] = {"requests": {"cores": dice.choice(("1", "1200m", "3"))}}
    if _maybe(dice):
        made["derivedAttributes"] = [{"name": DERIVED, "expression": MODEL_OR_NONE}]
    if exact and _rarely(dice):
        made["adminAccess"] = True
    return made


def wanted(dice: Random, name: str) -> dict[str, Any]:
    """A request for devices, or for the first alternative that there is."""
    if not _rarely(dice):
        return {"name": name, "exactly": requests(dice)}
    return {"name": name, "firstAvailable": [{"name": f"a{i}", **requests(dice, exact=False)} for i in range(2)]}


# Claims


def claims(dice: Random, name: str) -> ResourceClaim:
    owner = dice.choice(("",) * 7 + ("p0", "p1", "g"))
    kind = "PodGroup" if owner == "g" else "Pod"
    reference = {"apiVersion": "v1", "kind": kind, "name": owner, "uid": f"uid-{owner}", "controller": True}
    metadata = {
        "name": name,
        "namespace": "default",
        "uid": f"uid-{name}",
        "annotations": {ANNOTATION: "true"} if _seldom(dice) else {},
        "ownerReferences": [reference] if owner else [],
        "deletionTimestamp": DELETED if _seldom(dice) else None,
    }
    status = allocated(dice) if dice.random() < 0.35 else {}
    return _built(ResourceClaim, {"metadata": metadata, "spec": asked(dice), "status": status})


def asked(dice: Random) -> dict[str, Any]:
    constraint = {dice.choice(("matchAttribute", "distinctAttribute")): dice.choice((MODEL, TAGS, DERIVED))}
    constraints = [constraint] if dice.random() < 0.3 else []
    requests_ = [wanted(dice, f"r{i}") for i in range(dice.choice((1, 1, 2)))]
    return {"devices": {"requests": requests_, "constraints": constraints}}


def allocated(dice: Random) -> dict[str, Any]:
    node = dice.choice(NODES)
    by_name = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]}
    by_zone = {"matchExpressions": [{"key": ZONE, "operator": "In", "values": ["b"]}]}
    result = {"request": "r0", "driver": DRIVER, "pool": node, "device": dice.choice(("d0", "d1"))}
    if _rarely(dice):
        share = f"00000000-0000-0000-0000-00000000000{dice.randint(1, 3)}"
        result |= {"shareID": share, "consumedCapacity": {"cores": dice.choice(("500m", "1", "2"))}}
    elif _rarely(dice):
        result["adminAccess"] = True
    allocation: dict[str, Any] = {"devices": {"results": [result]}}
    if not _rarely(dice):
        allocation["nodeSelector"] = {"nodeSelectorTerms": [dice.choice((by_name, by_zone))]}
    if _rarely(dice):
        allocation["reservedForAnyPod"] = True
    listed = [{"resource": "pods", "name": p, "uid": f"uid-{p}"} for p in some(dice, ("p0", "q0"))]
    if _rarely(dice):
        listed = [{"resource": "pods", "name": f"f{i}", "uid": f"uid-f{i}"} for i in range(256)]
    told = []
    if _rarely(dice):
        result |= {"bindingConditions": [READY], "bindingFailureConditions": [BROKEN]}
        found = [{"type": type_, "status": dice.choice(("True", "False"))} for type_ in some(dice, (READY, BROKEN), 2)]
        told = [{"driver": DRIVER, "pool": node, "device": result["device"], "conditions": found}]
    return {"allocation": allocation, "reservedFor": listed, "devices": told}


# Pods


def _term(app: str, key: str) -> dict[str, Any]:
    return {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}


def affinity(dice: Random) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in some(dice, ("podAffinity", "podAntiAffinity", "podAntiAffinity"), 1 if _rarely(dice) else 0):
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
    container["resources"] = {"requests": {"cpu": dice.choice(("100m", "100m", "1", "2"))}}
    container["resources"]["requests"] |= {name: dice.choice(("1", "2")) for name in EXTENDED if _seldom(dice)}
    container["ports"] = [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}] if _rarely(dice) else []
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
        spec["nodeSelector"] = {ZONE: "a"} if _seldom(dice) else {}
        spec["tolerations"] = [{"key": "k", "operator": "Exists"}] if _maybe(dice) else []
        if _rarely(dice):
            spec["tolerations"] += [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]
        spec["topologySpreadConstraints"] = [spreads(dice) for _ in range(dice.choice((0, 0, 0, 1, 1, 2)))]
        status["resourceClaimStatuses"] = _uses(dice, spec)
        container["resources"]["claims"] = [{"name": entry["name"]} for entry in spec["resourceClaims"]]
        if _rarely(dice):
            spec["resources"] = {"requests": {"cpu": "2"}}
        if _rarely(dice):
            spec["initContainers"] = [{"name": "i", "image": "i", "resources": {"requests": {"cpu": "3"}}}]
    return _built(Pod, {"metadata": metadata, "spec": spec, "status": status})


def _uses(dice: Random, spec: dict[str, Any]) -> list[dict[str, Any]]:
    """Claims by name, from a template or of the group; what the status of the pod says about the generated ones."""
    entries: list[dict[str, Any]] = []
    made: list[dict[str, Any]] = []
    for number, name in enumerate(some(dice, ("c0", "c1", "c2", "c3"), 3)):
        kind = dice.choice(("name",) * 24 + ("template", "template", "group", "group", "lacking", "unneeded"))
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
    if any("podGroupResourceClaim" in entry for entry in entries) or _seldom(dice):
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


def cluster(seed: int, version: str = "1") -> Objects:
    """All objects of a cluster, with two pods, p0 and p1, that have no node. Clusters use the same few names."""
    dice = Random(seed)
    made: list[Any] = [*CLASSES, GROUP, *NAMESPACES, *_published(dice)]
    made += [nodes(dice, name) for name in NODES[: dice.choice((0, 1, 2, 2, 2, 3, 3, 3, 3, 3))]]
    made += [claims(dice, f"c{number}") for number in range(dice.choice((2, 4, 4, 4)))]
    made += [pods(dice, f"q{number}", placed=True) for number in range(dice.randint(0, 4))]
    made += [pods(dice, f"p{number}", placed=False) for number in range(2)]
    return _served(made, version)


def device_cluster(seed: int, version: str = "1") -> Objects:
    """A cluster in which devices alone decide about the pods p0 and p1: nothing else is in their way."""
    dice = Random(seed)
    made: list[Any] = [*CLASSES, *NAMESPACES, *_published(dice)]
    labels = {"n0": "a", "n1": "a", "n2": "b"}
    for name, zone in labels.items():
        allocatable = {"cpu": dice.choice(("1", "2", "4")), "pods": "10"}
        features = [OPTIONAL_OPERATIONS] if _maybe(dice) else []
        status = {"allocatable": allocatable, "declaredFeatures": features}
        made.append(_built(Node, {"metadata": {"name": name, "labels": {ZONE: zone}}, "status": status}))
    for number in range(5):
        metadata = {"name": f"c{number}", "namespace": "default", "uid": f"uid-c{number}"}
        status = allocated(dice) if number > 2 else {}
        made.append(_built(ResourceClaim, {"metadata": metadata, "spec": asked(dice), "status": status}))
    made += [_claiming(f"p{number}", dice.choice((["c0"], ["c1", "c2"]))) for number in range(2)]
    return _served(made, version)


def _claiming(name: str, used: Sequence[str]) -> Pod:
    entries = [{"name": claim, "resourceClaimName": claim} for claim in used]
    resources = {"claims": [{"name": claim} for claim in used], "requests": {"cpu": "1"}}
    spec = {"containers": [{"name": "c", "image": "i", "resources": resources}], "resourceClaims": entries}
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return _built(Pod, {"metadata": metadata, "spec": {**spec, "schedulerName": "default-scheduler"}})


def _published(dice: Random) -> list[Any]:
    """Slices, and what taints their devices."""
    made: list[Any] = [taint_rules(dice)] if _rarely(dice) else []
    pools = [*some(dice, NODES, 3), *some(dice, NODES, 1)]  # now and then two slices that do not make a pool
    for number, pool in enumerate(pools):
        counted = _rarely(dice)
        made.append(piece := slices(dice, number, pool, counted=counted))
        made += [counters(dice, piece)] if counted else []
    return made


def _served(made: list[Any], version: str) -> Objects:
    return Objects(replace(one, metadata=replace(one.metadata, resourceVersion=version)) for one in made)
