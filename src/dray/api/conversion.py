"""Between the served versions of a kind and the one form in which it is stored.

Trees are converted in place: they are private to the request. What a version cannot express survives an update through
it, because the stored object is passed along and lends those fields. Defaults are applied to stored trees only, so
conversion also knows the few that differ by version (a v1alpha1 group without policy). Left out: kinds with one version.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from dray.api.custom import pruning
from dray.api.needs import Lacking, StepNeed
from dray.api.resources import DRA, SCHEDULING, Resource
from dray.api.types import scheduling
from dray.api.wire import Tree, Wire

# From a name to that Workload in the namespace of the request, if there is one.
WorkloadLookup = Callable[[str], scheduling.Workload | None]

_EVENTS = "events.k8s.io"
_MAIN_REQUEST = (
    "adminAccess",
    "allocationMode",
    "capacity",
    "count",
    "derivedAttributes",
    "deviceClassName",
    "selectors",
    "tolerations",
)
_GROUP_ONLY_STORED = (
    "disruptionMode",
    "parentCompositePodGroupName",
    "preemptionPolicy",
    "priority",
    "priorityClassName",
    "schedulingConstraints",
)
_POOL_ONLY_STORED = ("partitionSummary", "shareableSummary", "validationError")
_POOL_COUNTS = ("allocatedDevices", "availableDevices", "totalDevices", "unavailableDevices")
_EVENT_NAMES = {
    "deprecatedCount": "count",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedSource": "source",
    "note": "message",
    "regarding": "involvedObject",
    "reportingController": "reportingComponent",
}
_LONGEST_ERROR = 256
_MOST_ERRORS = 10


class ObjectConversion(StepNeed):
    """An object in a version that only the webhook of its definition can make, as JSON."""

    def __init__(self, resource: Resource, version: str, tree: Tree) -> None:
        self.key = resource.api_version(version), msgspec.json.encode(tree)
        self.resource = resource
        self.version = version
        self.tree = tree


def to_stored(
    resource: Resource,
    version: str,
    tree: Tree,
    old: Wire | None = None,
    workloads: WorkloadLookup | None = None,
) -> Tree:
    """A request's tree in the stored form. `old` is the stored object that an update replaces."""
    if resource.custom is not None:
        return _custom(resource, resource.stored, tree)
    if resource.group == DRA:
        _dra_to_stored(resource, version, tree, old)
    elif resource.group == SCHEDULING and version == "v1alpha1":
        _scheduling_to_stored(resource, tree, _tree(old), workloads)
    elif resource.group == _EVENTS:
        _rename(tree, _EVENT_NAMES)
    elif resource.group == "autoscaling" and version == "v1":
        _autoscaler_to_stored(tree, _tree(old))
    stored = resource.home
    tree["apiVersion"] = stored.api_version()
    return tree


def from_stored(resource: Resource, version: str, tree: Tree) -> Tree:
    """A stored tree as a version shows it."""
    if resource.custom is not None:
        tree = _custom(resource, version, tree)
        shape_custom(resource, version, tree)
        return tree
    if resource.group == DRA:
        _dra_from_stored(resource, version, tree)
    elif resource.group == SCHEDULING and version == "v1alpha1":
        _scheduling_from_stored(resource, tree)
    elif resource.group == _EVENTS:
        _event_from_stored(tree)
    elif resource.group == "autoscaling" and version == "v1":
        _autoscaler_from_stored(tree)
    tree["apiVersion"] = resource.api_version(version)
    return tree


def _tree(old: Wire | None) -> Tree:
    found: Tree = {} if old is None else msgspec.to_builtins(old)
    return found


def _rename(tree: Tree, names: dict[str, str]) -> None:
    for old, new in names.items():
        if old in tree:
            tree[new] = tree.pop(old)


# Custom resources


def _custom(resource: Resource, version: str, tree: Tree) -> Tree:
    """An object in another version: the same but for its apiVersion, or what the webhook made of it. Raises Lacking."""
    assert resource.custom is not None
    wanted = resource.api_version(version)
    if resource.custom.converts and tree["apiVersion"] != wanted:
        need = ObjectConversion(resource, version, tree)
        known = resource.converted if resource.converted is not None else {}
        if need.key not in known:
            raise Lacking(known, need)
        converted: Tree = msgspec.json.decode(known[need.key])
        return converted
    tree["apiVersion"] = wanted
    return tree


def shape_custom(resource: Resource, version: str, tree: Tree) -> None:
    """Give an object the shape that the schema of its version asks for, whatever that was when it was written."""
    assert resource.custom is not None
    node = resource.custom.versions[version].node
    pruning.pruned(node, tree)
    pruning.fill(node, tree)


# resource.k8s.io


def _dra_to_stored(resource: Resource, version: str, tree: Tree, old: Wire | None) -> None:
    if resource.kind == "ResourcePoolStatusRequest":
        if version == "v1alpha1":
            _pool_request_to_stored(tree, _tree(old))
    elif version == "v1beta1":
        for request in _requests(resource, tree):
            _unflatten(request)
        if resource.kind == "ResourceSlice":
            _slice_to_stored(tree.get("spec", {}))


def _dra_from_stored(resource: Resource, version: str, tree: Tree) -> None:
    if resource.kind == "ResourcePoolStatusRequest":
        if version == "v1alpha1":
            _pool_request_from_stored(tree)
    elif version == "v1beta1":
        for request in _requests(resource, tree):
            _flatten(request)
        if resource.kind == "ResourceSlice":
            _slice_from_stored(tree.get("spec", {}))


def _requests(resource: Resource, tree: Tree) -> list[Tree]:
    """The device requests of a claim or a template."""
    spec = tree.get("spec", {})
    if resource.kind == "ResourceClaimTemplate":
        spec = spec.get("spec", {})
    elif resource.kind != "ResourceClaim":
        return []
    return spec.get("devices", {}).get("requests") or []


def _unflatten(request: Tree) -> None:
    """v1beta1 says the main request's fields beside `firstAvailable`, the stored form under `exactly`."""
    main = {name: request.pop(name) for name in _MAIN_REQUEST if name in request}
    if any(value not in (None, "", 0) or value is False for value in main.values()):
        request["exactly"] = main


def _flatten(request: Tree) -> None:
    request.update(request.pop("exactly", None) or {})
    request.setdefault("deviceClassName", "")


def _slice_to_stored(spec: Tree) -> None:
    for name in ("nodeName", "allNodes"):
        if not spec.get(name, True):
            del spec[name]  # no pointers in v1beta1: the zero value means unset
    for device in spec.get("devices") or ():
        device.update(device.pop("basic", None) or {})


def _slice_from_stored(spec: Tree) -> None:
    for device in spec.get("devices") or ():
        name = device.pop("name", "")
        basic = dict(device)
        device.clear()
        device.update(name=name, basic=basic)


def _pool_request_to_stored(tree: Tree, old: Tree) -> None:
    _lend(tree.get("spec", {}), old.get("spec", {}), ("defaultPartitionTypeAttribute",))
    status = tree.get("status")
    if status is None:
        return
    truncated = status.pop("truncated", False)
    pools = status.get("pools") or []
    count = status.pop("totalMatchingPools", 0)
    status["poolCount"] = max(count, len(pools) + 1) if truncated else count
    before = {_pool_key(pool): pool for pool in (old.get("status") or {}).get("pools") or ()}
    for pool in pools:
        _rename(pool, {"sliceCount": "resourceSliceCount"})
        if not pool.get("nodeName", True):
            del pool["nodeName"]
        _lend(pool, before.get(_pool_key(pool), {}), _POOL_ONLY_STORED)


def _pool_request_from_stored(tree: Tree) -> None:
    tree.get("spec", {}).pop("defaultPartitionTypeAttribute", None)
    status = tree.get("status")
    if not status:
        return
    pools = status.get("pools") or []
    count = status.pop("poolCount", None) or 0
    status["totalMatchingPools"] = count
    status["truncated"] = count > len(pools)
    complaints = [f"pool {p.get('poolName', '')}: {p['validationError']}" for p in pools if p.get("validationError")]
    if complaints and not status.get("validationErrors"):
        status["validationErrors"] = [text[:_LONGEST_ERROR] for text in complaints[:_MOST_ERRORS]]
    for pool in pools:
        _rename(pool, {"resourceSliceCount": "sliceCount"})
        for name in (*_POOL_COUNTS, "sliceCount"):
            pool[name] = pool.get(name) or 0
        for name in _POOL_ONLY_STORED:
            pool.pop(name, None)


def _pool_key(pool: Tree) -> tuple[str, str]:
    return pool.get("driver", ""), pool.get("poolName", "")


def _lend(tree: Tree, old: Tree, names: tuple[str, ...]) -> None:
    """Keep what an older version has no words for."""
    for name in names:
        if name in old:
            tree.setdefault(name, old[name])


# scheduling.k8s.io


def _scheduling_to_stored(resource: Resource, tree: Tree, old: Tree, workloads: WorkloadLookup | None) -> None:
    spec, old_spec = tree.get("spec", {}), old.get("spec", {})
    if resource.kind == "PodGroup":
        _group_to_stored(spec, old_spec, workloads)
    elif resource.kind == "Workload":
        before = {template.get("name"): template for template in old_spec.get("podGroupTemplates") or ()}
        for template in spec.get("podGroupTemplates") or ():
            _policy_to_stored(template, {"basic": {}})
            _lend(template, before.get(template.get("name"), {}), _GROUP_ONLY_STORED)
        _lend(spec, old_spec, ("compositePodGroupTemplates",))


def _scheduling_from_stored(resource: Resource, tree: Tree) -> None:
    spec = tree.get("spec", {})
    if resource.kind == "PodGroup":
        _group_from_stored(spec)
    elif resource.kind == "Workload":
        for template in spec.get("podGroupTemplates") or ():
            _policy_from_stored(template)
        spec.pop("compositePodGroupTemplates", None)


def _group_to_stored(spec: Tree, old: Tree, workloads: WorkloadLookup | None) -> None:
    workload = (spec.pop("workloadRef", None) or {}).get("name", "")
    template = (spec.pop("podGroupTemplateRef", None) or {}).get("name", "")
    if workload or template:
        spec["workloadRef"] = {"workloadName": workload, "templateName": template}
    inherited = old.get("schedulingPolicy") or _template_policy(workloads, workload, template)
    _policy_to_stored(spec, inherited or {"basic": {}})
    _lend(spec, old, _GROUP_ONLY_STORED)


def _template_policy(workloads: WorkloadLookup | None, workload: str, template: str) -> Tree | None:
    found = workloads(workload) if workloads and workload else None
    for candidate in (found.spec.podGroupTemplates if found else None) or ():
        if candidate.name == template:
            policy: Tree = msgspec.to_builtins(candidate.schedulingPolicy)
            return policy
    return None


def _group_from_stored(spec: Tree) -> None:
    reference = spec.pop("workloadRef", None) or {}
    for name, stored in (("workloadRef", "workloadName"), ("podGroupTemplateRef", "templateName")):
        if reference.get(stored):
            spec[name] = {"name": reference[stored]}
    _policy_from_stored(spec)


def _policy_to_stored(holder: Tree, absent: Tree) -> None:
    holder["schedulingPolicy"] = holder.pop("policy", None) or absent


def _policy_from_stored(holder: Tree) -> None:
    holder["policy"] = holder.pop("schedulingPolicy", None) or {}
    for name in _GROUP_ONLY_STORED:
        holder.pop(name, None)


# events.k8s.io


def _event_from_stored(tree: Tree) -> None:
    _rename(tree, {stored: new for new, stored in _EVENT_NAMES.items()})
    for name in ("note", "reason", "reportingController", "reportingInstance", "type", "action"):
        if tree.get(name) == "":
            del tree[name]
    if tree.get("series"):
        tree["series"].setdefault("count", 0)


# autoscaling: v1 knows the processor only


def _is_processor(metric: Tree) -> bool:
    resource = metric.get("resource") or {}
    target = resource.get("target") or {}
    return resource.get("name") == "cpu" and target.get("averageUtilization") is not None


def _autoscaler_to_stored(tree: Tree, old: Tree) -> None:
    spec, old_spec = tree.setdefault("spec", {}), old.get("spec") or {}
    wanted = spec.pop("targetCPUUtilizationPercentage", None)
    others = [metric for metric in old_spec.get("metrics") or () if not _is_processor(metric)]
    if wanted is not None:
        target = {"type": "Utilization", "averageUtilization": wanted}
        others.insert(0, {"type": "Resource", "resource": {"name": "cpu", "target": target}})
    if others:
        spec["metrics"] = others
    _lend(spec, old_spec, ("behavior",))
    status, old_status = tree.get("status"), old.get("status") or {}
    if status is not None:
        status.pop("currentCPUUtilizationPercentage", None)
        _lend(status, old_status, ("currentMetrics", "conditions"))


def _autoscaler_from_stored(tree: Tree) -> None:
    spec, status = tree.get("spec", {}), tree.get("status", {})
    spec.pop("behavior", None)
    for metric in filter(_is_processor, spec.pop("metrics", None) or ()):
        spec["targetCPUUtilizationPercentage"] = metric["resource"]["target"]["averageUtilization"]
    for metric in status.pop("currentMetrics", None) or ():
        found = metric.get("resource") or {}
        if found.get("name") == "cpu" and "averageUtilization" in (found.get("current") or {}):
            status["currentCPUUtilizationPercentage"] = found["current"]["averageUtilization"]
    status.pop("conditions", None)
    status.setdefault("currentReplicas", 0)
