"""Preemption: find victims whose end would make room for a pod that fits on no node.

On each node, all possible victims are first assumed to be gone. If the pod then fits, victims are restored one by
one, and those with whom the pod no longer fits are the final victims. Every check runs all rules and the allocator on
the assumed state. Among the nodes, the plan that disturbs least is chosen. A search is made in parts; as the cluster
may change between them, the chosen node is checked again in the last part. Left out: which pods may be victims
(`victims`), nominations (`nominations`), preemption by groups (`group_preemption`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from dataclasses import replace as changed
from math import inf
from typing import Protocol
from zlib import crc32

from msgspec.structs import replace

from dray.allocator import LeftOver, Turn, Work
from dray.allocator.bits import positions, without
from dray.allocator.budget import TURN
from dray.api import podclaims
from dray.api.claim_access import PodClaims
from dray.api.reasons.nodes import NodeCode, NodeReason, NoPreemption, PreemptionCode
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.core.attempt import Attempt, PreemptionPlan, Promise, Refused, Unfinished
from dray.core.objects import ObjectLookup
from dray.core.state import ClusterState
from dray.core.trial import StateTrial
from dray.core.victims import Victim, VictimFinder, priority_of, violations
from dray.verdicts.nodes import NodeInfo, NodeTable

CHECK_STEPS = 5  # steps of a turn for one check whether the pod fits
COUNTING = TURN // 2  # steps of a turn for counting the pods that the pod's rules refer to
COUNTED = 2000  # number of comparisons with other pods from which these are counted once for all checks

# Reasons that the end of other pods cannot change.
UNCHANGEABLE = frozenset(
    {
        NodeCode.UNSCHEDULABLE,
        NodeCode.OTHER_NAME,
        NodeCode.TAINT,
        NodeCode.NODE_AFFINITY,
        NodeCode.POD_AFFINITY,
        NodeCode.SPREAD_LABEL,
        NodeCode.CLAIM_ELSEWHERE,
        NodeCode.CLAIM_LOST,
        NodeCode.EXTENDED_LEFT_OVER,
        NodeCode.EXTENDED_UNKNOWN,
        NodeCode.DEVICES_TIMED_OUT,
        NodeCode.DEVICES_WRONG,
        NodeCode.LACKS_FEATURE,
        NodeCode.POD_REQUEST_SHORT,
    }
)


class PartIsOver(Exception):
    """The budget of this part is used up before the search has ended."""

    def __init__(self, left_over: LeftOver) -> None:
        super().__init__()
        self.left_over = left_over


@dataclass(slots=True)
class NodeProgress:
    """Progress of the search on one node."""

    position: int
    victims: tuple[str, ...]  # keys of the victims in the order in which they are restored
    given: set[str] = field(default_factory=set)  # keys of restored victims with whom the pod still fits
    looked_at: int = 0  # number of victims tried so far


@dataclass(slots=True)
class VictimSearch:
    """Progress of a search for victims."""

    waiting: list[int]  # positions of the nodes to examine; the next node is last
    wanted: int  # number of plans after which the search may stop
    counts: Counter[PreemptionCode] = field(default_factory=Counter)
    reasons: Counter[NodeReason] = field(default_factory=Counter)
    plans: dict[int, PreemptionPlan] = field(default_factory=dict)  # by position
    at: NodeProgress | None = None
    works: dict[Work, None] = field(default_factory=dict)  # work that the search had to wait for
    parts: int = 0

    @property
    def is_enough(self) -> bool:
        """Whether enough plans were found and at least one of them violates no disruption budget."""
        return len(self.plans) >= self.wanted and any(not plan.violations for plan in self.plans.values())


class Preemption:
    """Finds victims for pods."""

    def __init__(self, objects: ObjectLookup, state: ClusterState) -> None:
        self._objects = objects
        self._state = state
        self._table: NodeTable = state.table
        self.victims = VictimFinder(objects, state.table, state.nominations)
        self.budgets = objects.disruption_budgets

    def after(self, attempt: Attempt, refused: Refused) -> Refused | Unfinished:
        """Return the refusal with a preemption plan, or with the reason why preemption does not help.

        Returns the refusal unchanged if there are no nodes, and Unfinished if the search needs another part. Call
        this while nominations of lower priority are lifted.
        """
        if not len(self._table):
            return refused
        helpful = changeable(refused.why.reasons, self._table)
        try:
            code = self._ineligible(attempt, helpful)
            if code is not None:
                return self._without(refused, NoPreemption(code), code)
            if attempt.search is None:
                attempt.search = self._begin(attempt, helpful)
            plan = self._find(attempt, attempt.search)
        except PartIsOver as interrupted:
            return Unfinished(interrupted.left_over)
        if plan is not None:
            return replace(refused, plan=plan)
        search, nodes = attempt.search, len(self._table)
        counts = {**search.counts, PreemptionCode.NOT_HELPFUL: nodes - helpful.bit_count()}
        counts = {code: count for code, count in counts.items() if count}
        return self._without(refused, NoPreemption(PreemptionCode.UNAVAILABLE, nodes, counts, search.reasons))

    def _without(self, refused: Refused, why: NoPreemption, code: PreemptionCode | None = None) -> Refused:
        """Return the refusal with the reason why the pod cannot preempt."""
        to_release = tuple(self.to_release()) if code is PreemptionCode.RELEASING else ()
        return replace(refused, why=replace(refused.why, preemption=why), to_release=to_release)

    # -- whether the pod may preempt

    def _ineligible(self, attempt: Attempt, helpful: int) -> PreemptionCode | None:
        """Return why the pod must not preempt, or None if it may. `helpful` is the bit set of nodes that victims may
        help.

        A pod whose nominated node still has terminating victims, or devices to be released, must wait for these.
        """
        pod = attempt.pod
        if pod.spec.preemptionPolicy == "Never":
            return PreemptionCode.NEVER
        if any(map(asks_for_admin_access, attempt.claims.pending)):
            return PreemptionCode.ADMIN_ACCESS
        nomination = self._state.nominations.get(pod.metadata.uid)
        info = self._table.get(nomination.node) if nomination is not None else None
        if nomination is None or info is None or info.node is None or not helpful >> info.position & 1:
            return None
        leaving = [one for one in self.victims.leaving([info]) if priority_of(one) < priority_of(pod)]
        if not leaving and not nomination.victims and not self._state.ending:
            return None
        own = (self._table.placed_pod(uid) for uid in nomination.victims)
        elsewhere = [
            one.pod for one in own if one is not None and self._table.node_of(one.pod.metadata.uid) != info.name
        ]
        with self._state.trial() as trial:
            self.suppose_end(trial, self.victims.leaving([info]))
            for victim in elsewhere:
                trial.take_off(victim)
            answer = self._try_on(attempt, info, self._turn())
        if isinstance(answer, Promise):
            self._state.nominations.keep(pod, answer)
        if leaving or nomination.victims:
            return PreemptionCode.TERMINATING
        return PreemptionCode.RELEASING if isinstance(answer, Promise) else None

    def to_release(self) -> Iterator[ResourceClaim]:
        """Yield allocated claims that are reserved only for PodGroups without any pod on a node."""
        for key in self._state.ending:
            claim = self._objects.claim(*key)
            if claim is None or not claim.status.reservedFor or claim.metadata.deletionTimestamp is not None:
                continue
            groups = [one.name for one in claim.status.reservedFor if podclaims.is_group(one)]
            members = [pod for name in groups for pod in self._objects.members(key[0], name)]
            is_used = any(self._table.node_of(pod.metadata.uid) for pod in members)
            if len(groups) == len(claim.status.reservedFor) and not is_used:
                yield claim

    # -- the nodes

    def _begin(self, attempt: Attempt, helpful: int) -> VictimSearch:
        """Start a search over the helpful nodes, at a position that depends on the pod's uid."""
        profile, found = attempt.profile, [*positions(helpful)]
        wanted = max(len(found) * profile.candidate_percentage // 100, profile.candidates)
        start = crc32(attempt.pod.metadata.uid.encode()) % len(found) if found else 0
        order = [*found[start:], *found[:start]]
        if not any(other < priority_of(attempt.pod) for other in self._table.priorities):
            return VictimSearch([], wanted, Counter({PreemptionCode.NO_VICTIMS: len(found)}))
        return VictimSearch([*reversed(order)], wanted)

    def _find(self, attempt: Attempt, search: VictimSearch) -> PreemptionPlan | None:
        """Examine nodes until enough plans are found. Returns the best plan, or None if there is none.

        Raises PartIsOver when the turn ends.
        """
        turn = self._turn()
        search.parts += 1
        if search.waiting:
            self._count_neighbours(attempt)
        while search.waiting and not search.is_enough:
            if turn is not None and turn.is_over:
                raise PartIsOver(LeftOver((), True))
            self._look_at(search.waiting[-1], attempt, search, turn)
            search.waiting.pop()
            search.at = None
        return self._best(attempt, search, turn)

    def _look_at(self, position: int, attempt: Attempt, search: VictimSearch, turn: Turn | None) -> None:
        """Record for a node either a preemption plan or the reason why preemption does not help there."""
        info = self._table.infos[position]
        if info is None:
            return
        if self._is_out_of_steps(attempt, search):
            search.counts[PreemptionCode.OUT_OF_STEPS] += 1
            return
        answer = self._plan_for(info, attempt, search, turn)
        match answer:
            case PreemptionPlan():
                search.plans[position] = answer
            case PreemptionCode():
                search.counts[answer] += 1
            case NodeReason():
                search.reasons[answer] += 1

    def _is_out_of_steps(self, attempt: Attempt, search: VictimSearch) -> bool:
        """Whether the search has used up the pod's budget for device searches. Never without a filter timeout."""
        total = self._state.devices.budget(attempt).total
        return total is not None and sum(work.steps for work in search.works) > total

    def _best(self, attempt: Attempt, search: VictimSearch, turn: Turn | None) -> PreemptionPlan | None:
        """Return the plan that disturbs least, or None if there is none.

        If the search took several parts, checks the chosen node again, and drops its plan if victims no longer help
        there.
        """
        looked_again: set[int] = set()
        while search.plans:
            position = min(search.plans, key=lambda at: disturbance(search.plans[at]))
            if search.parts == 1 or position in looked_again:
                return search.plans[position]
            looked_again.add(position)
            info, search.at = self._table.infos[position], None
            answer = self._plan_for(info, attempt, search, turn) if info is not None else None
            if isinstance(answer, PreemptionPlan):
                search.plans[position] = answer
            else:
                del search.plans[position]
        return None

    # -- one node

    def _plan_for(
        self, info: NodeInfo, attempt: Attempt, search: VictimSearch, turn: Turn | None
    ) -> PreemptionPlan | PreemptionCode | NodeReason:
        """Return a preemption plan for a node, or the reason why no victims there would help.

        Raises PartIsOver when the turn ends; the next call for the same node continues.
        """
        found = self._victims_for(info, attempt)
        if not found and not self.victims.leaving([info]) and not self._state.ending:
            return PreemptionCode.NO_VICTIMS
        violating = violations(found, self.budgets)
        found.sort(key=lambda victim: victim.key not in violating)  # stable sort: each part stays sorted by importance
        progress = search.at
        keys = tuple(victim.key for victim in found)
        if progress is None or progress.position != info.position or progress.victims != keys:
            progress = search.at = NodeProgress(info.position, keys)
        try:
            with self._state.trial() as trial:
                return self._give_back(found, violating, progress, trial, info, attempt, turn)
        except PartIsOver as interrupted:
            search.works.update(dict.fromkeys(interrupted.left_over.works))
            raise

    def _give_back(
        self,
        found: list[Victim],
        violating: Mapping[str, int],
        progress: NodeProgress,
        trial: StateTrial,
        info: NodeInfo,
        attempt: Attempt,
        turn: Turn | None,
    ) -> PreemptionPlan | PreemptionCode | NodeReason:
        """Remove all possible victims, then restore them one by one while the pod still fits.

        Returns a plan with the remaining victims, or the reason why the pod does not fit even without any of them.
        `found` are the possible victims, and `violating` counts their violations by key. Raises PartIsOver when the
        turn ends.
        """
        self.suppose_end(trial, self.victims.leaving([info]))
        for pod in (pod for victim in found if victim.key not in progress.given for pod in victim.pods):
            trial.take_off(pod)
        answer = self._try_in(trial, attempt, info, turn)
        if isinstance(answer, NodeReason):
            return answer if found else PreemptionCode.NO_VICTIMS
        promise = answer
        while progress.looked_at < len(found):
            if turn is not None and turn.is_over:
                raise PartIsOver(LeftOver((), True))
            victim, mark = found[progress.looked_at], trial.mark()
            for pod in victim.pods:
                trial.put_back(pod)
            answer = self._try_in(trial, attempt, info, turn)
            if isinstance(answer, Promise):
                promise = answer
                progress.given.add(victim.key)
            else:
                trial.rewind(mark)
            progress.looked_at += 1
        victims = sorted((one for one in found if one.key not in progress.given), key=lambda one: one.importance)
        violated = sum(violating.get(victim.key, 0) for victim in victims)
        return PreemptionPlan(info.name, tuple(victims), promise, violated)

    def _victims_for(self, info: NodeInfo, attempt: Attempt) -> list[Victim]:
        return self.victims.on([info], priority_of(attempt.pod))

    def suppose_end(self, trial: StateTrial, leaving: Iterable[Pod]) -> None:
        """Assume that terminating pods are gone and that the claims of ended pods are deallocated."""
        for pod in leaving:
            trial.take_off(pod)
        for key in [*self._state.ending]:
            trial.let_go(key)

    def _try_in(self, trial: StateTrial, attempt: Attempt, info: NodeInfo, turn: Turn | None) -> Promise | NodeReason:
        """Check whether the pod fits on a node in the trial, and undo the check. Returns a promise or the reason.

        Raises as `_try_on` does.
        """
        mark = trial.mark()
        try:
            return self._try_on(attempt, info, turn)
        finally:
            trial.rewind(mark)

    def _try_on(self, attempt: Attempt, info: NodeInfo, turn: Turn | None) -> Promise | NodeReason:
        """Check whether the pod fits on a node in the current state. Returns a promise or the reason.

        Raises PartIsOver if the check needs work that takes longer.
        """
        if turn is not None:
            turn.spend(CHECK_STEPS)
        claims = self._state.devices.claims_of(attempt.pod)
        if not isinstance(claims, PodClaims):
            return NodeReason(NodeCode.CANNOT_ALLOCATE)
        with self._state.placement.counted(attempt.census):
            answer = self._state.placement.try_on(changed(attempt, claims=claims), info, turn)
        if isinstance(answer, LeftOver):
            raise PartIsOver(answer)
        return answer

    def _count_neighbours(self, attempt: Attempt) -> None:
        """Count the pods that the pod's rules refer to, so that checks need not compare them all.

        Raises PartIsOver if unfinished.
        """
        census = self._state.placement.census_for(attempt, COUNTED)
        attempt.census = census
        if census is not None and self._turn() is not None and not census.go_on(COUNTING):
            raise PartIsOver(LeftOver((), True))

    def _turn(self) -> Turn | None:
        return self._state.devices.turn()


def changeable(reasons: Mapping[NodeReason, int], table: NodeTable) -> int:
    """Return the nodes that refuse a pod only for reasons which the end of other pods may change, as a bit set.

    `reasons` contains the refusing nodes by reason. Nodes without a reason are not returned.
    """
    refusing = hopeless = 0
    for reason, nodes in reasons.items():
        refusing |= nodes
        if reason.code in UNCHANGEABLE:
            hopeless |= nodes
        elif reason.code is NodeCode.INSUFFICIENT and reason.wanted is not None:
            wanted, name = reason.wanted, reason.subject
            lacking = (info.position for info in table.named(nodes) if info.allocatable.get(name, 0) < wanted)
            hopeless |= sum(1 << position for position in lacking)
    return without(refusing, hopeless)


class Disturbing(Protocol):
    """Preemption plan of a pod or of a gang."""

    @property
    def victims(self) -> tuple[Victim, ...]: ...
    @property
    def violations(self) -> int: ...


def disturbance(plan: Disturbing) -> tuple[float, ...]:
    """Return a sort key that puts the least disruptive plan first.

    Compares budget violations, highest priority, sum of priorities, number of pods, and start time, in this order. A
    plan without victims comes before all others.
    """
    victims = plan.victims
    if not victims:
        return (-1.0,)
    highest = max(victim.priority for victim in victims)
    total = sum((victim.priority + 2**31) * len(victim.pods) for victim in victims)
    started = min((victim.started for victim in victims if victim.priority == highest), default=inf)
    pods = sum(len(victim.pods) for victim in victims)
    return plan.violations, highest, total, pods, -started


def asks_for_admin_access(claim: ResourceClaim) -> bool:
    return any(one.exactly is not None and one.exactly.adminAccess for one in claim.spec.devices.requests or ())
