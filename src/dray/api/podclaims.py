"""Which claims a pod uses, and whether it may: the rules that scheduler, controllers and node agent share.

A pod entry names a claim in one of three ways: an existing claim, a template from which the claim controller makes one
for the pod, or (KEP-5729) a claim of the pod's group. Generated names stand in `status.resourceClaimStatuses`. A claim
is reserved for pods, for groups, or (KEP-5194) for a workload and with it for any pod. Pure: whoever asks brings the
objects. Left out: finding them (`dray.client.consumers`).
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
EXTENDED_ENTRY = "<extended-resources>"  # stands for an entry where there is none; no entry can have this name
RESERVATIONS_LIMIT = 256
SCHEDULING_GROUP = "scheduling.k8s.io"


class Sharing(msgspec.Struct, frozen=True):
    """Which ways of sharing a claim a component knows. One that does not know a way acts as if it did not exist."""

    groups: bool = True  # WorkloadPodGroupResourceClaimTemplate: reservations for a PodGroup count for its pods
    workloads: bool = True  # DRAReservedForWorkloads: `reservedForAnyPod` counts for everybody

    @classmethod
    def of(cls, gates: FeatureGates) -> Sharing:
        return cls(gates.served("WorkloadPodGroupResourceClaimTemplate"), gates.served("DRAReservedForWorkloads"))


class Use(msgspec.Struct, frozen=True, gc=False):
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
    shared = group_entry(entry, group) if group is not None else None
    by_group = shared is not None or entry.podGroupResourceClaim is not None
    name = entry.name
    claim = entry.resourceClaimName if shared is None else shared.resourceClaimName
    if claim is not None:
        return Use(name, claim, False, by_group)
    for status in pod.status.resourceClaimStatuses:
        if status.name == name:
            return Use(name, status.resourceClaimName, True, by_group, status.resourceClaimName is not None)
    return Use(name, None, True, by_group)


def uses_of(pod: Pod, group: PodGroup | None = None) -> list[Use]:
    """How all entries resolve, and the claim that was made for extended resources."""
    uses = [use_of(pod, entry, group) for entry in pod.spec.resourceClaims]
    extended = pod.status.extendedResourceClaimStatus
    if extended is not None:
        uses.append(Use(EXTENDED_ENTRY, extended.resourceClaimName, generated=True, by_group=False))
    return uses


def claims_of_group(group: PodGroup) -> list[str]:
    """The names of the claims that belong to a group: those that it names, and those made from its templates."""
    named = [entry.resourceClaimName for entry in group.spec.resourceClaims]
    made = [status.resourceClaimName for status in group.status.resourceClaimStatuses]
    return [name for name in (*named, *made) if name]


def has_claims(pod: Pod) -> bool:
    """Whether a pod uses claims: its own, or one that was made for extended resources."""
    return bool(pod.spec.resourceClaims) or pod.status.extendedResourceClaimStatus is not None


def is_controlled_by(claim: ResourceClaim, uid: str) -> bool:
    """Whether a generated claim was made for this very pod or group, and not for an earlier one of the same name."""
    return uid in [ref.uid for ref in claim.metadata.ownerReferences if ref.controller]


def made_for(claim: ResourceClaim, kind: Literal["Pod", "PodGroup"]) -> OwnerReference | None:
    """The pod, or the group, that a claim was generated for."""
    for ref in claim.metadata.ownerReferences:
        if ref.controller and ref.kind == kind:
            return ref
    return None


def is_made_for_group(claim: ResourceClaim, name: str) -> bool:
    """Whether a claim was generated for a PodGroup of this name, whichever."""
    group = made_for(claim, "PodGroup")
    return group is not None and group.name == name


def pod_reference(pod: Pod) -> ResourceClaimConsumerReference:
    """How a pod is named in a claim's reservations."""
    return ResourceClaimConsumerReference(resource="pods", name=pod.metadata.name, uid=pod.metadata.uid)


def group_reference(group: PodGroup) -> ResourceClaimConsumerReference:
    name, uid = group.metadata.name, group.metadata.uid
    return ResourceClaimConsumerReference(apiGroup=SCHEDULING_GROUP, resource="podgroups", name=name, uid=uid)


def is_pod(reference: ResourceClaimConsumerReference) -> bool:
    return reference.resource == "pods" and not reference.apiGroup


def is_group(reference: ResourceClaimConsumerReference) -> bool:
    return reference.resource == "podgroups" and reference.apiGroup == SCHEDULING_GROUP


def is_reserved_for(claim: ResourceClaim, uid: str) -> bool:
    return uid in [reference.uid for reference in claim.status.reservedFor]


def is_open(claim: ResourceClaim, sharing: Sharing) -> bool:
    """Whether a claim is allocated for any pod, listed or not."""
    allocation = claim.status.allocation
    return sharing.workloads and allocation is not None and bool(allocation.reservedForAnyPod)


def may_use(claim: ResourceClaim, pod: Pod, sharing: Sharing = Sharing()) -> bool:  # noqa: B008 (immutable)
    """Whether an allocated claim is reserved for this pod: by itself, through its group, or for any pod.

    A group is told by its name: its finalizer keeps it from being replaced while it has pods.
    """
    if claim.status.allocation is None:
        return False
    return is_open(claim, sharing) or covers(claim.status.reservedFor, pod, sharing)


def covers(
    references: Iterable[ResourceClaimConsumerReference],
    pod: Pod,
    sharing: Sharing = Sharing(),  # noqa: B008 (immutable)
) -> bool:
    """Whether a pod is among these consumers, by itself or through its group."""
    group = group_name(pod) if sharing.groups else ""
    return any(r.uid == pod.metadata.uid or (group and r.name == group and is_group(r)) for r in references)


def consumer_to_add(
    claim: ResourceClaim, pod: Pod, group: PodGroup | None, sharing: Sharing
) -> ResourceClaimConsumerReference | None:
    """Who must join the reservations of an allocated claim before the pod may use it; None when nobody must.

    `group` is given when the pod comes to the claim through it. A claim that lists nobody may be deallocated at any
    moment, even if it is open to any pod: only a write to it shows that it was not.
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
    """Whether a group is as good as gone: it is deleted, and its pods keep it no more.

    It may be there for a while yet. A deletion in the foreground waits for the very claims that are reserved for it.
    """
    return group.metadata.deletionTimestamp is not None and GROUP_FINALIZER not in group.metadata.finalizers


def is_finished(pod: Pod) -> bool:
    """Whether a pod will never run a container again."""
    return pod.status.phase in ("Succeeded", "Failed")


def holds_devices(pod: Pod) -> bool:
    """Whether a pod may be using its claims right now: it has a node and is not finished."""
    return bool(pod.spec.nodeName) and not is_finished(pod)


def placed_at(pod: Pod) -> str | None:
    """Time at which a pod got its node: that of its binding, or of its creation if it was created with a node."""
    for condition in pod.status.conditions:
        if condition.type == "PodScheduled" and condition.status == "True" and condition.lastTransitionTime:
            return condition.lastTransitionTime
    return pod.metadata.creationTimestamp


def will_never_run(pod: Pod) -> bool:
    """Whether a pod is finished, or was deleted before it got a node."""
    return is_finished(pod) or (pod.metadata.deletionTimestamp is not None and not pod.spec.nodeName)
