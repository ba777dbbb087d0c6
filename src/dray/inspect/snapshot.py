"""Objects of a cluster at one moment, and which of them could not be read.

A user may not be allowed to read everything, and a cluster may not serve every resource. Both are recorded, because
"does not exist" and "could not be read" are different answers. No I/O. Left out: reading (`reading`), and following
changes.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from dray.api import podclaims
from dray.api.allocations import DeviceId, taken_by_claim
from dray.api.availability import ClusterPools, DeviceHolders, PoolUse
from dray.api.device_health import UnhealthyDevices, unhealthy_in_claim, unhealthy_in_pod
from dray.api.objects import Object
from dray.api.pools import PoolName
from dray.api.resources import BY_TYPE
from dray.api.types.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from dray.api.types.batch import Job
from dray.api.types.core import Event, Node, Pod, ResourceQuota, ServiceAccount
from dray.api.types.policy import PodDisruptionBudget
from dray.api.types.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourceSlice,
)
from dray.api.types.scheduling import PodGroup, PriorityClass

if TYPE_CHECKING:
    from dray.verdicts.rules import Rules

T = TypeVar("T", bound=Object)

CLUSTER_WIDE: tuple[type[Any], ...] = (
    Node,
    ResourceSlice,
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    Pod,
)
DISRUPTION: tuple[type[Any], ...] = (PodDisruptionBudget, PriorityClass)
"""What tells whom a suggestion may move or preempt."""
_DECIDING = frozenset({ResourceClaim, Pod})  # objects of other namespaces take devices and resources
IN_NAMESPACE: tuple[type[Any], ...] = (PodGroup, ResourceQuota, Event)


@dataclass
class Snapshot:
    """Objects by type.

    `unreadable` are types that the user may not list. `partial` are types of which only the namespace `home` was
    read, because
    the user may not list other namespaces. `unserved` are types that the cluster does not serve.
    """

    objects: dict[type[Any], tuple[Any, ...]] = field(default_factory=dict)
    unreadable: frozenset[type[Any]] = frozenset()
    unserved: frozenset[type[Any]] = frozenset()
    partial: frozenset[type[Any]] = frozenset()
    home: str = ""
    rules: Rules | None = field(default=None, compare=False, repr=False)  # cache of `placement`, shared by several pods

    @classmethod
    def of(cls, *objects: Any) -> Snapshot:
        """Create a snapshot of exactly these objects."""
        by_type: dict[type[Any], list[Any]] = {}
        for one in objects:
            by_type.setdefault(type(one), []).append(one)
        return cls({type_: tuple(found) for type_, found in by_type.items()})

    def all(self, type_: type[T]) -> tuple[T, ...]:
        return self.objects.get(type_, ())

    def get(self, type_: type[T], name: str, namespace: str = "") -> T | None:
        return next((o for o in self.all(type_) if o.metadata.name == name and o.metadata.namespace == namespace), None)

    def group_of(self, pod: Pod) -> PodGroup | None:
        """Return the PodGroup of a pod, or None.

        None if the pod names no group, or the group is not in the snapshot.
        """
        name = podclaims.group_name(pod)
        return self.get(PodGroup, name, pod.metadata.namespace) if name else None

    def template_of(self, claim: ResourceClaim) -> str:
        """Return the name of the template from which a claim was generated; empty if there is none or it is unknown."""
        annotations, namespace = claim.metadata.annotations, claim.metadata.namespace
        for type_, key in ((Pod, podclaims.POD_CLAIM_ANNOTATION), (PodGroup, podclaims.GROUP_CLAIM_ANNOTATION)):
            owner = next((one.name for one in claim.metadata.ownerReferences if one.kind == type_.__name__), "")
            found: Any = self.get(type_, owner, namespace) if key in annotations and owner else None
            for entry in found.spec.resourceClaims if found is not None else ():
                if entry.name == annotations[key]:
                    return entry.resourceClaimTemplateName or ""
        return ""

    @cached_property
    def pools(self) -> ClusterPools:
        """All pools, including the taints added by rules."""
        return ClusterPools(self.all(ResourceSlice), self.all(DeviceTaintRule))

    @cached_property
    def uses(self) -> dict[PoolName, PoolUse]:
        """Use of each published pool: its devices with the claims that hold them."""
        return {name: PoolUse(self.pools[name], self.holders, self.unhealthy) for name in self.pools}

    @cached_property
    def holders(self) -> DeviceHolders:
        """Claims that hold each device or shares of the device."""
        return DeviceHolders(self.all(ResourceClaim))

    @cached_property
    def unhealthy(self) -> UnhealthyDevices:
        """Devices that drivers report as unhealthy, with the driver's message."""
        found: dict[DeviceId, str] = {}
        claims = {(claim.metadata.namespace, claim.metadata.name): claim for claim in self.all(ResourceClaim)}
        for claim in claims.values():
            found.update(unhealthy_in_claim(claim))
        for pod in self.all(Pod):

            def claim_of(entry: str, pod: Pod = pod) -> ResourceClaim | None:
                uses = podclaims.uses_of(pod, self.group_of(pod))
                name = next((use.claim for use in uses if use.entry == entry), None)
                return claims.get((pod.metadata.namespace, name or ""))

            found.update(unhealthy_in_pod(pod, claim_of))
        return found

    @cached_property
    def taken(self) -> set[DeviceId]:
        """Devices that are allocated exclusively."""
        return {device for claim in self.all(ResourceClaim) for device in taken_by_claim(claim).devices}

    @cached_property
    def classes(self) -> dict[str, DeviceClass]:
        return {one.metadata.name: one for one in self.all(DeviceClass)}

    def without_pools(self, pools: Container[PoolName]) -> Snapshot:
        """Return a copy without the slices of some pools."""
        kept = [s for s in self.all(ResourceSlice) if PoolName(s.spec.driver, s.spec.pool.name) not in pools]
        return replace(self, objects={**self.objects, ResourceSlice: tuple(kept)}, rules=None)

    def hides(self, type_: type[Any], namespace: str = "") -> bool:
        """Whether an object of this type and namespace may exist although the user may not list it."""
        return type_ in self.unreadable or (type_ in self.partial and namespace != self.home)

    @property
    def hides_use(self) -> bool:
        """Whether objects that the user cannot see may take devices or resources."""
        return bool((self.partial | self.unreadable) & _DECIDING)

    def blind_spots(self, *, every: bool = False) -> list[str]:
        """Return the plural names of resources that could not be read.

        Without `every`, omits those irrelevant to scheduling.
        """
        indifferent = frozenset() if every else frozenset((*WORKLOADS, *DISRUPTION))
        found = [BY_TYPE[type_].plural for type_ in self.unreadable - indifferent]
        return sorted([*found, *(f"{BY_TYPE[type_].plural} of other namespaces" for type_ in self.partial & _DECIDING)])


WORKLOADS: tuple[type[Any], ...] = (Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, ServiceAccount)
