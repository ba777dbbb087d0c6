"""Explains why no allocation exists: at which filter steps devices were lost, and which requests conflict.

Runs only on request, after a search without result, and within a number of steps. If the steps are not enough, the
smallest conflict is missing from the result. Left out: text.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, combinations, islice

from dray.allocator.bits import members, position
from dray.allocator.budget import OutOfSteps, StepMeter, left_of
from dray.allocator.capacity import from_nanos, largest
from dray.allocator.content import RequestClasses, may_take_long
from dray.allocator.deriving import TypedValue
from dray.allocator.feasibility import DeviceDemand, Option, Standing
from dray.allocator.foresight import Foresight, beginning
from dray.allocator.identity import GATE_OF, RESULTS_LIMIT
from dray.allocator.layout import LayoutPart, NodeView, PoolShape
from dray.allocator.packing import COUNTERS_ONLY, NOTHING_SPENT, NodeUsage, Takes
from dray.allocator.plan import Alternative
from dray.allocator.problem import AllocationProblem, AlternativeBits
from dray.api.quantity import Quantity
from dray.api.reasons.devices import (
    AlternativeReasons,
    AmountLimit,
    ConstraintReasons,
    DeviceStep,
    LackingAmount,
    PoolReasons,
    PoolState,
    Reasons,
    RequestConflict,
    RequestReasons,
    StepCode,
)
from dray.api.types.resource import Device
from dray.cel import Interrupted

LACKING_TOLD = 8  # insufficient amounts that one filter step lists; there can be thousands
DEVICES_ASKED = 512  # devices whose insufficient amounts are compared
WITHHELD_STEPS = 500  # steps for selectors on devices of an unusable pool, which the search has not evaluated
PATIENCE = 100_000  # steps after which the search for a smallest conflict ends
REQUEST_STEPS = 5  # steps that explaining one alternative costs, plus one for each DEVICES_IN_STEP devices
DEVICES_IN_STEP = 8


def diagnose(
    problem: AllocationProblem,
    usage: NodeUsage,
    view: NodeView,
    claims: Sequence[str],
    meter: StepMeter | None = None,
) -> Reasons:
    """Return the reasons why claims with these names cannot be served on the node of a view.

    Without a meter, the diagnosis may take PATIENCE steps.
    """
    return _Diagnosis(problem, usage, view, claims, meter or StepMeter(PATIENCE)).reasons()


class _Diagnosis:
    def __init__(
        self, problem: AllocationProblem, usage: NodeUsage, view: NodeView, claims: Sequence[str], meter: StepMeter
    ) -> None:
        self.problem = problem
        self.taken = usage.taken
        self.view = view
        self.claims = claims
        self.foresight = Foresight(problem, usage, meter)
        choices = sum(len(item.choices) for item in problem.items)
        meter.steps += choices * (REQUEST_STEPS + problem.layout.size // DEVICES_IN_STEP)

    def reasons(self) -> Reasons:
        requests = tuple(self._request(number) for number in range(len(self.problem.items)))
        pools = zip(self.view.pools, self.problem.layout.pools, strict=True)
        return Reasons(
            node=self.view.node,
            requests=requests,
            constraints=tuple(
                found
                for number in self._countable(range(len(self.problem.rules)))
                if (found := self._constraint(number)) is not None
            ),
            conflict=self._conflict(),
            pools=tuple(
                PoolReasons(str(name), shape.state, shape.gate, self._suffices(shape, requests))
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

    def _suffices(self, shape: PoolShape, requests: Sequence[RequestReasons]) -> bool:
        """Return whether the devices of an unusable pool would be enough for the first request that lacks devices.

        Returns False if no request lacks devices, or if counting the devices would take too many steps.
        """
        number = next((number for number, request in enumerate(requests) if not request.enough), None)
        if number is None:
            return False
        ways = zip(self.problem.plan.requests[number].alternatives, requests[number].alternatives, strict=True)
        try:
            return any(
                reasons.available + _matching(shape.withheld, way.selectors) >= max(reasons.needed, 1)
                for way, reasons in ways
            )
        except Interrupted:
            return False

    def _steps(self, alternative: Alternative, choice: AlternativeBits) -> list[DeviceStep]:
        layout = self.problem.layout
        steps = [DeviceStep(StepCode.PUBLISHED, layout.visible.bit_count())]
        of_class = alternative.selectors[: alternative.of_class]
        in_class = layout.match(of_class).devices.bit_count()
        steps.append(DeviceStep(StepCode.CLASS, in_class, alternative.class_name))
        for number in range(alternative.of_class, len(alternative.selectors)):
            passed = layout.match(alternative.selectors[: number + 1]).devices
            selector = number - alternative.of_class
            steps.append(DeviceStep(StepCode.SELECTOR, passed.bit_count(), number=selector))
        supported, gate = self._supported(layout.match(alternative.selectors).devices)
        if gate:
            steps.append(DeviceStep(StepCode.SUPPORTED, supported.bit_count(), gate))
        steps.append(DeviceStep(StepCode.TOLERATED, choice.usable.bit_count()))
        untaken = choice.usable if choice.admin else choice.usable & ~self.taken
        steps.append(DeviceStep(StepCode.FREE, untaken.bit_count()))
        if foreign := self.foresight.room.incompatible(untaken):
            untaken &= ~foreign
            steps.append(DeviceStep(StepCode.COMPATIBLE, untaken.bit_count()))
        within = self.foresight.room.fitting(COUNTERS_ONLY, untaken, NOTHING_SPENT)
        if untaken & layout.packing.counted:
            lacking = self._lacking(COUNTERS_ONLY, untaken & ~within)
            steps.append(DeviceStep(StepCode.COUNTERS, self._together(choice, within), lacking=lacking))
        free = self._free(choice)
        if alternative.capacity or within & layout.shareable:
            left = min(steps[-1].devices, free.bit_count())
            lacking = self._lacking(choice.takes, within & ~free, alternative.capacity)
            steps.append(DeviceStep(StepCode.CAPACITY, left, lacking=lacking))
        steps += self._ignored(alternative, choice, free)
        for number in self._countable(choice.constraints):
            step = self._agreement(number, choice, free)
            if step not in steps:
                steps.append(step)
        return steps

    def _lacking(self, takes: Takes, devices: int, asked: RequestClasses = ()) -> tuple[LackingAmount, ...]:
        """Return the insufficient amounts of those devices that lack the fewest.

        Examines at most DEVICES_ASKED devices of the bit set `devices`, and returns at most LACKING_TOLD amounts.
        """
        found = [self._lacked_by(bit, takes, asked) for bit in islice(members(devices), DEVICES_ASKED)]
        return tuple(islice(chain(*sorted(filter(None, found), key=len)), LACKING_TOLD))

    def _lacked_by(self, bit: int, takes: Takes, asked: RequestClasses) -> list[LackingAmount]:
        packing, room = self.problem.layout.packing, self.foresight.room
        id_ = str(self.view.id_of(position(bit)))
        if takes is not COUNTERS_ONLY and bit not in takes.capacity:
            return _beyond(id_, self.problem.layout.device(position(bit)), asked)
        needed = packing.draws.get(bit, ()) if takes is COUNTERS_ONLY else takes.capacity[bit]
        return [
            LackingAmount(id_, name, str(from_nanos(much)), str(from_nanos(max(0, room.left[number]))), set_)
            for number, much in needed
            if much > room.left[number]
            for set_, name in [packing.name_of(number)]
        ]

    def _together(self, choice: AlternativeBits, devices: int) -> int:
        """Return the number of devices, or the number that the counters allow together if that is less than wanted.

        Also returns the number of devices if the steps run out or not even one device is possible.
        """
        for few in range(min(choice.wanted, RESULTS_LIMIT), 0, -1):
            demand = DeviceDemand(0, 0, (Option(0, few, devices, (), COUNTERS_ONLY),))
            try:
                served = self.foresight.oracle.solve([demand], Standing(()))
            except Interrupted:
                break
            if served is not None:
                return devices.bit_count() if few == choice.wanted else few
        return devices.bit_count()

    def _countable(self, numbers: Iterable[int]) -> list[int]:
        """Return the numbers of the constraints that can be explained by counting values, which excludes distinct
        lists.
        """
        return [
            number
            for number in numbers
            if not (self.problem.rules[number].loose and self.problem.rules[number].distinct)
        ]

    def _agreement(self, number: int, choice: AlternativeBits, free: int) -> DeviceStep:
        rule = choice.rules[choice.constraints.index(number)]
        attribute = self.problem.plan.constraints[number].attribute
        if rule.distinct:
            return DeviceStep(StepCode.DISTINCT, sum(1 for value in rule.values if value & free), attribute)
        best = max(((value & free).bit_count() for value in rule.values), default=0)
        return DeviceStep(StepCode.MATCHING, best, attribute)

    def _ignored(self, alternative: Alternative, choice: AlternativeBits, free: int) -> list[DeviceStep]:
        """Return a filter step for derived attributes that are ignored because their gate is off.

        The list is empty if no constraint of the alternative uses such an attribute. `free` are the devices that
        passed the earlier steps.
        """
        if not alternative.ignored:
            return []
        numbers = [n for n in choice.constraints if self.problem.plan.constraints[n].attribute in alternative.ignored]
        for number in numbers:
            free &= self.problem.rules[number].holders
        return [DeviceStep(StepCode.SUPPORTED, free.bit_count(), GATE_OF["derived_attributes"])] if numbers else []

    def _free(self, choice: AlternativeBits) -> int:
        free = choice.devices if choice.admin else choice.devices & ~self.taken
        return self.foresight.room.fitting(choice.takes, free, NOTHING_SPENT)

    def _supported(self, matching: int) -> tuple[int, str]:
        """Return the devices that need no disabled gate, and the disabled gate that the other devices need.

        The devices are a bit set. The gate is "" if no device needs a disabled gate.
        """
        layout = self.problem.layout
        for feature, unsupported in (
            ("binding_conditions", layout.binding),
            ("partitionable_devices", layout.counting),
        ):
            if matching & unsupported and not getattr(layout.features, feature):
                return matching & ~unsupported, GATE_OF[feature]
        return matching, ""

    def _constraint(self, number: int) -> ConstraintReasons | None:
        """Explain constraint `number`, or return None if enough free devices have suitable values.

        Also returns None if no request is under the constraint with all of its alternatives.
        """
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
        rule = self.problem.rules[number]
        offered = {value: (bits & free).bit_count() for value, bits in zip(rule.names, rule.values, strict=True)}
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

    def _conflict(self) -> RequestConflict | None:
        demands = []
        for number in range(len(self.problem.items)):
            demand = self.foresight.demand(number, beginning(self.problem))
            if demand is None:
                return self._describe((number,))
            demands.append(demand)
        try:
            found = self._smallest(demands)
        except Interrupted:
            return None
        return None if found is None else self._describe(tuple(demand.item for demand in found))

    def _smallest(self, demands: list[DeviceDemand]) -> list[DeviceDemand] | None:
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

    def _servable(self, demands: list[DeviceDemand]) -> bool:
        return self.foresight.serve(demands, beginning(self.problem)) is not None

    def _describe(self, numbers: tuple[int, ...]) -> RequestConflict:
        needed = devices = 0
        for number in numbers:
            choices = self.problem.items[number].choices
            needed += min(choice.wanted for choice in choices)
            for choice in choices:
                devices |= self._free(choice)
        requests = [self.problem.plan.requests[number] for number in numbers]
        names = tuple((self.claims[request.claim], request.name) for request in requests)
        return RequestConflict(names, needed, devices.bit_count())


def _matching(parts: Iterable[LayoutPart], selectors: tuple[str, ...]) -> int:
    """Count the devices that match selectors. Raises `OutOfSteps` if that would take long."""
    found = steps = 0
    if any(map(may_take_long, selectors)):
        raise OutOfSteps
    for part in parts:
        match = part.content.match(selectors, left_of(WITHHELD_STEPS, steps))
        steps += match.steps
        found += (match.devices & part.visible).bit_count()
    return found


def _beyond(id_: str, device: Device, asked: RequestClasses) -> list[LackingAmount]:
    """Return the requested amounts that a device cannot provide even if nothing of it is in use.

    An amount is beyond the capacity or beyond the largest amount that its policy allows for one request. `id_` is the
    device's name in the result.
    """
    found = []
    for name, much in asked:
        capacity = device.capacity.get(name)
        if capacity is None:
            found.append(LackingAmount(id_, name, much, "0", limit=AmountLimit.TOTAL))
        elif Quantity.parse(much) > Quantity.parse(capacity.value):
            found.append(LackingAmount(id_, name, much, capacity.value, limit=AmountLimit.TOTAL))
        elif (most := largest(capacity)) is not None and Quantity.parse(much) > most:
            found.append(LackingAmount(id_, name, much, str(most), limit=AmountLimit.REQUEST))
    return found


def _text(value: TypedValue) -> str:
    _, content = value
    return str(content).lower() if isinstance(content, bool) else str(content)
