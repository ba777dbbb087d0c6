"""Validation of pods and pod templates, and of updates of pods."""

from __future__ import annotations

import msgspec

from dray.api import names
from dray.api.constraints import checked
from dray.api.errors import FieldError, duplicate, forbidden, invalid, required, unsupported
from dray.api.paths import SPEC, STATUS, Path
from dray.api.rules import Errors, each, named, required_name, unchanged
from dray.api.schema import CORE
from dray.api.types import core, meta
from dray.api.validation.containers import PodParts, ephemeral_container, init_container, resources, restarts
from dray.api.validation.context import Context
from dray.api.validation.metadata import template_metadata
from dray.api.validation.placement import toleration

POD_RESOURCES = ("cpu", "memory")
MIRROR = "kubernetes.io/config.mirror"  # annotation of mirror pods, which a node creates for its static pods
_CONTAINERS = {
    "containers": f"{CORE}Container",
    "initContainers": f"{CORE}Container",
    "ephemeralContainers": f"{CORE}EphemeralContainer",
}
_SYSTEM_CONDITIONS = ("PodScheduled", "Ready", "Initialized")
_QOS_CLASS = STATUS / "qosClass"
_CLAIM_STATUSES = STATUS / "resourceClaimStatuses"
_NEGATIVE = "must be a non-negative integer"
_LONGEST_DEADLINE = 2**31 - 1
_MUTABLE = (
    "pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,"
    "`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def create_pod(pod: core.Pod, context: Context) -> Errors:
    yield from pod_spec(pod.spec, SPEC)
    if pod.spec.ephemeralContainers:
        yield forbidden(SPEC / "ephemeralContainers", "cannot be set on create")


def pod_template(template: core.PodTemplateSpec, path: Path, more_volumes: tuple[core.Volume, ...] = ()) -> Errors:
    """Yield errors in the metadata and spec of a pod template. `more_volumes` are volumes added to its pods later.

    Ephemeral containers are forbidden.
    """
    yield from template_metadata(template.metadata, path)
    yield from pod_spec(template.spec, path / "spec", more_volumes)
    if template.spec.ephemeralContainers:
        text = "ephemeral containers not allowed in pod template"
        yield forbidden(path / "spec" / "ephemeralContainers", text)


def check_pod_template(template: core.PodTemplate, context: Context) -> Errors:
    yield from pod_template(template.template, Path("template"))


# The spec


def pod_spec(spec: core.PodSpec, path: Path, more_volumes: tuple[core.Volume, ...] = ()) -> list[FieldError]:
    """Return the errors in a pod spec. `more_volumes` are volumes added to the pods later."""
    claims = {claim.name: claim for claim in spec.resourceClaims}
    volumes = {volume.name: volume for volume in (*spec.volumes, *more_volumes)}
    return checked(f"{CORE}PodSpec", spec, path, context=PodParts(claims, volumes, spec.hostNetwork))


def containers(spec: core.PodSpec, _: object, path: Path, parts: PodParts) -> Errors:
    """Yield errors in all containers of a pod, including duplicate names."""
    if not spec.containers:
        yield required(path / "containers")
    seen: set[str] = set()
    for field, message in _CONTAINERS.items():
        is_ephemeral = field == "ephemeralContainers"
        lent = parts._replace(host_network=False) if is_ephemeral else parts
        for index, item in enumerate(getattr(spec, field)):
            here = path / field / index
            yield from checked(message, item, here, context=lent)
            if field == "initContainers":
                yield from init_container(item, here)
            if is_ephemeral:
                lasting = {item.name for item in (*spec.containers, *spec.initContainers)}
                yield from ephemeral_container(item, here, lasting)
            elif item.restartPolicy is not None or item.restartPolicyRules:
                yield from restarts(item, here)
            if item.name in seen:
                yield duplicate(here / "name", item.name)
            seen.add(item.name)


def pod_resources(value: core.ResourceRequirements, _: object, path: Path, parts: PodParts) -> Errors:
    """Yield errors in pod-level resources: only CPU, memory and huge pages, and no claims."""
    if value.claims:
        yield forbidden(path / "claims", "claims may not be set for Resources at pod-level")
    for field in ("limits", "requests"):
        for name in getattr(value, field):
            if name not in POD_RESOURCES and not name.startswith("hugepages-"):
                yield unsupported(path / field % name, name, (*POD_RESOURCES, "hugepages-"))
    yield from resources(value, None, path, parts)


def scheduling_gates(items: tuple[core.PodSchedulingGate, ...], path: Path) -> Errors:
    seen: set[str] = set()
    for index, gate in enumerate(items):
        yield from named(gate.name, path / index, names.qualified_name)
        if gate.name in seen:
            yield duplicate(path / index, gate.name)
        seen.add(gate.name)


def group(spec: core.PodSpec, path: Path) -> Errors:
    """Yield errors in the pod's PodGroup, in schedulingGroup or in the older workloadRef.

    Both can be missing. If both are set, they must name the same group.
    """
    if spec.schedulingGroup is not None:
        here = path / "schedulingGroup" / "podGroupName"
        if spec.schedulingGroup.podGroupName is None:
            yield invalid(here, None, "must specify one of: `podGroupName`")
        else:
            yield from named(spec.schedulingGroup.podGroupName, here, names.subdomain)
    if spec.workloadRef is not None:
        for field in ("name", "podGroupName"):
            yield from required_name(getattr(spec.workloadRef, field), path / "workloadRef" / field, names.subdomain)
        group = spec.schedulingGroup.podGroupName if spec.schedulingGroup is not None else None
        if group is not None and group != spec.workloadRef.podGroupName:
            text = "must be the same group as `schedulingGroup.podGroupName`"
            yield invalid(path / "workloadRef" / "podGroupName", spec.workloadRef.podGroupName, text)


def resource_claims(spec: core.PodSpec, path: Path) -> Errors:
    """Yield errors in the resourceClaims of a pod: names, duplicates and sources."""
    seen: set[str] = set()
    for index, claim in enumerate(spec.resourceClaims):
        here = path / "resourceClaims" / index
        if not claim.name:
            yield required(here / "name")
        elif claim.name in seen:
            yield duplicate(here / "name", claim.name)
        else:
            yield from named(claim.name, here / "name", names.label)
        seen.add(claim.name)
        yield from _claim_source(claim, spec, here)


def _claim_source(claim: core.PodResourceClaim, spec: core.PodSpec, path: Path) -> Errors:
    sources = [claim.resourceClaimName, claim.resourceClaimTemplateName, claim.podGroupResourceClaim]
    chosen = sum(source is not None for source in sources)
    if not chosen:
        text = "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`"
        yield invalid(path, claim, text)
    elif chosen > 1:
        options = "`resourceClaimName` or `resourceClaimTemplateName`"
        if claim.podGroupResourceClaim is not None:
            options = "`resourceClaimName`, `resourceClaimTemplateName` or `podGroupResourceClaim`"
        yield invalid(path, claim, f"at most one of {options} may be specified")
    for field in ("resourceClaimName", "resourceClaimTemplateName"):
        name = getattr(claim, field)
        if name is not None:
            yield from named(name, path / field, names.subdomain)
    if claim.podGroupResourceClaim is not None:
        yield from named(claim.podGroupResourceClaim, path / "podGroupResourceClaim", names.label)
        if spec.schedulingGroup is None and spec.workloadRef is None:
            text = "may only be set for a pod of a group: set `schedulingGroup` or `workloadRef`"
            yield invalid(path / "podGroupResourceClaim", claim.podGroupResourceClaim, text)


# Updates


def update_pod(pod: core.Pod, old: core.Pod, context: Context) -> Errors:
    """Yield errors in an update of a pod, most of whose spec is immutable."""
    yield from _mirror_update(pod.metadata, old.metadata)
    yield from _deadline_update(pod.spec, old.spec)
    for field in ("containers", "initContainers"):
        new, before = getattr(pod.spec, field), getattr(old.spec, field)
        if len(new) != len(before):
            yield forbidden(SPEC / field, "pod updates may not add or remove containers")
            return
        for index, item in enumerate(new):
            if not item.image:
                yield required(SPEC / field / index / "image")
    yield from _tolerations_update(pod.spec, old.spec)
    yield from _gates_update(pod.spec, old.spec)
    yield from _rest_unchanged(pod.spec, old.spec)


def _deadline_update(spec: core.PodSpec, old: core.PodSpec) -> Errors:
    """Yield errors if an update extends or removes activeDeadlineSeconds. It may be added or shortened."""
    new, before, path = spec.activeDeadlineSeconds, old.activeDeadlineSeconds, SPEC / "activeDeadlineSeconds"
    if new is not None:
        if not 0 <= new <= _LONGEST_DEADLINE:
            yield invalid(path, new, f"must be between 0 and {_LONGEST_DEADLINE}, inclusive")
        elif before is not None and new > before:
            yield invalid(path, new, "must be less than or equal to previous value")
    elif before is not None:
        yield invalid(path, None, "must not update from a positive integer to nil value")


def _tolerations_update(spec: core.PodSpec, old: core.PodSpec) -> Errors:
    def key(item: core.Toleration) -> tuple[str, ...]:
        return item.key, item.operator, item.value, item.effect

    now = {key(item) for item in spec.tolerations}
    if any(key(item) not in now for item in old.tolerations):
        text = "existing toleration can not be modified except its tolerationSeconds"
        yield forbidden(SPEC / "tolerations", text)
    yield from each(spec.tolerations, SPEC / "tolerations", toleration)


def _gates_update(spec: core.PodSpec, old: core.PodSpec) -> Errors:
    before = {gate.name for gate in old.schedulingGates}
    for gate in spec.schedulingGates:
        if gate.name not in before:
            text = f"only deletion is allowed, but found new scheduling gate '{gate.name}'"
            yield forbidden(SPEC / "schedulingGates", text)


def _rest_unchanged(spec: core.PodSpec, old: core.PodSpec) -> Errors:
    """Yield an error if anything other than the mutable fields of a pod has changed."""
    restored: dict[str, object] = {
        "activeDeadlineSeconds": old.activeDeadlineSeconds,
        "tolerations": old.tolerations,
        "schedulingGates": old.schedulingGates,
    }
    for field in ("containers", "initContainers"):
        pairs = zip(getattr(spec, field), getattr(old, field), strict=True)
        restored[field] = tuple(msgspec.structs.replace(new, image=before.image) for new, before in pairs)
    if (old.terminationGracePeriodSeconds or 0) < 0 and spec.terminationGracePeriodSeconds == 1:
        restored["terminationGracePeriodSeconds"] = old.terminationGracePeriodSeconds
    if old.schedulingGates:
        # While a pod has scheduling gates, its placement rules can be made stricter.
        if old.nodeSelector.items() <= spec.nodeSelector.items():
            restored["nodeSelector"] = old.nodeSelector
        if old.affinity is None:
            restored["affinity"] = None
    munged = msgspec.structs.replace(spec, **restored)
    if munged != old:
        changed = [name for name in spec.__struct_fields__ if getattr(munged, name) != getattr(old, name)]
        yield forbidden(SPEC, f"{_MUTABLE}\nchanged: {', '.join(f'`spec.{name}`' for name in changed)}")


def update_ephemeral_containers(pod: core.Pod, old: core.Pod, context: Context) -> Errors:
    """Yield errors in an update of ephemeral containers, which may only be added."""
    yield from pod_spec(pod.spec, SPEC)
    path, wanted = SPEC / "ephemeralContainers", {item.name: item for item in pod.spec.ephemeralContainers}
    for before in old.spec.ephemeralContainers:
        if before.name not in wanted:
            yield forbidden(path, f'existing ephemeral containers "{before.name}" may not be removed')
        elif wanted[before.name] != before:
            yield forbidden(path, f'existing ephemeral containers "{before.name}" may not be changed')


def _mirror_update(new: meta.ObjectMeta, old: meta.ObjectMeta) -> Errors:
    """Yield errors if an update adds, changes or removes the mirror pod annotation."""
    now, before = new.annotations.get(MIRROR), old.annotations.get(MIRROR)
    if now != before and now is not None:
        yield forbidden(f"metadata.annotations[{MIRROR}]", "may not add mirror pod annotation")
    if now != before and before is not None:
        yield forbidden(f"metadata.annotations[{MIRROR}]", "may not remove or update mirror pod annotation")


def update_pod_size(pod: core.Pod, old: core.Pod, context: Context) -> Errors:
    """Yield errors in the spec of a pod after a resize."""
    yield from pod_spec(pod.spec, SPEC)


def update_pod_status(pod: core.Pod, old: core.Pod, context: Context) -> Errors:
    """Yield errors in an update of a pod's status."""
    yield from _mirror_update(pod.metadata, old.metadata)
    if pod.status.nominatedNodeName:
        yield from named(pod.status.nominatedNodeName, STATUS / "nominatedNodeName", names.subdomain)
    if old.status.qosClass:
        yield from unchanged(pod.status.qosClass, old.status.qosClass, _QOS_CLASS, pod.status.qosClass)
    yield from _observations(pod.status)
    known = {claim.name for claim in pod.spec.resourceClaims}
    seen: set[str] = set()
    for index, status in enumerate(pod.status.resourceClaimStatuses):
        if status.name not in known:
            text = "must match the name of an entry in `spec.resourceClaims`"
            yield invalid(_CLAIM_STATUSES / index / "name", status.name, text)
        if status.name in seen:
            yield duplicate(_CLAIM_STATUSES / index / "name", status.name)
        seen.add(status.name)
        if status.resourceClaimName is not None:
            for text in names.subdomain(status.resourceClaimName):
                yield invalid(_CLAIM_STATUSES / index / "resourceClaimName", status.resourceClaimName, text)
    if pod.status.extendedResourceClaimStatus is not None:
        yield from _extended_claim(pod.status.extendedResourceClaimStatus, pod.spec)


def _observations(status: core.PodStatus) -> Errors:
    """Yield errors in observedGeneration and condition types; fast for valid input, which is frequent."""
    if status.observedGeneration < 0:
        yield invalid(STATUS / "observedGeneration", status.observedGeneration, _NEGATIVE)
    for index, item in enumerate(status.conditions):
        if item.observedGeneration < 0:
            path = STATUS / "conditions" / index / "observedGeneration"
            yield invalid(path, item.observedGeneration, _NEGATIVE)
        if item.type not in _SYSTEM_CONDITIONS and names.qualified_name(item.type):
            # The field is capitalized as in Kubernetes.
            yield from named(item.type, STATUS / "conditions" / index / "Type", names.qualified_name)


def _extended_claim(status: core.PodExtendedResourceClaimStatus, spec: core.PodSpec) -> Errors:
    """Yield errors in the status of the extended resource claim: the mapping of requests to containers."""
    path = STATUS / "extendedResourceClaimStatus"
    containers = {item.name: item for item in (*spec.initContainers, *spec.containers)}
    if not status.requestMappings:
        yield required(path / "requestMappings", "at least one request mapping is required")
    seen: set[tuple[str, ...]] = set()
    for index, mapping in enumerate(status.requestMappings):
        here = path / "requestMappings" / index
        container = containers.get(mapping.containerName)
        if container is None:
            text = "must match the name of an entry in spec.initContainers.name or spec.containers.name"
            yield invalid(here / "containerName", mapping.containerName, text)
        elif mapping.resourceName not in container.resources.requests:
            text = (
                "must match the extended resource name of an entry in spec.initContainers.resources.requests or "
                "spec.containers.resources.requests"
            )
            yield invalid(here / "resourceName", mapping.resourceName, text)
        yield from named(mapping.requestName, path / "requestName", names.label)  # Kubernetes leaves out which one
        key = mapping.containerName, mapping.resourceName, mapping.requestName
        if key in seen:
            for field, value in zip(("containerName", "resourceName", "requestName"), key, strict=True):
                yield duplicate(here / field, value)
        seen.add(key)
    yield from required_name(status.resourceClaimName, path / "resourceClaimName", names.subdomain)
