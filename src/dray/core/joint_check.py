"""Whether a gang fits while some other pods are supposed to be gone.

A check is made within a trial. It begins with pods of the gang that have places already and tries only the others, pod after
pod; if that fails, an exact search follows (`gang_search`). A check may be interrupted, and goes on in another trial in
which the same is supposed. Left out: which pods are supposed to be gone (`group_preemption`).
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

DECISION = 8  # units of work; one is to suppose that a pod has left, or has come back
SEARCH_STEPS = 20_000  # of all exact searches for the victims of one gang


class WorkPart:
    """The units of work of one part of a search; without a number, there is only one part."""

    def __init__(self, units: int | None) -> None:
        self._left = units

    def spend(self, units: int) -> None:
        """Raise PartIsOver where so much is not left."""
        if self._left is None:
            return
        self._left -= units
        if self._left < 0:
            raise PartIsOver(LeftOver((), True))


@dataclass(eq=False, slots=True)
class JointCheck:
    """One check, as far as it came. `victim` is the key of the victim that is given back, None for the first check."""

    todo: list[Waiting]  # the next one last
    placed: dict[str, PlacedMember]  # by uid of the pod
    victim: str | None = None
    at: Mapping[str, str] = field(default_factory=dict)  # by uid, the node to try first
    is_hasty: bool = False  # no exact search
    attempt: Attempt | None = None  # of the next pod, if it was interrupted
    search: GangSearch | None = None
    steps: GangSearchSteps | None = None


class JointChecks:
    """Makes the checks of one search for victims. `is_proven`: no gang was taken not to fit without proof."""

    def __init__(self, state: ClusterState, attempt_for: Callable[[Pod], Attempt], gang: GangAttempt) -> None:
        self._state, self._attempt_for, self._gang = state, attempt_for, gang
        self._left = SEARCH_STEPS
        self.is_proven = True

    def fits(self, check: JointCheck, nodes: int, trial: StateTrial, part: WorkPart) -> bool:
        """Go on with a check: whether enough pods of the gang fit. Raises PartIsOver in the middle of it.

        If they fit, they are placed in the trial.
        """
        if check.steps is None and self._place_rest(check, nodes, trial, part):
            return True
        if check.is_hasty:
            return False
        found = self._search(check, nodes, part)
        return found is not None and self._place_found(check, found, trial)

    # -- pod after pod

    def _place_rest(self, check: JointCheck, nodes: int, trial: StateTrial, part: WorkPart) -> bool:
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
        """A place for a pod, on the node to try first if that is possible."""
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

    # -- every way

    def _search(self, check: JointCheck, nodes: int, part: WorkPart) -> Found | None:
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
        """Place what the exact search has found, and then the pods beyond the minimum where they fit."""
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
    """Pods of a gang with what they were promised, by uid."""
    found = ((attempt.pod.metadata.uid, attempt, promise) for attempt, promise in promised)
    return {uid: PlacedMember(waiting_of[uid], attempt, promise) for uid, attempt, promise in found}
