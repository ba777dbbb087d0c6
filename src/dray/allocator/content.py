"""The devices of a slice without the names that place them, and what is true of each: computed once, shared by all.

Five hundred nodes with the same hardware publish slices that differ in pool and node only. `DeviceList` is what they have
in common, so that selectors run once for all of them. Every answer is a bit set over the positions in the slice.
Left out: which pools and nodes the devices belong to (`layout`, `pools`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

import msgspec

from dray.allocator.bits import position, positions
from dray.allocator.budget import OutOfSteps, Turn, left_of
from dray.allocator.capacity import CapacityFault, Consumption, consumption, nanos
from dray.allocator.deriving import QUICK_COST, QUICK_LENGTH, Deriving, Value
from dray.allocator.taints import intolerable
from dray.allocator.work import Deferred, Work
from dray.api.quantity import Quantity
from dray.api.types.resource import Device, DeviceAttribute, DeviceToleration, ResourceSlice
from dray.cel import STORED, CelError, DeviceView, Interrupt, Interrupted, NoSuchKey, Selector, compile_selector

Requests = tuple[tuple[str, str], ...]
"""What a request asks of capacities, by name."""
_NO_PRICES: Mapping[int, int] = {}


class SelectorFailure(Enum):
    """How a selector failed."""

    COMPILE = "compile"
    RUNTIME = "runtime"
    MISSING_KEY = "missing key"


class FailedSelector(NamedTuple):
    """Selector number `selector` could not be evaluated; `text` is what CEL says."""

    selector: int
    text: str
    failure: SelectorFailure


class SelectorMatch(NamedTuple):
    """Devices that pass every selector, and devices on which one of them fails with an error."""

    devices: int
    errors: int
    causes: dict[int, FailedSelector]
    steps: int = 0  # that all selectors took, found out now or earlier
    prices: Mapping[int, int] = _NO_PRICES  # steps of the last selector by device, where they are more than one


class _Judging(Work):
    """Judges devices by one selector, one after the other: `left` are still to be judged.

    The selector may take long where it is long to compile, or where the devices can make its evaluation expensive.
    """

    def __init__(self, content: DeviceList, selectors: tuple[str, ...], before: SelectorMatch) -> None:
        self._content = content
        self._expression = selectors[-1]
        self._number = len(selectors) - 1
        self.left = before.devices
        self.matched = 0
        self.failed = before.errors
        self.causes = dict(before.causes)
        self.prices: dict[int, int] = {}
        self.before = before.steps  # that the selectors before took

    @property
    def is_over(self) -> bool:
        return not self.left or self.is_out

    @property
    def size(self) -> int:
        return self._content.size

    @property
    def is_costly(self) -> bool:
        """Whether it may take milliseconds to judge a device."""
        return may_take_long(self._expression)

    @property
    def _selector(self) -> Selector:
        return compile_selector(self._expression, features=STORED)

    def run(self, interrupt: Interrupt | None) -> bool:
        selector = self._selector
        for at in positions(self.left):
            if self.is_out:
                break
            try:
                self._judge(selector, at, interrupt)
            except Interrupted:
                return False
            self.left &= ~(1 << at)
            if self.left and not self.is_out and interrupt is not None and interrupt():
                return False
        return True

    def charge(self, at: int, steps: int) -> None:
        """Count the steps that a device took."""
        self.steps += steps
        if steps > 1:
            self.prices[at] = steps

    def _judge(self, selector: Selector, at: int, interrupt: Interrupt | None) -> None:
        answer: bool | CelError
        failure, steps = SelectorFailure.COMPILE, 1
        if selector.error is not None:
            answer = selector.error
        else:
            answer, steps = selector.judge(self._content.view(at), interrupt=interrupt)
            failure = SelectorFailure.MISSING_KEY if isinstance(answer, NoSuchKey) else SelectorFailure.RUNTIME
        self.charge(at, steps)
        if isinstance(answer, CelError):
            self.failed |= 1 << at
            self.causes[at] = FailedSelector(self._number, str(answer), failure)
        elif answer:
            self.matched |= 1 << at

    def found(self) -> _JudgingFound:
        return self.left, self.matched, self.failed, self.causes, self.prices, self.steps

    def accept(self, found: _JudgingFound) -> None:
        self.left, self.matched, self.failed, self.causes, self.prices, self.steps = found

    @property
    def match(self) -> SelectorMatch:
        """What was found, once all are judged."""
        return SelectorMatch(
            self.matched, self.failed, self.causes, self.before + self.steps, self.prices or _NO_PRICES
        )


_JudgingFound = tuple[int, int, int, dict[int, FailedSelector], dict[int, int], int]


class Eligible(NamedTuple):
    """Devices, by position, that can serve a request for capacity, with what it takes; and those on which it is an error."""

    consumed: dict[int, Consumption]
    faults: dict[int, CapacityFault]


class DeviceList:
    """Devices of one driver in their order. Equal content should be one object, as it is in `inventory`."""

    __slots__ = (
        "__weakref__",
        "_begun",
        "_derived",
        "_eligible",
        "_kept",
        "_matched_before",
        "_matches",
        "_places",
        "_tolerated",
        "_values",
        "_views",
        "binding",
        "capacities",
        "devices",
        "draws",
        "driver",
        "everything",
        "shareable",
    )

    def __init__(
        self,
        driver: str,
        devices: Sequence[Device],
        before: DeviceList | None = None,
    ) -> None:
        """`before` is what a slice held until now: most devices are as they were, and so is what is true of them."""
        self.driver = driver
        self.devices = tuple(devices)
        self.everything = (1 << len(devices)) - 1
        self.shareable = self._where(lambda device: bool(device.allowMultipleAllocations))
        self.binding = self._where(lambda device: bool(device.bindingConditions))
        self.draws = {at: drawn_by(device) for at, device in enumerate(devices) if device.consumesCounters}
        self.capacities = {
            at: {name: nanos(Quantity.parse(capacity.value)) for name, capacity in devices[at].capacity.items()}
            for at in positions(self.shareable)
        }  # of shareable devices
        self._eligible: dict[tuple[Requests, bool], Eligible] = {}
        self._places: dict[str, int] | None = None
        self._views: list[DeviceView | None] = [None] * len(devices)
        self._matches: dict[tuple[str, ...], SelectorMatch] = {}
        self._begun: dict[tuple[str, ...], _Judging] = {}  # selectors that were interrupted
        self._kept: list[tuple[int, int]] = []  # positions now and before of devices that are as they were
        self._matched_before: dict[tuple[str, ...], SelectorMatch] = {}
        self._values: dict[tuple[str, bool], dict[Value, int]] = {}
        self._derived: dict[tuple[str, bool], Deriving] = {}
        self._tolerated: dict[tuple[DeviceToleration, ...], int] = {}
        if before is not None and before.driver == driver:
            self._keep(before)

    def __reduce__(self) -> tuple[type[DeviceList], tuple[str, tuple[Device, ...]]]:
        return DeviceList, (self.driver, self.devices)  # what is true of them can be found out again

    def _where(self, holds: Callable[[Device], bool]) -> int:
        return sum(1 << at for at, device in enumerate(self.devices) if holds(device))

    @property
    def counting(self) -> int:
        """The devices that draw from counters which they share with others."""
        return sum(1 << at for at in self.draws)

    def _keep(self, before: DeviceList) -> None:
        self._matched_before = before._matches
        for at, device in enumerate(self.devices):
            bit = before.bit(device.name)
            if bit and before.devices[earlier := position(bit)] == device:
                self._kept.append((at, earlier))
                self._views[at] = before._views[earlier]

    def bit(self, name: str) -> int:
        """The device of that name as a set of one; empty where there is none."""
        if self._places is None:
            self._places = {device.name: 1 << at for at, device in enumerate(self.devices)}
        return self._places.get(name, 0)

    @property
    def size(self) -> int:
        """How many devices there are."""
        return len(self.devices)

    def match(self, selectors: tuple[str, ...], limit: int | None = None, turn: Turn | None = None) -> SelectorMatch:
        """Run the selectors one after the other, each on the devices that passed those before.

        Raises `OutOfSteps` where that takes more steps than `limit`, whether it is known already or not. With a turn,
        raises `Deferred` where selectors may take long, and `Interrupted` when the turn is over; who asks again goes on
        from there.
        """
        found = self._matches.get(selectors)
        if found is None:
            found = self._matches[selectors] = self._evaluate(selectors, limit, turn)
        if limit is not None:
            left_of(limit, found.steps)
        return found

    def steps_of(self, selectors: tuple[str, ...]) -> int:
        """The steps that selectors took; none where nobody has asked for them."""
        found = self._matches.get(selectors)
        return 0 if found is None else found.steps

    def _evaluate(self, selectors: tuple[str, ...], limit: int | None, turn: Turn | None) -> SelectorMatch:
        if not selectors:
            return SelectorMatch(self.everything, 0, {})
        judging = self._begun.get(selectors)
        if judging is None:
            judging = self._begun[selectors] = self._begin(selectors, limit, turn)
        own = left_of(limit, judging.before)
        while judging.left:
            left_of(own, judging.steps)
            _compute(judging, own, turn)
        del self._begun[selectors]
        return judging.match

    def _begin(self, selectors: tuple[str, ...], limit: int | None, turn: Turn | None) -> _Judging:
        """The devices that pass the selectors before the last, but for those that were judged in an earlier content."""
        judging = _Judging(self, selectors, self.match(selectors[:-1], limit, turn))
        if (then := self._matched_before.get(selectors)) is not None:
            asked = judging.left
            for at, earlier in self._kept:
                judging.matched |= (then.devices >> earlier & 1) << at
                judging.failed |= (then.errors >> earlier & 1) << at
                if earlier in then.causes:
                    judging.causes[at] = then.causes[earlier]
                if asked >> at & 1:
                    judging.charge(at, then.prices.get(earlier, 1))
                judging.left &= ~(1 << at)
        return judging

    def view(self, at: int) -> DeviceView:
        """The device at a position, as selectors see it."""
        view = self._views[at]
        if view is None:
            device = self.devices[at]
            shared = device.allowMultipleAllocations or False
            view = self._views[at] = DeviceView(self.driver, device.attributes, device.capacity, shared)
        return view

    def values(self, attribute: str, lists: bool = False) -> dict[Value, int]:
        """The devices that have the fully qualified attribute, by its value; with `lists`, by each value in it."""
        found = self._values.get((attribute, lists))
        if found is None:
            found = self._values[attribute, lists] = {}
            for at, device in enumerate(self.devices):
                for value in self._held(device, attribute, lists):
                    found[value] = found.get(value, 0) | 1 << at
        return found

    def _held(self, device: Device, attribute: str, lists: bool) -> tuple[Value, ...]:
        held = device.attributes.get(attribute)
        if held is None:
            domain, _, name = attribute.partition("/")
            held = device.attributes.get(name) if name and domain == self.driver else None
        if held is None:
            return ()
        return (lists and listed(held)) or (comparable(held, device.name),)

    def derived(
        self, expression: str, lists: bool, wanted: int, limit: int | None = None, turn: Turn | None = None
    ) -> Deriving:
        """The values that an expression has for at least these devices; raises as `match` does."""
        deriving = self._derived.get((expression, lists))
        if deriving is None:
            deriving = self._derived[expression, lists] = Deriving(self, expression, lists)
        while deriving.ask(wanted):
            left_of(limit, deriving.price(deriving.known & wanted))
            _compute(deriving, None if limit is None else deriving.steps + limit, turn)
        left_of(limit, deriving.price(wanted))
        return deriving

    def eligible(self, requests: Requests, fractional: bool) -> Eligible:
        """The devices that can serve a request for capacity when nobody uses them."""
        found = self._eligible.get((requests, fractional))
        if found is None:
            found = self._eligible[requests, fractional] = Eligible({}, {})
            asked = dict(requests)
            for at in range(len(self.devices)):
                much = self._consumption(at, asked, fractional)
                if isinstance(much, CapacityFault):
                    found.faults[at] = much
                elif much is not None:
                    found.consumed[at] = much
        return found

    def _consumption(self, at: int, asked: dict[str, str], fractional: bool) -> Consumption | CapacityFault | None:
        device = self.devices[at]
        plain = not asked and not self.shareable >> at & 1  # nothing is taken of it but the whole
        if plain and not any(capacity.requestPolicy for capacity in device.capacity.values()):
            return {}
        return consumption(device, asked, fractional)

    def tolerated(self, tolerations: tuple[DeviceToleration, ...]) -> int:
        """The devices without a taint that forbids allocation to someone with these tolerations."""
        found = self._tolerated.get(tolerations)
        if found is None:
            found = sum(
                1 << at for at, device in enumerate(self.devices) if not intolerable(device.taints, tolerations)
            )
            self._tolerated[tolerations] = found
        return found


def may_take_long(expression: str) -> bool:
    """Whether it may take milliseconds to judge a device by a selector; depends on its text alone."""
    return len(expression) > QUICK_LENGTH or compile_selector(expression, features=STORED).max_cost > QUICK_COST


def _compute(work: _Judging | Deriving, limit: int | None, turn: Turn | None) -> None:
    """Let a computation go on until it is over or takes more steps than the limit. Raises as `DeviceList.match` does."""
    if work.is_given_up:
        raise OutOfSteps
    if work.is_elsewhere and turn is not None:
        raise Deferred(work)
    work.limit = limit
    if turn is None:
        work.run(None)
        return
    if work.is_costly:
        raise Deferred(work)
    ends = work.steps + turn.left
    before = work.steps
    is_over = work.run(lambda: work.steps >= ends)
    turn.spend(work.steps - before)
    if not is_over:
        raise Interrupted


def comparable(attribute: DeviceAttribute, owner: str) -> Value:
    """A value that equals another exactly where Kubernetes says that two attributes match.

    A kind of value that it cannot compare matches nothing else, so it counts as the owner's own.
    """
    for kind in ("string", "int", "bool", "version"):
        value = getattr(attribute, kind)
        if value is not None:
            return kind, value
    return "only", owner


def listed(attribute: DeviceAttribute) -> tuple[Value, ...]:
    """The values in an attribute that is a list, each as `comparable` gives it; nothing where it is none."""
    for kind, values in (
        ("string", attribute.strings),
        ("int", attribute.ints),
        ("bool", attribute.bools),
        ("version", attribute.versions),
    ):
        if values:
            return tuple((kind, value) for value in values)
    return ()


def drawn_by(device: Device) -> tuple[tuple[str, str, int], ...]:
    """What a device draws, as (counter set, counter, amount)."""
    return tuple(
        (drawn.counterSet, name, nanos(Quantity.parse(counter.value)))
        for drawn in device.consumesCounters
        for name, counter in drawn.counters.items()
    )


def content_of(slice_: ResourceSlice) -> DeviceList:
    """The content of a slice, shared with no other."""
    return DeviceList(slice_.spec.driver, slice_.spec.devices)


def key_of(slice_: ResourceSlice) -> bytes:
    """Equal for two slices exactly when their contents are."""
    return msgspec.msgpack.encode((slice_.spec.driver, slice_.spec.devices), order="deterministic")
