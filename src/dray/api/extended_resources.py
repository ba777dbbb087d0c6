"""Extended resources served by devices: a pod requests `example.com/gpu: 2` and gets devices of a device class.

A class serves the name in its `extendedResourceName`, and always `deviceclass.resource.kubernetes.io/<class>`
(KEP-5004). The scheduler creates one claim for all extended resources of a pod; the pod's status maps its
requests to containers. All functions are pure. `dray.verdicts.devices` determines which nodes provide a resource
through a device plugin instead.
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
IN_MEMORY = "<extended-resources>"  # name of a claim that is not created yet; not a valid object name

ClassesByResource = Mapping[str, str]  # extended resource → device class


class ExtendedResources:
    """Index of the device class that serves each extended resource.

    If several classes have the same name, the newest class wins; among equally old ones, the first by name.
    """

    def __init__(self, classes: Iterable[DeviceClass] = ()) -> None:
        self._classes: dict[str, DeviceClass] = {}
        self._by_name: dict[str, str] = {}
        for class_ in classes:
            self.upsert(class_)

    def upsert(self, class_: DeviceClass) -> bool:
        """Add or update a class. Returns whether the class of any resource may have changed."""
        return self._put(class_.metadata.name, class_)

    def remove(self, name: str) -> bool:
        """Remove a class. Returns whether the class of any resource may have changed."""
        return self._put(name, None)

    def _put(self, name: str, class_: DeviceClass | None) -> bool:
        """Set or, with None, remove a class. Returns whether the class of any resource may have changed."""
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
        """Return the name of the class whose devices serve a resource, or None if no class does."""
        if resource.startswith(IMPLICIT_PREFIX):
            name = resource.removeprefix(IMPLICIT_PREFIX)
            return name if name in self._classes else None
        return self._by_name.get(resource)

    def served(self, resources: Iterable[str]) -> dict[str, str]:
        """Return those of the given resources that devices serve, with the names of their classes."""
        return {name: class_ for name in resources if (class_ := self.class_of(name)) is not None}


def may_be_asked(pod: Pod) -> bool:
    """Return whether a container of a pod requests a resource with `/` in its name, served by devices or not."""
    for one in (*pod.spec.initContainers, *pod.spec.containers):
        resources = one.resources
        if (resources.limits or resources.requests) and "/" in "".join((*resources.limits, *resources.requests)):
            return True
    return False


class Needs(NamedTuple):
    """Requests of a pod's claim for extended resources, and their mapping to containers."""

    requests: tuple[DeviceRequest, ...] = ()
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()


def needs_of(pod: Pod, served: ClassesByResource) -> Needs:
    """Return the requests of the pod's claim and their mapping to containers, for the resources that devices serve."""
    found = [_needs(pod, resource, served[resource]) for resource in sorted(served)]
    requests = sorted((request for one in found for request in one.requests), key=lambda request: request.name)
    return Needs(tuple(requests), tuple(mapping for one in found for mapping in one.mappings))


def _needs(pod: Pod, resource: str, class_: str) -> Needs:
    """Return the requests of the pod's claim for one resource.

    Ordinary init containers end before the containers after them start, so they use the same devices. If an init
    container needs more, one additional request covers the largest excess; all init containers share it.
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
    """Return the claim for a pod's extended resources, not yet created in the API."""
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
    """Return whether a claim was created for the extended resources of a pod."""
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
