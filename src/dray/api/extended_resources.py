"""Extended resources that devices serve: a pod asks for `example.com/gpu: 2` and gets devices of a class.

A class serves the name in its `extendedResourceName`, and always `deviceclass.resource.kubernetes.io/<class>` (KEP-5004).
What a pod needs is one claim, which the scheduler makes and the pod's status maps to containers. Pure. Left out: which
nodes serve a resource in another way, by a device plugin (`dray.verdicts.devices`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from dray.api.quantity import Quantity
from dray.api.types.core import Container, ContainerExtendedResourceRequest, Pod
from dray.api.types.meta import ObjectMeta, OwnerReference
from dray.api.types.resource import (
    DeviceClaim,
    DeviceClass,
    DeviceRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceClaimSpec,
)

IMPLICIT_PREFIX = "deviceclass.resource.kubernetes.io/"
ANNOTATION = "resource.kubernetes.io/extended-resource-claim"
IN_MEMORY = "<extended-resources>"  # the name of a claim that is not made yet; no object can have it

Served = Mapping[str, str]  # extended resource → the class of its devices


class ExtendedResources:
    """Which class serves which extended resource: of several that claim a name the newest, then the first by name."""

    def __init__(self, classes: Iterable[DeviceClass] = ()) -> None:
        self._classes: dict[str, DeviceClass] = {}
        self._by_name: dict[str, str] = {}
        for class_ in classes:
            self.upsert(class_)

    def upsert(self, class_: DeviceClass) -> bool:
        """Note a class; whether a resource may be served otherwise than before."""
        return self._put(class_.metadata.name, class_)

    def remove(self, name: str) -> bool:
        return self._put(name, None)

    def _put(self, name: str, class_: DeviceClass | None) -> bool:
        old = self._classes.pop(name, None)
        if class_ is not None:
            self._classes[name] = class_
        changed = {one.spec.extendedResourceName for one in (old, class_) if one is not None} - {None}
        for resource in changed:
            self._choose(str(resource))
        return bool(changed) or old is None or class_ is None

    def _choose(self, resource: str) -> None:
        rivals = sorted(name for name, one in self._classes.items() if one.spec.extendedResourceName == resource)
        self._by_name.pop(resource, None)
        if rivals:
            self._by_name[resource] = max(rivals, key=lambda name: self._classes[name].metadata.creationTimestamp or "")

    def class_of(self, resource: str) -> str | None:
        """The class whose devices serve a resource; None where there is none."""
        if resource.startswith(IMPLICIT_PREFIX):
            name = resource.removeprefix(IMPLICIT_PREFIX)
            return name if name in self._classes else None
        return self._by_name.get(resource)

    def served(self, resources: Iterable[str]) -> dict[str, str]:
        """Those of some extended resources that devices serve, with their classes."""
        return {name: class_ for name in resources if (class_ := self.class_of(name)) is not None}


def may_be_asked(pod: Pod) -> bool:
    """Whether a pod asks for any extended resource, served or not."""
    for one in (*pod.spec.initContainers, *pod.spec.containers):
        resources = one.resources
        if (resources.limits or resources.requests) and "/" in "".join((*resources.limits, *resources.requests)):
            return True
    return False


class Needs(NamedTuple):
    """What a pod needs of devices for its extended resources."""

    requests: tuple[DeviceRequest, ...] = ()
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()


def needs_of(pod: Pod, served: Served) -> Needs:
    """The requests of the claim, and which of them serve which container, for the resources that devices serve."""
    found = [_needs(pod, resource, served[resource]) for resource in sorted(served)]
    requests = sorted((request for one in found for request in one.requests), key=lambda request: request.name)
    return Needs(tuple(requests), tuple(mapping for one in found for mapping in one.mappings))


def _needs(pod: Pod, resource: str, class_: str) -> Needs:
    """What the containers need of one resource.

    Ordinary init containers are over before those after them run, so they use the devices of these; what the largest of
    them needs beyond that is one more request, which they share.
    """
    containers = (*pod.spec.initContainers, *pod.spec.containers)
    brief = {i for i, one in enumerate(pod.spec.initContainers) if one.restartPolicy != "Always"}
    lasting = {
        i: _request(_request_name(i, one, resource), class_, count)
        for i, one in enumerate(containers)
        if i not in brief and (count := _count(one, resource))
    }
    mappings = [_mapping(containers[i], resource, request.name) for i, request in lasting.items()]
    shared: tuple[int, str] = 0, ""
    unserved: list[Container] = []
    for i in sorted(brief):
        container, left = containers[i], _count(containers[i], resource)
        for request in (request for j, request in lasting.items() if j > i):
            if left > 0 and request.exactly is not None:
                mappings.append(_mapping(container, resource, request.name))
                left -= request.exactly.count
        if left > 0:
            unserved.append(container)
            shared = max(shared, (left, _request_name(i, container, resource)), key=lambda one: one[0])
    mappings += [_mapping(container, resource, shared[1]) for container in unserved]
    extra = (_request(shared[1], class_, shared[0]),) if unserved else ()
    return Needs((*extra, *lasting.values()), tuple(mappings))


def extended_resource_claim(pod: Pod, needs: Needs) -> ResourceClaim:
    """The claim of a pod for its extended resources, before it is made."""
    meta = pod.metadata
    owner = OwnerReference(apiVersion="v1", kind="Pod", name=meta.name, uid=meta.uid, controller=True)
    return ResourceClaim(
        metadata=ObjectMeta(
            name=IN_MEMORY,
            namespace=meta.namespace,
            uid=f"{IN_MEMORY}{meta.uid}",
            generateName=f"{meta.name}-extended-resources-",
            annotations={ANNOTATION: "true"},
            ownerReferences=(owner,),
        ),
        spec=ResourceClaimSpec(devices=DeviceClaim(requests=needs.requests)),
    )


def is_extended_resource_claim(claim: ResourceClaim) -> bool:
    """Whether a claim was made for the extended resources of a pod."""
    return claim.metadata.annotations.get(ANNOTATION) == "true"


def _count(container: Container, resource: str) -> int:
    asked = container.resources.requests.get(resource) or container.resources.limits.get(resource) or "0"
    return Quantity.parse(asked).milli() // 1000


def _request_name(index: int, container: Container, resource: str) -> str:
    names = sorted({**container.resources.limits, **container.resources.requests})
    return f"container-{index}-request-{names.index(resource)}" if resource in names else ""


def _request(name: str, class_: str, count: int) -> DeviceRequest:
    return DeviceRequest(
        name=name, exactly=ExactDeviceRequest(deviceClassName=class_, allocationMode="ExactCount", count=count)
    )


def _mapping(container: Container, resource: str, request: str) -> ContainerExtendedResourceRequest:
    return ContainerExtendedResourceRequest(containerName=container.name, resourceName=resource, requestName=request)
