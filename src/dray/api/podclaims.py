"""The claims of a pod, and the rules of reservations; shared by the scheduler, controllers and node agent.

An entry of a pod refers to a claim in one of three ways: an existing claim, a template from which the claim
controller creates a claim for the pod, or (KEP-5729) a claim of the pod's PodGroup. The names of generated claims
are in `status.resourceClaimStatuses`. A claim is reserved for pods, for PodGroups, or (KEP-5194) for a workload
and thus for any pod. The functions are pure: callers pass the objects. `claim_users` finds the pods that use a claim.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import msgspec

from dray.api.gates import FeatureGates
from dray.api.types.core import Pod, PodResourceClaim
from dray.api.types.meta import OwnerReference
from dray.api.types.resource import ResourceClaim, ResourceClaimConsumerReference
from dray.api.types.scheduling import PodGroup, PodGroupResourceClaim

POD_CLAIM_ANNOTATION = "resource.kubernetes.io/pod-claim-name"
GROUP_CLAIM_ANNOTATION = "resource.kubernetes.io/podgroup-claim-name"
CLAIM_FINALIZER = "resource.kubernetes.io/delete-protection"
GROUP_FINALIZER = "scheduling.k8s.io/podgroup-protection"
EXTENDED_ENTRY = "<extended-resources>"  # entry name of the claim for extended resources; not a valid name
RESERVATIONS_LIMIT = 256
SCHEDULING_GROUP = "scheduling.k8s.io"


class Sharing(msgspec.Struct, frozen=True):
    """The enabled ways of sharing a claim. Disabled ways are ignored."""

    groups: bool = True  # WorkloadPodGroupResourceClaimTemplate: a reservation for a PodGroup covers its pods
    workloads: bool = True  # DRAReservedForWorkloads: `reservedForAnyPod` covers all pods

    @classmethod
    def of(cls, gates: FeatureGates) -> Sharing:
        """Return the ways of sharing that are enabled by feature gates."""
        return cls(gates.served("WorkloadPodGroupResourceClaimTemplate"), gates.served("DRAReservedForWorkloads"))


class Use(msgspec.Struct, frozen=True, gc=False):
    """How one entry in a pod's resourceClaims resolves.

    `claim` is the name of the claim, or None if it is not known yet. `needed` is False if the claim controller
    determined that no claim is needed. A `generated` claim must have the pod or its PodGroup as owner.
    """

    entry: str
    claim: str | None
    generated: bool
    by_group: bool
    needed: bool = True


def group_name(pod: Pod) -> str:
    """Return the name of the pod's PodGroup, from workloadRef or schedulingGroup; empty if it has none."""
    if pod.spec.workloadRef is not None:
        return pod.spec.workloadRef.podGroupName
    if pod.spec.schedulingGroup is not None:
        return pod.spec.schedulingGroup.podGroupName or ""
    return ""


def group_entry(entry: PodResourceClaim, group: PodGroup | None) -> PodGroupResourceClaim | None:
    """Return the entry of the PodGroup that a pod's entry refers to, or None if the entry is the pod's own.

    An entry with `podGroupResourceClaim` refers by name; otherwise, name and source must be equal in both (v1.37).
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
    """Return how one entry of a pod resolves at the moment.

    The claim of a template is None until the pod's status names it. `group` is the pod's PodGroup, or None.
    """
    shared = group_entry(entry, group) if group is not None else None
    by_group = shared is not None or entry.podGroupResourceClaim is not None
    name = entry.name
    claim = entry.resourceClaimName if shared is None else shared.resourceClaimName
    if claim is not None:
        return Use(name, claim, False, by_group)
    for status in pod.status.resourceClaimStatuses:
        if status.name == name:
            claim = status.resourceClaimName
            return Use(name, claim, True, by_group, claim is not None)
    return Use(name, None, True, by_group)


def uses_of(pod: Pod, group: PodGroup | None = None) -> list[Use]:
    """Return how all entries of a pod resolve, including the claim for extended resources.

    `group` is the pod's PodGroup, or None.
    """
    uses = [use_of(pod, entry, group) for entry in pod.spec.resourceClaims]
    extended = pod.status.extendedResourceClaimStatus
    if extended is not None:
        uses.append(Use(EXTENDED_ENTRY, extended.resourceClaimName, generated=True, by_group=False))
    return uses


def claims_of_group(group: PodGroup) -> list[str]:
    """Return the names of a PodGroup's claims: the referenced ones and those created from templates.

    The names are without namespace.
    """
    named = [entry.resourceClaimName for entry in group.spec.resourceClaims]
    made = [status.resourceClaimName for status in group.status.resourceClaimStatuses]
    return [name for name in (*named, *made) if name]


def has_claims(pod: Pod) -> bool:
    """Return whether a pod has entries for claims, or a claim for extended resources."""
    return bool(pod.spec.resourceClaims) or pod.status.extendedResourceClaimStatus is not None


def is_controlled_by(claim: ResourceClaim, uid: str) -> bool:
    """Return whether the claim's controlling owner has this UID, not just the same name."""
    return uid in [ref.uid for ref in claim.metadata.ownerReferences if ref.controller]


def made_for(claim: ResourceClaim, kind: Literal["Pod", "PodGroup"]) -> OwnerReference | None:
    """Return the owner reference of the pod or PodGroup for which a claim was generated, or None.

    Only a controlling owner counts.
    """
    for ref in claim.metadata.ownerReferences:
        if ref.controller and ref.kind == kind:
            return ref
    return None


def is_made_for_group(claim: ResourceClaim, name: str) -> bool:
    """Return whether a claim was generated for a PodGroup with this name."""
    group = made_for(claim, "PodGroup")
    return group is not None and group.name == name


def pod_reference(pod: Pod) -> ResourceClaimConsumerReference:
    """Return the reference to a pod for a claim's reservations."""
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def group_reference(group: PodGroup) -> ResourceClaimConsumerReference:
    name, uid = group.metadata.name, group.metadata.uid
    return ResourceClaimConsumerReference(apiGroup=SCHEDULING_GROUP, resource="podgroups", name=name, uid=uid)


def is_pod(reference: ResourceClaimConsumerReference) -> bool:
    return reference.resource == "pods" and not reference.apiGroup


def is_group(reference: ResourceClaimConsumerReference) -> bool:
    return reference.resource == "podgroups" and reference.apiGroup == SCHEDULING_GROUP


def is_reserved_for(claim: ResourceClaim, uid: str) -> bool:
    """Return whether the consumer with this UID (a pod, PodGroup or other object) has a reservation of the claim."""
    return uid in [reference.uid for reference in claim.status.reservedFor]


def is_open(claim: ResourceClaim, sharing: Sharing) -> bool:
    """Return whether a claim is allocated for any pod, with or without a reservation.

    Returns False if `sharing` does not enable this.
    """
    allocation = claim.status.allocation
    return sharing.workloads and allocation is not None and bool(allocation.reservedForAnyPod)


def may_use(claim: ResourceClaim, pod: Pod, sharing: Sharing = Sharing()) -> bool:  # noqa: B008 (immutable)
    """Return whether an allocated claim is reserved for the pod: directly, through its PodGroup, or for any pod.

    Returns False if the claim is not allocated. The group is compared by name: its finalizer prevents its replacement
    while it has pods.
    """
    if claim.status.allocation is None:
        return False
    return is_open(claim, sharing) or covers(claim.status.reservedFor, pod, sharing)


def covers(
    references: Iterable[ResourceClaimConsumerReference],
    pod: Pod,
    sharing: Sharing = Sharing(),  # noqa: B008 (immutable)
) -> bool:
    """Return whether these consumers include the pod, directly or through its PodGroup.

    The pod is compared by UID, its group by name; groups count only if `sharing` enables them.
    """
    group = group_name(pod) if sharing.groups else ""
    return any(r.uid == pod.metadata.uid or (group and r.name == group and is_group(r)) for r in references)


def consumer_to_add(
    claim: ResourceClaim, pod: Pod, group: PodGroup | None, sharing: Sharing
) -> ResourceClaimConsumerReference | None:
    """Return the consumer to add to the reservations of an allocated claim before the pod can use it.

    Returns None if none is needed. `group` is set if the pod uses the claim through its PodGroup. A claim without
    reservations can be deallocated at any time, even if it is open to any pod; only a write to the claim proves that
    it was not.
    """
    if is_open(claim, sharing):
        if claim.status.reservedFor:
            return None
        if claim.spec.reservedFor is not None:
            return claim.spec.reservedFor
    if is_reserved_for(claim, (pod if group is None else group).metadata.uid):
        return None
    return pod_reference(pod) if group is None else group_reference(group)


def is_let_go(group: PodGroup) -> bool:
    """Return whether a PodGroup is deleted and no longer kept by its pods.

    The object may still exist: a foreground deletion waits for the claims that are reserved for the group.
    """
    return group.metadata.deletionTimestamp is not None and GROUP_FINALIZER not in group.metadata.finalizers


def is_finished(pod: Pod) -> bool:
    """Return whether a pod has finished, so will never run a container again."""
    return pod.status.phase in ("Succeeded", "Failed")


def holds_devices(pod: Pod) -> bool:
    """Return whether a pod may be using its claims: it has a node and is not finished."""
    return bool(pod.spec.nodeName) and not is_finished(pod)


def placed_at(pod: Pod) -> str | None:
    """Return the timestamp of a pod's binding, or of its creation if no condition says when it was bound.

    Returns None if there is no creation timestamp either.
    """
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True" and condition.lastTransitionTime:
            return condition.lastTransitionTime
    return pod.metadata.creationTimestamp


def will_never_run(pod: Pod) -> bool:
    """Return whether a pod is finished, or was deleted before it got a node."""
    return is_finished(pod) or (pod.metadata.deletionTimestamp is not None and not pod.spec.nodeName)
