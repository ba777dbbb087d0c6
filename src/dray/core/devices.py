"""DynamicResources in the scheduler: the claims of a pod, promised devices, and the budget of a search for devices.

Tracks a claim from its creation until its devices are promised to a pod. Promised devices count as taken before the
allocation is written. An attempt makes no API calls; `binding` writes claims. Left out: the rule itself
(`dray.verdicts.devices`) and the holders of devices (`ledger`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING

from dray.allocator import UNLIMITED, Allocated, Budget, Failed, GaveUp, Index, Turn, Unallocatable
from dray.allocator.bits import without
from dray.api import podclaims
from dray.api.allocations import taken_by
from dray.api.binding_conditions import is_lost
from dray.api.claim_access import Find, Knowledge, PodClaims, claims_of, missing_for
from dray.api.claim_lifecycle import ClaimState, state_of
from dray.api.extended_resources import may_be_asked
from dray.api.gates import FeatureGates
from dray.api.podclaims import Sharing
from dray.api.reasons.claims import ClaimProblem
from dray.api.reasons.nodes import NodeCode, NodeReason
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.core.ledger import DeviceLedger
from dray.verdicts.devices import DeviceRule, Search
from dray.verdicts.node_resources import NodeClaims
from dray.verdicts.nodes import NodeInfo, NodeTable

if TYPE_CHECKING:
    from dray.core.attempt import Attempt, Promise

_ALL_WAYS = Sharing()

FindClaim = Callable[[str, str], ResourceClaim | None]  # by namespace and name


class Devices:
    """Claims and devices of the cluster, as the scheduler sees them and promises them to pods."""

    def __init__(
        self,
        index: Index,
        find_claim: FindClaim,
        group_of: Callable[[Pod], PodGroup | None],
        table: NodeTable,
        gates: FeatureGates,
        now: Callable[[], float],
        binding_timeouts: Mapping[str, float] = MappingProxyType({}),
        special_of: Callable[[Pod], ResourceClaim | None] = lambda pod: None,
        is_in_use: Callable[[ResourceClaim], bool] = lambda claim: True,
    ) -> None:
        self.now = now
        self._binding_timeouts = binding_timeouts  # by profile name; empty if binding conditions are disabled
        self.index = index
        self._serves_extended = gates.served("DRAExtendedResource")
        self.rule = DeviceRule(index, table, serves_extended=self._serves_extended)
        self._extended_claim_of = special_of
        self._is_in_use = is_in_use  # whether a pod with a node uses a claim, even if reservedFor does not list the pod
        self.ledger = DeviceLedger(index)
        self._find_claim = find_claim
        self._group_of = group_of
        self._is_enabled = gates.enabled("DynamicResourceAllocation")
        self._has_timeout = gates.enabled("DRASchedulerFilterTimeout")
        self.sharing = Sharing.of(gates)
        self.supposed: dict[tuple[str, str], ResourceClaim] = {}  # claims as changed by the current trial
        self._known = Knowledge(self.sharing, index.has_class, self.ledger.is_promised, is_lost=self._is_lost)

    # -- before an attempt

    def missing_for(self, pod: Pod) -> ClaimProblem | None:
        """Return the missing claim or PodGroup for which a pod may not be tried yet, or None if nothing is missing.

        Also returns None for a pod without claims, or if dynamic resource allocation is off.
        """
        if not pod.spec.resourceClaims or not self._is_enabled:
            return None
        return missing_for(pod, self._group_of(pod), self._find(pod), self._known)

    def claims_of(self, pod: Pod) -> PodClaims | ClaimProblem:
        """Return the claims of a pod, or the problem with a claim that keeps the pod from every node.

        The claims are empty if dynamic resource allocation is off.
        """
        if not self._is_enabled:
            return PodClaims(pod)
        left_over = self._extended_claim_of(pod) if self._serves_extended and may_be_asked(pod) else None
        if not pod.spec.resourceClaims:
            return PodClaims(pod, left_over=left_over)
        found = claims_of(pod, self._group_of(pod), self._find(pod), self._known)
        if isinstance(found, PodClaims):
            found.left_over = left_over
        return found

    def _is_lost(self, pod: Pod, claim: ResourceClaim) -> bool:
        """Whether the devices of a claim failed to become ready within the binding timeout of the pod's profile.

        Returns False if the profile has no binding timeout.
        """
        timeout = self._binding_timeouts.get(pod.spec.schedulerName)
        return timeout is not None and is_lost(claim, self.now(), timeout)

    def _find(self, pod: Pod) -> Find:
        """Return a function that finds a claim by name in the pod's namespace."""
        return partial(self.claim if self.supposed else self._find_claim, pod.metadata.namespace)

    def claim(self, namespace: str, name: str) -> ResourceClaim | None:
        """Return a claim as changed by the current trial, or else the stored claim; None if there is none."""
        return self.supposed.get((namespace, name)) or self._find_claim(namespace, name)

    # -- in an attempt

    def promise(self, attempt: Attempt, info: NodeInfo) -> Allocated | NodeReason | None:
        """Allocate devices on a node to the pending claims of a pod and record the promises in the ledger.

        Returns the allocation, None if the pod needs no devices on the node, or the reason why the allocation failed.
        Nothing is recorded after a failure.
        """
        search = attempt.devices.search_at(info.position)
        if search is None:
            return None
        pending = search.pending
        outcome = self.index.allocate(info.name, pending, search.budget.node, self.turn())
        if isinstance(outcome, Allocated):
            for claim, taken in zip(pending, outcome.taken, strict=True):
                self.ledger.promise(claim.metadata.uid, taken)
            return outcome
        search.fits = search.fits.without(info.position)  # so that fitting on this node counts as a change later
        match outcome:
            case GaveUp():
                return NodeReason(NodeCode.DEVICES_TIMED_OUT)
            case Failed(problem):
                return NodeReason(NodeCode.DEVICES_WRONG, problem=problem)
            case Unallocatable():
                return NodeReason(NodeCode.CANNOT_ALLOCATE)

    def promise_again(self, promise: Promise) -> None:
        """Record the devices of a promise in the ledger, after the trial in which the promise was made has ended."""
        taken = promise.outcome.taken if promise.outcome is not None else ()
        for claim, devices in zip(promise.pending, taken, strict=True):
            self.ledger.promise(claim.metadata.uid, devices)

    def from_node(self, attempt: Attempt, info: NodeInfo, outcome: Allocated | None) -> NodeClaims | NodeReason:
        """Return what the pod's claims take from the node besides devices, such as CPU and memory; () for nothing.

        If the node has too little or lacks a needed feature, withdraws the promised devices and returns the reason.
        """
        if not self.index.asks_more_of_nodes:
            return ()
        pending = attempt.devices.pending_at(info.position) if outcome is not None else ()
        promised = outcome.allocations(pending) if outcome is not None else {}
        taken = self.rule.from_node(attempt.candidate, attempt.claims, info, promised)
        if isinstance(taken, NodeReason):
            for claim in pending:
                self.ledger.forget(claim.metadata.uid)
        return taken

    def turn(self) -> Turn | None:
        """Return a step counter for one part of an attempt, or None if attempts are made in one part."""
        return Turn() if self.index.defers else None

    def budget(self, attempt: Attempt) -> Budget:
        """Return the number of steps that a search for devices may take.

        The budget is unlimited without a filter timeout. Pods with prioritized alternatives get a budget that covers
        all nodes.
        """
        if not self._has_timeout:
            return UNLIMITED
        profile = attempt.profile
        budget = Budget.of(profile.filter_timeout, per_node=profile.timeout_per_node)
        return budget.thorough() if has_alternatives(attempt.claims) else budget

    # -- after an attempt

    def expendable(self, attempt: Attempt) -> ResourceClaim | None:
        """Return an allocated claim that keeps the pod from nodes and that no other pod uses, or None.

        A claim with a reservation for anything but a pod is never returned, nor is a reserved claim that is open to
        any pod, since pods that reservedFor does not list may use them.
        """
        for claim in attempt.devices.elsewhere:
            state, listed = state_of(claim), claim.status.reservedFor
            if state is ClaimState.ALLOCATED and not self._is_in_use(claim):
                return claim
            if state is not ClaimState.RESERVED or podclaims.is_open(claim, _ALL_WAYS):
                continue
            if all(reference.uid == attempt.pod.metadata.uid for reference in listed):
                return claim
        return None

    def is_news(self, refused: Attempt) -> bool:
        """Whether a refused pod could get devices on nodes where this was impossible when the pod was refused."""
        return any(map(self._has_news, refused.devices.searches))

    def _has_news(self, search: Search) -> bool:
        """Whether a search for devices gives a better result for some node than before."""
        then, now = search.fits, self.index.fits(search.pending, search.budget, search.asked, self.turn())
        more = without(now.nodes, then.nodes) | without(now.undecided, then.undecided) | now.failing ^ then.failing
        return bool(more & search.asked)

    # -- what claims say

    def claim_changed(self, claim: ResourceClaim, *, gone: bool) -> bool:
        """Update the devices held by a claim after an event. Returns whether devices became free.

        `gone` says that the claim was deleted.
        """
        allocation = claim.status.allocation
        if gone:
            self.ledger.forget(claim.metadata.uid)
        taken = None if gone or allocation is None else taken_by(allocation)
        return self.ledger.written(claim.metadata.uid, taken, version_of(claim))

    def claim_written(self, claim: ResourceClaim) -> bool:
        """Record that a binding wrote a claim.

        Returns whether devices became free, because a newer version of the claim no longer holds the devices.
        """
        meta = claim.metadata
        if not self.ledger.is_promised(meta.uid):
            return False  # the event of the write arrived first
        version = version_of(claim)
        self.ledger.kept(meta.uid, version)
        known = self._find_claim(meta.namespace, meta.name)
        if known is None or known.metadata.uid != meta.uid or version_of(known) < version:
            return False  # the stored claim is older than the write
        return self.claim_changed(known, gone=False)

    def claim_made(self, extended: ResourceClaim, made: ResourceClaim) -> bool:
        """Move a promise from an in-memory extended resource claim to the created and written claim.

        Returns whether devices became free.
        """
        self.ledger.promise(made.metadata.uid, taken_by(made.status.allocation))
        self.ledger.forget(extended.metadata.uid)
        return self.claim_written(made)


def has_alternatives(claims: PodClaims) -> bool:
    """Whether a pending claim of the pod has a request with prioritized alternatives (`firstAvailable`)."""
    for claim in claims.pending:  # written out, because a generator costs more than the check
        for request in claim.spec.devices.requests or ():
            if request.firstAvailable:
                return True
    return False


def version_of(claim: ResourceClaim) -> int:
    """Return the resource version of a claim as a number, 0 if the claim has none.

    Raises ValueError if the version is no number.
    """
    return int(claim.metadata.resourceVersion or 0)
