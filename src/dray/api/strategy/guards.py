"""Fields behind feature gates: dropped from objects while the gate is off, unless the object has them already.

Whether an object "has them already" is asked of the whole object, as in Kubernetes: an update of a claim that uses
alternatives somewhere may add another alternative.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec

from dray.api.gates import FeatureGates
from dray.api.wire import Tree, Wire

# The holders of a guarded field in a tree, each with the name of the field.
Places = Callable[[Tree], Iterator[tuple[Tree, str]]]


def _at(tree: Any, *path: str) -> Any:
    """What stands at a path, or an empty tree."""
    for name in path:
        tree = tree.get(name) or {}
    return tree


def _claim_spec(tree: Tree) -> Tree:
    """The spec of a claim or of what makes claims."""
    spec: Tree = tree.get("spec") or {}
    return spec.get("spec") or spec


def _requests(tree: Tree) -> list[Tree]:
    if "spec" not in tree:  # only the status is written, which happens often
        return []
    return _at(_claim_spec(tree), "devices").get("requests") or []


def _exact(tree: Tree) -> Iterator[Tree]:
    for request in _requests(tree):
        yield _at(request, "exactly")
        yield from request.get("firstAvailable") or ()


def _results(tree: Tree) -> list[Tree]:
    if not tree.get("status"):
        return []
    return _at(tree, "status", "allocation", "devices").get("results") or []


def _alternatives(tree: Tree) -> Iterator[tuple[Tree, str]]:
    for request in _requests(tree):
        yield request, "firstAvailable"


def _admin_access(tree: Tree) -> Iterator[tuple[Tree, str]]:
    for holder in (*_exact(tree), *_results(tree)):
        yield holder, "adminAccess"


def _tolerations(tree: Tree) -> Iterator[tuple[Tree, str]]:
    for holder in (*_exact(tree), *_results(tree)):
        yield holder, "tolerations"


def _taints(tree: Tree) -> Iterator[tuple[Tree, str]]:
    for device in _at(tree, "spec").get("devices") or ():
        yield device, "taints"


def _derived_attributes(tree: Tree) -> Iterator[tuple[Tree, str]]:
    for holder in _exact(tree):
        yield holder, "derivedAttributes"


def _skipped_by_claim(tree: Tree) -> Iterator[tuple[Tree, str]]:
    for result in _results(tree):
        yield result, "skipNodeOperations"


def _skipped_by_slice(tree: Tree) -> Iterator[tuple[Tree, str]]:
    yield _at(tree, "spec"), "skipNodeOperations"


def _list_attributes(tree: Tree) -> Iterator[tuple[Tree, str]]:
    """A slice may have thousands of attributes, so only those that are lists are listed."""
    for device in _at(tree, "spec").get("devices") or ():
        for attribute in (device.get("attributes") or {}).values():
            if not _LISTS.isdisjoint(attribute):
                for name in _LISTS:
                    yield attribute, name


def _node_claims(tree: Tree) -> Iterator[tuple[Tree, str]]:
    yield _at(tree, "status"), "nodeAllocatableResourceClaimStatuses"


def _node_resources(tree: Tree) -> Iterator[tuple[Tree, str]]:
    for device in _at(tree, "spec").get("devices") or ():
        yield device, "nodeAllocatableResources"


def _partitions(tree: Tree) -> Iterator[tuple[Tree, str]]:
    spec = _at(tree, "spec")
    yield spec, "sharedCounters"
    yield spec, "perDeviceNodeSelection"
    for device in spec.get("devices") or ():
        for name in ("consumesCounters", "nodeName", "nodeSelector", "allNodes"):
            yield device, name


def _shareable(tree: Tree) -> Iterator[tuple[Tree, str]]:
    for device in _at(tree, "spec").get("devices") or ():
        yield device, "allowMultipleAllocations"
        for capacity in (device.get("capacity") or {}).values():
            if isinstance(capacity, dict):
                yield capacity, "requestPolicy"


def _shares(tree: Tree) -> Iterator[tuple[Tree, str]]:
    for holder in _exact(tree):
        yield holder, "capacity"
    for constraint in _at(_claim_spec(tree), "devices").get("constraints") or ():
        yield constraint, "distinctAttribute"
    for result in _results(tree):
        yield result, "shareID"
        yield result, "consumedCapacity"
    for device in _at(tree, "status").get("devices") or ():
        yield device, "shareID"


def _late_binding(tree: Tree) -> Iterator[tuple[Tree, str]]:
    for device in _at(tree, "spec").get("devices") or ():
        for name in ("bindingConditions", "bindingFailureConditions", "bindsToNode"):
            yield device, name


def _late_bound(tree: Tree) -> Iterator[tuple[Tree, str]]:
    yield _at(tree, "status", "allocation"), "allocationTimestamp"
    for result in _results(tree):
        yield result, "bindingConditions"
        yield result, "bindingFailureConditions"


def _extended_name(tree: Tree) -> Iterator[tuple[Tree, str]]:
    yield _at(tree, "spec"), "extendedResourceName"


def _extended_claim(tree: Tree) -> Iterator[tuple[Tree, str]]:
    yield _at(tree, "status"), "extendedResourceClaimStatus"


def _compatibility_groups(tree: Tree) -> Iterator[tuple[Tree, str]]:
    for device in _at(tree, "spec").get("devices") or ():
        for consumption in device.get("consumesCounters") or ():
            yield consumption, "compatibilityGroups"


def _partition_type(tree: Tree) -> Iterator[tuple[Tree, str]]:
    yield _at(tree, "spec"), "partitionTypeAttribute"
    yield _at(tree, "spec"), "defaultPartitionTypeAttribute"


def _reserved_for(tree: Tree) -> Iterator[tuple[Tree, str]]:
    yield _claim_spec(tree), "reservedFor"
    yield _at(tree, "status", "allocation"), "reservedForAnyPod"


def _group_claims(tree: Tree) -> Iterator[tuple[Tree, str]]:
    yield _at(tree, "spec"), "resourceClaims"
    yield _at(tree, "status"), "resourceClaimStatuses"
    for template in _group_templates(_at(tree, "spec")):
        yield template, "resourceClaims"


def _group_topology(tree: Tree) -> Iterator[tuple[Tree, str]]:
    yield _at(tree, "spec"), "schedulingConstraints"
    for template in _group_templates(_at(tree, "spec")):
        yield template, "schedulingConstraints"


def _group_templates(holder: Tree) -> Iterator[Tree]:
    """The templates of pod groups, also those inside composite ones."""
    yield from holder.get("podGroupTemplates") or ()
    for composite in holder.get("compositePodGroupTemplates") or ():
        yield from _group_templates(composite)


def _pod_spec(tree: Tree) -> Tree:
    """The pod spec of a pod or of what makes pods."""
    spec: Tree = tree.get("spec") or {}
    template: Tree = spec.get("template") or tree.get("template") or {"spec": spec}
    return template.get("spec") or {}


def _pod_group_claims(tree: Tree) -> Iterator[tuple[Tree, str]]:
    for claim in _pod_spec(tree).get("resourceClaims") or ():
        yield claim, "podGroupResourceClaim"


def _pod_groups(tree: Tree) -> Iterator[tuple[Tree, str]]:
    spec = _pod_spec(tree)
    yield spec, "schedulingGroup"
    yield spec, "workloadRef"


def _pod_claims(tree: Tree) -> Iterator[tuple[Tree, str]]:
    spec = _pod_spec(tree)
    yield spec, "resourceClaims"
    yield _at(tree, "status"), "resourceClaimStatuses"
    for name in ("containers", "initContainers", "ephemeralContainers"):
        for container in spec.get(name) or ():
            yield _at(container, "resources"), "claims"


_LISTS = frozenset({"bools", "ints", "strings", "versions"})
_CLAIMS = frozenset({"ResourceClaim", "ResourceClaimTemplate"})
_SLICES = frozenset({"ResourceSlice"})
_PODS = frozenset({"DaemonSet", "Deployment", "Job", "Pod", "PodTemplate", "ReplicaSet", "ReplicationController"})
_GROUPS = frozenset({"PodGroup", "Workload"})
_GUARDS: tuple[tuple[str, frozenset[str], Places], ...] = (
    ("DRAPrioritizedList", _CLAIMS, _alternatives),
    ("DRAAdminAccess", _CLAIMS, _admin_access),
    ("DRADeviceTaints", _CLAIMS, _tolerations),
    ("DRADeviceTaints", _SLICES, _taints),
    ("DRAPartitionableDevices", _SLICES, _partitions),
    ("DRAConsumableCapacity", _SLICES, _shareable),
    ("DRAConsumableCapacity", _CLAIMS, _shares),
    ("DRADeviceBindingConditions", _SLICES, _late_binding),
    ("DRADeviceBindingConditions", frozenset({"ResourceClaim"}), _late_bound),
    ("DRAExtendedResource", frozenset({"DeviceClass"}), _extended_name),
    ("DRAExtendedResource", frozenset({"Pod"}), _extended_claim),
    ("DRADerivedAttributes", _CLAIMS, _derived_attributes),
    ("DRAOptionalNodeOperations", frozenset({"ResourceClaim"}), _skipped_by_claim),
    ("DRAOptionalNodeOperations", _SLICES, _skipped_by_slice),
    ("DRAListTypeAttributes", _SLICES, _list_attributes),
    ("DRANodeAllocatableResources", _SLICES, _node_resources),
    ("DRANodeAllocatableResources", frozenset({"Pod"}), _node_claims),
    ("DRADeviceCompatibilityGroups", _SLICES, _compatibility_groups),
    ("DRAPartitionableDevicesType", _SLICES | {"ResourcePoolStatusRequest"}, _partition_type),
    ("DRAReservedForWorkloads", _CLAIMS, _reserved_for),
    ("WorkloadPodGroupResourceClaimTemplate", _GROUPS, _group_claims),
    ("TopologyAwareWorkloadScheduling", _GROUPS, _group_topology),
    ("WorkloadPodGroupResourceClaimTemplate", _PODS, _pod_group_claims),
    ("GenericWorkload", _PODS, _pod_groups),
    ("DynamicResourceAllocation", _PODS, _pod_claims),
)
_BY_KIND: dict[str, list[tuple[str, Places]]] = {}
for _gate, _kinds, _places in _GUARDS:
    for _kind in _kinds:
        _BY_KIND.setdefault(_kind, []).append((_gate, _places))


class Dropped(NamedTuple):
    """A field that is not kept, as its gate is off, or one that the gate needs."""

    field: str
    gate: str

    def __str__(self) -> str:
        return f"{self.field} is dropped: the feature gate {self.gate} is off"


NOTHING_DROPPED: tuple[Dropped, ...] = ()


def drop_disabled(kind: str, tree: Tree, old: Wire | None, gates: FeatureGates) -> tuple[Dropped, ...]:
    """Remove the fields of disabled features, in place; answers those that said something."""
    before: Tree | None = None
    dropped: dict[Dropped, None] = {}
    served = gates.all_served
    for gate, places in _BY_KIND.get(kind, ()):
        if gate in served:
            continue
        found = []
        for holder, name in places(tree):  # no comprehension: almost always nothing is found, and it costs a call
            if name in holder:
                found.append((holder, name))
        if not found:
            continue
        if before is None:
            before = {} if old is None else msgspec.to_builtins(old)
        if any(holder.get(name) for holder, name in places(before)):
            continue
        for holder, name in found:
            if holder[name]:
                dropped[Dropped(name, gate)] = None
            del holder[name]
    return tuple(dropped) if dropped else NOTHING_DROPPED


def has_guards(kind: str) -> bool:
    """Whether a gate guards any field of a kind."""
    return kind in _BY_KIND


def is_guarded(kind: str, gates: FeatureGates) -> bool:
    """Whether objects of a kind may have fields that are dropped."""
    return any(gate not in gates.all_served for gate, _ in _BY_KIND.get(kind, ()))
