"""One joint attempt to place the pods of a gang: at least minCount of them, or none.

First, pods are placed one by one like single pods, in one domain of the topology constraint after the other, smallest
first. These placements are already promises, so other pods may be tried between the parts. If this fails, the
promises are withdrawn and an exact search follows (`gang_search`), which holds nothing. Left out: when a gang is
tried (`gang_scheduling`) and writing.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import msgspec
from msgspec.structs import replace

from dray.allocator import LeftOver
from dray.api.reasons.groups import GroupCode, GroupProblem, Proof
from dray.api.reasons.nodes import SchedulingRule, Unschedulable
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.api.types.scheduling import PodGroup
from dray.core.attempt import Attempt, Promise, Refused, Unfinished
from dray.core.gang_checks import place_all
from dray.core.gang_search import Found, GangOutOfSteps, GangSearch, GangSearchSteps
from dray.core.gangs import GroupKey, min_count
from dray.core.queue import Waiting
from dray.core.state import ClusterState
from dray.core.trial import StateTrial
from dray.core.victims import Victim

if TYPE_CHECKING:
    from dray.core.group_preemption import GroupVictimSearch

PODS_AT_ONCE = 16  # pods placed in one part of an attempt
CHECKS_AT_ONCE = 8  # checks of the exact search in one part; each check covers several pods
RESTARTS = 20  # limit for restarts of the exact search after changes of the cluster


class PlacedMember(NamedTuple):
    """Pod of a gang with its attempt and promise."""

    waiting: Waiting
    attempt: Attempt
    promise: Promise


class GangPromise(msgspec.Struct, frozen=True):
    """Promises for the pods of a gang, in the order in which they were made. `refused` are pods beyond minCount."""

    placed: tuple[PlacedMember, ...]
    refused: tuple[tuple[Waiting, Refused], ...] = ()
    domain: str = ""


class GroupPreemptionPlan(msgspec.Struct, frozen=True):
    """Victims whose end makes room for a gang, most important first, and what the gang's pods then get.

    Without victims, the pods that must end are already terminating (`leaving`). `violations` counts pods whose
    eviction violates a PodDisruptionBudget. `is_proven`: it is proved that no further victim can be spared.
    """

    victims: tuple[Victim, ...]
    placed: tuple[PlacedMember, ...]
    leaving: tuple[Pod, ...] = ()
    violations: int = 0
    domain: str = ""
    is_proven: bool = True

    @property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(pod for victim in self.victims for pod in victim.pods)


class GangRefused(msgspec.Struct, frozen=True):
    """Reason why the gang is not placed, and the rules whose verdict must change.

    With a `plan`, the gang can be placed after preemption. Claims in `to_release` hold devices kept for the gang and
    are reserved only for PodGroups without any pod on a node.
    """

    why: Unschedulable
    rules: frozenset[SchedulingRule]
    plan: GroupPreemptionPlan | None = None
    to_release: tuple[ResourceClaim, ...] = ()


GangDecision = GangPromise | GangRefused | Unfinished


class Domain(NamedTuple):
    """Nodes with equal values of the topology labels, or all nodes if there is no topology constraint."""

    name: str
    nodes: int


@dataclass(eq=False)
class GangAttempt:
    """State of one joint attempt of a gang."""

    key: GroupKey
    group: PodGroup
    leader: Waiting
    members: list[Waiting]
    bound: list[Pod]  # pods of the group that have a node
    among: int | None = None
    problem: GroupProblem | None = None  # problem that keeps the gang from every node
    seconds: float = 0.0  # time the driver has spent on the attempt; does not affect decisions
    domains: list[Domain] = field(default_factory=list)
    at: int = 0  # index of the current domain
    position: int = 0  # index of the next member
    placed: list[PlacedMember] = field(default_factory=list)
    refused: list[tuple[Waiting, Refused]] = field(default_factory=list)
    # claims that members share, as they will be allocated
    supposed: dict[str, ResourceClaim] = field(default_factory=dict)
    failures: list[tuple[Domain, GangRefused]] = field(default_factory=list)
    is_searching: bool = False
    search: GangSearch | None = None
    steps: GangSearchSteps | None = None  # steps of the search
    stamp: object = None  # stamp of the state when the attempt was interrupted
    is_stale: bool = False  # whether the cluster has changed since then
    spent: int = 0  # number of searches discarded because the cluster changed
    is_proven: bool = True
    pending: Unfinished | None = None  # unfinished attempt of the next member
    is_hasty: bool = False  # victims of the gang are terminating, so the exact search is skipped
    verdict: GangRefused | None = None  # refusal by the placement while preemption continues
    victims: GroupVictimSearch | None = None

    @property
    def needed(self) -> int:
        """Number of further pods that must be placed to reach minCount, 0 if enough pods have nodes."""
        return max(0, min_count(self.group) - len(self.bound))


class GangPlacement:
    """Decides about gangs."""

    def __init__(self, state: ClusterState, attempt_for: Callable[[Pod], Attempt]) -> None:
        self._state = state
        self._attempt_for = attempt_for

    def decide(self, gang: GangAttempt) -> GangDecision:
        """Continue an attempt until a decision is reached or the turn ends.

        Returns a promise, a refusal, or Unfinished.
        """
        if gang.problem is not None:
            return GangRefused(self._why(gang.problem), frozenset())
        if not gang.domains:
            return self._refused(gang)
        while not gang.is_searching:
            outcome = self._greedy(gang)
            if outcome is None or outcome is True:
                return self._promised(gang) if outcome else self._unfinished(gang)
            self.give_up(gang)
            gang.at += 1
            if gang.at == len(gang.domains):
                if gang.is_hasty:
                    gang.is_proven = False
                    return self._refused(gang)
                gang.is_searching, gang.at = True, 0
        return self._search(gang)

    def give_up(self, gang: GangAttempt) -> bool:
        """Withdraw the promises made so far. Returns whether there were any."""
        for member in reversed(gang.placed):
            self._state.table.unplace(member.waiting.key)
            for claim in member.promise.pending:
                self._state.devices.ledger.forget(claim.metadata.uid)
        was_any = bool(gang.placed)
        gang.placed, gang.refused, gang.position, gang.supposed = [], [], 0, {}
        return was_any

    # -- place pods one by one

    def _unfinished(self, gang: GangAttempt) -> Unfinished:
        """Return what the attempt waits for: work for the next pod, or just the next turn."""
        pending, gang.pending = gang.pending, None
        return pending or Unfinished(LeftOver((), True))

    def _greedy(self, gang: GangAttempt) -> bool | None:
        """Place the next pods in the current domain. Returns whether enough pods are placed, or None if another part
        must continue.

        Returns False as soon as too few pods are left to reach minCount, and records the failure.
        """
        last = gang.position + PODS_AT_ONCE if self._state.index.defers else len(gang.members)
        with self._state.trial() as trial:
            trial.keep()
            for claim in gang.supposed.values():
                trial.suppose(claim)
            while gang.position < len(gang.members):
                if gang.position >= last:
                    return None
                if not self._place_next(gang, trial):
                    return None
                if len(gang.placed) + len(gang.members) - gang.position < gang.needed:
                    gang.failures.append((gang.domains[gang.at], self._failure(gang)))
                    return False
        return True

    def _place_next(self, gang: GangAttempt, trial: StateTrial) -> bool:
        """Place the next member, or record its refusal. Returns False if the decision is unfinished, and True
        otherwise.
        """
        waiting = gang.members[gang.position]
        attempt = self._attempt_for(waiting.pod)
        attempt.among, attempt.failed_on = gang.domains[gang.at].nodes, waiting.failed_on
        attempt = attempt.continuing(waiting.attempt)
        waiting.attempt = attempt
        decision = self._decide(attempt)
        if isinstance(decision, Unfinished):
            gang.pending = decision
            return False
        attempt.end()
        gang.position += 1
        if isinstance(decision, Refused):
            gang.refused.append((waiting, decision))
        else:
            trial.place(attempt, decision)
            gang.placed.append(PlacedMember(waiting, attempt, decision))
            self._note_shared(gang, decision)
        return True

    def _decide(self, attempt: Attempt) -> Promise | Refused | Unfinished:
        if attempt.problem is not None:
            why = Unschedulable(len(self._state.table), problem=attempt.problem)
            return Refused(why, frozenset({SchedulingRule.DYNAMIC_RESOURCES}))
        return self._state.placement.decide(attempt)

    def _note_shared(self, gang: GangAttempt, promise: Promise) -> None:
        """Remember the promised claims that other members may share, for later parts of the attempt."""
        pending = {claim.metadata.uid for claim in promise.pending}
        for use in promise.claims.uses:
            meta = use.claim.metadata
            if meta.uid in pending and not _is_generated_for(use.claim, promise.claims.pod):
                claim = self._state.devices.claim(meta.namespace, meta.name)
                assert claim is not None  # a promised claim exists
                gang.supposed[meta.uid] = claim

    # -- exact search

    def _search(self, gang: GangAttempt) -> GangDecision:
        """Continue the exact search in the remaining domains. Returns a promise, a refusal, or Unfinished.

        The refusal is a proof only if every search ended within its steps.
        """
        while gang.at < len(gang.domains):
            if gang.steps is None or gang.search is None or gang.is_stale:
                self._begin_search(gang)
                gang.is_stale = False
            assert gang.search is not None
            assert gang.steps is not None
            found: Found | None = None
            try:
                for _ in range(CHECKS_AT_ONCE) if self._state.index.defers else itertools.count():
                    next(gang.steps)
                self._state.index.left_over()
                return Unfinished(LeftOver((), True))
            except StopIteration as done:
                found = done.value
                gang.is_proven &= gang.search.is_proof
            except GangOutOfSteps:
                gang.is_proven = False
            gang.steps = gang.search = None
            if found is not None:
                if self._keep(gang, found):
                    return self._promised(gang)
                gang.is_proven = False  # the placement found could not be promised
            gang.at += 1
        return self._refused(gang)

    def _begin_search(self, gang: GangAttempt) -> None:
        """Start the exact search in the current domain; without any steps if changes have interrupted it too often."""
        gang.spent += gang.steps is not None
        pods = [waiting.pod for waiting in gang.members]
        limit = {} if gang.spent < RESTARTS else {"limit": 0}
        nodes = gang.domains[gang.at].nodes
        gang.search = GangSearch(self._state, self._attempt_for, pods, gang.needed, nodes, **limit)
        gang.steps = gang.search.run()

    def _keep(self, gang: GangAttempt, found: Found) -> bool:
        """Turn a found placement into promises and place further members if possible.

        Returns False, without a change, if a promise fails.
        """
        waiting_of = {waiting.key: waiting for waiting in gang.members}
        placed: list[PlacedMember] = []
        with self._state.trial() as trial:
            promised = place_all(self._state, self._attempt_for, found.places, found.grants, trial)
            if promised is None:
                return False
            for attempt, promise in promised:
                waiting = waiting_of[attempt.pod.metadata.uid]
                waiting.attempt = attempt
                placed.append(PlacedMember(waiting, attempt, promise))
                self._note_shared(gang, promise)
            gang.placed = placed
            done = {member.waiting.key for member in placed}
            gang.members = [*(member.waiting for member in placed), *(w for w in gang.members if w.key not in done)]
            gang.position, gang.refused = len(done), []
            while gang.position < len(gang.members):
                if not self._place_next(gang, trial):
                    break
            trial.keep()
        return True

    # -- results

    def _promised(self, gang: GangAttempt) -> GangPromise:
        return GangPromise(tuple(gang.placed), tuple(gang.refused), gang.domains[gang.at].name)

    def _failure(self, gang: GangAttempt) -> GangRefused:
        """Return why not enough pods could be placed in the current domain."""
        waiting, refused = gang.refused[0]
        problem = GroupProblem(
            GroupCode.MIN_COUNT_UNREACHED,
            gang.key[1],
            wanted=min_count(gang.group),
            found=len(gang.bound) + len(gang.placed),
            left=len(gang.members) - gang.position,
            domain=gang.domains[gang.at].name,
            pod=waiting.pod.metadata.name,
        )
        rules = frozenset[SchedulingRule]().union(*(one.rules for _, one in gang.refused))
        return GangRefused(replace(refused.why, group=problem), rules)

    def _refused(self, gang: GangAttempt) -> GangRefused:
        """Return why the gang cannot be placed, with the reasons of the domain where most pods could be placed."""
        proof = Proof.PROVEN if gang.is_proven else Proof.UNPROVEN
        if not gang.failures:
            problem = GroupProblem(GroupCode.NO_PLACEMENT, gang.key[1], proof=proof)
            return GangRefused(self._why(problem), frozenset(SchedulingRule))
        first = gang.failures[0][1].why
        closest = max((one.why for _, one in gang.failures), key=_found)
        assert first.group is not None
        assert closest.group is not None
        problem = replace(closest.group, proof=proof)
        if gang.domains[0].name:
            told = replace(first.group, pod="")
            problem = replace(problem, code=GroupCode.NO_PLACEMENT, domains=len(gang.domains), first=told)
        rules = frozenset[SchedulingRule]().union(*(one.rules for _, one in gang.failures))
        return GangRefused(replace(closest, group=problem), rules)

    def _why(self, problem: GroupProblem) -> Unschedulable:
        return Unschedulable(len(self._state.table), group=problem)


def _found(why: Unschedulable) -> int:
    return why.group.found if why.group is not None else 0


def _is_generated_for(claim: ResourceClaim, pod: Pod) -> bool:
    return any(ref.controller and ref.uid == pod.metadata.uid for ref in claim.metadata.ownerReferences)


def domains_of(state: ClusterState, keys: Sequence[str], bound: Sequence[Pod], among: int | None) -> Iterator[Domain]:
    """Yield the domains in which a gang may be placed, with the fewest nodes first.

    `keys` are the topology labels; without any, the only domain is all nodes. Nodes that lack a label are left out.
    If pods of the gang already have nodes, yields only their domain, and nothing if these are several.
    """
    everyone = state.table.everyone if among is None else state.table.everyone & among
    if not keys:
        yield Domain("", everyone)
        return
    found: dict[tuple[str, ...], int] = {}
    for info in state.table.named(everyone):
        labels = info.node.metadata.labels if info.node is not None else {}
        if all(key in labels for key in keys):
            values = tuple(labels[key] for key in keys)
            found[values] = found.get(values, 0) | 1 << info.position
    taken = {_values(state, keys, pod) for pod in bound}
    for values, nodes in sorted(found.items(), key=lambda one: (one[1].bit_count(), one[0])):
        if not taken or taken == {values}:
            yield Domain(",".join(values), nodes)


def _values(state: ClusterState, keys: Sequence[str], pod: Pod) -> tuple[str, ...]:
    """Return the values of the topology labels of a pod's node. A missing label or node counts as ""."""
    info = state.table.get(state.table.node_of(pod.metadata.uid) or pod.spec.nodeName)
    labels = info.node.metadata.labels if info is not None and info.node is not None else {}
    return tuple(labels.get(key, "") for key in keys)
