"""The devices of a slice without pool and node names, and cached facts about each device.

Nodes with the same hardware publish slices that differ in pool and node only. They share one `DeviceList`, so each
selector runs once for all of them. Every answer is a bit set over the positions of devices in the slice. Left out:
which pools and nodes the devices belong to (`layout`, `pools`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple

import msgspec

from dray.allocator.bits import position, positions
from dray.allocator.budget import OutOfSteps, Turn, left_of
from dray.allocator.capacity import CapacityFault, Consumption, consumption, nanos
from dray.allocator.deriving import QUICK_COST, QUICK_LENGTH, Deriving, TypedValue
from dray.allocator.taints import intolerable
from dray.allocator.work import Deferred, Work
from dray.api.quantity import Quantity
from dray.api.types.resource import Device, DeviceAttribute, DeviceToleration, ResourceSlice
from dray.cel import STORED, CelError, DeviceView, Interrupt, Interrupted, NoSuchKey, Selector, compile_selector

RequestClasses = tuple[tuple[str, str], ...]
"""Pairs of a capacity's name and the amount that a request asks for."""
_NO_PRICES: Mapping[int, int] = {}


class SelectorFailure(Enum):
    """The stage at which a selector failed."""

    COMPILE = "compile"
    RUNTIME = "runtime"
    MISSING_KEY = "missing key"


class FailedSelector(NamedTuple):
    """An error of selector number `selector`; `text` is the message of CEL."""

    selector: int
    text: str
    failure: SelectorFailure


class SelectorMatch(NamedTuple):
    """The devices that match all selectors, and those on which a selector fails with an error."""

    devices: int
    errors: int
    causes: dict[int, FailedSelector]
    steps: int = 0  # steps of all selectors, whether computed now or earlier
    prices: Mapping[int, int] = _NO_PRICES  # device position → steps of the last selector, if more than one


class _Judging(Work):
    """Evaluates one selector on devices, one after the other. `left` are the devices still to be evaluated."""

    def __init__(self, content: DeviceList, selectors: tuple[str, ...], before: SelectorMatch) -> None:
        self._content = content
        self._expression = selectors[-1]
        self._number = len(selectors) - 1
        self.left = before.devices
        self.matched = 0
        self.failed = before.errors
        self.causes = dict(before.causes)
        self.prices: dict[int, int] = {}
        self.before = before.steps  # steps of the earlier selectors

    @property
    def is_over(self) -> bool:
        return not self.left or self.is_out

    @property
    def size(self) -> int:
        return self._content.size

    @property
    def is_costly(self) -> bool:
        """Whether evaluating the selector on one device can take milliseconds."""
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
        """Add the steps of the device at position `at`."""
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
        """The result after all devices have been evaluated."""
        return SelectorMatch(
            self.matched, self.failed, self.causes, self.before + self.steps, self.prices or _NO_PRICES
        )


_JudgingFound = tuple[int, int, int, dict[int, FailedSelector], dict[int, int], int]


class Eligible(NamedTuple):
    """The devices that can serve a request for capacity, by position: the consumed amounts, and the errors."""

    consumed: dict[int, Consumption]
    faults: dict[int, CapacityFault]


class DeviceList:
    """The devices of one slice in order. `inventory` makes sure that equal lists are one shared object."""

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
        """Create a list. Results for devices that are unchanged since the slice's previous list `before` are reused."""
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
        self._eligible: dict[tuple[RequestClasses, bool], Eligible] = {}
        self._places: dict[str, int] | None = None
        self._views: list[DeviceView | None] = [None] * len(devices)
        self._matches: dict[tuple[str, ...], SelectorMatch] = {}
        self._begun: dict[tuple[str, ...], _Judging] = {}  # interrupted evaluations
        self._kept: list[tuple[int, int]] = []  # positions in this and in the previous list of unchanged devices
        self._matched_before: dict[tuple[str, ...], SelectorMatch] = {}
        self._values: dict[tuple[str, bool], dict[TypedValue, int]] = {}
        self._derived: dict[tuple[str, bool], Deriving] = {}
        self._tolerated: dict[tuple[DeviceToleration, ...], int] = {}
        if before is not None and before.driver == driver:
            self._keep(before)

    def __reduce__(self) -> tuple[type[DeviceList], tuple[str, tuple[Device, ...]]]:
        return DeviceList, (self.driver, self.devices)  # caches are not pickled

    def _where(self, holds: Callable[[Device], bool]) -> int:
        return sum(1 << at for at, device in enumerate(self.devices) if holds(device))

    @property
    def counting(self) -> int:
        """The devices that consume shared counters, as a bit set of positions."""
        return sum(1 << at for at in self.draws)

    def _keep(self, before: DeviceList) -> None:
        self._matched_before = before._matches
        for at, device in enumerate(self.devices):
            bit = before.bit(device.name)
            if bit and before.devices[earlier := position(bit)] == device:
                self._kept.append((at, earlier))
                self._views[at] = before._views[earlier]

    def bit(self, name: str) -> int:
        """Return the device with a name as a set of one, or 0 if the list contains no such device."""
        if self._places is None:
            self._places = {device.name: 1 << at for at, device in enumerate(self.devices)}
        return self._places.get(name, 0)

    @property
    def size(self) -> int:
        """Number of devices."""
        return len(self.devices)

    def match(self, selectors: tuple[str, ...], limit: int | None = None, turn: Turn | None = None) -> SelectorMatch:
        """Evaluate selectors one after the other, each on the devices that match the earlier ones.

        Raises `OutOfSteps` if this takes more than `limit` steps, also if the result is cached. With a turn, raises
        `Deferred` if a selector can take long, and `Interrupted` when the turn is over; the next call continues from
        there.
        """
        found = self._matches.get(selectors)
        if found is None:
            found = self._matches[selectors] = self._evaluate(selectors, limit, turn)
        if limit is not None:
            left_of(limit, found.steps)
        return found

    def steps_of(self, selectors: tuple[str, ...]) -> int:
        """Return the steps that selectors took, or 0 if they have not been evaluated."""
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
        """Start the evaluation of the last selector, with results for unchanged devices taken over from the previous
        list.
        """
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
        """Return the device at a position in the form that selectors are evaluated on."""
        view = self._views[at]
        if view is None:
            device = self.devices[at]
            shared = device.allowMultipleAllocations or False
            view = self._views[at] = DeviceView(self.driver, device.attributes, device.capacity, shared)
        return view

    def values(self, attribute: str, lists: bool = False) -> dict[TypedValue, int]:
        """Return the devices with an attribute (qualified name) by value, as bit sets of positions.

        Devices without the attribute are left out. With `lists`, each element of a list counts as a value.
        """
        found = self._values.get((attribute, lists))
        if found is None:
            found = self._values[attribute, lists] = {}
            for at, device in enumerate(self.devices):
                for value in self._held(device, attribute, lists):
                    found[value] = found.get(value, 0) | 1 << at
        return found

    def _held(self, device: Device, attribute: str, lists: bool) -> tuple[TypedValue, ...]:
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
        """Evaluate a derived attribute for at least the devices in `wanted`. Raises as `match` does."""
        deriving = self._derived.get((expression, lists))
        if deriving is None:
            deriving = self._derived[expression, lists] = Deriving(self, expression, lists)
        while deriving.ask(wanted):
            left_of(limit, deriving.price(deriving.known & wanted))
            _compute(deriving, None if limit is None else deriving.steps + limit, turn)
        left_of(limit, deriving.price(wanted))
        return deriving

    def eligible(self, requests: RequestClasses, fractional: bool) -> Eligible:
        """Return the devices that can serve a request for capacity if nothing of them is in use.

        A device on which the request is an error is in `faults`. `fractional` is as in `capacity.consumption`.
        """
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
        plain = not asked and not self.shareable >> at & 1  # such a device is always consumed as a whole
        if plain and not any(capacity.requestPolicy for capacity in device.capacity.values()):
            return {}
        return consumption(device, asked, fractional)

    def tolerated(self, tolerations: tuple[DeviceToleration, ...]) -> int:
        """Return the devices without a taint that forbids allocation with these tolerations, as a bit set of
        positions.
        """
        found = self._tolerated.get(tolerations)
        if found is None:
            found = sum(
                1 << at for at, device in enumerate(self.devices) if not intolerable(device.taints, tolerations)
            )
            self._tolerated[tolerations] = found
        return found


def may_take_long(expression: str) -> bool:
    """Return whether evaluating a selector on one device can take milliseconds. Depends on its text only."""
    return len(expression) > QUICK_LENGTH or compile_selector(expression, features=STORED).max_cost > QUICK_COST


def _compute(work: _Judging | Deriving, limit: int | None, turn: Turn | None) -> None:
    """Continue a computation until it is complete or exceeds the limit. Raises as `DeviceList.match` does."""
    if work.is_given_up:
        raise OutOfSteps
    if work.is_in_worker_process and turn is not None:
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


def comparable(attribute: DeviceAttribute, owner: str) -> TypedValue:
    """Return a value that equals another one exactly if Kubernetes considers the two attributes to match.

    The value is a pair of its kind ("string", "int", "bool" or "version") and the value itself. Kubernetes cannot
    compare some kinds of values. Such a value matches no other, so the result is "only" and the owner's name.
    """
    for kind in ("string", "int", "bool", "version"):
        value = getattr(attribute, kind)
        if value is not None:
            return kind, value
    return "only", owner


def listed(attribute: DeviceAttribute) -> tuple[TypedValue, ...]:
    """Return the elements of a list attribute in the form of `comparable`, or () if the attribute is no list or
    empty.
    """
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
    """Return the counters that a device consumes, as (counter set, counter, amount in units of 10^-9)."""
    return tuple(
        (drawn.counterSet, name, nanos(Quantity.parse(counter.value)))
        for drawn in device.consumesCounters
        for name, counter in drawn.counters.items()
    )


def content_of(slice_: ResourceSlice) -> DeviceList:
    """Return a new device list for a slice, not shared with other slices."""
    return DeviceList(slice_.spec.driver, slice_.spec.devices)


def key_of(slice_: ResourceSlice) -> bytes:
    """Return a key that is equal for two slices exactly if their driver and devices are equal."""
    return msgspec.msgpack.encode((slice_.spec.driver, slice_.spec.devices), order="deterministic")
