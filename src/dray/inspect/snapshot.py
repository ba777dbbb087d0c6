"""The objects that explanations need, read once, and which of them could not be read.

A user may not be allowed to read everything, and a cluster may not have every resource; both are noted, since "there is
none" and "I could not look" are different answers. Left out: following changes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from dray.api import podclaims
from dray.api.allocations import DeviceId, taken_by_claim
from dray.api.errors import Forbidden, NotFound
from dray.api.pools import PoolName
from dray.api.resources import BY_TYPE
from dray.api.taints import with_rules
from dray.api.types.apps import DaemonSet, Deployment, ReplicaSet, StatefulSet
from dray.api.types.batch import Job
from dray.api.types.core import Event, Namespace, Node, Pod, ResourceQuota, ServiceAccount
from dray.api.types.resource import (
    DeviceClass,
    DeviceTaintRule,
    ResourceClaim,
    ResourceClaimTemplate,
    ResourcePoolStatusRequest,
    ResourceSlice,
)
from dray.api.types.scheduling import PodGroup
from dray.client import Client, Object
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
_DECIDING = frozenset({ResourceClaim, Pod})  # those of other namespaces take devices and room
IN_NAMESPACE: tuple[type[Any], ...] = (PodGroup, ResourceQuota, Event)


@dataclass
class Snapshot:
    """Objects by type.

    `unreadable` are the types that the user may not list, `partial` those of which only one namespace was read, since the
    user may not see the others, `unserved` those that do not exist.
    """

    objects: dict[type[Any], tuple[Any, ...]] = field(default_factory=dict)
    unreadable: frozenset[type[Any]] = frozenset()
    unserved: frozenset[type[Any]] = frozenset()
    partial: frozenset[type[Any]] = frozenset()
    rules: Rules | None = field(default=None, compare=False, repr=False)  # kept by `placement`, for several pods

    @classmethod
    def of(cls, *objects: Any) -> Snapshot:
        """A snapshot of these objects and no others."""
        by_type: dict[type[Any], list[Any]] = {}
        for one in objects:
            by_type.setdefault(type(one), []).append(one)
        return cls({type_: tuple(found) for type_, found in by_type.items()})

    def all(self, type_: type[T]) -> tuple[T, ...]:
        return self.objects.get(type_, ())

    def get(self, type_: type[T], name: str, namespace: str = "") -> T | None:
        return next((o for o in self.all(type_) if o.metadata.name == name and o.metadata.namespace == namespace), None)

    def group_of(self, pod: Pod) -> PodGroup | None:
        """The group that a pod belongs to, if there is one."""
        name = podclaims.group_name(pod)
        return self.get(PodGroup, name, pod.metadata.namespace) if name else None

    @cached_property
    def slices(self) -> tuple[ResourceSlice, ...]:
        """All slices, with the taints that rules add."""
        rules = self.all(DeviceTaintRule)
        return tuple(with_rules(one, rules) for one in self.all(ResourceSlice))

    @cached_property
    def holders(self) -> dict[DeviceId, ResourceClaim]:
        """Which claim holds a device, or a share of it."""
        return {device: claim for claim in self.all(ResourceClaim) for device in taken_by_claim(claim).touched}

    @cached_property
    def taken(self) -> set[DeviceId]:
        """The devices that nobody else can have, not even a share of."""
        return {device for claim in self.all(ResourceClaim) for device in taken_by_claim(claim).devices}

    @cached_property
    def classes(self) -> dict[str, DeviceClass]:
        return {one.metadata.name: one for one in self.all(DeviceClass)}

    def without_pools(self, pools: Container[PoolName]) -> Snapshot:
        """The same but for the slices of some pools."""
        kept = [s for s in self.all(ResourceSlice) if PoolName(s.spec.driver, s.spec.pool.name) not in pools]
        return replace(self, objects={**self.objects, ResourceSlice: tuple(kept)}, rules=None)

    @property
    def hides_use(self) -> bool:
        """Whether devices or room may be taken by what the user cannot see."""
        return bool((self.partial | self.unreadable) & _DECIDING)

    def blind_spots(self) -> list[str]:
        """What could not be looked at, by the names that kubectl knows; workloads decide nothing."""
        found = [BY_TYPE[type_].plural for type_ in self.unreadable - frozenset(WORKLOADS)]
        return sorted([*found, *(f"{BY_TYPE[type_].plural} of other namespaces" for type_ in self.partial & _DECIDING)])


async def fetch(client: Client, namespace: str, more: Iterable[type[Any]] = ()) -> Snapshot:
    """Read what explanations of objects in a namespace need."""
    wanted = [(type_, "") for type_ in (*CLUSTER_WIDE, *more)]
    wanted += [(type_, namespace) for type_ in IN_NAMESPACE]
    return await read(client, wanted, namespace)


async def read(client: Client, wanted: Sequence[tuple[type[Any], str]], home: str) -> Snapshot:
    """Read objects of these types and namespaces, or those of the home namespace where the user may not see all."""
    answers = await asyncio.gather(*(_list(client, type_, where, home) for type_, where in wanted))
    types = [type_ for type_, _ in wanted]
    return Snapshot(
        {type_: one.found for type_, one in zip(types, answers, strict=True) if one.error is None},
        unreadable=frozenset(type_ for type_, one in zip(types, answers, strict=True) if one.error is Forbidden),
        unserved=frozenset(type_ for type_, one in zip(types, answers, strict=True) if one.error is NotFound),
        partial=frozenset(type_ for type_, one in zip(types, answers, strict=True) if one.partial),
    )


class _Listed(NamedTuple):
    """What a list gave, or why it gave nothing."""

    found: tuple[Any, ...] = ()
    partial: bool = False
    error: type[Exception] | None = None


async def _list(client: Client, type_: type[Any], where: str, home: str) -> _Listed:
    """All objects; those of the home namespace where the user may not see all; or why there are none."""
    try:
        return _Listed((await client.list(type_, where)).items)
    except NotFound:
        return _Listed(error=NotFound)
    except Forbidden:
        if where == home or not BY_TYPE[type_].namespaced:
            return _Listed(error=Forbidden)
    try:
        return _Listed((await client.list(type_, home)).items, partial=True)
    except (Forbidden, NotFound) as error:
        return _Listed(error=type(error))


WORKLOADS: tuple[type[Any], ...] = (Deployment, ReplicaSet, StatefulSet, DaemonSet, Job, ServiceAccount)
REQUESTS: tuple[type[Any], ...] = (ResourcePoolStatusRequest,)
NAMESPACES: tuple[type[Any], ...] = (Namespace,)
