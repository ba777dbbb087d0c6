"""Try changes of placements and evictions on the state of the cluster, and undo them afterwards.

A trial changes the state itself, so rules, allocator and scores see the changes without a copy; the journal undoes
all of them at the end. Objects are not modified: changed claims are kept in `Devices.supposed`. A trial never awaits,
so no other change happens meanwhile. Left out: what to try (`gangs`, `preemption`).
"""

from __future__ import annotations

from msgspec.structs import replace

from dray.api import podclaims
from dray.api.allocations import taken_by
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim, ResourceClaimConsumerReference, ResourceClaimStatus
from dray.core.attempt import Attempt, Promise
from dray.core.devices import Devices
from dray.core.journal import StateJournal
from dray.core.objects import ObjectLookup
from dray.core.reservations import reservation
from dray.verdicts.demand import PodDemand
from dray.verdicts.node_resources import with_claims
from dray.verdicts.nodes import NodeTable, PlacedPod

NamespacedName = tuple[str, str]  # namespace and name


class StateTrial:
    """Temporary changes of placements. Obtained from `ClusterState.trial`."""

    def __init__(self, objects: ObjectLookup, table: NodeTable, devices: Devices, journal: StateJournal) -> None:
        self._objects = objects
        self._table = table
        self._devices = devices
        self._journal = journal
        self._off: dict[str, tuple[PlacedPod, str]] = {}  # pods taken off their nodes, and these nodes, by uid
        self._before: dict[NamespacedName, ResourceClaim] = {}  # claims before any of their pods was taken off
        self._given: dict[
            NamespacedName, tuple[ResourceClaim, int]
        ] = {}  # claims before placements of this trial used them, and the number of these placements
        self._placed: dict[str, tuple[Pod, Promise, PodDemand]] = {}  # by uid
        self.is_kept = False

    def mark(self) -> int:
        """Return a mark of the current state of the trial, for `rewind`."""
        return self._journal.mark()

    def rewind(self, mark: int) -> None:
        """Undo everything tried since a mark (`mark`)."""
        self._journal.rewind(mark)

    def keep(self) -> None:
        """Keep the placements as promises when the trial ends.

        Pods that were taken off return to their nodes nevertheless.

        Only a deletion ends a pod. Until then, its devices have two holders and become free when both have released
        them.
        """
        self.is_kept = True

    def take_off(self, pod: Pod) -> None:
        """Assume that a pod has ended.

        Its claims lose the pod's reservation, and their devices if no reservation remains.

        A reservation for a PodGroup is removed when none of the group's pods has a node. Raises ValueError if the pod
        has no node.
        """
        uid = pod.metadata.uid
        placed = self._table.placed_pod(uid)
        if placed is None:
            raise ValueError(f"pod {pod.metadata.namespace}/{pod.metadata.name} has no node")
        self._journal.set(self._off, uid, (placed, self._table.node_of(uid)))
        self._table.unplace(uid)
        for key in self._claims_of(placed.pod):
            self._reconsider(key)

    def put_back(self, pod: Pod) -> None:
        """Undo `take_off` of a pod: the pod returns to its node and claims.

        Raises ValueError if the pod was not taken off, or if a placement of this trial uses one of its claims.
        """
        uid = pod.metadata.uid
        if uid not in self._off:
            raise ValueError(f"pod {pod.metadata.namespace}/{pod.metadata.name} was not taken off")
        placed, node = self._off[uid]
        keys = self._claims_of(placed.pod)
        if any(key in self._given for key in keys):
            raise ValueError(f"a claim of pod {pod.metadata.namespace}/{pod.metadata.name} was given to others")
        self._journal.discard(self._off, uid)
        self._table.place(placed.pod, node, placed.demand)
        for key in keys:
            self._reconsider(key)

    def let_go(self, key: NamespacedName) -> None:
        """Assume that a claim is deallocated if all its users are gone, as the claim controller will soon do.

        `key` is (namespace, name). Nothing happens to a claim that does not exist, is not allocated, or is open to
        any pod.
        """
        claim = self._devices.claim(*key)
        if claim is None or claim.status.allocation is None or podclaims.is_open(claim, self._devices.sharing):
            return
        users = self._objects.consumers(*key)
        running = {pod.metadata.uid for pod in users if not podclaims.will_never_run(pod)}
        for user in claim.status.reservedFor:
            is_gone = podclaims.is_pod(user) and user.uid not in running
            if not is_gone and self._is_there(key[0], user):
                return
        if not self._is_used(key):
            self.suppose(replace(claim, status=ResourceClaimStatus()))

    def place(self, attempt: Attempt, promise: Promise) -> None:
        """Assume that a pod is bound as promised: counted on the node, with its claims allocated and reserved.

        The promise must have been made in this trial, or earlier and still be valid. Raises ValueError if a claim no
        longer exists.
        """
        pod = promise.claims.pod
        demand = with_claims(pod, attempt.candidate.demand, promise.node_claims)
        self._table.place(pod, promise.node, demand)
        for use in promise.claims.uses:
            key = use.claim.metadata.namespace, use.claim.metadata.name
            claim = self._devices.claim(*key)
            if claim is None:
                raise ValueError(f"claim {key[1]} is gone")
            status, _ = reservation(promise, use, claim, self._devices.sharing)
            self.suppose(replace(claim, status=status))
            before, users = self._given.get(key, (claim, 0))
            self._journal.set(self._given, key, (before, users + 1))
        self._journal.set(self._placed, pod.metadata.uid, (pod, promise, demand))

    def displace(self, pod: Pod) -> None:
        """Undo `place` of a pod.

        Each claim is restored when no placement of the trial uses the claim any more; until then it still lists the
        pod. Raises KeyError if this trial has not placed the pod.
        """
        _, promise, _ = self._placed[pod.metadata.uid]
        self._journal.discard(self._placed, pod.metadata.uid)
        self._table.unplace(pod.metadata.uid)
        for use in promise.claims.uses:
            key = use.claim.metadata.namespace, use.claim.metadata.name
            before, users = self._given[key]
            if users > 1:
                self._journal.set(self._given, key, (before, users - 1))
            else:
                self._journal.discard(self._given, key)
                self.suppose(before)
        if promise.extended_resource_claim is not None:
            self._devices.ledger.forget(promise.extended_resource_claim.metadata.uid)

    def kept(self) -> list[tuple[Pod, Promise, PodDemand]]:
        """Return the placements to keep after the trial, each with the pod's demand; empty unless `keep` was called."""
        return [*self._placed.values()] if self.is_kept else []

    def _claims_of(self, pod: Pod) -> list[NamespacedName]:
        """Return the claims of a pod and of its PodGroup, each once, as (namespace, name)."""
        names = dict.fromkeys(use.claim for use in self._objects.uses(pod) if use.claim)
        group = self._objects.group_of(pod) if podclaims.group_name(pod) else None
        if group is not None:
            names.update(dict.fromkeys(podclaims.claims_of_group(group)))
        return [(pod.metadata.namespace, name) for name in names]

    def _reconsider(self, key: NamespacedName) -> None:
        """Recompute the reservations and allocation of a claim after one of its pods was taken off or put back."""
        known = self._devices.claim(*key)
        if known is None:
            return
        if key not in self._before or key in self._given:
            self._journal.set(self._before, key, known)
        before = self._before[key]
        users, sharing = before.status.reservedFor, self._devices.sharing
        left = tuple(one for one in users if self._is_there(before.metadata.namespace, one))
        if left == users or podclaims.is_open(before, sharing):  # an open claim may be used by pods that are not listed
            status = before.status
        elif left or self._is_used(key):
            status = replace(before.status, reservedFor=left)
        else:
            status = ResourceClaimStatus()
        self.suppose(before if status is before.status else replace(before, status=status))

    def _is_there(self, namespace: str, user: ResourceClaimConsumerReference) -> bool:
        """Whether a consumer of a claim was not taken off; for a PodGroup, whether any of its pods still has a node."""
        if podclaims.is_group(user):
            members = self._objects.members(namespace, user.name)
            return any(self._table.node_of(pod.metadata.uid) for pod in members)
        return user.uid not in self._off

    def _is_used(self, key: NamespacedName) -> bool:
        """Whether a pod counted on a node uses the claim without being listed yet, because it is being bound.

        `key` is (namespace, name). Nominated pods do not count.
        """
        placed = (self._table.placed_pod(pod.metadata.uid) for pod in self._objects.consumers(*key))
        return any(one is not None and not one.is_nominated for one in placed)

    def suppose(self, claim: ResourceClaim) -> None:
        """Assume that a claim has changed to this state, and update the ledger accordingly."""
        key = claim.metadata.namespace, claim.metadata.name
        self._journal.set(self._devices.supposed, key, claim)
        allocation, ledger = claim.status.allocation, self._devices.ledger
        ledger.written(claim.metadata.uid, None if allocation is None else taken_by(allocation))
