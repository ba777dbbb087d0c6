"""Checks whether a gang fits if certain other pods were gone.

A check runs within a trial. It starts from the pods of the gang that already have places and tries to place only the
other pods, one by one; if that fails, an exact search follows (`gang_search`). An interrupted check continues in
another trial with the same assumptions. Left out: which pods are assumed to be gone (`group_preemption`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from dray.allocator import LeftOver
from dray.api.types.core import Pod
from dray.core.attempt import Attempt, Promise, Unfinished
from dray.core.gang_attempt import GangAttempt, PlacedMember
from dray.core.gang_checks import place_all
from dray.core.gang_search import Found, GangOutOfSteps, GangSearch, GangSearchSteps
from dray.core.preemption import PartIsOver
from dray.core.queue import Waiting
from dray.core.state import ClusterState
from dray.core.trial import StateTrial

DECISION = 8  # units of work per decision; removing or restoring one pod in a trial costs one unit
SEARCH_STEPS = 20_000  # limit of steps for all exact searches for the victims of one gang


class WorkPart:
    """Budget of work units for one part of a search. With None, the budget is unlimited."""

    def __init__(self, units: int | None) -> None:
        self._left = units

    def spend(self, units: int) -> None:
        """Spend units of work. Raises PartIsOver if the budget is exceeded."""
        if self._left is None:
            return
        self._left -= units
        if self._left < 0:
            raise PartIsOver(LeftOver((), True))


@dataclass(eq=False, slots=True)
class JointCheck:
    """State of one check. `victim` is the key of the victim being spared, or None for the first check."""

    todo: list[Waiting]  # pods still to place; the next pod is last
    placed: dict[str, PlacedMember]  # by uid of the pod
    victim: str | None = None
    at: Mapping[str, str] = field(default_factory=dict)  # node to try first, by uid of the pod
    is_hasty: bool = False  # whether to skip the exact search
    attempt: Attempt | None = None  # interrupted attempt of the next pod
    search: GangSearch | None = None
    steps: GangSearchSteps | None = None


class JointChecks:
    """Runs the checks of one search for victims.

    `is_proven` is False once a check has failed without proof that the gang cannot fit.
    """

    def __init__(self, state: ClusterState, attempt_for: Callable[[Pod], Attempt], gang: GangAttempt) -> None:
        self._state, self._attempt_for, self._gang = state, attempt_for, gang
        self._left = SEARCH_STEPS
        self.is_proven = True

    def fits(self, check: JointCheck, nodes: int, trial: StateTrial, part: WorkPart) -> bool:
        """Continue a check.

        Returns whether enough pods of the gang fit on the nodes of the bit set; if they do, the pods are placed in
        the trial. Raises PartIsOver if the budget of this part is used up before the check ends.
        """
        if check.steps is None and self._place_rest(check, nodes, trial, part):
            return True
        if check.is_hasty:
            return False
        found = self._search(check, nodes, part)
        return found is not None and self._place_found(check, found, trial)

    # -- place pods one by one

    def _place_rest(self, check: JointCheck, nodes: int, trial: StateTrial, part: WorkPart) -> bool:
        """Place the remaining pods one by one. Raises PartIsOver if the budget of this part is used up.

        Returns whether enough pods of the gang are placed; if not, undoes all placements.
        """
        while check.todo and len(check.placed) + len(check.todo) >= self._gang.needed:
            part.spend(DECISION)
            waiting = check.todo[-1]
            attempt, answer = self._decide(check, waiting, nodes)
            check.todo.pop()
            check.attempt = None
            if isinstance(answer, Promise):
                trial.place(attempt, answer)
                check.placed[waiting.key] = PlacedMember(waiting, attempt, answer)
        if len(check.placed) >= self._gang.needed:
            return True
        for member in check.placed.values():
            trial.displace(member.waiting.pod)
        check.placed.clear()
        check.todo.clear()
        return False

    def _decide(self, check: JointCheck, waiting: Waiting, nodes: int) -> tuple[Attempt, Promise | None]:
        """Find a place for a pod, preferring the node in `check.at`.

        Returns the attempt, and the promise or None if the pod does not fit. Raises PartIsOver if the decision takes
        too long.
        """
        attempt = self._attempt_for(waiting.pod).continuing(check.attempt)
        check.attempt = attempt
        attempt.failed_on = waiting.failed_on
        first = self._state.table.get(check.at.get(waiting.key, ""))
        if attempt.problem is not None:
            return attempt, None
        for among in ((1 << first.position) & nodes if first is not None else 0, nodes):
            if among:
                attempt.among = among
                answer = self._state.placement.decide(attempt)
                if isinstance(answer, Unfinished):
                    raise PartIsOver(answer.left_over)
                if isinstance(answer, Promise):
                    return attempt, answer
        return attempt, None

    # -- exact search

    def _search(self, check: JointCheck, nodes: int, part: WorkPart) -> Found | None:
        """Continue the exact search. Returns the placement found, or None if there is none or the steps are used up.

        Raises PartIsOver if the budget of this part is used up; the next call continues.
        """
        gang = self._gang
        if check.steps is None:
            if self._left <= 0:
                self.is_proven = False
                return None
            pods = [waiting.pod for waiting in gang.members]
            check.search = GangSearch(self._state, self._attempt_for, pods, gang.needed, nodes, limit=self._left)
            check.steps = check.search.run()
            self._left -= len(pods) + len(check.search.infos) // DECISION
        assert check.search is not None
        try:
            while True:
                part.spend(DECISION)
                next(check.steps)
        except StopIteration as done:
            found: Found | None = done.value
            self.is_proven &= found is not None or check.search.is_proof
        except GangOutOfSteps:
            found, self.is_proven = None, False
        self._left -= check.search.steps
        return found

    def _place_found(self, check: JointCheck, found: Found, trial: StateTrial) -> bool:
        """Place the pods as found by the exact search. Returns whether this succeeded; if not, nothing is placed."""
        waiting_of = {waiting.key: waiting for waiting in self._gang.members}
        mark = trial.mark()
        promised = place_all(self._state, self._attempt_for, found.places, found.grants, trial)
        if promised is None:
            trial.rewind(mark)
            self.is_proven = False
            return False
        check.placed = placed_members(promised, waiting_of)
        return True


def placed_members(
    promised: Iterable[tuple[Attempt, Promise]], waiting_of: Mapping[str, Waiting]
) -> dict[str, PlacedMember]:
    """Return the promised pods of a gang as `PlacedMember` objects, by uid of the pod."""
    found = ((attempt.pod.metadata.uid, attempt, promise) for attempt, promise in promised)
    return {uid: PlacedMember(waiting_of[uid], attempt, promise) for uid, attempt, promise in found}
