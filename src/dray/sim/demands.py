"""Demand of a manifest: the pods created by its Pods, Deployments, StatefulSets and Jobs, and their claims.

A claim that no pod of the manifest uses gets a pod of its own. No I/O. Left out: what controllers do over time
(rollouts, retries, sequential pods), and DaemonSets, which have a pod on every node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec
from msgspec.structs import replace

from dray.api.resources import BY_TYPE
from dray.api.types.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from dray.api.types.batch import CronJob, Job, JobSpec
from dray.api.types.core import Container, Pod, PodResourceClaim, PodSpec, PodTemplateSpec
from dray.api.types.meta import ObjectMeta
from dray.api.types.resource import DeviceClaim, DeviceRequest, ExactDeviceRequest, ResourceClaim, ResourceClaimSpec
from dray.api.types.scheduling import PodGroup
from dray.api.wire import Wire
from dray.recordings.recording import TYPES


class DemandError(ValueError):
    """The manifest contains no pods, or an object that is not simulated."""


class PodBatch(msgspec.Struct, frozen=True):
    """Pods to place. `own` are their claims and groups, `shared` the other objects of the manifest."""

    pods: tuple[Pod, ...]
    own: tuple[ResourceClaim | PodGroup, ...] = ()
    shared: tuple[Any, ...] = ()

    def copy(self, tag: str) -> PodBatch:
        """Return a copy whose pods, claims and groups have the tag in their names; the batch itself without a tag."""
        if not tag:
            return self
        names = {(type(one), one.metadata.name) for one in self.own}

        def fresh(type_: type[Wire], name: str | None) -> str | None:
            return f"{name}-{tag}" if (type_, name) in names else name

        return PodBatch(
            tuple(_renamed(replace(pod, spec=_referring(pod.spec, fresh)), tag) for pod in self.pods),
            tuple(_renamed(_with_claims(one, fresh), tag) for one in self.own),
            self.shared,
        )


def demand_of(objects: Iterable[Wire], namespace: str) -> PodBatch:
    """Return the pods, claims and groups of a manifest. Raises DemandError if it has no pods or unsupported objects."""
    known = [_in_namespace(one, namespace) for one in objects]
    pods = [pod for one in known for pod in _pods_of(one)]
    own = [one for one in known if isinstance(one, (ResourceClaim, PodGroup))]
    shared = [one for one in known if isinstance(one, TYPES) and not isinstance(one, (Pod, ResourceClaim, PodGroup))]
    used = {(pod.metadata.namespace, entry.resourceClaimName) for pod in pods for entry in pod.spec.resourceClaims}
    pods += [
        _user_of(one)
        for one in own
        if isinstance(one, ResourceClaim) and (one.metadata.namespace, one.metadata.name) not in used
    ]
    if not pods:
        raise DemandError(
            "the manifest asks for nothing: expected a Pod, ResourceClaim, Deployment, ReplicaSet, StatefulSet, Job or "
            "CronJob with at least one pod"
        )
    return PodBatch(tuple(pods), tuple(own), tuple(shared))


def claim_for_devices(class_name: str, count: int) -> ResourceClaim:
    """Return a claim for any `count` devices of a class."""
    exactly = ExactDeviceRequest(deviceClassName=class_name, allocationMode="ExactCount", count=count)
    devices = DeviceClaim(requests=(DeviceRequest(name="devices", exactly=exactly),))
    return ResourceClaim(metadata=ObjectMeta(name="devices"), spec=ResourceClaimSpec(devices=devices))


def _pods_of(one: Any) -> Iterator[Pod]:
    """Yield the pods that a workload creates. Raises DemandError for a DaemonSet.

    Pods lose their node and UID. Yields nothing for objects that create no pods.
    """
    match one:
        case Pod():
            yield replace(one, spec=replace(one.spec, nodeName=""), metadata=replace(one.metadata, uid=""))
        case Deployment() | ReplicaSet() | StatefulSet():
            yield from _replicas(one.metadata, one.spec.template, one.spec.replicas)
        case Job():
            yield from _replicas(one.metadata, one.spec.template, _parallel(one.spec))
        case CronJob():
            yield from _replicas(one.metadata, one.spec.jobTemplate.spec.template, _parallel(one.spec.jobTemplate.spec))
        case DaemonSet():
            raise DemandError(f"DaemonSet {one.metadata.name}: has a pod on every node; ask for one of them, as a Pod")
        case _:
            return


def _parallel(job: JobSpec) -> int:
    """Return the number of pods of a job that run at the same time.

    This is `parallelism` (default 1), but at most `completions`.
    """
    parallelism = 1 if job.parallelism is None else job.parallelism
    return parallelism if job.completions is None else min(parallelism, job.completions)


def _replicas(owner: ObjectMeta, template: PodTemplateSpec, count: int | None) -> Iterator[Pod]:
    for number in range(1 if count is None else count):
        meta = ObjectMeta(name=f"{owner.name}-{number}", namespace=owner.namespace, labels=template.metadata.labels)
        yield Pod(metadata=meta, spec=template.spec)


def _user_of(claim: ResourceClaim) -> Pod:
    """Return a pod that only uses this claim."""
    entry = PodResourceClaim(name="claim", resourceClaimName=claim.metadata.name)
    meta = ObjectMeta(name=f"user-of-{claim.metadata.name}", namespace=claim.metadata.namespace)
    return Pod(metadata=meta, spec=PodSpec(containers=(Container(name="user"),), resourceClaims=(entry,)))


def _in_namespace(one: Any, namespace: str) -> Any:
    if not BY_TYPE[type(one)].namespaced or one.metadata.namespace:
        return one
    return replace(one, metadata=replace(one.metadata, namespace=namespace))


def _renamed(one: Any, tag: str) -> Any:
    return replace(one, metadata=replace(one.metadata, name=f"{one.metadata.name}-{tag}", uid=""))


def _referring(spec: PodSpec, fresh: Any) -> PodSpec:
    """Return a pod spec that refers to the claims and the group of its own copy."""
    claims = _fresh_entries(spec.resourceClaims, fresh)
    changes: dict[str, Any] = {} if claims == spec.resourceClaims else {"resourceClaims": claims}
    if spec.schedulingGroup is not None:
        name = fresh(PodGroup, spec.schedulingGroup.podGroupName)
        changes["schedulingGroup"] = replace(spec.schedulingGroup, podGroupName=name)
    if spec.workloadRef is not None:
        changes["workloadRef"] = replace(spec.workloadRef, podGroupName=fresh(PodGroup, spec.workloadRef.podGroupName))
    return replace(spec, **changes) if changes else spec


def _with_claims(one: ResourceClaim | PodGroup, fresh: Any) -> ResourceClaim | PodGroup:
    """Return a PodGroup that refers to the claims of its own copy; claims are returned unchanged."""
    if not isinstance(one, PodGroup):
        return one
    return replace(one, spec=replace(one.spec, resourceClaims=_fresh_entries(one.spec.resourceClaims, fresh)))


def _fresh_entries(entries: Iterable[Any], fresh: Any) -> tuple[Any, ...]:
    return tuple(replace(entry, resourceClaimName=fresh(ResourceClaim, entry.resourceClaimName)) for entry in entries)
