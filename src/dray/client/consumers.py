"""Which pods use a claim: one answer for eviction, scheduler, controllers and commands, whatever the claim is reserved for.

A claim that is reserved for a group or for any pod does not list its pods, so they are found from the pods' side, in the
copies that informers keep. Pods name most claims themselves or in their status; claims that only their group names are
found through the group. "Uses" means that an entry resolves to the claim; a pod that is not scheduled yet counts too.
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.podclaims import Use, group_name, holds_devices, use_of, uses_of
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.client.informer import Informer
from dray.client.shared import SharedInformers

# Index names are shared by all parts of a process, hence long ones.
_PODS_BY_CLAIM = "pods by claim"
_PODS_BY_GROUP = "pods by group"
_GROUPS_BY_CLAIM = "groups by claim"


class ClaimConsumers:
    """Pods, groups and the claims they use; reads the informers' copies and never awaits.

    Without `groups` the component does not know PodGroups: entries of groups resolve only where the pod's status says so.
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
        """The group that a pod belongs to, if it exists."""
        spec = pod.spec
        if self._groups is None or (spec.workloadRef is None and spec.schedulingGroup is None):  # as most
            return None
        name = group_name(pod)
        return self._groups.get(pod.metadata.namespace, name) if name else None

    def uses(self, pod: Pod) -> list[Use]:
        """The claims of a pod, as its entries resolve right now."""
        return uses_of(pod, self.group_of(pod))

    def members(self, namespace: str, group: str) -> list[Pod]:
        """The pods that say they belong to a group, whether it exists or not."""
        return self._pods.by_index(_PODS_BY_GROUP, f"{namespace}/{group}") if self._groups is not None else []

    def of(self, namespace: str, claim: str) -> Iterator[Pod]:
        """All pods that use a claim, each once."""
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
        """Whether a pod that has a node and is not finished uses a claim, as far as the copies know."""
        return any(map(holds_devices, self.of(claim.metadata.namespace, claim.metadata.name)))


def _claims_of_pod(pod: Pod) -> list[str]:
    """The claims that a pod names without its group: in its entries, or in its status once they are generated."""
    claims: list[str] = []
    for entry in pod.spec.resourceClaims:  # no comprehension: this is asked with every change of a pod
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
