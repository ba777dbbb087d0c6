"""Finds the pods that use a claim, whatever the claim is reserved for; used by eviction, scheduler, controllers
and commands.

A claim reserved for a PodGroup or for any pod does not list its pods, so the pods are searched in the informers'
copies. Most claims are named by the pods themselves or in their status; claims named only by a PodGroup are found
through the group. A pod uses a claim if one of its entries resolves to it, even if the pod is not scheduled yet.
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.podclaims import Use, group_name, holds_devices, use_of, uses_of
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.client.informer import Informer
from dray.client.shared import SharedInformers

# Index names are shared by the whole process, so they must be distinctive.
_PODS_BY_CLAIM = "pods by claim"
_PODS_BY_GROUP = "pods by group"
_GROUPS_BY_CLAIM = "groups by claim"


class ClaimConsumers:
    """Index of pods, PodGroups and the claims they use; reads the informers' copies and never awaits.

    Without `groups`, PodGroups are ignored: entries that refer to a group's claims resolve only through the pod's
    status.
    """

    def __init__(self, informers: SharedInformers, *, groups: bool) -> None:
        self._pods = informers.informer(Pod)
        self._pods.add_index(_PODS_BY_CLAIM, _claims_of_pod)
        self._groups: Informer[PodGroup] | None = None
        if groups:
            self._pods.add_index(_PODS_BY_GROUP, _group_of_pod)
            self._groups = informers.informer(PodGroup)
            self._groups.add_index(_GROUPS_BY_CLAIM, _claims_of_group)

    def group_of(self, pod: Pod) -> PodGroup | None:
        """Return the PodGroup of a pod, or None if it has none or the group does not exist."""
        spec = pod.spec
        if self._groups is None or (spec.workloadRef is None and spec.schedulingGroup is None):  # most pods
            return None
        name = group_name(pod)
        return self._groups.get(pod.metadata.namespace, name) if name else None

    def uses(self, pod: Pod) -> list[Use]:
        """Return how the claim entries of a pod resolve at the moment."""
        return uses_of(pod, self.group_of(pod))

    def members(self, namespace: str, group: str) -> list[Pod]:
        """Return the pods that belong to a PodGroup, whether the group exists or not."""
        return self._pods.by_index(_PODS_BY_GROUP, f"{namespace}/{group}") if self._groups is not None else []

    def of(self, namespace: str, claim: str) -> Iterator[Pod]:
        """Yield all pods that use a claim, without duplicates."""
        key = f"{namespace}/{claim}"
        pods = self._pods.by_index(_PODS_BY_CLAIM, key)
        yield from pods
        groups = self._groups.by_index(_GROUPS_BY_CLAIM, key) if self._groups else ()
        seen = {pod.metadata.uid for pod in pods} if groups else ()
        for group in groups:
            for pod in self.members(namespace, group.metadata.name):
                if pod.metadata.uid not in seen and any(use.claim == claim for use in self.uses(pod)):
                    yield pod

    def is_in_use(self, claim: ResourceClaim) -> bool:
        """Return whether a pod with a node that is not finished uses the claim, according to the informers' copies."""
        return any(map(holds_devices, self.of(claim.metadata.namespace, claim.metadata.name)))


def _claims_of_pod(pod: Pod) -> list[str]:
    """Return the keys of the claims that a pod names without its group: in its entries or in its status."""
    claims: list[str] = []
    for entry in pod.spec.resourceClaims:  # a loop is faster than a comprehension here, and this runs often
        claim = use_of(pod, entry).claim
        if claim:
            claims.append(f"{pod.metadata.namespace}/{claim}")
    if (special := pod.status.extendedResourceClaimStatus) is not None:
        claims.append(f"{pod.metadata.namespace}/{special.resourceClaimName}")
    return claims


def _group_of_pod(pod: Pod) -> list[str]:
    name = group_name(pod)
    return [f"{pod.metadata.namespace}/{name}"] if name else []


def _claims_of_group(group: PodGroup) -> list[str]:
    namespace = group.metadata.namespace
    return [f"{namespace}/{entry.resourceClaimName}" for entry in group.spec.resourceClaims if entry.resourceClaimName]
