"""Preemption: whose end would make room for a pod that fits nowhere.

On a node, all victims are supposed to be gone; if the pod fits then, they are given back one by one, and those with whom it
does not fit any more are the victims. Every check asks all rules and the allocator about the node as it would be. Of the
nodes, that one is taken where least is disturbed. A search is made in parts; as the cluster may change between them, the
node that is taken is looked at once more in the last part. Left out: who may be a victim (`victims`), keeping the place
(`nominations`), groups as preemptors (`group_preemption`).
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

CHECK_STEPS = 5  # of a turn, for a check whether the pod fits
COUNTING = TURN // 2  # of a turn, for counting the pods that rules of the pod are about
COUNTED = 2000  # comparisons of rules with pods, from which on they are counted once and for all checks

# What no end of another pod changes.
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
    """A part of the search is over before the search is."""

    def __init__(self, left_over: LeftOver) -> None:
        super().__init__()
        self.left_over = left_over


@dataclass(slots=True)
class NodeProgress:
    """How far the search came on one node."""

    position: int
    victims: tuple[str, ...]  # keys, in the order in which they are given back
    given: set[str] = field(default_factory=set)  # those with whom the pod fits
    looked_at: int = 0  # how many of them were tried


@dataclass(slots=True)
class VictimSearch:
    """A search for victims, as far as it came."""

    waiting: list[int]  # positions of the nodes to look at, the next one last
    wanted: int  # nodes with victims that are enough
    counts: Counter[PreemptionCode] = field(default_factory=Counter)
    reasons: Counter[NodeReason] = field(default_factory=Counter)
    plans: dict[int, PreemptionPlan] = field(default_factory=dict)  # by position
    at: NodeProgress | None = None
    works: dict[Work, None] = field(default_factory=dict)  # that it needed to be done
    parts: int = 0

    @property
    def is_enough(self) -> bool:
        return len(self.plans) >= self.wanted and any(not plan.violations for plan in self.plans.values())


class Preemption:
    """Finds victims."""

    def __init__(self, objects: ObjectLookup, state: ClusterState) -> None:
        self._objects = objects
        self._state = state
        self._table: NodeTable = state.table
        self.victims = VictimFinder(objects, state.table, state.nominations)
        self.budgets = objects.disruption_budgets

    def after(self, attempt: Attempt, refused: Refused) -> Refused | Unfinished:
        """A refusal with what preemption can do about it. To be called while lesser nominations are lifted."""
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
        to_release = tuple(self.to_release()) if code is PreemptionCode.RELEASING else ()
        return replace(refused, why=replace(refused.why, preemption=why), to_release=to_release)

    # -- may the pod preempt?

    def _ineligible(self, attempt: Attempt, helpful: int) -> PreemptionCode | None:
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
        """The claims that are reserved for groups alone, of which no pod has a node any more."""
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
        """The nodes to look at, from one on that is another for each pod."""
        profile, found = attempt.profile, [*positions(helpful)]
        wanted = max(len(found) * profile.candidate_percentage // 100, profile.candidates)
        start = crc32(attempt.pod.metadata.uid.encode()) % len(found) if found else 0
        order = [*found[start:], *found[:start]]
        if not any(other < priority_of(attempt.pod) for other in self._table.priorities):
            return VictimSearch([], wanted, Counter({PreemptionCode.NO_VICTIMS: len(found)}))
        return VictimSearch([*reversed(order)], wanted)

    def _find(self, attempt: Attempt, search: VictimSearch) -> PreemptionPlan | None:
        """The best plan of all nodes that are looked at; None when there is none."""
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
        """Note what a node would take: a plan, or why it is of no use."""
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
        total = self._state.devices.budget(attempt).total
        return total is not None and sum(work.steps for work in search.works) > total

    def _best(self, attempt: Attempt, search: VictimSearch, turn: Turn | None) -> PreemptionPlan | None:
        """The plan that disturbs least, as things are now."""
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
        """Whose end lets the pod fit on a node, or why nobody's does."""
        found = self._victims_for(info, attempt)
        if not found and not self.victims.leaving([info]) and not self._state.ending:
            return PreemptionCode.NO_VICTIMS
        violating = violations(found, self.budgets)
        found.sort(key=lambda victim: victim.key not in violating)  # stable: by importance in both parts
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
        """Suppose that all victims are gone, and give back one by one those with whom the pod fits all the same."""
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
        """Suppose that what is ending has ended: pods that leave, and claims of pods that are gone."""
        for pod in leaving:
            trial.take_off(pod)
        for key in [*self._state.ending]:
            trial.let_go(key)

    def _try_in(self, trial: StateTrial, attempt: Attempt, info: NodeInfo, turn: Turn | None) -> Promise | NodeReason:
        """Whether the pod fits in a trial; its devices are not kept."""
        mark = trial.mark()
        try:
            return self._try_on(attempt, info, turn)
        finally:
            trial.rewind(mark)

    def _try_on(self, attempt: Attempt, info: NodeInfo, turn: Turn | None) -> Promise | NodeReason:
        """Whether the pod fits on a node as things are supposed to be."""
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
        """Count the pods that many rules of the pod are about, so that checks need not compare them all."""
        census = self._state.placement.census_for(attempt, COUNTED)
        attempt.census = census
        if census is not None and self._turn() is not None and not census.go_on(COUNTING):
            raise PartIsOver(LeftOver((), True))

    def _turn(self) -> Turn | None:
        return self._state.devices.turn()


def changeable(reasons: Mapping[NodeReason, int], table: NodeTable) -> int:
    """The nodes that refuse a pod for no reason but those which the end of other pods may change."""
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
    """A plan of a pod or of a gang."""

    @property
    def victims(self) -> tuple[Victim, ...]: ...
    @property
    def violations(self) -> int: ...


def disturbance(plan: Disturbing) -> tuple[float, ...]:
    """Sorts the plan first that disturbs least."""
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
