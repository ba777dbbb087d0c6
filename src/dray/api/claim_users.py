"""Finds the pods that use a claim, whatever the claim is reserved for; used by eviction, the scheduler, controllers,
simulations and commands.

A claim reserved for a PodGroup or for any pod does not list its pods, so the search starts from the pods. Most claims
are named by the pods themselves or in their status; claims named only by a PodGroup are found through the group. A
pod uses a claim if one of its entries resolves to it, even if the pod is not scheduled yet. Left out: the indexes,
which belong to whoever keeps the objects.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from dray.api.extended_resources import is_extended_resource_claim
from dray.api.podclaims import Use, group_name, holds_devices, made_for, use_of, uses_of
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup


class ClaimUsers(ABC):
    """Pods, PodGroups and the claims they use. Keys of indexes are `namespace/name`."""

    @abstractmethod
    def group_of(self, pod: Pod) -> PodGroup | None:
        """Return the PodGroup of a pod, or None if it has none or the group does not exist."""

    @abstractmethod
    def members(self, namespace: str, group: str) -> list[Pod]:
        """Return the pods that belong to a PodGroup, whether the group exists or not."""

    @abstractmethod
    def _pods_naming(self, claim: str) -> Sequence[Pod]:
        """Return the pods for which `claims_of_pod` contains this key."""

    @abstractmethod
    def _groups_naming(self, claim: str) -> Sequence[PodGroup]:
        """Return the PodGroups for which `claims_of_group` contains this key."""

    def uses(self, pod: Pod) -> list[Use]:
        """Return how the claim entries of a pod resolve at the moment."""
        return uses_of(pod, self.group_of(pod))

    def consumers(self, namespace: str, claim: str) -> Iterator[Pod]:
        """Yield all pods that use a claim, without duplicates: directly or through their PodGroup.

        `claim` is the name of the claim. Finished pods are included.
        """
        key = f"{namespace}/{claim}"
        pods = self._pods_naming(key)
        yield from pods
        groups = self._groups_naming(key)
        seen = {pod.metadata.uid for pod in pods} if groups else ()
        for group in groups:
            for pod in self.members(namespace, group.metadata.name):
                if pod.metadata.uid not in seen and any(use.claim == claim for use in self.uses(pod)):
                    yield pod

    def is_in_use(self, claim: ResourceClaim) -> bool:
        """Return whether any pod that has a node and is not finished uses the claim."""
        return any(map(holds_devices, self.consumers(claim.metadata.namespace, claim.metadata.name)))


# Keys of indexes


def claims_of_pod(pod: Pod) -> list[str]:
    """Return the keys of the claims that a pod names without its group: in its entries or in its status.

    A key is `namespace/name`. Entries without a known claim are left out.
    """
    claims: list[str] = []
    for entry in pod.spec.resourceClaims:  # a loop is faster than a comprehension here, and this runs often
        claim = use_of(pod, entry).claim
        if claim:
            claims.append(f"{pod.metadata.namespace}/{claim}")
    if (special := pod.status.extendedResourceClaimStatus) is not None:
        claims.append(f"{pod.metadata.namespace}/{special.resourceClaimName}")
    return claims


def group_of_pod(pod: Pod) -> list[str]:
    name = group_name(pod)
    return [f"{pod.metadata.namespace}/{name}"] if name else []


def claims_of_group(group: PodGroup) -> list[str]:
    namespace = group.metadata.namespace
    return [f"{namespace}/{entry.resourceClaimName}" for entry in group.spec.resourceClaims if entry.resourceClaimName]


def pod_of_extended_resource_claim(claim: ResourceClaim) -> list[str]:
    """Return the UID of the pod for whose extended resources a claim was made, in a list.

    The list is empty for other claims.
    """
    owner = made_for(claim, "Pod") if is_extended_resource_claim(claim) else None
    return [owner.uid] if owner is not None else []
