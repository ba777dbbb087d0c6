"""What the server corrects in updated objects."""

from __future__ import annotations

import time

import msgspec

from dray.api.strategy.creation import TEMPLATE_GENERATION, annotations_of
from dray.api.times import timestamp
from dray.api.types import apiextensions, apps, certificates, core, resource, scheduling
from dray.api.wire import Tree, Wire

_JUDGEMENTS = ("Approved", "Denied")  # conditions of a signing request


def namespace(tree: Tree, old: core.Namespace) -> None:
    """Finalizers of a namespace have a subresource of their own."""
    tree["spec"] = {"finalizers": list(old.spec.finalizers)} if old.spec.finalizers else {}


def namespace_finalize(tree: Tree, old: core.Namespace) -> None:
    tree["status"] = msgspec.to_builtins(old.status)


def pod(tree: Tree, old: core.Pod) -> None:
    """The quality of service follows from what cannot change."""
    tree.setdefault("status", {})["qosClass"] = old.status.qosClass
    _keep_priority(tree.setdefault("spec", {}), old.spec)


def pod_ephemeral_containers(tree: Tree, old: core.Pod) -> None:
    """Nothing of a pod but its ephemeral containers changes this way."""
    wanted = (tree.get("spec") or {}).get("ephemeralContainers")
    tree["spec"] = _put_back(tree, old)
    tree["spec"].pop("ephemeralContainers", None)
    if wanted:
        tree["spec"]["ephemeralContainers"] = wanted


def pod_resize(tree: Tree, old: core.Pod) -> None:
    """Nothing of a pod but what its containers may use changes this way."""
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
    """Undo what a client changed of the metadata; the spec as it was."""
    before = msgspec.to_builtins(old)
    metadata = tree.setdefault("metadata", {})
    for name in ("annotations", "finalizers", "labels", "ownerReferences"):
        metadata.pop(name, None)
        if name in before["metadata"]:
            metadata[name] = before["metadata"][name]
    spec: Tree = before["spec"]
    return spec


def signing_request(tree: Tree, old: certificates.CertificateSigningRequest) -> None:
    """What is to be signed cannot change once somebody may have judged it."""
    tree["spec"] = msgspec.to_builtins(old.spec)


def signing_approval(tree: Tree, old: certificates.CertificateSigningRequest) -> None:
    """An approver does not sign."""
    status = tree.setdefault("status", {})
    status.pop("certificate", None)
    if old.status.certificate:
        status["certificate"] = msgspec.to_builtins(old.status.certificate)


def signing_status(tree: Tree, old: certificates.CertificateSigningRequest) -> None:
    """A signer does not approve."""
    status = tree.setdefault("status", {})
    judged = [msgspec.to_builtins(one) for one in old.status.conditions or () if one.type in _JUDGEMENTS]
    others = [one for one in status.get("conditions") or () if one.get("type") not in _JUDGEMENTS]
    status["conditions"] = [*judged, *others]


def pod_group(tree: Tree, old: scheduling.PodGroup) -> None:
    _keep_priority(tree.setdefault("spec", {}), old.spec)


def definition(tree: Tree, old: apiextensions.CustomResourceDefinition) -> None:
    """A version that objects are stored in now is one of those that they may be found in."""
    stored = list(old.status.storedVersions or ())
    for version in (tree.get("spec") or {}).get("versions") or ():
        if version.get("storage") and version.get("name") not in stored:
            stored.append(version.get("name") or "")
    tree.setdefault("status", {})["storedVersions"] = stored


def _keep_priority(spec: Tree, old: core.PodSpec | scheduling.PodGroupSpec) -> None:
    """A client that leaves out what the server filled in means what is there."""
    for name in ("priority", "preemptionPolicy"):
        value = getattr(old, name)
        if value is not None:
            spec.setdefault(name, value)


def pod_status(tree: Tree, old: core.Pod) -> None:
    metadata = tree.setdefault("metadata", {})
    metadata.pop("ownerReferences", None)
    if old.metadata.ownerReferences:
        metadata["ownerReferences"] = [msgspec.to_builtins(reference) for reference in old.metadata.ownerReferences]
    status = tree.setdefault("status", {})
    status["qosClass"] = status.get("qosClass") or old.status.qosClass


def service(tree: Tree, old: core.Service) -> None:
    """A client that leaves out the address means the one that the service has."""
    spec = tree.setdefault("spec", {})
    if spec.get("type") == "ExternalName":
        return
    for name in ("clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "healthCheckNodePort"):
        value = getattr(old.spec, name)
        if value and not spec.get(name):
            spec[name] = list(value) if isinstance(value, tuple) else value
    node_ports = {(port.name, port.protocol, port.port): port.nodePort for port in old.spec.ports}
    if spec.get("type") in ("NodePort", "LoadBalancer"):
        for port in spec.get("ports") or ():
            known = node_ports.get((port.get("name", ""), port.get("protocol", ""), port.get("port", 0)))
            if known and not port.get("nodePort"):
                port["nodePort"] = known


def daemon_set(tree: Tree, old: apps.DaemonSet) -> None:
    """Count the templates of daemons, whatever the author says."""
    before = old.metadata.annotations.get(TEMPLATE_GENERATION, "1")
    template = msgspec.convert((tree.get("spec") or {}).get("template") or {}, core.PodTemplateSpec)
    number = (int(before) if before.isdigit() else 1) + (template != old.spec.template)
    annotations_of(tree)[TEMPLATE_GENERATION] = str(number)


def taint_rule(tree: Tree, old: resource.DeviceTaintRule) -> None:
    """The time of a taint is that of its effect: a new effect gets a new time unless the author says otherwise."""
    taint = tree.setdefault("spec", {}).setdefault("taint", {})
    before = old.spec.taint
    if taint.get("effect", "") != before.effect and taint.get("timeAdded") == before.timeAdded:
        taint["timeAdded"] = timestamp(time.time())


def claim_status(tree: Tree, old: resource.ResourceClaim) -> None:
    """What drivers said about devices is forgotten when the devices are given back.

    A client that leaves `reservedForAnyPod` out of an allocation does not know the field, and means what is there.
    """
    status = tree.setdefault("status", {})
    if old.status.allocation is None:
        return
    allocation = status.get("allocation") or {}
    if allocation and old.status.allocation.reservedForAnyPod:
        allocation.setdefault("reservedForAnyPod", True)
    devices = status.get("devices")
    if not devices:
        return
    before = {_device(result) for result in old.status.allocation.devices.results}
    kept = {_device(result) for result in (allocation.get("devices") or {}).get("results") or ()}
    status["devices"] = [device for device in devices if _device(device) not in before - kept]


def _device(item: Tree | Wire) -> tuple[str, ...]:
    names = ("driver", "pool", "device")
    if isinstance(item, dict):
        return tuple(item.get(name, "") for name in names)
    return tuple(getattr(item, name) for name in names)
