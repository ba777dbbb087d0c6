"""A plan on a layout: which devices may serve which request. All that does not depend on what is taken.

Reading a plan against a layout runs the selectors and the checks that Kubernetes makes before it searches; the first
thing wrong ends it. The rest is a `Problem` of bit sets, kept for as long as plan and layout live. Left out: which
devices are free, and the search itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import NamedTuple

from dray.allocator.bits import lowest, position
from dray.allocator.content import SelectorError
from dray.allocator.identity import RESULTS_LIMIT, Features
from dray.allocator.layout import Layout, PoolState
from dray.allocator.plan import Alternative, Constraint, Plan, Request
from dray.allocator.trouble import Trouble, selector_trouble


class Choice(NamedTuple):
    """An alternative as bit sets.

    `matching` pass the selectors, `devices` may in addition be used, `errors` make a selector fail. `constraints` are
    the numbers of those that cover the alternative. With `every`, all matching devices are asked for.
    """

    wanted: int
    matching: int
    devices: int
    errors: int
    admin: bool
    every: bool
    constraints: tuple[int, ...]


class Item(NamedTuple):
    """A request as bit sets."""

    claim: int
    choices: tuple[Choice, ...]


class Rule(NamedTuple):
    """A constraint as bit sets: the devices that have the attribute, split by its value."""

    distinct: bool
    holders: int
    values: tuple[int, ...]

    def peers(self, bit: int) -> int:
        """The devices with the same value as a device that has one."""
        return next(value for value in self.values if value & bit)


class Problem:
    """What has to be decided, with everything known beforehand. Its parts are public to the search."""

    def __init__(self, plan: Plan, layout: Layout, items: tuple[Item, ...], rules: tuple[Rule, ...]) -> None:
        self.plan = plan
        self.layout = layout
        self.items = items
        self.rules = rules
        self.erring = any(choice.errors for item in items for choice in item.choices)
        self.refusing = any(
            choice.every and choice.constraints for item in items for choice in item.choices
        )  # asking for all under a constraint is an error where the constraint forbids it
        self.limited = frozenset(claim for claim, most in self._most().items() if most > RESULTS_LIMIT)
        self.admin = any(choice.admin for item in items for choice in item.choices)

    @property
    def alarming(self) -> bool:
        """Whether the search can end with an error."""
        return self.erring or self.refusing

    def _most(self) -> dict[int, int]:
        """The most that each claim can ask for; alternatives that are too large by themselves are never taken."""
        most: dict[int, int] = {}
        for item in self.items:
            wanted = [choice.wanted for choice in item.choices if choice.wanted <= RESULTS_LIMIT]
            most[item.claim] = most.get(item.claim, 0) + max(wanted, default=0)
        return most

    @cached_property
    def simple(self) -> Choice | None:
        """The only choice there is, where nothing but free devices can matter."""
        if len(self.items) != 1 or len(self.items[0].choices) != 1:
            return None
        choice = self.items[0].choices[0]
        return None if choice.constraints or choice.errors or choice.every or not choice.wanted else choice

    @cached_property
    def relevant(self) -> int:
        """The devices whose being taken or not can change the answer."""
        found = 0
        for item in self.items:
            for choice in item.choices:
                found |= choice.matching | choice.errors
        return found


def pose(plan: Plan, layout: Layout, features: Features, deadline: float | None = None) -> Problem | Trouble:
    """Check the plan against the layout in the reference's order; answers the problem, or the first thing wrong.

    Raises `Interrupted` where selectors run past the deadline.
    """
    reader = _Poser(plan, layout, features, deadline)
    items: list[Item] = []
    for claim in range(len(plan.claims)):
        own: list[Item] = []
        for request in plan.requests:
            if request.claim == claim:
                item = reader.item(request)
                if isinstance(item, Trouble):
                    return item
                own.append(item)
        trouble = _too_many(claim, own) or next(
            (rule.trouble for rule in plan.constraints if rule.claim == claim and rule.trouble), None
        )
        if trouble is not None:
            return trouble
        items += own
    return Problem(plan, layout, tuple(items), tuple(_rule(constraint, layout) for constraint in plan.constraints))


def _too_many(claim: int, items: list[Item]) -> Trouble | None:
    least = sum(min(choice.wanted for choice in item.choices) for item in items)
    if least <= RESULTS_LIMIT:
        return None
    counted = any(choice.every for item in items for choice in item.choices)  # how many there are depends on the node
    text = f": number of requested devices {least} exceeds the claim limit of {RESULTS_LIMIT}"
    return Trouble(claim, text, node_only=counted)


def _rule(constraint: Constraint, layout: Layout) -> Rule:
    values = tuple(layout.values(constraint.attribute).values())
    return Rule(constraint.distinct, sum(values), values)


class _Poser:
    def __init__(self, plan: Plan, layout: Layout, features: Features, deadline: float | None) -> None:
        self.plan = plan
        self.layout = layout
        self.features = features
        self.deadline = deadline

    def item(self, request: Request) -> Item | Trouble:
        if request.trouble is not None:
            return request.trouble
        choices = []
        for alternative in request.alternatives:
            choice = self._choice(request, alternative)
            if isinstance(choice, Trouble):
                return choice
            choices.append(choice)
        return Item(request.claim, tuple(choices))

    def _choice(self, request: Request, alternative: Alternative) -> Choice | Trouble:
        if alternative.trouble is not None:
            return alternative.trouble
        layout = self.layout
        match = layout.match(alternative.selectors, self.deadline)
        matching, errors = match.devices & ~layout.binding, match.errors & ~layout.binding
        every = alternative.mode == "All"
        if every:
            trouble = self._incomplete(request, alternative, match.causes, errors)
            if trouble is not None:
                return trouble
        usable = matching & ~layout.counting
        if self.features.device_taints:
            usable &= layout.tolerated(alternative.tolerations)
        covered = (number for number, rule in enumerate(self.plan.constraints) if rule.covers(request, alternative))
        return Choice(
            wanted=matching.bit_count() if every else alternative.wanted,
            matching=matching,
            devices=usable,
            errors=0 if every else errors,
            admin=alternative.admin,
            every=every,
            constraints=tuple(covered),
        )

    def _incomplete(
        self, request: Request, alternative: Alternative, causes: Mapping[int, SelectorError], errors: int
    ) -> Trouble | None:
        """Why "all devices" cannot be counted: a pool in doubt, or a selector that fails, whichever comes first."""
        broken = position(lowest(errors)) if errors else self.layout.size
        about = f", request {alternative.label}: asks for all devices, but resource pool "
        for number, (pool, end) in enumerate(zip(self.layout.pools, self.layout.ends, strict=True)):
            if pool.state is not PoolState.USABLE:
                rest = f" is currently {pool.state.value}"
                return Trouble(request.claim, about, pool=number, rest=rest, node_only=True)
            if broken < end:
                break
        else:
            return None
        cause = causes[broken]
        return selector_trouble(request.claim, alternative.class_name, alternative.of_class, broken, cause)


def cause_of(problem: Problem, item: int, choice: int, bit: int) -> Trouble:
    """The error that visiting a device for an alternative brings up."""
    request = problem.plan.requests[item]
    alternative = request.alternatives[choice]
    at = position(bit)
    cause = problem.layout.match(alternative.selectors).causes[at]
    return selector_trouble(request.claim, alternative.class_name, alternative.of_class, at, cause)


def refusal_of(problem: Problem, item: int, choice: int, bit: int) -> Trouble:
    """The error that a device which must be taken, but violates a constraint, brings up."""
    request = problem.plan.requests[item]
    about = f", request {request.alternatives[choice].label}: cannot add device "
    rest = " because a claim constraint would not be satisfied"
    return Trouble(request.claim, about, device=position(bit), rest=rest, node_only=True)
