"""Lookups of cluster objects that the core needs, and a store for these objects where there are no informers.

The scheduler implements the lookups with its informers, so objects are not stored twice. Simulations and explain use
the store of this module. Left out: how objects affect scheduling (`state`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Protocol, TypeVar, cast

from dray.api.claim_users import (
    ClaimUsers,
    claims_of_group,
    claims_of_pod,
    group_of_pod,
    pod_of_extended_resource_claim,
)
from dray.api.podclaims import Use, group_name
from dray.api.types.core import Namespace, Pod
from dray.api.types.policy import PodDisruptionBudget
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.api.wire import Wire

W = TypeVar("W", bound=Wire)


class ObjectLookup(Protocol):
    """Lookups of cluster objects by the core. Every result reflects the last change that was applied."""

    def claim(self, namespace: str, name: str) -> ResourceClaim | None: ...

    def extended_resource_claim(self, pod: Pod) -> ResourceClaim | None:
        """Return the claim generated for the extended resources of a pod, or None if there is none."""

    def group_of(self, pod: Pod) -> PodGroup | None:
        """Return the PodGroup that a pod names, or None if the pod names none or the PodGroup does not exist."""

    def uses(self, pod: Pod) -> list[Use]:
        """Return the claims that a pod uses, as its resourceClaims entries resolve now. Empty if it uses none.

        The use of a claim that was not generated yet has no claim name.
        """

    def consumers(self, namespace: str, claim: str) -> Iterable[Pod]:
        """Return all pods that use a claim, each once."""

    def members(self, namespace: str, group: str) -> Iterable[Pod]:
        """Return the pods that name a PodGroup, whether or not the PodGroup exists. Finished pods are included."""

    def is_in_use(self, claim: ResourceClaim) -> bool:
        """Whether any pod that has a node and is not finished uses the claim."""

    def namespace_labels(self, name: str) -> Mapping[str, str]: ...

    def disruption_budgets(self, namespace: str) -> Iterable[PodDisruptionBudget]: ...


class StoredObjects(ClaimUsers):
    """Store of objects by type, namespace and name, with indexes. Implements `ObjectLookup`."""

    def __init__(self) -> None:
        self._objects: dict[type[Wire], dict[tuple[str, str], Any]] = {}
        self._pods_by_claim = _ObjectIndex[Pod](claims_of_pod)
        self._pods_by_group = _ObjectIndex[Pod](group_of_pod)
        self._groups_by_claim = _ObjectIndex[PodGroup](claims_of_group)
        self._extended_resource_claims = _ObjectIndex[ResourceClaim](pod_of_extended_resource_claim)
        self._indexes: dict[type[Wire], tuple[_ObjectIndex[Any], ...]] = {
            Pod: (self._pods_by_claim, self._pods_by_group),
            PodGroup: (self._groups_by_claim,),
            ResourceClaim: (self._extended_resource_claims,),
        }

    def put(self, new: Wire) -> Any:
        """Add an object, or replace the object of the same type, namespace and name.

        Returns the replaced object, or None if the object is new.
        """
        meta = cast(Any, new).metadata
        kept = self._objects.setdefault(type(new), {})
        key = meta.namespace, meta.name
        old = kept.get(key)
        kept[key] = new
        for index in self._indexes.get(type(new), ()):
            index.change(old, new)
        return old

    def drop(self, obj: Wire) -> Any:
        """Delete the object of this type, namespace and name. Returns the deleted object.

        Raises KeyError if there is none.
        """
        meta = cast(Any, obj).metadata
        old = self._objects[type(obj)].pop((meta.namespace, meta.name))
        for index in self._indexes.get(type(obj), ()):
            index.change(old, None)
        return old

    def get(self, type_: type[W], name: str, namespace: str = "") -> W | None:
        return cast("W | None", self._objects.get(type_, {}).get((namespace, name)))

    def all(self, type_: type[W]) -> Iterator[W]:
        return iter(cast("list[W]", [*self._objects.get(type_, {}).values()]))

    def claim(self, namespace: str, name: str) -> ResourceClaim | None:
        return self.get(ResourceClaim, name, namespace)

    def extended_resource_claim(self, pod: Pod) -> ResourceClaim | None:
        return next(iter(self._extended_resource_claims.get(pod.metadata.uid)), None)

    def group_of(self, pod: Pod) -> PodGroup | None:
        name = group_name(pod)
        return self.get(PodGroup, name, pod.metadata.namespace) if name else None

    def claims_of(self, pod: Pod) -> Iterator[tuple[Use, ResourceClaim]]:
        """Yield the existing claims of a pod, each with the pod's use of the claim.

        Uses without a claim, and claims that do not exist, are left out.
        """
        for use in self.uses(pod):
            claim = self.claim(pod.metadata.namespace, use.claim) if use.claim else None
            if claim is not None:
                yield use, claim

    def members(self, namespace: str, group: str) -> list[Pod]:
        return self._pods_by_group.get(f"{namespace}/{group}")

    def _pods_naming(self, claim: str) -> list[Pod]:
        return self._pods_by_claim.get(claim)

    def _groups_naming(self, claim: str) -> list[PodGroup]:
        return self._groups_by_claim.get(claim)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        namespace = self.get(Namespace, name)
        return namespace.metadata.labels if namespace is not None else {}

    def disruption_budgets(self, namespace: str) -> Iterator[PodDisruptionBudget]:
        return (one for one in self.all(PodDisruptionBudget) if one.metadata.namespace == namespace)


class _ObjectIndex(dict[str, dict[tuple[str, str], W]]):
    """Index of objects by the keys that a function computes for each object."""

    def __init__(self, keys: Callable[[W], Iterable[str]]) -> None:
        super().__init__()
        self._keys = keys

    def get(self, key: str) -> list[W]:  # type: ignore[override]  # a list in place of a default
        """Return all objects with this key as a list; empty if there are none."""
        found = super().get(key)
        return [*found.values()] if found else []

    def change(self, old: W | None, new: W | None) -> None:
        """Update the index for an object that was created, changed or deleted."""
        for key in {*self._keys(old)} if old is not None else ():
            found = self[key]
            del found[_name_of(old)]
            if not found:
                del self[key]
        for key in self._keys(new) if new is not None else ():
            self.setdefault(key, {})[_name_of(new)] = new  # type: ignore[assignment]  # not None here


def _name_of(obj: Any) -> tuple[str, str]:
    return obj.metadata.namespace, obj.metadata.name
