"""What the server adds to new objects."""

from __future__ import annotations

import time

from dray.api.quantity import Quantity
from dray.api.times import timestamp
from dray.api.wire import Tree

GROUP_FINALIZER = "scheduling.k8s.io/podgroup-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"
VOLUME_CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
_JOB_UID = "batch.kubernetes.io/controller-uid"
_JOB_NAME = "batch.kubernetes.io/job-name"
TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"
_DATA_SOURCES = (("", "PersistentVolumeClaim"), ("snapshot.storage.k8s.io", "VolumeSnapshot"))
_COUNTED_RESOURCES = ("cpu", "memory")


def pod(tree: Tree) -> None:
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
    """How a pod is treated when a node runs short, from what its containers ask for."""
    requests: dict[str, Quantity] = {}
    limits: dict[str, Quantity] = {}
    complete = True  # every container limits both cpu and memory
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
    """Add what counts; returns whether all that counts was said."""
    if not amounts:
        return False
    said = 0
    for name in _COUNTED_RESOURCES:
        amount = Quantity.parse(amounts.get(name) or "0")
        if amount.sign > 0:
            sums[name] = sums[name] + amount if name in sums else amount
            said += 1
    return said == len(_COUNTED_RESOURCES)


def namespace(tree: Tree) -> None:
    metadata = tree["metadata"]
    metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata.get("name", "")}
    tree["status"] = {"phase": "Active"}
    spec = tree.setdefault("spec", {})
    finalizers = spec.get("finalizers") or []
    spec["finalizers"] = finalizers if "kubernetes" in finalizers else [*finalizers, "kubernetes"]


def service(tree: Tree) -> None:
    """One address family, the cluster's only one. The address itself is given out elsewhere."""
    spec = tree.setdefault("spec", {})
    if spec.get("type") == "ExternalName":
        return
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec["ipFamilies"] = spec.get("ipFamilies") or ["IPv4"]
    if spec.get("clusterIP") and not spec.get("clusterIPs"):
        spec["clusterIPs"] = [spec["clusterIP"]]


def volume(tree: Tree) -> None:
    """A volume that a claim holds is not deleted under it."""
    _finalize(tree, VOLUME_FINALIZER)
    tree["status"] = {"phase": "Pending", "lastPhaseTransitionTime": tree["metadata"].get("creationTimestamp")}


def volume_claim(tree: Tree) -> None:
    """A claim that a pod uses is not deleted under it."""
    _finalize(tree, VOLUME_CLAIM_FINALIZER)
    tree["status"] = {"phase": "Pending"}
    spec = tree.setdefault("spec", {})
    source, reference = spec.get("dataSource"), spec.get("dataSourceRef")
    if source is not None and (source.get("apiGroup") or "", source.get("kind")) not in _DATA_SOURCES:
        source = None  # older than the other field, and never meant for anything else
        del spec["dataSource"]
    if source and not reference:
        spec["dataSourceRef"] = dict(source)
    elif reference and not source and not reference.get("namespace"):
        spec["dataSource"] = {name: reference[name] for name in ("apiGroup", "kind", "name") if name in reference}


def daemon_set(tree: Tree) -> None:
    """Templates of daemons are counted in an annotation, as they were before there were revisions."""
    annotations = annotations_of(tree)
    said = annotations.get(TEMPLATE_GENERATION)
    annotations[TEMPLATE_GENERATION] = said if said is not None and said.isdigit() and int(said) > 0 else "1"


def api_service(tree: Tree) -> None:
    """Whatever no other server answers for is there."""
    if not (tree.get("spec") or {}).get("service"):
        text = "Local APIServices are always available"
        available = {"type": "Available", "status": "True", "reason": "Local", "message": text}
        tree["status"] = {"conditions": [{**available, "lastTransitionTime": timestamp(time.time())}]}


def annotations_of(tree: Tree) -> Tree:
    """The annotations of an object, to be changed."""
    metadata: Tree = tree.setdefault("metadata", {})
    annotations: Tree = metadata.get("annotations") or {}
    metadata["annotations"] = annotations
    return annotations


def definition(tree: Tree) -> None:
    versions = (tree.get("spec") or {}).get("versions") or ()
    stored = [version.get("name", "") for version in versions if version.get("storage")]
    tree["status"] = {"storedVersions": stored} if stored else {}


def _finalize(tree: Tree, finalizer: str) -> None:
    metadata = tree.setdefault("metadata", {})
    finalizers = metadata.get("finalizers") or []
    metadata["finalizers"] = finalizers if finalizer in finalizers else [*finalizers, finalizer]


def job(tree: Tree) -> None:
    """A job finds its pods by its own uid, unless its author insists on another selector."""
    spec, metadata = tree.setdefault("spec", {}), tree.get("metadata") or {}
    if spec.get("manualSelector"):
        return
    name, uid = metadata.get("name", ""), metadata.get("uid", "")
    template = spec.setdefault("template", {})
    labels = {_JOB_UID: uid, _JOB_NAME: name, "controller-uid": uid, "job-name": name}
    template_metadata = template.setdefault("metadata", {})
    template_metadata["labels"] = {**(template_metadata.get("labels") or {}), **labels}
    selector = spec.setdefault("selector", {})
    selector["matchLabels"] = {**(selector.get("matchLabels") or {}), _JOB_UID: uid}
    tree["metadata"]["labels"] = metadata.get("labels") or dict(template_metadata["labels"])


def pod_group(tree: Tree) -> None:
    _finalize(tree, GROUP_FINALIZER)
    spec = tree.setdefault("spec", {})
    if not spec.get("priorityClassName"):
        spec.setdefault("priority", 0)
