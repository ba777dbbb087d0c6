"""Counts where devices were lost and which requests stand in each other's way.

Runs only when somebody asks why, after the search has found nothing, and never takes long: a smallest conflict is looked
for within a fixed number of steps and left out where that is not enough. Left out: wording (`reasons`).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from dray.allocator.content import Value
from dray.allocator.feasibility import Demand, Expired
from dray.allocator.foresight import Foresight, beginning
from dray.allocator.layout import PoolState, View
from dray.allocator.plan import Alternative
from dray.allocator.problem import Choice, Problem
from dray.allocator.reasons import (
    AlternativeReasons,
    Conflict,
    ConstraintReasons,
    PoolReasons,
    Reasons,
    RequestReasons,
    Step,
)

PATIENCE = 5000  # questions to the oracle before the search for a smallest conflict ends


def diagnose(problem: Problem, taken: int, view: View, claims: Sequence[str]) -> Reasons:
    """Why the claims of these names cannot be served on the node of the view."""
    return _Diagnosis(problem, taken, view, claims).reasons()


class _Diagnosis:
    def __init__(self, problem: Problem, taken: int, view: View, claims: Sequence[str]) -> None:
        self.problem = problem
        self.taken = taken
        self.view = view
        self.claims = claims
        self.asked = 0
        self.foresight = Foresight(problem, taken, self._impatient)

    def _impatient(self) -> bool:
        self.asked += 1
        return self.asked > PATIENCE

    def reasons(self) -> Reasons:
        requests = tuple(self._request(number) for number in range(len(self.problem.items)))
        pools = zip(self.view.pools, self.problem.layout.pools, strict=True)
        return Reasons(
            node=self.view.node,
            requests=requests,
            constraints=tuple(
                found for number in range(len(self.problem.rules)) if (found := self._constraint(number)) is not None
            ),
            conflict=self._conflict(),
            pools=tuple(
                PoolReasons(str(name), shape.state.value)
                for name, shape in pools
                if shape.state is not PoolState.USABLE
            ),
        )

    def _request(self, number: int) -> RequestReasons:
        request = self.problem.plan.requests[number]
        choices = self.problem.items[number].choices
        alternatives = tuple(
            AlternativeReasons(
                name=alternative.name,
                needed=choice.wanted,
                every=choice.every,
                steps=tuple(self._steps(alternative, choice)),
            )
            for alternative, choice in zip(request.alternatives, choices, strict=True)
        )
        return RequestReasons(self.claims[request.claim], request.name, alternatives)

    def _steps(self, alternative: Alternative, choice: Choice) -> list[Step]:
        layout = self.problem.layout
        steps = [Step("published", layout.visible.bit_count())]
        of_class = alternative.selectors[: alternative.of_class]
        steps.append(Step(f"match class {alternative.class_name}", layout.match(of_class).devices.bit_count()))
        for number in range(alternative.of_class, len(alternative.selectors)):
            passed = layout.match(alternative.selectors[: number + 1]).devices
            steps.append(Step(f"match selector #{number - alternative.of_class}", passed.bit_count()))
        steps.append(Step("tolerated", choice.devices.bit_count()))
        free = self._free(choice)
        steps.append(Step("free", free.bit_count()))
        for number in choice.constraints:
            step = self._agreement(number, free)
            if step not in steps:
                steps.append(step)
        return steps

    def _agreement(self, number: int, free: int) -> Step:
        rule = self.problem.rules[number]
        attribute = self.problem.plan.constraints[number].attribute
        if rule.distinct:
            return Step(f"differ in {attribute}", sum(1 for value in rule.values if value & free))
        best = max(((value & free).bit_count() for value in rule.values), default=0)
        return Step(f"share a value of {attribute}", best)

    def _free(self, choice: Choice) -> int:
        return choice.devices if choice.admin else choice.devices & ~self.taken

    def _constraint(self, number: int) -> ConstraintReasons | None:
        """A constraint over several devices that no value can meet, whoever gets them."""
        plan = self.problem.plan
        bound = [
            (request, item)
            for request, item in zip(plan.requests, self.problem.items, strict=True)
            if all(number in choice.constraints for choice in item.choices)
        ]
        needed = sum(min(choice.wanted for choice in item.choices) for _, item in bound)
        free = 0
        for _, item in bound:
            for choice in item.choices:
                free |= self._free(choice)
        constraint = plan.constraints[number]
        values = self.problem.layout.values(constraint.attribute)
        offered = {value: (bits & free).bit_count() for value, bits in values.items()}
        best = max(offered, key=lambda value: offered[value], default=None)
        most = (
            sum(1 for count in offered.values() if count)
            if constraint.distinct
            else offered.get(best, 0)
            if best
            else 0
        )
        if not bound or most >= needed:
            return None
        return ConstraintReasons(
            claim=self.claims[constraint.claim],
            attribute=constraint.attribute,
            distinct=constraint.distinct,
            requests=tuple(request.name for request, _ in bound),
            needed=needed,
            best_value=_text(best) if best else "",
            best=most,
        )

    def _conflict(self) -> Conflict | None:
        demands = []
        for number in range(len(self.problem.items)):
            demand = self.foresight.demand(number, beginning(self.problem))
            if demand is None:
                return self._describe((number,))
            demands.append(demand)
        try:
            found = self._smallest(demands)
        except Expired:
            return None
        return None if found is None else self._describe(tuple(demand.item for demand in found))

    def _smallest(self, demands: list[Demand]) -> list[Demand] | None:
        for size in (1, 2):
            for few in combinations(demands, size):
                if not self._servable(list(few)):
                    return list(few)
        if self._servable(demands):
            return None
        left = demands
        for demand in demands:
            fewer = [other for other in left if other is not demand]
            if not self._servable(fewer):
                left = fewer
        return left

    def _servable(self, demands: list[Demand]) -> bool:
        return self.foresight.serve(demands, beginning(self.problem)) is not None

    def _describe(self, numbers: tuple[int, ...]) -> Conflict:
        needed = devices = 0
        for number in numbers:
            choices = self.problem.items[number].choices
            needed += min(choice.wanted for choice in choices)
            for choice in choices:
                devices |= self._free(choice)
        requests = [self.problem.plan.requests[number] for number in numbers]
        names = tuple((self.claims[request.claim], request.name) for request in requests)
        return Conflict(names, needed, devices.bit_count())


def _text(value: Value) -> str:
    _, content = value
    return str(content).lower() if isinstance(content, bool) else str(content)
