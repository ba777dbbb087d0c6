"""Pod: containers that run together on one node."""

from __future__ import annotations

from collections.abc import Iterator
from operator import attrgetter

from dray.api.cells import NONE
from dray.api.columns import AGE, NAME, TableColumn, text, wide
from dray.api.gates import FeatureGates
from dray.api.kind import ALL, UNUSED, KindRules, Resource
from dray.api.pod_warnings import pod_warnings
from dray.api.podrows import PodRow, completion
from dray.api.podspecs import spec_defaults
from dray.api.quantity import Quantity
from dray.api.quoting import quote
from dray.api.templates import pod_guards
from dray.api.trees import keep_priority, tree_of
from dray.api.types import core
from dray.api.wire import Tree

_COMPUTE = ("cpu", "memory")
_METADATA = ("annotations", "finalizers", "labels", "ownerReferences")  # fields that other subresources cannot change


def _defaults(tree: Tree) -> None:
    spec = tree.setdefault("spec", {})
    for name in ("containers", "initContainers"):
        for container in spec.get(name) or ():
            resources = container.get("resources")
            if resources and resources.get("limits"):  # a request defaults to the limit
                resources["requests"] = {**resources["limits"], **(resources.get("requests") or {})}
    spec.setdefault("enableServiceLinks", True)  # a default of pods only, not of pod templates
    spec_defaults(spec)


def _create(tree: Tree) -> None:
    tree["status"] = {"phase": "Pending", "qosClass": quality_of_service(tree.get("spec") or {})}
    if (tree.get("spec") or {}).get("schedulingGates"):
        tree["status"]["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastTransitionTime": tree["metadata"].get("creationTimestamp"),
                "lastProbeTime": None,
            }
        ]


def quality_of_service(spec: Tree) -> str:
    """Return the QoS class of a pod, which follows from the requests and limits of its containers.

    The class is Guaranteed, Burstable or BestEffort.
    """
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    complete = True  # whether every container limits both CPU and memory
    for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
        resources = container.get("resources") or {}
        _add(requests, resources.get("requests"))
        complete = _add(limits, resources.get("limits")) and complete
    if not requests and not limits:
        return "BestEffort"
    if complete and requests == limits:
        return "Guaranteed"
    return "Burstable"


def _add(sums: dict[str, Quantity], amounts: Tree | None) -> bool:
    """Add CPU and memory amounts above zero to the sums, in place. Returns whether both amounts are given."""
    if not amounts:
        return False
    said = 0
    for name in _COMPUTE:
        amount = Quantity.parse(amounts.get(name) or "0")
        if amount.sign > 0:
            sums[name] = sums[name] + amount if name in sums else amount
            said += 1
    return said == len(_COMPUTE)


def _keep(tree: Tree, old: core.Pod) -> None:
    """Revert changes of the QoS class and priority, which are derived from immutable fields."""
    tree.setdefault("status", {})["qosClass"] = old.status.qosClass
    keep_priority(tree.setdefault("spec", {}), old.spec)


def _keep_all_but_ephemeral_containers(tree: Tree, old: core.Pod) -> None:
    wanted = (tree.get("spec") or {}).get("ephemeralContainers")
    tree["spec"] = _put_back(tree, old)
    tree["spec"].pop("ephemeralContainers", None)
    if wanted:
        tree["spec"]["ephemeralContainers"] = wanted


def _keep_all_but_sizes(tree: Tree, old: core.Pod) -> None:
    """Revert all changes except those of the containers' resources and resizePolicy."""
    wanted = tree.get("spec") or {}
    tree["spec"] = _put_back(tree, old)
    for field in ("containers", "initContainers"):
        by_name = {item.get("name"): item for item in wanted.get(field) or ()}
        for container in tree["spec"].get(field) or ():
            asked = by_name.get(container["name"], container)
            for name in ("resources", "resizePolicy"):
                container.pop(name, None)
                if name in asked:
                    container[name] = asked[name]


def _put_back(tree: Tree, old: core.Pod) -> Tree:
    """Revert changes of metadata. Returns the old spec."""
    before = tree_of(old)
    metadata = tree.setdefault("metadata", {})
    for name in _METADATA:
        metadata.pop(name, None)
        if name in before["metadata"]:
            metadata[name] = before["metadata"][name]
    spec: Tree = before["spec"]
    return spec


def _keep_owners(tree: Tree, old: core.Pod) -> None:
    metadata = tree.setdefault("metadata", {})
    metadata.pop("ownerReferences", None)
    if old.metadata.ownerReferences:
        metadata["ownerReferences"] = [tree_of(reference) for reference in old.metadata.ownerReferences]
    status = tree.setdefault("status", {})
    status["qosClass"] = status.get("qosClass") or old.status.qosClass


def _settles(status: core.PodStatus, old: core.PodStatus, gates: FeatureGates) -> bool:
    return gates.served("DynamicResourceAllocation") and bool(status.qosClass or not old.qosClass)


def _warnings(pod: core.Pod, old: core.Pod | None) -> Iterator[str]:
    """Yield warnings about a pod's spec, and about the action RestartAllContainers, which nodes do not support."""
    yield from pod_warnings(pod.spec, "spec")
    for field, containers in (("initContainers", pod.spec.initContainers), ("containers", pod.spec.containers)):
        for at, container in enumerate(containers):
            for number, rule in enumerate(container.restartPolicyRules):
                if rule.action == "RestartAllContainers":
                    yield f"spec.{field}[{at}].restartPolicyRules[{number}].action: {quote(rule.action)} {UNUSED}"


KIND = Resource(
    core.Pod,
    short_names=("po",),
    categories=ALL,
    subresources=(
        "attach",
        "binding",
        "ephemeralcontainers",
        "eviction",
        "exec",
        "log",
        "portforward",
        "proxy",
        "resize",
        "status",
    ),
    columns=(
        NAME,
        text("Ready", lambda row: f"{row.ready}/{row.total}"),
        text("Status", "reason"),
        TableColumn("Restarts", lambda row, now: row.restarts.text(now)),
        AGE,
        wide("IP", lambda row: next((a.ip for a in row.status.podIPs if a.ip), ""), NONE),
        wide("Node", "spec.nodeName", NONE),
        wide("Nominated Node", "status.nominatedNodeName", NONE),
        wide("Readiness Gates", "readiness_gates", NONE),
    ),
    view=PodRow,
    row_conditions=completion,
    generation=("spec",),
    status_writes_metadata=True,
    rules=KindRules(
        "pods.create_pod",
        "pods.update_pod",
        subresources={
            "ephemeralcontainers": "pods.update_ephemeral_containers",
            "resize": "pods.update_pod_size",
            "status": "pods.update_pod_status",
        },
    ),
    more_defaults=_defaults,
    guards={
        "DRAExtendedResource": ("status.extendedResourceClaimStatus",),
        "DRANodeAllocatableResources": ("status.nodeAllocatableResourceClaimStatuses",),
        **pod_guards("spec", "status.resourceClaimStatuses"),
    },
    on_create=_create,
    on_update={
        "": _keep,
        "ephemeralcontainers": _keep_all_but_ephemeral_containers,
        "resize": _keep_all_but_sizes,
        "status": _keep_owners,
    },
    settles=_settles,
    warnings=_warnings,
    selectable={
        "spec.nodeName": attrgetter("spec.nodeName"),
        "spec.restartPolicy": attrgetter("spec.restartPolicy"),
        "spec.schedulerName": attrgetter("spec.schedulerName"),
        "spec.serviceAccountName": attrgetter("spec.serviceAccountName"),
        "spec.hostNetwork": lambda pod: str(pod.spec.hostNetwork).lower(),
        "status.phase": attrgetter("status.phase"),
        "status.podIP": attrgetter("status.podIP"),
        "status.podIPs": lambda pod: ",".join(ip.ip for ip in pod.status.podIPs),
        "status.nominatedNodeName": attrgetter("status.nominatedNodeName"),
    },
    is_returned_when_deleted=True,
)
