"""Checks whether a pod can use a claim at the moment; shared by the scheduler, controllers, nodes and explain.

`SEQUENCES` lists the checks for each purpose; the first failing check is the result. The functions are pure: the
caller passes the objects and its other knowledge. The individual rules are in `podclaims`; `dray.allocator`
determines whether devices are available for an unallocated claim.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import msgspec

from dray.api import podclaims
from dray.api.claim_lifecycle import ClaimEvent, allows
from dray.api.podclaims import Sharing, Use
from dray.api.reasons.claims import ClaimCode, ClaimProblem
from dray.api.selectors import node_selector_matches
from dray.api.times import parse_timestamp
from dray.api.types.core import Pod
from dray.api.types.resource import AllocationResult, ResourceClaim
from dray.api.types.scheduling import PodGroup


class Purpose(StrEnum):
    """What a pod needs a claim for."""

    WAIT = "wait"  # before the scheduler considers the pod
    PLACE = "place"  # to assign the pod to a node, and to allocate and reserve the claim
    RESERVE = "reserve"  # to add the missing reservation of a pod that already has a node
    START = "start"  # to start the pod on its node


class Knowledge(msgspec.Struct, frozen=True):
    """Facts that the caller knows beyond the objects. With the default values, no check fails for lack of knowledge."""

    sharing: Sharing = Sharing()
    has_class: Callable[[str], bool] = lambda name: True
    is_promised: Callable[[str], bool] = lambda uid: False  # whether an allocation of the claim is about to be written
    labels_of: Callable[[str], Mapping[str, str]] = lambda node: {}
    is_lost: Callable[[Pod, ResourceClaim], bool] = lambda pod, claim: False  # whether the devices will never be ready


class ClaimAccess(msgspec.Struct, frozen=True, gc=False):
    """One pod that needs one claim. `group` is the pod's PodGroup, or None if it does not exist or is unknown."""

    pod: Pod
    use: Use
    claim: ResourceClaim | None
    group: PodGroup | None
    known: Knowledge

    @property
    def through(self) -> PodGroup | None:
        """The PodGroup if the pod uses the claim through its group, otherwise None."""
        return self.group if self.use.by_group else None

    def problem(self, code: ClaimCode, subject: str = "", request: str = "") -> ClaimProblem:
        pod, claim = self.pod.metadata, self.claim.metadata if self.claim is not None else None
        return ClaimProblem(
            code,
            pod=pod.name,
            pod_uid=pod.uid,
            entry=self.use.entry,
            claim=claim.name if claim is not None else self.use.claim or "",
            claim_uid=claim.uid if claim is not None else "",
            group=podclaims.group_name(self.pod),
            subject=subject,
            request=request,
            limit=podclaims.RESERVATIONS_LIMIT if code is ClaimCode.FULL else 0,
        )


def _has_group(access: ClaimAccess) -> ClaimProblem | None:
    """Fail if the pod's PodGroup does not exist: the pod's claims cannot be resolved without it.

    Returns None if the pod has no group or group claims are disabled.
    """
    is_lost = access.group is None and access.known.sharing.groups and podclaims.group_name(access.pod)
    return access.problem(ClaimCode.GROUP_MISSING) if is_lost else None


def _exists(access: ClaimAccess) -> ClaimProblem | None:
    """Fail if the claim of an entry does not exist: it is missing, not created yet, or not in the pod's group."""
    use, group = access.use, access.group
    if access.claim is not None:
        return None
    if use.claim is not None:
        return access.problem(ClaimCode.NOT_FOUND)
    entry = next(entry for entry in access.pod.spec.resourceClaims if entry.name == use.entry)
    wanted = entry.podGroupResourceClaim
    if group is not None and wanted is not None and podclaims.group_entry(entry, group) is None:
        return access.problem(ClaimCode.GROUP_LACKS_CLAIM, wanted)
    return access.problem(ClaimCode.NOT_CREATED)


def _is_placed_with_own(access: ClaimAccess, claim: ResourceClaim) -> bool:
    """Return whether the pod keeps a claim of its own although the entry is now served by its group.

    It was assigned to a node with this claim while group claims were disabled. This is possible only for an entry
    that equals an entry of the group but has no podGroupResourceClaim.
    """
    pod, name = access.pod, access.use.entry
    is_silent = any(e.name == name and e.podGroupResourceClaim is None for e in pod.spec.resourceClaims)
    return is_silent and bool(pod.spec.nodeName) and podclaims.is_controlled_by(claim, pod.metadata.uid)


def _is_own(access: ClaimAccess) -> ClaimProblem | None:
    """Fail if a generated claim was not created for the pod or its PodGroup. An unknown group is compared by name.

    Returns None if the claim is right, does not exist or was not generated.
    """
    claim, pod, group = access.claim, access.pod, access.group
    if claim is None or not access.use.generated:
        return None
    groups = access.known.sharing.groups
    if access.use.by_group and groups and not _is_placed_with_own(access, claim):
        is_own = podclaims.is_made_for_group(claim, podclaims.group_name(pod)) and (
            group is None or podclaims.is_controlled_by(claim, group.metadata.uid)
        )
        return None if is_own else access.problem(ClaimCode.NOT_FOR_GROUP)
    if podclaims.is_controlled_by(claim, pod.metadata.uid):
        return None
    if not groups and podclaims.is_made_for_group(claim, podclaims.group_name(pod)):
        return None  # with group claims disabled, a claim created for the pod's group counts as the pod's own
    return access.problem(ClaimCode.NOT_FOR_POD)


def _may_join(access: ClaimAccess) -> ClaimProblem | None:
    """Fail if the claim is being deleted, because it can be neither allocated nor used by another pod.

    The check passes if the claim is already reserved for this pod. A reservation for a PodGroup or workload is
    not sufficient, because it may be older than the pod.
    """
    claim = access.claim
    if claim is None:
        return None
    event = ClaimEvent.ALLOCATE if claim.status.allocation is None else ClaimEvent.RESERVE
    if allows(claim, event) or podclaims.is_reserved_for(claim, access.pod.metadata.uid):
        return None
    return access.problem(ClaimCode.DELETING)


def _is_not_promised(access: ClaimAccess) -> ClaimProblem | None:
    """Fail if an allocation of the claim is about to be written. Returns None for a missing claim."""
    claim = access.claim
    if claim is not None and access.known.is_promised(claim.metadata.uid):
        return access.problem(ClaimCode.BEING_ALLOCATED)
    return None


def _has_classes(access: ClaimAccess) -> ClaimProblem | None:
    """Fail if a device class of an unallocated claim does not exist. Returns None for other claims."""
    claim = access.claim
    if claim is None or claim.status.allocation is not None:
        return None
    for request, class_ in classes_of(claim):
        if not access.known.has_class(class_):
            return access.problem(ClaimCode.CLASS_MISSING, class_, request)
    return None


def _has_room(access: ClaimAccess) -> ClaimProblem | None:
    """Fail if the pod needs a reservation of an allocated claim that has the maximum number of reservations."""
    claim = access.claim
    if claim is None or claim.status.allocation is None or not _joins(access, claim):
        return None
    full = len(claim.status.reservedFor) >= podclaims.RESERVATIONS_LIMIT
    return access.problem(ClaimCode.FULL) if full else None


def _is_allocated(access: ClaimAccess) -> ClaimProblem | None:
    """Fail if the claim exists and is not allocated."""
    claim = access.claim
    is_missing = claim is not None and claim.status.allocation is None
    return access.problem(ClaimCode.NOT_ALLOCATED) if is_missing else None


def _is_in_reach(access: ClaimAccess) -> ClaimProblem | None:
    """Fail if the pod's node cannot use the allocation. Returns None if the claim is not allocated."""
    claim, node = access.claim, access.pod.spec.nodeName
    allocation = claim.status.allocation if claim is not None else None
    if allocation is None or is_within_reach(allocation, node, access.known.labels_of(node)):
        return None
    return access.problem(ClaimCode.OUT_OF_REACH, node)


def _is_reserved(access: ClaimAccess) -> ClaimProblem | None:
    """Fail if the claim exists and is not reserved for the pod."""
    claim = access.claim
    if claim is None or podclaims.may_use(claim, access.pod, access.known.sharing):
        return None
    return access.problem(ClaimCode.NOT_RESERVED)


def _came_before_deletion(access: ClaimAccess) -> ClaimProblem | None:
    """Fail if the pod was assigned to its node after the claim was deleted, such as a pod created with a node.

    Returns None if the claim is not being deleted or is reserved for the pod. Both timestamps have a resolution of
    one second. Equal timestamps count as after, because no pod may join a deleted claim.
    """
    claim, pod = access.claim, access.pod
    deleted = claim.metadata.deletionTimestamp if claim is not None else None
    if claim is None or deleted is None or podclaims.is_reserved_for(claim, pod.metadata.uid):
        return None
    placed = podclaims.placed_at(pod)
    is_late = placed is not None and parse_timestamp(placed) >= parse_timestamp(deleted)
    return access.problem(ClaimCode.DELETING) if is_late else None


AccessCheck = Callable[[ClaimAccess], ClaimProblem | None]

SEQUENCES: Mapping[Purpose, tuple[AccessCheck, ...]] = {
    Purpose.WAIT: (_has_group, _exists, _is_own),
    Purpose.PLACE: (_may_join, _is_not_promised, _has_classes, _has_room),
    Purpose.RESERVE: (_exists, _is_own, _is_allocated, _may_join, _is_in_reach, _has_room),
    Purpose.START: (_exists, _is_own, _is_allocated, _is_reserved, _came_before_deletion),
}


def claim_problem(
    purpose: Purpose,
    pod: Pod,
    use: Use,
    claim: ResourceClaim | None,
    group: PodGroup | None,
    known: Knowledge,
) -> ClaimProblem | None:
    """Return why a pod cannot use a claim for a purpose, or None if it can.

    `use` is an entry of the pod that needs a claim; `claim` is the claim with that name, or None. `PLACE` comes
    after `WAIT` and does not repeat its checks.
    """
    return _first(SEQUENCES[purpose], [ClaimAccess(pod, use, claim, group, known)])


class ClaimUse(msgspec.Struct, frozen=True):
    """A claim of a pod, and whether the pod uses it through its PodGroup."""

    claim: ResourceClaim
    by_group: bool


@dataclass(slots=True)
class PodClaims:
    """The claims of a pod that waits for a node."""

    pod: Pod
    group: PodGroup | None = None
    uses: Sequence[ClaimUse] = ()
    pending: Sequence[ResourceClaim] = ()  # unallocated claims in the order of the pod's entries
    allocated: Sequence[ResourceClaim] = ()
    lost: Sequence[ResourceClaim] = ()  # allocated claims whose devices will never be ready
    left_over: ResourceClaim | None = None  # claim for extended resources from a failed attempt

    def through(self, use: ClaimUse) -> PodGroup | None:
        """Return the PodGroup if the pod uses the claim through its group, otherwise None."""
        return self.group if use.by_group else None


Find = Callable[[str], ResourceClaim | None]  # returns a claim in the pod's namespace by name


def claims_of(pod: Pod, group: PodGroup | None, find: Find, known: Knowledge) -> PodClaims | ClaimProblem:
    """Return the claims of a pod for scheduling, or the first problem that prevents scheduling it on any node.

    `find` returns the claim with a name, or None. A claim named by several entries is listed once.
    """
    accesses = _accesses(pod, group, find, known)
    problem = _first(SEQUENCES[Purpose.WAIT], accesses) or _first(SEQUENCES[Purpose.PLACE], accesses)
    if problem is not None:
        return problem
    uses: list[ClaimUse] = []
    pending: list[ResourceClaim] = []
    allocated: list[ResourceClaim] = []
    for access in accesses:
        claim = access.claim
        assert claim is not None  # otherwise a check would have failed
        by_group = access.use.by_group and known.sharing.groups
        listed = pending if claim.status.allocation is None else allocated
        if uses and _is_named(uses, claim, by_group):
            continue
        if claim not in listed:
            listed.append(claim)
        uses.append(ClaimUse(claim, by_group))
    lost = [claim for claim in allocated if known.is_lost(pod, claim)] if allocated else ()
    return PodClaims(pod, group, uses, pending, allocated, lost)


def missing_for(pod: Pod, group: PodGroup | None, find: Find, known: Knowledge) -> ClaimProblem | None:
    """Return the problem if a PodGroup or claim is missing that is needed before scheduling, otherwise None.

    Only the first problem is returned. `find` returns the claim with a name, or None.
    """
    return _first(SEQUENCES[Purpose.WAIT], _accesses(pod, group, find, known))


def _accesses(pod: Pod, group: PodGroup | None, find: Find, known: Knowledge) -> list[ClaimAccess]:
    accesses: list[ClaimAccess] = []
    for entry in pod.spec.resourceClaims:  # a loop is faster than a comprehension here, and this runs often
        use = podclaims.use_of(pod, entry, group)
        if use.needed:
            claim = find(use.claim) if use.claim is not None else None
            accesses.append(ClaimAccess(pod, use, claim, group, known))
    return accesses


def _first(checks: tuple[AccessCheck, ...], accesses: list[ClaimAccess]) -> ClaimProblem | None:
    """Return the first problem: all checks of the first access, then those of the next. None if there is no problem."""
    for access in accesses:
        for check in checks:
            problem = check(access)
            if problem is not None:
                return problem
    return None


def _is_named(uses: list[ClaimUse], claim: ResourceClaim, by_group: bool) -> bool:
    """Return whether an earlier entry refers to the same claim in the same way."""
    return any(known.claim is claim and known.by_group == by_group for known in uses)


def classes_of(claim: ResourceClaim) -> Iterator[tuple[str, str]]:
    """Yield the names and device classes of a claim's requests; alternatives are named request/alternative.

    A request with alternatives is not yielded itself.
    """
    for request in claim.spec.devices.requests or ():
        if request.exactly is not None:
            yield request.name, request.exactly.deviceClassName
        for sub in request.firstAvailable:
            yield f"{request.name}/{sub.name}", sub.deviceClassName


def is_within_reach(allocation: AllocationResult, node: str, labels: Mapping[str, str]) -> bool:
    """Return whether the node with this name and these labels can use an allocation.

    Every node can use an allocation without node selector.
    """
    return allocation.nodeSelector is None or node_selector_matches(allocation.nodeSelector, labels, node)


def _joins(access: ClaimAccess, claim: ResourceClaim) -> bool:
    """Return whether a consumer must be added to the reservations of the claim."""
    sharing = access.known.sharing
    through = access.through if sharing.groups else None
    return podclaims.consumer_to_add(claim, access.pod, through, sharing) is not None
