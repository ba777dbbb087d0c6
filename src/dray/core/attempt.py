"""One attempt to place one pod: filter nodes by the rules and choose the best remaining node.

Each part of an attempt is synchronous, so the state cannot change during a part. `Attempt` holds the data of the
attempt. The result is a promise, a refusal with a reason for every node, or `Unfinished`. Left out: the rules
(`dray.verdicts`), promised devices (`devices`), wording (`dray.api.reasons.wording`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec.structs import replace

from dray.allocator import Allocated, Budget, LeftOver, Turn
from dray.allocator.budget import TURN
from dray.api.allocations import together
from dray.api.claim_access import PodClaims
from dray.api.extended_resources import IN_MEMORY
from dray.api.reasons.claims import ClaimProblem
from dray.api.reasons.nodes import NodeCode, NodeReason, SchedulingRule, Unschedulable
from dray.api.types.core import ContainerExtendedResourceRequest, Pod
from dray.api.types.resource import ResourceClaim
from dray.core.configuration import DEVICE_PACKING, SchedulerProfile
from dray.core.devices import Devices, has_alternatives
from dray.core.scores import (
    BetterAlternatives,
    DevicePacking,
    FewTaints,
    LeastAllocated,
    PreferredNeighbours,
    PreferredNodes,
    Score,
    Spreading,
    best,
)
from dray.core.victims import Victim
from dray.verdicts.census import PodCensus
from dray.verdicts.demand import Candidate
from dray.verdicts.devices import NOTHING_ASKED, DeviceVerdict, Search
from dray.verdicts.neighbours import COMPARED_AT_ONCE, Neighbours
from dray.verdicts.node_resources import NodeClaims
from dray.verdicts.nodes import NodeInfo, NodeTable, Sample
from dray.verdicts.rules import AskedRules, Judgement, Rules

if TYPE_CHECKING:
    from dray.core.preemption import VictimSearch

COUNTING = TURN // 2  # steps spent on counting other pods in one part of an attempt
PROMISE_STEPS = 10  # steps charged for a failed promise of devices on a node
COMPARED = 100  # minimum number of nodes to score, as in Kubernetes; a profile may raise this number


@dataclass(slots=True)
class Attempt:
    """State of one attempt to place a pod, with the results of the search for devices."""

    candidate: Candidate
    claims: PodClaims
    profile: SchedulerProfile
    problem: ClaimProblem | None = None  # problem that keeps the pod from every node
    seconds: float = 0.0  # time the driver has spent on earlier parts; does not affect decisions
    devices: DeviceVerdict = NOTHING_ASKED
    failed_on: frozenset[str] = frozenset()  # nodes where devices of the pod did not become ready; tried last
    among: int | None = None  # bit set of candidate nodes; None for all nodes
    # nodes that have the devices but lack other resources these require
    lacking: dict[NodeReason, int] = field(default_factory=dict)
    preferred: str = ""  # name of the node to prefer among equally good nodes
    census: PodCensus | None = None  # counts of other pods for the pod's rules, if these pods are many
    is_unfinished: bool = False  # whether the next part must continue the attempt
    is_terse: bool = False  # whether to skip finding the node that came closest, the slowest part of a refusal
    may_preempt: bool = False  # whether to search for victims; not within a larger decision
    search: VictimSearch | None = None  # interrupted search for victims

    @property
    def pod(self) -> Pod:
        return self.candidate.pod

    def continuing(self, before: Attempt | None) -> Attempt:
        """Take over the progress of an earlier attempt if that is unfinished. Returns this attempt."""
        if before is not None and before.is_unfinished:
            self.seconds, self.lacking, self.census = before.seconds, before.lacking, before.census
            self.search = before.search
        return self

    def end(self) -> None:
        """Discard all progress, so that the next attempt starts from the beginning."""
        self.seconds, self.census, self.search, self.is_unfinished = 0.0, None, None, False

    @property
    def alike(self) -> Hashable:
        """Key of refused pods that the same device change would unblock; None if no search for devices was made.

        Pods with equal keys request the same devices on the same nodes, and no node could provide them. If devices
        were available and other rules refused the pod, the key also contains the result of the search.
        """
        return tuple([_search_equivalence_key(search) for search in self.devices.searches]) or None


class Promise(msgspec.Struct, frozen=True):
    """Node promised to a pod, with an allocation for each pending claim."""

    claims: PodClaims
    node: str
    outcome: Allocated | None
    pending: Sequence[ResourceClaim] = ()
    mappings: tuple[ContainerExtendedResourceRequest, ...] = ()  # requests of the extended resource claim by container
    node_claims: NodeClaims = ()  # resources that the claims take from the node besides devices

    @property
    def extended_resource_claim(self) -> ResourceClaim | None:
        """The claim for extended resources that still must be created, or None if no such claim is pending."""
        for claim in self.pending:
            if claim.metadata.name == IN_MEMORY:
                return claim
        return None

    def with_extended_resource_claim(self, made: ResourceClaim) -> Promise:
        """Return a copy of the promise in which the created claim replaces the in-memory extended resource claim."""
        pending = [made if claim.metadata.name == IN_MEMORY else claim for claim in self.pending]
        return replace(self, pending=pending)

    def allocation_of(self, claim: ResourceClaim) -> dict[str, Any] | None:
        """Return the promised allocation of a claim as a tree of plain JSON values, or None if the claim is not
        pending.
        """
        for pending, result in zip(self.pending, self.outcome.results if self.outcome else (), strict=True):
            if pending.metadata.uid == claim.metadata.uid:
                return result
        return None


class PreemptionPlan(msgspec.Struct, frozen=True):
    """Victims whose end makes room for a pod on a node, most important first, and what the pod then gets there.

    Without victims, the pods that must end are already terminating. `violations` counts pods whose eviction violates
    a PodDisruptionBudget.
    """

    node: str
    victims: tuple[Victim, ...]
    promise: Promise
    violations: int = 0

    @property
    def pods(self) -> tuple[Pod, ...]:
        return tuple(pod for victim in self.victims for pod in victim.pods)


class Refused(msgspec.Struct, frozen=True):
    """No node fits the pod. `rules` are the rules whose verdict must change.

    `is_late`: devices were not searched completely.

    With a `plan`, a node fits after preemption. Claims in `to_release` hold devices kept for the pod and are reserved
    only for PodGroups without any pod on a node.
    """

    why: Unschedulable
    rules: frozenset[SchedulingRule]
    is_late: bool = False
    plan: PreemptionPlan | None = None
    to_release: tuple[ResourceClaim, ...] = ()


class Unfinished(msgspec.Struct, frozen=True):
    """The turn ended before the decision. Progress is kept, so the next part continues."""

    left_over: LeftOver


PlacementDecision = Promise | Refused | Unfinished
_Preference = Callable[[NodeInfo], float]  # rates the prioritized alternatives available on a node
RuleObserver = Callable[[Pod, SchedulingRule, NodeReason | None, int], None]
"""Called with each verdict: the rule, the reason for refusing the nodes (None if accepted), and a bit set of nodes."""


class Placement:
    """Finds nodes for pods."""

    def __init__(self, table: NodeTable, neighbours: Neighbours, devices: Devices) -> None:
        self._table = table
        self._neighbours = neighbours
        self.rules = Rules(table, neighbours, devices.rule)
        self._devices = devices
        self.observe: RuleObserver | None = None  # receives the verdict of every rule, unless None
        self.start = 0  # position where the search for the next pod starts, so that pods spread over equal nodes
        self._scores: tuple[Score, ...] = (
            LeastAllocated(),
            PreferredNodes(),
            FewTaints(),
            Spreading(neighbours),
            PreferredNeighbours(neighbours),
        )
        self._weighted: list[tuple[Score, float]] = []  # these scores with the weights of the last attempt's profile
        self._weighted_for: SchedulerProfile | None = None

    def try_on(self, attempt: Attempt, info: NodeInfo, turn: Turn | None) -> Promise | NodeReason | LeftOver:
        """Decide whether a pod fits on a given node, taking its devices as in `decide`.

        Returns a promise, the first reason why the pod does not fit, or the work that must be done first to find out.
        """
        index = self._devices.index
        index.left_over()  # discard work that earlier questions left over
        budget, disabled = Budget(self._devices.budget(attempt).node), attempt.profile.disabled_filters
        among = 1 << info.position
        judgement = self.rules.judge(attempt.candidate, attempt.claims, budget, turn, disabled=disabled, among=among)
        attempt.devices = judgement.devices
        left_over = index.left_over()
        if left_over.is_anything:
            return left_over
        if not judgement.nodes:
            return next(iter(judgement.refused))
        answer = self._promise(attempt, info)
        left_over = index.left_over()
        return left_over if left_over.is_anything else answer

    def judge(self, attempt: Attempt) -> Judgement:
        """Apply the rules to the candidate nodes. Returns the accepted nodes and the reasons for the refused nodes."""
        return self._judge(attempt, self._devices.turn())

    def _judge(self, attempt: Attempt, turn: Turn | None) -> Judgement:
        budget, disabled = self._devices.budget(attempt), attempt.profile.disabled_filters
        asked: AskedRules | None = None if self.observe is None else []
        judgement = self.rules.judge(
            attempt.candidate, attempt.claims, budget, turn, disabled=disabled, among=attempt.among, asked=asked
        )
        for rule, nodes in asked or ():
            self._show(attempt.pod, rule, nodes, judgement)
        return judgement

    def _show(self, pod: Pod, rule: SchedulingRule, nodes: int, judgement: Judgement) -> None:
        """Report to the observer which nodes (of the bit set `nodes`) a rule refused and accepted.

        Nothing is reported for acceptance if the rule refused all of them.
        """
        assert self.observe is not None
        accepted = nodes
        for reason, refused in judgement.refused.items():
            if reason.rule == rule and refused & nodes:
                accepted &= ~refused
                self.observe(pod, rule, reason, refused & nodes)
        if accepted:
            self.observe(pod, rule, None, accepted)

    def decide(self, attempt: Attempt) -> PlacementDecision:
        """Find a node and devices for a pod. Returns a promise, a refusal with reasons, or Unfinished."""
        start = self.start
        decision = self._decide_counted(attempt)
        attempt.is_unfinished = isinstance(decision, Unfinished)
        if attempt.is_unfinished:
            self.start = start  # the number of parts must not affect where the search for the next pod starts
        return decision

    def _decide_counted(self, attempt: Attempt) -> PlacementDecision:
        """Decide after counting the pods that the pod's rules refer to.

        Returns Unfinished while counting is incomplete.
        """
        attempt.census = self.census_for(attempt) if self._devices.index.defers else None
        if attempt.census is not None and not attempt.census.go_on(COUNTING):
            return Unfinished(LeftOver((), True))
        if attempt.census is None:  # as most: what a context would cost is not spent
            return self._decide(attempt)
        with self.counted(attempt.census):
            return self._decide(attempt)

    def census_for(self, attempt: Attempt, least: int = COMPARED_AT_ONCE) -> PodCensus | None:
        """Return the census for a pod whose rules need more than `least` comparisons with other pods, or else None.

        An existing census of the attempt is continued if the pod has not changed.
        """
        census = attempt.census
        if census is not None and census.is_about(attempt.pod):
            return census
        if not self._neighbours.is_long(attempt.candidate, least):
            return None
        return PodCensus(self._table, self._neighbours.question(attempt.candidate))

    @contextmanager
    def counted(self, census: PodCensus | None) -> Iterator[None]:
        """Context manager: answer questions about other pods from a census, if given.

        The census is first brought up to date.
        """
        while census is not None and not census.go_on(COUNTING):
            pass
        self._neighbours.census = census
        try:
            yield
        finally:
            self._neighbours.census = None

    def _decide(self, attempt: Attempt) -> PlacementDecision:
        """Judge the nodes, then try to promise devices on the best node until this succeeds or no node is left.

        Returns a Promise, Refused, or Unfinished if work is left over or the turn is over.
        """
        turn = self._devices.turn()
        self._devices.index.left_over()  # discard work that earlier questions left over
        judgement = self._judge(attempt, turn)
        found = attempt.devices = judgement.devices
        left_over = self._devices.index.left_over()
        if left_over.is_anything:
            return Unfinished(left_over)
        if found.wrong is not None:
            why = Unschedulable(len(self._table), wrong=found.wrong)
            return Refused(why, frozenset({SchedulingRule.DYNAMIC_RESOURCES}))
        for reason, nodes in attempt.lacking.items():
            judgement.refuse(reason, nodes & judgement.nodes)
        while judgement.nodes:
            info = self._choose(attempt, self._untried(attempt, judgement.nodes))
            answer = self._promise(attempt, info)
            if isinstance(answer, Promise):
                return answer
            left_over = self._devices.index.left_over()
            if left_over.is_anything:
                return Unfinished(left_over)
            judgement.refuse(answer, 1 << info.position)
            if self.observe is not None:
                self.observe(attempt.pod, answer.rule, answer, 1 << info.position)
            if answer.code in (NodeCode.DEVICES_INSUFFICIENT, NodeCode.LACKS_FEATURE):
                attempt.lacking[answer] = attempt.lacking.get(answer, 0) | 1 << info.position
                if turn is not None:
                    turn.spend(PROMISE_STEPS)
                    if turn.is_over:
                        return Unfinished(LeftOver((), True))
        return self._refused(attempt, judgement)

    def _promise(self, attempt: Attempt, info: NodeInfo) -> Promise | NodeReason:
        """Promise a pod its devices on a node. Returns the promise, or the reason why the node cannot provide them."""
        answer = self._devices.promise(attempt, info)
        if isinstance(answer, NodeReason):
            return answer
        taken = self._devices.from_node(attempt, info, answer)
        if isinstance(taken, NodeReason):
            return taken
        pending = attempt.devices.pending_at(info.position)
        return Promise(attempt.claims, info.name, answer, pending, self.mappings(attempt, info), taken)

    def mappings(self, attempt: Attempt, info: NodeInfo) -> tuple[ContainerExtendedResourceRequest, ...]:
        """Return which requests of the extended resource claim serve which container on a node.

        The result is () if device plugins of the node provide all of the pod's extended resources, or if the pod has
        none.
        """
        if not attempt.candidate.extended:
            return ()
        resources = frozenset(name for name in attempt.candidate.extended if not info.allocatable.get(name))
        return attempt.candidate.needs[resources].mappings if resources else ()

    def _untried(self, attempt: Attempt, nodes: int) -> int:
        """Return the nodes except those where devices of the pod did not become ready, or all nodes if no others
        exist.

        `nodes` and the result are bit sets.
        """
        if not attempt.failed_on:
            return nodes
        failed = filter(None, map(self._table.get, attempt.failed_on))
        return nodes & ~sum(1 << info.position for info in failed if info.node is not None) or nodes

    def _refused(self, attempt: Attempt, judgement: Judgement) -> Refused:
        """Return the refusal for a pod that fits on no node, with the reasons of all nodes."""
        found = attempt.devices
        late = next(self._table.named(found.undecided), None)
        why = Unschedulable(
            len(self._table),
            judgement.refused,
            nearest=None if attempt.is_terse else self._devices.rule.nearest(found),
            late=late.name if late is not None else "",
            deallocates=self._devices.expendable(attempt) is not None,
            deletes=attempt.claims.left_over is not None,
        )
        is_late = any(reason.code is NodeCode.DEVICES_TIMED_OUT for reason in judgement.refused)
        room = {SchedulingRule.NODE_RESOURCES_FIT} if attempt.lacking else set()  # the end of another pod may help
        return Refused(why, judgement.rules | room, is_late)

    def score_rules(self, attempt: Attempt) -> list[tuple[Score, float]]:
        """Return the scores that apply to the pod of an attempt, each with its weight, which can be 0."""
        return self._score_rules(attempt, self._preference(attempt))

    def _score_rules(self, attempt: Attempt, preference: _Preference | None) -> list[tuple[Score, float]]:
        """Return the scores with their weights. `preference` rates the alternatives of the pod, if there are any."""
        profile, weights = attempt.profile, attempt.profile.weights
        if profile is not self._weighted_for:
            self._weighted = [(rule, weights.get(rule.name, 0)) for rule in self._scores]
            self._weighted_for = profile
        rules = [*self._weighted]
        if weight := weights.get(DEVICE_PACKING, 0):
            rules.append((DevicePacking(partial(self._packing_cost, attempt)), weight))
        if preference is not None and weights.get(BetterAlternatives.name, 0):
            rules.append((BetterAlternatives(preference), weights[BetterAlternatives.name]))
        return rules

    def _choose(self, attempt: Attempt, nodes: int) -> NodeInfo:
        """Return the best of the nodes (a bit set that is not empty) by weighted scores.

        Compares only a sample if there are many nodes.
        """
        preference = self._preference(attempt)
        rules = self._score_rules(attempt, preference)
        if preference is not None and attempt.profile.weights.get(BetterAlternatives.name, 0):
            compared = self._preferred(attempt, nodes, preference)
        else:
            compared = self._sample(nodes, self._most(attempt))
        return compared[0] if len(compared) == 1 else best(attempt.candidate, compared, rules, attempt.preferred)

    def _packing_cost(self, attempt: Attempt, info: NodeInfo) -> float | None:
        """Return the cost of the devices that the pod would start to use on a node.

        Returns None if the cost is unknown or no devices are needed.
        """
        search, index = attempt.devices.search_at(info.position), self._devices.index
        if search is None:
            return None
        outcome = index.allocate(info.name, search.pending, search.budget.node, self._devices.turn())
        index.left_over()  # a score is not worth more work
        return index.cost_of(info.name, together(outcome.taken).touched) if isinstance(outcome, Allocated) else None

    def _preference(self, attempt: Attempt) -> _Preference | None:
        """Return a function that rates the prioritized alternatives available on a node; None without alternatives."""
        found = attempt.devices
        if not has_alternatives(attempt.claims):
            return None

        def preference(info: NodeInfo) -> float:
            search = found.search_at(info.position)
            return search.fits.score(info.name) if search is not None else 0.0

        return preference

    def _preferred(self, attempt: Attempt, nodes: int, preference: _Preference) -> Sample:
        """Return up to 100 of the nodes with the best alternatives.

        The nodes are ranked among all nodes, or among the percentage of nodes that the profile sets.
        """
        every = nodes.bit_count()
        looked_at = self._sample(nodes, self._most(attempt) if attempt.profile.percentage_to_score else every)
        if len(looked_at) <= COMPARED:
            return looked_at
        ranked = sorted(zip(looked_at.positions, looked_at.infos, strict=True), key=lambda one: -preference(one[1]))
        return Sample(self._table, [position for position, _ in ranked[:COMPARED]])

    def _most(self, attempt: Attempt) -> int:
        """Return the number of nodes to compare: the profile's percentage of all nodes, but at least COMPARED."""
        return max(COMPARED, len(self._table) * attempt.profile.percentage_to_score // 100)

    def _sample(self, nodes: int, most: int) -> Sample:
        """Return up to `most` of the nodes, starting where the search for the last pod stopped."""
        if nodes.bit_count() <= COMPARED:
            return self._table.sample(nodes, 0, COMPARED)
        chosen = self._table.sample(nodes, self.start, most)
        self.start = chosen.positions[min(len(chosen), COMPARED) - 1] + 1
        return chosen


def _search_equivalence_key(search: Search) -> Hashable:
    """Return a key of searches that the same device change would affect."""
    fits, asked = search.fits, search.asked
    is_plain = not (fits.nodes | fits.failing | fits.undecided) & asked
    return asked, fits.question if is_plain else fits
