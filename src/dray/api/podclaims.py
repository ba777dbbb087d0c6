"""Which claims a pod uses, and whether it may: the rules that scheduler, controllers and node agent share.

A pod entry names a claim in one of three ways: an existing claim, a template from which the claim controller makes one
for the pod, or (KEP-5729) a claim of the pod's group. Generated names stand in `status.resourceClaimStatuses`. Pure:
whoever asks brings the objects.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from dray.api.types.core import Pod, PodResourceClaim
from dray.api.types.resource import ResourceClaim, ResourceClaimConsumerReference
from dray.api.types.scheduling import PodGroup, PodGroupResourceClaim

POD_CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
GROUP_CLAIM_ANNOTATION = "resource.kubernetes.io/podgroup-claim-name"
CLAIM_FINALIZER = "resource.kubernetes.io/delete-protection"
GROUP_FINALIZER = "scheduling.k8s.io/podgroup-protection"
RESERVATIONS_LIMIT = 256
SCHEDULING_GROUP = "scheduling.k8s.io"


class Use(NamedTuple):
    """One entry of a pod's claims.

    `claim` is the name of the claim, or None while it is not known; `needed` is False when the claim controller found
    that no claim is needed. `generated` claims belong to the pod (or its group) and must say so in their owner.
    """

    entry: str
    claim: str | None
    generated: bool
    by_group: bool
    needed: bool = True


def group_name(pod: Pod) -> str:
    """The PodGroup that a pod belongs to, by the seed's field or by upstream's; empty for none."""
    if pod.spec.workloadRef is not None:
        return pod.spec.workloadRef.podGroupName
    if pod.spec.schedulingGroup is not None:
        return pod.spec.schedulingGroup.podGroupName or ""
    return ""


def group_entry(entry: PodResourceClaim, group: PodGroup | None) -> PodGroupResourceClaim | None:
    """The entry of the group that a pod entry stands for, or None where it is the pod's own.

    By name in the seed's form (`podGroupResourceClaim`); in v1.37's form when name and source are the same in both.
    """
    if group is None:
        return None
    for candidate in group.spec.resourceClaims:
        if entry.podGroupResourceClaim is not None:
            if candidate.name == entry.podGroupResourceClaim:
                return candidate
        elif (
            candidate.name == entry.name
            and candidate.resourceClaimName == entry.resourceClaimName
            and candidate.resourceClaimTemplateName == entry.resourceClaimTemplateName
        ):
            return candidate
    return None


def use_of(pod: Pod, entry: PodResourceClaim, group: PodGroup | None = None) -> Use:
    """How one entry resolves right now."""
    shared = group_entry(entry, group)
    by_group = shared is not None or entry.podGroupResourceClaim is not None
    source = shared or entry
    if source.resourceClaimName is not None:
        return Use(entry.name, source.resourceClaimName, generated=False, by_group=by_group)
    for status in pod.status.resourceClaimStatuses:
        if status.name == entry.name:
            needed = status.resourceClaimName is not None
            return Use(entry.name, status.resourceClaimName, generated=True, by_group=by_group, needed=needed)
    return Use(entry.name, None, generated=True, by_group=by_group)


def uses_of(pod: Pod, group: PodGroup | None = None) -> list[Use]:
    return [use_of(pod, entry, group) for entry in pod.spec.resourceClaims]


def is_controlled_by(claim: ResourceClaim, uid: str) -> bool:
    """Whether a generated claim was made for this very pod or group, and not for an earlier one of the same name."""
    return any(ref.controller and ref.uid == uid for ref in claim.metadata.ownerReferences)


def pod_reference(pod: Pod) -> dict[str, Any]:
    """How a pod is named in a claim's reservations."""
    return {"resource": "pods", "name": pod.metadata.name, "uid": pod.metadata.uid}


def group_reference(group: PodGroup) -> dict[str, Any]:
    return {
        "apiGroup": SCHEDULING_GROUP,
        "resource": "podgroups",
        "name": group.metadata.name,
        "uid": group.metadata.uid,
    }


def is_pod(reference: ResourceClaimConsumerReference) -> bool:
    return reference.resource == "pods" and not reference.apiGroup


def is_reserved_for(claim: ResourceClaim, uid: str) -> bool:
    return any(reference.uid == uid for reference in claim.status.reservedFor)


def may_use(claim: ResourceClaim, pod: Pod, group: PodGroup | None = None) -> bool:
    """Whether an allocated claim is reserved for this pod: by itself, through its group, or for any pod."""
    allocation = claim.status.allocation
    if allocation is None:
        return False
    if allocation.reservedForAnyPod:
        return True
    if is_reserved_for(claim, pod.metadata.uid):
        return True
    return group is not None and is_reserved_for(claim, group.metadata.uid)


def is_finished(pod: Pod) -> bool:
    """Whether a pod will never run a container again."""
    return pod.status.phase in ("Succeeded", "Failed")


def reference_tree(reference: ResourceClaimConsumerReference) -> dict[str, Any]:
    """A reservation as it is written."""
    tree: dict[str, Any] = msgspec.to_builtins(reference)
    return tree
