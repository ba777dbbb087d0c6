"""Checks whether given pods of a gang fit on one node together, with all their claims.

The allocator serves the claims of all these pods as one question, so its choice for one pod never blocks another pod.
Each check is a separate trial, so time may pass between checks. Left out: which pods to check on which node
(`gang_search`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from dray.allocator import Allocated, GaveUp
from dray.api.allocations import DeviceId, Taken
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.core.attempt import Attempt, Promise
from dray.core.state import ClusterState
from dray.core.trial import StateTrial
from dray.verdicts.node_resources import with_claims
from dray.verdicts.nodes import NodeInfo

CHECK_STEPS = 1_000  # allocator steps for one check, about 20 ms of work
_BLOCKED = "<devices that a search leaves alone>"

MakeAttempt = Callable[[Pod], Attempt]


class Grant(NamedTuple):
    """Allocation of one claim, with the devices taken and the alternatives chosen."""

    result: dict[str, Any]
    taken: Taken
    alternatives: tuple[int | None, ...]


Grants = Mapping[str, Grant]  # by claim uid


class NodeChecks:
    """Checks whether pods fit on a node. `undecided` is True once a check has ended without a definite answer."""

    def __init__(self, state: ClusterState, attempt_for: MakeAttempt) -> None:
        self._state = state
        self._attempt_for = attempt_for
        self.undecided = False
        self.steps = 0  # number of pods checked so far, plus the number of checks

    def fit(
        self,
        info: NodeInfo,
        pods: Sequence[Pod],
        supposed: Iterable[ResourceClaim] = (),
        blocked: frozenset[DeviceId] = frozenset(),
    ) -> Grants | None:
        """Return what the claims of these pods get on a node, or None if the pods do not fit there together.

        `supposed` are claims of the gang that are already allocated; `blocked` devices must not be used. The grants
        are by uid of the claim, and empty if nothing has to be allocated. Nothing is kept.
        """
        self.steps += 1 + len(pods)
        with self._state.trial() as trial:
            for claim in supposed:
                trial.suppose(claim)
            self._block(blocked)
            attempts = [self._attempt_for(pod) for pod in pods]
            if not all(self._is_accepted(attempt, info) for attempt in attempts):
                return None
            return self._allocate(info, attempts)

    def grant(
        self, info: NodeInfo, claim: ResourceClaim, supposed: Iterable[ResourceClaim], blocked: frozenset[DeviceId]
    ) -> Grant | None:
        """Return what one claim gets when allocated for a node, or None if it cannot be allocated there."""
        self.steps += 1
        with self._state.trial() as trial:
            for one in supposed:
                trial.suppose(one)
            self._block(blocked)
            grants = self._grants(info, [claim])
        return grants[claim.metadata.uid] if grants is not None else None

    def _block(self, devices: frozenset[DeviceId]) -> None:
        """Make devices unavailable for the rest of the trial."""
        if devices:
            self._state.devices.ledger.promise(_BLOCKED, Taken(tuple(devices)))

    def _is_accepted(self, attempt: Attempt, info: NodeInfo) -> bool:
        """Whether all rules except the device search accept a pod on a node. An accepted pod is counted on the node.

        Returns False if a claim of the pod is unusable.
        """
        if attempt.problem is not None:
            return False
        known = replace(attempt.claims, pending=())  # pending claims are allocated together for all pods
        judgement = self._state.placement.rules.judge(
            attempt.candidate, known, disabled=attempt.profile.disabled_filters, among=1 << info.position
        )
        if judgement.devices.undecided:
            self.undecided = True
        if judgement.nodes:
            self._state.table.place(attempt.pod, info.name, attempt.candidate.demand)
        return bool(judgement.nodes)

    def _allocate(self, info: NodeInfo, attempts: Sequence[Attempt]) -> Grants | None:
        """Allocate the pending claims of all pods together on a node. Returns the grants by uid of the claim.

        Returns None if that is impossible, or if the node has too little of what the devices take from it.
        """
        pending = [claim for attempt in attempts for claim in pending_at(attempt, info)]
        grants = self._grants(info, pending) if pending else {}
        if grants is None or not self._state.index.asks_more_of_nodes:
            return grants
        if all(promise_at(self._state, attempt, info, grants) is not None for attempt in attempts):
            return grants
        self.undecided = True  # other devices might require less of the node
        return None

    def _grants(self, info: NodeInfo, pending: Sequence[ResourceClaim]) -> Grants | None:
        outcome = self._state.index.allocate(info.name, pending, CHECK_STEPS)
        if isinstance(outcome, GaveUp):
            self.undecided = True
        if not isinstance(outcome, Allocated):
            return None
        given = zip(outcome.results, outcome.taken, outcome.alternatives, strict=True)
        return {claim.metadata.uid: Grant(*one) for claim, one in zip(pending, given, strict=True)}


def pending_at(attempt: Attempt, info: NodeInfo) -> list[ResourceClaim]:
    """Return the claims that need devices on a node, including the claim for the pod's extended resources."""
    resources = frozenset(name for name in attempt.candidate.extended if not info.allocatable.get(name))
    extended = [attempt.candidate.extended_resource_claim(resources)] if resources else []
    return [*attempt.claims.pending, *extended]


def place_all(
    state: ClusterState,
    attempt_for: MakeAttempt,
    places: Iterable[tuple[Pod, NodeInfo]],
    grants: Grants,
    trial: StateTrial,
) -> list[tuple[Attempt, Promise]] | None:
    """Place pods in the trial on these nodes with these devices. Returns attempt and promise of each pod.

    Returns None at the first pod that cannot be placed; earlier pods stay placed in the trial.
    """
    placed: list[tuple[Attempt, Promise]] = []
    for pod, info in places:
        attempt = attempt_for(pod)
        if attempt.problem is not None:
            return None
        known = replace(attempt.claims, pending=())
        state.placement.rules.judge(attempt.candidate, known, among=1 << info.position)
        promise = promise_at(state, attempt, info, grants)
        if promise is None:
            return None
        trial.place(attempt, promise)
        placed.append((attempt, promise))
    return placed


def promise_at(state: ClusterState, attempt: Attempt, info: NodeInfo, grants: Grants) -> Promise | None:
    """Return the promise for a pod on a node with given devices, or None if the devices take too much from the node.

    Counts the pod on the node, including what its devices take.
    """
    pending = pending_at(attempt, info)
    given = [grants[claim.metadata.uid] for claim in pending]
    outcome = Allocated(*(tuple(column) for column in zip(*given, strict=True))) if given else None
    table = state.table
    table.unplace(attempt.pod.metadata.uid)
    promised = outcome.allocations(pending) if outcome is not None else {}
    taken = state.devices.rule.from_node(attempt.candidate, attempt.claims, info, promised)
    if not isinstance(taken, tuple):
        return None
    table.place(attempt.pod, info.name, with_claims(attempt.pod, attempt.candidate.demand, taken))
    mappings = state.placement.mappings(attempt, info)
    return Promise(attempt.claims, info.name, outcome, pending, mappings, taken)
