"""Preemption by a gang: find victims whose end makes room for all of its pods at once.

Works like preemption by pods, with a topology domain, or the whole cluster, in place of a node. All less important
pods and groups in the domain are assumed to be gone; if the gang then fits, they are restored one by one, and those
with whom the gang no longer fits are the victims. The gang's placement is kept from check to check: a restored victim
displaces only the pods of the gang that are in its way. Among the domains, the plan that disturbs least is chosen.

A search is made in parts, each a trial that repeats the assumptions reached so far. If the cluster changes between
parts, the search restarts; after several restarts, only the gang's placement is repeated. Left out: whether the gang
fits (`joint_check`), nominations (`nominations`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from msgspec.structs import replace

from dray.api.podclaims import has_claims
from dray.api.reasons.nodes import NoPreemption, PreemptionCode
from dray.api.types.core import Pod
from dray.core.attempt import Attempt, Unfinished
from dray.core.gang_attempt import Domain, GangAttempt, GangRefused, GroupPreemptionPlan, PlacedMember
from dray.core.gang_kinds import minds_others
from dray.core.gang_search import local_pools
from dray.core.joint_check import DECISION, JointCheck, JointChecks, WorkPart
from dray.core.preemption import PartIsOver, Preemption, asks_for_admin_access, disturbance
from dray.core.state import ClusterState
from dray.core.trial import StateTrial
from dray.core.victims import Victim, priority_of, violations
from dray.verdicts.nodes import NodeInfo, required_anti_affinity

# minimum work units in one part; more if repeating the last part's assumptions takes longer
UNITS_AT_ONCE = 16 * DECISION
RESTARTS = 5  # limit for restarts of a search after changes of the cluster


@dataclass(eq=False, slots=True)
class GroupVictimSearch:
    """Progress of a search for the victims of a gang."""

    checks: JointChecks
    restarts: int = 0
    at: int = 0  # index of the current domain
    found: list[Victim] | None = None  # possible victims in the domain, in the order in which they are restored
    violating: Mapping[str, int] = field(default_factory=dict)
    given: set[str] = field(default_factory=set)  # keys of restored victims with whom the gang still fits
    looked_at: int = 0
    placed: dict[str, PlacedMember] = field(default_factory=dict)  # by uid
    check: JointCheck | None = None
    plans: list[GroupPreemptionPlan] = field(default_factory=list)

    def next_domain(self) -> None:
        self.at += 1
        self.found, self.given, self.looked_at, self.check = None, set(), 0, None


class GroupPreemption:
    """Finds victims for gangs."""

    def __init__(self, state: ClusterState, preemption: Preemption, attempt_for: Callable[[Pod], Attempt]) -> None:
        self._state, self._table = state, state.table
        self._preemption, self._victims = preemption, preemption.victims
        self._attempt_for = attempt_for

    def after(self, gang: GangAttempt, refused: GangRefused) -> GangRefused | Unfinished:
        """Return the refusal with a preemption plan, or with the reason why preemption does not help.

        Returns Unfinished if the search needs another part. Call this while nominations of lower priority are lifted.
        """
        code = self._ineligible(gang)
        if code is not None:
            return _without(refused, NoPreemption(code))
        try:
            plan = self._find(gang)
        except PartIsOver as interrupted:
            return Unfinished(interrupted.left_over)
        if plan is None:
            nodes = len(self._table)
            return _without(
                refused, NoPreemption(PreemptionCode.UNAVAILABLE, nodes, {PreemptionCode.GROUP_NO_VICTIMS: nodes})
            )
        kept = _without(refused, NoPreemption(PreemptionCode.GROUP_WAITING))
        to_release = () if plan.victims or plan.leaving else tuple(self._preemption.to_release())
        return replace(kept, plan=plan, to_release=to_release)

    def _ineligible(self, gang: GangAttempt) -> PreemptionCode | None:
        """Return why the gang must not preempt, or None if it may."""
        if gang.leader.pod.spec.preemptionPolicy == "Never":
            return PreemptionCode.NEVER
        claims = (claim for waiting in gang.members for claim in self._attempt_for(waiting.pod).claims.pending)
        return PreemptionCode.ADMIN_ACCESS if any(map(asks_for_admin_access, claims)) else None

    # -- the domains

    def _find(self, gang: GangAttempt) -> GroupPreemptionPlan | None:
        """Search all domains. Returns the plan that disturbs least, or None if no victims help.

        Raises PartIsOver when the part ends.
        """
        search = gang.victims
        if search is None or (gang.is_stale and search.restarts < RESTARTS):
            restarts = search.restarts + 1 if search is not None else 0
            search = gang.victims = GroupVictimSearch(self._checks(gang), restarts)
        elif gang.is_stale:  # the cluster keeps changing: restored victims stay restored
            search.found, search.check, search.looked_at = None, None, 0
            search.restarts += 1
        if not self._is_any_less(gang):
            return None
        while search.at < len(gang.domains):
            domain = gang.domains[search.at]
            plan = self._plan_for(gang, search, domain)
            if plan is not None:
                search.plans.append(plan)
            search.next_domain()
        return min(search.plans, key=disturbance, default=None)

    def _checks(self, gang: GangAttempt) -> JointChecks:
        return JointChecks(self._state, self._attempt_for, gang)

    def _is_any_less(self, gang: GangAttempt) -> bool:
        """Whether there are ending claims or pods of lower priority, so that preemption could free anything."""
        priority = priority_of(gang.leader.pod)
        return bool(self._state.ending) or any(other < priority for other in self._table.priorities)

    # -- one domain

    def _plan_for(self, gang: GangAttempt, search: GroupVictimSearch, domain: Domain) -> GroupPreemptionPlan | None:
        """Return a preemption plan for a domain, or None if victims there do not help or no change is possible.

        Raises PartIsOver when the part ends.
        """
        infos = [*self._table.named(domain.nodes)]
        leaving = self._victims.leaving(infos)
        if search.found is None:
            if (leaving or self._state.ending) and search.check is None:
                search.check = self._first_check(gang, is_hasty=True)
            if search.check is not None:
                if self._suffices(gang, search, domain, leaving):
                    return self._plan(search, domain, [], leaving)
                search.check = None
            self._begin(gang, search, infos)
        while True:
            with self._state.trial() as trial:
                victims = self._give_back(gang, search, domain, leaving, trial)
            if victims is not None:
                break
        if not victims and not leaving and not self._state.ending:
            return None  # no change is possible
        return self._plan(search, domain, victims, leaving) if search.placed else None

    def _plan(
        self, search: GroupVictimSearch, domain: Domain, victims: list[Victim], leaving: list[Pod]
    ) -> GroupPreemptionPlan:
        """Return the plan for a domain with these victims and the placement found by the search."""
        violated = sum(search.violating.get(victim.key, 0) for victim in victims)
        ordered = tuple(sorted(victims, key=lambda victim: victim.importance))
        placed, is_proven = tuple(search.placed.values()), search.checks.is_proven
        return GroupPreemptionPlan(ordered, placed, tuple(leaving), violated, domain.name, is_proven)

    def _begin(self, gang: GangAttempt, search: GroupVictimSearch, infos: list[NodeInfo]) -> None:
        """Find the possible victims in a domain, those whose eviction violates a disruption budget first."""
        found = self._victims.on(infos, priority_of(gang.leader.pod))
        search.violating = violations(found, self._preemption.budgets)
        # stable sort: each part stays sorted by importance
        found.sort(key=lambda victim: victim.key not in search.violating)
        search.found, search.placed, search.check = found, {}, None

    def _first_check(self, gang: GangAttempt, *, is_hasty: bool = False) -> JointCheck:
        """Return a check that places all pods of the gang, trying nominated nodes first."""
        known = [self._state.nominations.get(waiting.key) for waiting in gang.members]
        at = {one.pod.metadata.uid: one.node for one in known if one is not None}
        return JointCheck([*reversed(gang.members)], {}, at=at, is_hasty=is_hasty)

    def _suffices(self, gang: GangAttempt, search: GroupVictimSearch, domain: Domain, leaving: list[Pod]) -> bool:
        """Whether the gang fits as soon as the terminating pods are gone. Raises PartIsOver when the part ends."""
        check = search.check
        assert check is not None
        with self._state.trial() as trial:
            self._preemption.suppose_end(trial, leaving)
            self._restore(check.placed, trial)
            part = self._part(search, len(leaving) + len(check.placed))
            fits = search.checks.fits(check, domain.nodes, trial, part)
        search.placed = check.placed if fits else {}
        return fits

    def _give_back(
        self, gang: GangAttempt, search: GroupVictimSearch, domain: Domain, leaving: list[Pod], trial: StateTrial
    ) -> list[Victim] | None:
        """Restore the victims with whom the gang still fits. Returns the others, or None to continue in another
        trial.

        If the gang does not fit even without any victims, the list is empty and `search.placed` stays empty. Raises
        PartIsOver when the part ends.
        """
        assert search.found is not None
        self._preemption.suppose_end(trial, leaving)
        check = search.check
        staying = search.given | ({check.victim} if check is not None and check.victim is not None else set())
        gone = [pod for victim in search.found if victim.key not in staying for pod in victim.pods]
        for pod in gone:
            trial.take_off(pod)
        self._restore(check.placed if check is not None else search.placed, trial)
        part = self._part(search, len(gone) + len(leaving) + len(search.placed))
        if check is None and not search.placed:
            check = search.check = self._first_check(gang)
        if check is not None:
            fits = self._settle(search, check, domain, trial, part)
            if check.victim is None and not fits and not search.given:
                return []
            if not fits:
                return None
        while search.looked_at < len(search.found):
            self._reconsider(gang, search, domain, trial, part)
        return [victim for victim in search.found if victim.key not in search.given]

    def _settle(
        self, search: GroupVictimSearch, check: JointCheck, domain: Domain, trial: StateTrial, part: WorkPart
    ) -> bool:
        """Finish a check and record the result. Returns whether the gang fits.

        Also returns False if the first check fails after victims were restored, and then forgets that they were.
        """
        fits = search.checks.fits(check, domain.nodes, trial, part)
        search.check = None
        if check.victim is not None:
            search.looked_at += 1
            if fits:
                search.given.add(check.victim)
        elif not fits and search.given:  # the cluster has changed, and restored victims are in the way
            search.given, search.looked_at = set(), 0
            return False
        if fits:
            search.placed = check.placed
        return fits

    def _reconsider(
        self, gang: GangAttempt, search: GroupVictimSearch, domain: Domain, trial: StateTrial, part: WorkPart
    ) -> None:
        """Restore the next victim if the gang still fits with it."""
        assert search.found is not None
        victim = search.found[search.looked_at]
        if victim.key in search.given:
            search.looked_at += 1
            return
        part.spend(len(victim.pods))
        affected = self._affected(gang, search, victim)
        mark = trial.mark()
        for member in affected:
            trial.displace(member.waiting.pod)
        for pod in victim.pods:
            trial.put_back(pod)
        at = {member.waiting.key: member.promise.node for member in affected}
        kept = {uid: member for uid, member in search.placed.items() if uid not in at}
        search.check = JointCheck([member.waiting for member in reversed(affected)], kept, victim.key, at)
        if not self._settle(search, search.check, domain, trial, part):
            trial.rewind(mark)

    def _affected(self, gang: GangAttempt, search: GroupVictimSearch, victim: Victim) -> list[PlacedMember]:
        """Return the placed pods of the gang that may no longer fit when a victim is restored."""
        placed = [*search.placed.values()]
        is_far = any(minds_others(member.waiting.pod) for member in placed) or any(
            map(required_anti_affinity, victim.pods)
        )
        if is_far or self._shares(gang, victim) or (any(map(has_claims, victim.pods)) and self._spans_nodes()):
            return placed
        nodes = {pod.spec.nodeName for pod in victim.pods}
        return [member for member in placed if member.promise.node in nodes]

    def _shares(self, gang: GangAttempt, victim: Victim) -> bool:
        """Whether a victim uses a claim that a pod of the gang also uses."""
        objects = self._state.objects
        theirs = {(pod.metadata.namespace, use.claim) for pod in victim.pods for use in objects.uses(pod)}
        if not theirs:
            return False
        pods = [waiting.pod for waiting in gang.members]
        return any((pod.metadata.namespace, use.claim) in theirs for pod in pods for use in objects.uses(pod))

    def _spans_nodes(self) -> bool:
        """Whether any pool has devices that are not limited to a single node."""
        local = local_pools(self._state)
        return any(pool not in local for pool in self._state.pools)

    def _restore(self, placed: Mapping[str, PlacedMember], trial: StateTrial) -> None:
        """Place the pods again that an earlier part has placed."""
        for member in placed.values():
            self._state.devices.promise_again(member.promise)
            trial.place(member.attempt, member.promise)

    def _part(self, search: GroupVictimSearch, supposed: int) -> WorkPart:
        """Return the work budget of the next part. The budget doubles with each restart beyond RESTARTS.

        `supposed` is the number of pods that the part moves before it begins; the budget is at least that large, and
        unlimited if attempts are made in one part.
        """
        units = max(UNITS_AT_ONCE, supposed) << max(0, search.restarts - RESTARTS)
        return WorkPart(units if self._state.index.defers else None)


def _without(refused: GangRefused, why: NoPreemption) -> GangRefused:
    return replace(refused, why=replace(refused.why, preemption=why))
