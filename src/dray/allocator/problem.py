"""A plan applied to a layout: which devices can serve which request, independent of which devices are in use.

Applying a plan runs the selectors and the checks that Kubernetes makes before its search; the first error ends it.
The result is an `AllocationProblem` of bit sets, which is cached as long as plan and layout exist. Left out: which
devices are free, and the search itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple

from dray.allocator.bits import lowest, position, positions, union
from dray.allocator.budget import Turn, left_of
from dray.allocator.content import SelectorMatch
from dray.allocator.deriving import TypedValue
from dray.allocator.faults import Fault, selector_fault
from dray.allocator.identity import RESULTS_LIMIT, Features
from dray.allocator.layout import Layout
from dray.allocator.packing import Takes
from dray.allocator.plan import AllocationPlan, Alternative, PlannedRequest
from dray.api.reasons.devices import InputCode, InputProblem, PoolState

_POOL_CODES = {PoolState.INCOMPLETE: InputCode.POOL_INCOMPLETE, PoolState.INVALID: InputCode.POOL_INVALID}


class AlternativeBits(NamedTuple):
    """An alternative as bit sets.

    `matching` devices match the selectors; `usable` devices are also tolerated and supported; `devices` also have the requested
    capacity. `errors` are devices on which a selector or a request for capacity fails. `constraints` are the numbers of the
    constraints on the alternative, `rules` the constraints in its view, and `firm` the numbers of those that are not loose. With
    `every`, the request is for all matching devices. `takes` is what the alternative consumes.
    """

    wanted: int
    matching: int
    usable: int
    devices: int
    errors: int
    admin: bool
    every: bool
    constraints: tuple[int, ...]
    takes: Takes
    rules: tuple[ConstraintBits, ...] = ()
    firm: tuple[int, ...] = ()

    @property
    def examined(self) -> int:
        """The devices on which constraints are checked, as a bit set.

        For "all devices", capacity is checked after constraints.
        """
        return self.usable if self.every else self.devices

    @property
    def underivable(self) -> int:
        """The devices for which the derived attribute of a constraint cannot be computed, 0 if there are none."""
        return union([rule.errors for rule in self.rules])


class Item(NamedTuple):
    """A request as bit sets."""

    claim: int
    choices: tuple[AlternativeBits, ...]


class ConstraintBits(NamedTuple):
    """A constraint as bit sets: the devices that have the attribute, by value.

    If devices have several values at once (lists), the constraint is `loose`: the sets overlap, devices match if all
    of them have a value in common, and they are distinct if no two have one in common. Only the search handles loose
    constraints, not the oracle. `errors` are devices for which the attribute cannot be computed.
    """

    distinct: bool
    holders: int
    values: tuple[int, ...]
    loose: bool = False
    errors: int = 0
    names: tuple[TypedValue, ...] = ()  # of the values

    def peers(self, bit: int) -> int:
        """Return the devices with the same value as a device, which must have one.

        `bit` is the device as a set of one. Raises StopIteration if the device has no value.
        """
        return next(value for value in self.values if value & bit)

    def elements(self, bit: int) -> int:
        """Return the values of a device as a set of value numbers, 0 if it has none."""
        return sum(1 << number for number, value in enumerate(self.values) if value & bit)

    def admitted(self, pin: int) -> int:
        """Return the devices that the constraint accepts after `pin` (see `Standing.pins`; value numbers if loose)."""
        if self.loose and pin:
            having = 0
            for number in positions(pin):
                having |= self.values[number]
            return self.holders & ~having if self.distinct else having
        return self.holders & ~pin if self.distinct else pin or self.holders

    def pinned(self, pin: int, bit: int) -> int:
        """Return the pin after a device (`bit`, a set of one) is taken.

        The pin is a set of devices, or of value numbers if the constraint is loose (see `Standing.pins`).
        """
        if self.loose:
            own = self.elements(bit)
            return pin | own if self.distinct or not pin else pin & own
        return pin | self.peers(bit) if self.distinct or not pin else pin


class AllocationProblem:
    """The input of the search: requests and constraints as bit sets, and facts derived from them."""

    def __init__(
        self,
        plan: AllocationPlan,
        layout: Layout,
        items: tuple[Item, ...],
        rules: tuple[ConstraintBits, ...],
        steps: int = 0,
        derived_steps: int = 0,
    ) -> None:
        self.steps = steps  # steps for selectors and derived attributes
        self.derived_steps = derived_steps  # the part of them for derived attributes
        self.plan = plan
        self.layout = layout
        self.items = items
        self.rules = rules
        self.erring = any(choice.errors or choice.underivable for item in items for choice in item.choices)
        self.refusing = any(
            choice.every and choice.constraints for item in items for choice in item.choices
        )  # asking for all under a constraint is an error where the constraint forbids it
        self.limited = frozenset(claim for claim, most in self._most().items() if most > RESULTS_LIMIT)
        self.admin = any(choice.admin for item in items for choice in item.choices)

    @property
    def alarming(self) -> bool:
        """Whether the search can end with an error instead of a solution."""
        return self.erring or self.refusing

    def _most(self) -> dict[int, int]:
        """Return the maximum number of devices that each claim can get, by number of the claim.

        Too large alternatives are never chosen, so they count as 0.
        """
        most: dict[int, int] = {}
        for item in self.items:
            wanted = [choice.wanted for choice in item.choices if choice.wanted <= RESULTS_LIMIT]
            most[item.claim] = most.get(item.claim, 0) + max(wanted, default=0)
        return most

    @cached_property
    def simple(self) -> AlternativeBits | None:
        """The only alternative, if the answer depends on nothing but which devices are free; else None."""
        if len(self.items) != 1 or len(self.items[0].choices) != 1:
            return None
        choice = self.items[0].choices[0]
        if choice.constraints or choice.errors or choice.every or not choice.wanted:
            return None
        return None if choice.wanted > 1 and choice.devices & self.layout.packing.counted else choice

    @cached_property
    def relevant(self) -> int:
        """The devices whose use can change the answer: those that match an alternative or on which an expression
        fails.
        """
        found = 0
        for item in self.items:
            for choice in item.choices:
                found |= choice.matching | choice.errors
        return found


def pose(
    plan: AllocationPlan,
    layout: Layout,
    features: Features,
    limit: int | None = None,
    turn: Turn | None = None,
) -> AllocationProblem | Fault:
    """Apply a plan to a layout, with checks in Kubernetes' order. Returns the problem or the first error.

    Raises `OutOfSteps` if selectors take more steps than the limit, and with a turn as `DeviceList.match` does.
    """
    reader = _Poser(plan, layout, features, limit, turn)
    items: list[Item] = []
    for claim in range(len(plan.claims)):
        own: list[Item] = []
        for request in plan.requests:
            if request.claim == claim:
                item = reader.item(request)
                if isinstance(item, Fault):
                    return item
                own.append(item)
        fault = _too_many(claim, own) or next(
            (rule.fault for rule in plan.constraints if rule.claim == claim and rule.fault), None
        )
        if fault is not None:
            return fault
        items += own
    return AllocationProblem(plan, layout, *reader.ruled(items), reader.steps, reader.derived_steps)


def _too_many(claim: int, items: list[Item]) -> Fault | None:
    least = sum(min(choice.wanted for choice in item.choices) for item in items)
    if least <= RESULTS_LIMIT:
        return None
    counted = any(
        choice.every for item in items for choice in item.choices
    )  # the number of all devices depends on the node
    return Fault(InputProblem(InputCode.TOO_MANY_DEVICES, number=least, limit=RESULTS_LIMIT, node_only=counted), claim)


class _Lens(NamedTuple):
    """The values of an attribute for some alternatives. Alternatives with different derived attributes differ in them."""

    devices: int
    values: dict[TypedValue, int]
    errors: int = 0


def _rule(distinct: bool, lenses: Sequence[_Lens], own: _Lens | None = None) -> ConstraintBits:
    """Return a constraint as seen by the alternatives with lens `own`, or by all alternatives if it is None.

    A device can have different values in two lenses. In that case only the numbers of values, which are equal in all
    lenses, identify what has been chosen, as for lists.
    """
    everybody: dict[TypedValue, int] = {}
    for lens in lenses:
        for value, bits in lens.values.items():
            everybody[value] = everybody.get(value, 0) | bits
    seen = [lens.devices for lens in lenses]
    blurred = len(lenses) > 1 and sum(seen) != union(seen)
    values = everybody if own is None or not blurred else {value: own.values.get(value, 0) for value in everybody}
    sets = tuple(values.values())
    errors = union([lens.errors for lens in lenses]) if own is None or not blurred else own.errors
    return ConstraintBits(distinct, union(sets), sets, blurred or sum(sets) != union(sets), errors, tuple(values))


class _Poser:
    def __init__(
        self, plan: AllocationPlan, layout: Layout, features: Features, limit: int | None, turn: Turn | None
    ) -> None:
        self.plan = plan
        self.layout = layout
        self.features = features
        self._limit = limit
        self._turn = turn
        self._matched: set[tuple[str, ...]] = set()
        self.derived_steps = 0
        self.steps = 0  # steps of selectors and expressions, each counted once

    @property
    def _left(self) -> int | None:
        return left_of(self._limit, self.steps)

    def _match(self, selectors: tuple[str, ...]) -> SelectorMatch:
        if selectors in self._matched:
            return self.layout.match(selectors)
        match = self.layout.match(selectors, self._left, self._turn)
        self._matched.add(selectors)
        self.steps += match.steps
        return match

    def ruled(self, items: Sequence[Item]) -> tuple[tuple[Item, ...], tuple[ConstraintBits, ...]]:
        """Return the items with the constraints of their alternatives filled in, and all constraints."""
        lenses = [self._lenses(number, items) for number in range(len(self.plan.constraints))]
        rules = tuple(
            _rule(constraint.distinct, [*seen.values()])
            for constraint, seen in zip(self.plan.constraints, lenses, strict=True)
        )
        return tuple(
            item._replace(
                choices=tuple(
                    self._ruled(choice, alternative, rules, lenses)
                    for choice, alternative in zip(item.choices, request.alternatives, strict=True)
                )
            )
            for item, request in zip(items, self.plan.requests, strict=True)
        ), rules

    def _ruled(
        self,
        choice: AlternativeBits,
        alternative: Alternative,
        rules: Sequence[ConstraintBits],
        lenses: Sequence[Mapping[str, _Lens]],
    ) -> AlternativeBits:
        said = tuple(
            rules[number]
            if len(lenses[number]) == 1
            else _rule(
                constraint.distinct,
                [*lenses[number].values()],
                lenses[number][alternative.derived.get(constraint.attribute, "")],
            )
            for number in choice.constraints
            for constraint in [self.plan.constraints[number]]
        )
        firm = tuple(number for number, rule in zip(choice.constraints, said, strict=True) if not rule.loose)
        return choice._replace(rules=said, firm=firm)

    def _lenses(self, number: int, items: Sequence[Item]) -> dict[str, _Lens]:
        """Return the values of a constraint's attribute by the expression that derives it (empty: published by the
        driver).
        """
        attribute = self.plan.constraints[number].attribute
        devices: dict[str, int] = {}
        for item, request in zip(items, self.plan.requests, strict=True):
            for choice, alternative in zip(item.choices, request.alternatives, strict=True):
                if number in choice.constraints:
                    expression = alternative.derived.get(attribute, "")
                    devices[expression] = devices.get(expression, 0) | choice.matching
        if not devices.keys() - {""}:
            return {"": _Lens(0, self.layout.values(attribute))}
        return {expression: self._lens(attribute, expression, wanted) for expression, wanted in devices.items()}

    def _lens(self, attribute: str, expression: str, devices: int) -> _Lens:
        if not expression:
            values = self.layout.values(attribute)
            return _Lens(devices, {value: bits & devices for value, bits in values.items() if bits & devices})
        derived = self.layout.derived(expression, devices, self._left, self._turn)
        self.steps += derived.steps
        self.derived_steps += derived.steps
        return _Lens(devices, derived.values, derived.errors)

    def item(self, request: PlannedRequest) -> Item | Fault:
        if request.fault is not None:
            return request.fault
        choices = []
        for alternative in request.alternatives:
            choice = self._choice(request, alternative)
            if isinstance(choice, Fault):
                return choice
            choices.append(choice)
        return Item(request.claim, tuple(choices))

    def _choice(self, request: PlannedRequest, alternative: Alternative) -> AlternativeBits | Fault:
        if alternative.fault is not None:
            return alternative.fault
        layout = self.layout
        match = self._match(alternative.selectors)
        unsupported = 0 if self.features.binding_conditions else layout.binding
        matching, errors = match.devices & ~unsupported, match.errors & ~unsupported
        broken = matching & sum(1 << at for at in layout.capacity_faults(alternative.capacity))
        matching, errors = matching ^ broken, errors | broken
        every = alternative.mode == "All"
        if every:
            matching &= layout.eligible(alternative.capacity)
            fault = self._incomplete(request, alternative, errors)
            if fault is not None:
                return fault
        usable = matching if self.features.partitionable_devices else matching & ~layout.counting
        if self.features.device_taints:
            usable &= layout.tolerated(alternative.tolerations)
        covered = [number for number, rule in enumerate(self.plan.constraints) if rule.covers(request, alternative)]
        return AlternativeBits(
            wanted=matching.bit_count() if every else alternative.wanted,
            matching=matching,
            usable=usable,
            devices=usable & layout.eligible(alternative.capacity),
            errors=0 if every else errors,
            admin=alternative.admin,
            every=every,
            constraints=tuple(covered),
            takes=layout.takes(alternative.capacity),
        )

    def _incomplete(self, request: PlannedRequest, alternative: Alternative, errors: int) -> Fault | None:
        """Return why "all devices" cannot be counted: an unusable pool or a device with an error, whichever comes
        first.

        Returns None if neither exists. `errors` is the bit set of the devices with an error.
        """
        broken = position(lowest(errors)) if errors else self.layout.size
        for number, (pool, end) in enumerate(zip(self.layout.pools, self.layout.ends, strict=True)):
            if pool.state is not PoolState.USABLE:
                problem = InputProblem(_POOL_CODES[pool.state], request=alternative.label, node_only=True)
                return Fault(problem, request.claim, pool=number)
            if broken < end:
                break
        else:
            return None
        return _fault_of(self.layout, request.claim, alternative, broken)


def cause_of(problem: AllocationProblem, item: int, choice: int, bit: int) -> Fault:
    """Return the error that the search meets on a device in `errors`.

    `item` and `choice` are the indexes of the request and of its alternative. `bit` is the device as a set of one.
    """
    request = problem.plan.requests[item]
    alternative = request.alternatives[choice]
    return _fault_of(problem.layout, request.claim, alternative, position(bit))


def _fault_of(layout: Layout, claim: int, alternative: Alternative, at: int) -> Fault:
    cause = layout.match(alternative.selectors).causes.get(at)
    if cause is not None:
        return selector_fault(claim, alternative.class_name, alternative.of_class, at, cause)
    fault = layout.capacity_faults(alternative.capacity)[at]
    return Fault(InputProblem(fault.code, request=alternative.label, subject=fault.capacity), claim, device=at)


def derivation_of(problem: AllocationProblem, item: int, choice: int, number: int, bit: int) -> Fault:
    """Return the error for a device for which the derived attribute of constraint `number` cannot be computed.

    `item` and `choice` are the indexes of the request and of its alternative. `bit` is the device as a set of one.
    """
    request = problem.plan.requests[item]
    alternative = request.alternatives[choice]
    attribute = problem.plan.constraints[number].attribute
    at = position(bit)
    cause = problem.layout.derived(alternative.derived[attribute], bit).causes[at]
    failed = InputProblem(InputCode.DERIVED_FAILED, request=alternative.label, subject=attribute, detail=cause)
    return Fault(failed, request.claim, device=at)


def refusal_of(problem: AllocationProblem, item: int, choice: int, bit: int) -> Fault:
    """Return the error for a device that a request for all devices must include but a constraint refuses.

    `item` and `choice` are the indexes of the request and of its alternative. `bit` is the device as a set of one.
    """
    request = problem.plan.requests[item]
    label = request.alternatives[choice].label
    refused = InputProblem(InputCode.CONSTRAINT_REFUSED, request=label, node_only=True)
    return Fault(refused, request.claim, device=position(bit))
