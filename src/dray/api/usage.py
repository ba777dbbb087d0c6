"""Quota usage of an object; used by admission and by the quota controller.

Names of quota resources are those of Kubernetes: `count/<resource>.<group>` for any resource, short names for
some core resources, `requests.cpu` and similar for pods, and `<class>.deviceclass.resource.k8s.io/devices` for
claims. Claims count for the worst case: a request for all devices counts as 32 devices, and of several
alternatives the largest number per class counts. Devices also count as the extended resources of their class
(`requests.<name>`). The claim created for a pod's extended resources counts there only for the amount above the
pod's own requests. All functions are pure; callers pass namespaces and quotas.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from dray.api.extended_resources import IMPLICIT_PREFIX, is_extended_resource_claim
from dray.api.podclaims import made_for
from dray.api.quantity import Quantity
from dray.api.resources import BY_NAME, BY_TYPE, RESOURCES, Resource
from dray.api.types.core import (
    Container,
    PersistentVolumeClaim,
    Pod,
    ResourceQuota,
    ScopedResourceSelectorRequirement,
    Service,
)
from dray.api.types.resource import DeviceSubRequest, ExactDeviceRequest, ResourceClaim
from dray.api.wire import Wire

Usage = dict[str, Quantity]

DEVICES_SUFFIX = ".deviceclass.resource.k8s.io/devices"
STORAGE_REQUESTS = "requests.storage"
CLASS_INFIX = ".storageclass.storage.k8s.io/"
MOST_DEVICES = 32  # maximum results of an allocation, so also of a request for all devices
ZERO = Quantity.parse("0")
ONE = Quantity.parse("1")

_COUNTED_BY_NAME = frozenset(
    {
        "configmaps",
        "persistentvolumeclaims",
        "pods",
        "replicationcontrollers",
        "resourcequotas",
        "secrets",
        "services",
    }
)
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_DONE = ("Succeeded", "Failed")


class ExtendedNames(NamedTuple):
    """Lookups needed to count claims as extended resources."""

    name_of: Callable[[str], str | None]  # device class → its extendedResourceName
    pod_of: Callable[[str, str], Pod | None]  # (namespace, name) → pod


def usage_of(resource: Resource, obj: Wire, extended: ExtendedNames | None = None) -> Usage:
    """Return the usage of an object by quota resource. With `extended`, claims also count as extended resources.

    A finished pod counts only as an object (`count/pods`).
    """
    used: Usage = {f"count/{resource.qualified}": ONE}
    if resource.group == "" and resource.plural in _COUNTED_BY_NAME:
        used[resource.plural] = ONE
    if isinstance(obj, Pod):
        return used | _pod(obj) if not _is_done(obj) else {f"count/{resource.qualified}": ONE}
    if isinstance(obj, Service):
        return used | _service(obj)
    if isinstance(obj, PersistentVolumeClaim):
        return used | _volume_claim(obj)
    if isinstance(obj, ResourceClaim):
        counts = {name: Quantity.parse(count) for name, count in devices(obj).items()}
        used |= {name + DEVICES_SUFFIX: count for name, count in counts.items()}
        return used | _as_extended(obj, counts, extended) if extended is not None else used
    return used


def _as_extended(claim: ResourceClaim, counts: Usage, known: ExtendedNames) -> Usage:
    """Return the usage of a claim's devices as extended resources."""
    used: Usage = {}
    for class_, count in counts.items():
        for name in (f"{IMPLICIT_PREFIX}{class_}", known.name_of(class_)):
            if name:
                used[f"requests.{name}"] = used.get(f"requests.{name}", ZERO) + count
    owner = made_for(claim, "Pod") if is_extended_resource_claim(claim) else None
    pod = known.pod_of(claim.metadata.namespace, owner.name) if owner is not None else None
    if pod is None or owner is None or pod.metadata.uid != owner.uid or _is_done(pod):
        return used
    counted = _pod(pod)
    return {name: max(amount - counted.get(name, ZERO), ZERO) for name, amount in used.items()}


def _volume_claim(claim: PersistentVolumeClaim) -> Usage:
    """Return the usage of a volume claim, in total and for its StorageClass."""
    asked = Quantity.parse(claim.spec.resources.requests.get("storage", "0"))
    used = {STORAGE_REQUESTS: asked}
    if class_name := claim.spec.storageClassName:
        used |= {f"{class_name}{CLASS_INFIX}{name}": amount for name, amount in used.items()}
        used[f"{class_name}{CLASS_INFIX}persistentvolumeclaims"] = ONE
    return used


def devices(claim: ResourceClaim) -> dict[str, int]:
    """Return the maximum number of devices that a claim can use, by name of the device class.

    Of a request with alternatives, the largest number for each class counts.
    """
    total: dict[str, int] = {}
    for request in claim.spec.devices.requests or ():
        worst: dict[str, int] = {}
        for wanted in request.firstAvailable or ((request.exactly,) if request.exactly else ()):
            name = wanted.deviceClassName
            worst[name] = max(worst.get(name, 0), _count(wanted))
        for name, count in worst.items():
            total[name] = total.get(name, 0) + count
    return total


def resource_of(name: str) -> Resource | None:
    """Return the resource whose objects count for a quota resource; None if no served resource does."""
    if name.startswith("count/"):
        plural, _, group = name.removeprefix("count/").partition(".")
        found = BY_NAME.get((group, plural))
        # Objects that are not stored do not count.
        return found if found is not None and "list" in found.verbs else None
    if name.endswith(DEVICES_SUFFIX):
        return BY_TYPE[ResourceClaim]
    if name.startswith("services."):
        return BY_TYPE[Service]
    if name in _COUNTED_BY_NAME:
        return BY_NAME["", name]
    if name == STORAGE_REQUESTS or CLASS_INFIX in name:
        return BY_TYPE[PersistentVolumeClaim]
    if name in _COMPUTE or name.startswith(("requests.", "limits.")):
        return BY_TYPE[Pod]
    return None


def names_for(resource: Resource, hard: Mapping[str, str]) -> list[str]:
    """Return the quota resources in `hard` for which objects of the resource count. `hard` is a quota's limits."""
    if resource.custom is not None:
        own = f"count/{resource.qualified}"
        return [own] if own in hard else []
    devices = resource is BY_TYPE[ResourceClaim]
    return [name for name in hard if resource_of(name) is resource or (devices and is_extended(name))]


def is_extended(name: str) -> bool:
    """Return whether a quota resource limits an extended resource, for which pods and claims count."""
    return name.startswith("requests.") and "/" in name


def in_scope(quota: ResourceQuota, obj: Wire) -> bool:
    """Return whether an object matches all scopes of a quota. Only pods can match scopes.

    Every object matches a quota without scopes.
    """
    scopes = [ScopedResourceSelectorRequirement("Exists", scope) for scope in quota.spec.scopes]
    if quota.spec.scopeSelector:
        scopes.extend(quota.spec.scopeSelector.matchExpressions)
    return not scopes or (isinstance(obj, Pod) and all(_scope_matches(scope, obj) for scope in scopes))


def total(
    quota: ResourceQuota,
    list_objects: Callable[[Resource], Iterable[Wire]],
    custom: Iterable[Resource] = (),
    extended: ExtendedNames | None = None,
) -> Usage:
    """Return the usage of the objects in a namespace for each name in the quota's `spec.hard`.

    `custom` are the existing custom resources. Names for which no resource counts are omitted, because their
    usage is unknown.
    """
    used: Usage = {}
    for resource in (*RESOURCES, *custom):
        names = names_for(resource, quota.spec.hard)
        if not names:
            continue
        used = dict.fromkeys(names, ZERO) | used
        for obj in list_objects(resource):
            if in_scope(quota, obj):
                amounts = usage_of(resource, obj, extended)
                for name in names:
                    used[name] += amounts.get(name, ZERO)
    return used


def unspecified(pod: Pod, names: Iterable[str]) -> dict[str, list[str]]:
    """Return the compute resources in `names` that containers of a pod do not specify: name → container names.

    Names of other resources, and amounts that the pod itself specifies, are left out.
    """
    missing: dict[str, list[str]] = {}
    for name in sorted(names):
        kind, _, compute = name.partition(".") if name.startswith(("requests.", "limits.")) else ("requests", "", name)
        if compute not in _COMPUTE or _stated(pod.spec.resources, kind, compute):
            continue
        silent = [
            container.name
            for container in (*pod.spec.containers, *pod.spec.initContainers)
            if not _stated(container.resources, kind, compute)
        ]
        if silent:
            missing[name] = silent
    return missing


def _count(request: ExactDeviceRequest | DeviceSubRequest) -> int:
    return MOST_DEVICES if request.allocationMode == "All" else max(request.count, 1)


def _is_done(pod: Pod) -> bool:
    return pod.status.phase in _DONE


def _service(service: Service) -> Usage:
    """Return the node ports and load balancers of a Service. Without automatic node ports, only the named ones count."""
    spec = service.spec
    ports = len(spec.ports) if spec.type in ("NodePort", "LoadBalancer") else 0
    if spec.type == "LoadBalancer" and spec.allocateLoadBalancerNodePorts is False:
        ports = sum(port.nodePort != 0 for port in spec.ports)
    balancers = 1 if spec.type == "LoadBalancer" else 0
    return {"services.nodeports": Quantity.parse(ports), "services.loadbalancers": Quantity.parse(balancers)}


def _pod(pod: Pod) -> Usage:
    used: Usage = {}
    for name, amount in _effective(pod, "requests").items():
        used[f"requests.{name}"] = amount
        if name in _COMPUTE:
            used[name] = amount
    for name, amount in _effective(pod, "limits").items():
        used[f"limits.{name}"] = amount
    return used


def _effective(pod: Pod, kind: str) -> Usage:
    """Return the amounts needed at once: by all containers and sidecars, or by an init container before them."""
    running: Usage = {}
    starting: Usage = {}
    for container in pod.spec.initContainers:
        if container.restartPolicy == "Always":
            running = _sum(running, _amounts(container, kind))
            starting = _largest(starting, running)
        else:
            starting = _largest(starting, _sum(running, _amounts(container, kind)))
    for container in pod.spec.containers:
        running = _sum(running, _amounts(container, kind))
    needed = _largest(running, starting)
    if pod.spec.resources:
        needed |= {name: Quantity.parse(text) for name, text in getattr(pod.spec.resources, kind).items()}
    overhead = {name: Quantity.parse(text) for name, text in pod.spec.overhead.items()}
    return _sum(needed, overhead if kind == "requests" else {n: q for n, q in overhead.items() if n in needed})


def _amounts(container: Container, kind: str) -> Usage:
    resources = container.resources
    return {name: Quantity.parse(text) for name, text in getattr(resources, kind).items()}


def _sum(a: Usage, b: Usage) -> Usage:
    return {name: a.get(name, ZERO) + b.get(name, ZERO) for name in a | b}


def _largest(a: Usage, b: Usage) -> Usage:
    return {name: max(a.get(name, ZERO), b.get(name, ZERO)) for name in a | b}


def _stated(resources: object, kind: str, compute: str) -> bool:
    return resources is not None and compute in getattr(resources, kind)


def _scope_matches(scope: ScopedResourceSelectorRequirement, pod: Pod) -> bool:
    if scope.scopeName == "PriorityClass":
        return _value_matches(scope, pod.spec.priorityClassName)
    holds = _SCOPES.get(scope.scopeName)
    return holds is not None and holds(pod)


def _value_matches(scope: ScopedResourceSelectorRequirement, value: str) -> bool:
    match scope.operator:
        case "In":
            return value in scope.values
        case "NotIn":
            return value not in scope.values
        case "DoesNotExist":
            return not value
    return bool(value)


def _is_best_effort(pod: Pod) -> bool:
    """Return whether no container of a pod, including init containers, has requests or limits."""
    return not any(
        container.resources.requests or container.resources.limits
        for container in (*pod.spec.containers, *pod.spec.initContainers)
    )


def _is_terminating(pod: Pod) -> bool:
    return pod.spec.activeDeadlineSeconds is not None


def _has_foreign_terms(pod: Pod) -> bool:
    """Return whether a term of the pod's affinity or anti-affinity names namespaces or selects them."""
    affinity = pod.spec.affinity
    terms = [
        term
        for side in ((affinity.podAffinity, affinity.podAntiAffinity) if affinity else ())
        if side
        for term in (
            *side.requiredDuringSchedulingIgnoredDuringExecution,
            *(weighted.podAffinityTerm for weighted in side.preferredDuringSchedulingIgnoredDuringExecution),
        )
    ]
    return any(term.namespaces or term.namespaceSelector is not None for term in terms)


_SCOPES: dict[str, Callable[[Pod], bool]] = {
    "BestEffort": _is_best_effort,
    "NotBestEffort": lambda pod: not _is_best_effort(pod),
    "Terminating": _is_terminating,
    "NotTerminating": lambda pod: not _is_terminating(pod),
    "CrossNamespacePodAffinity": _has_foreign_terms,
}
