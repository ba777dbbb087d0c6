"""Derived attributes: values that an expression of a request computes for devices, for use in constraints.

An expression is evaluated only on requested devices, once for each. This can take long, so another process can do it.
Left out: which devices are requested (`problem`), and the expressions themselves (`dray.cel`).
"""

from __future__ import annotations

from typing import Protocol

from dray.allocator.bits import positions
from dray.allocator.work import Work
from dray.cel import STORED, CelError, DeviceView, Interrupt, Interrupted
from dray.cel.derived import DerivedAttribute, DerivedValue, compile_derived

TypedValue = tuple[str, object]

QUICK_LENGTH = 256  # characters of an expression that compiles in at most 10 ms
QUICK_COST = 4_000  # estimated cost of an expression that is evaluated in at most a few milliseconds


class DeviceViews(Protocol):
    """Devices by position, in the form that expressions are evaluated on."""

    def view(self, at: int) -> DeviceView:
        """Return the device at a position, counted from 0."""

    @property
    def size(self) -> int:
        """Number of devices. Their positions are 0 to size - 1."""


DerivingFound = tuple[int, dict[TypedValue, int], int, dict[int, str], dict[int, int], int]


class Deriving(Work):
    """Results of one expression so far: devices by value, and the messages of CEL for devices on which it fails.

    If `lists` is set, each element of a list counts as a value of the device. Otherwise a list matches no other device's value.
    """

    def __init__(self, devices: DeviceViews, expression: str, lists: bool) -> None:
        self._devices = devices
        self._expression = expression
        self._lists = lists
        self.left = 0
        self.known = 0
        self.prices: dict[int, int] = {}  # steps by device, where they are more than one
        self.values: dict[TypedValue, int] = {}
        self.errors = 0
        self.causes: dict[int, str] = {}

    def ask(self, wanted: int) -> bool:
        """Request the devices in the bit set `wanted`. Returns whether any of them has not been evaluated yet."""
        unknown = wanted & ~self.known
        self.left |= unknown
        return bool(unknown)

    @property
    def _attribute(self) -> DerivedAttribute:
        return compile_derived(self._expression, features=STORED)

    @property
    def is_costly(self) -> bool:
        """Whether evaluating the expression on one device can take milliseconds."""
        return len(self._expression) > QUICK_LENGTH or self._attribute.max_cost > QUICK_COST

    def price(self, devices: int) -> int:
        """Return the steps that the evaluation of the devices in a bit set took: at least one for each."""
        return devices.bit_count() + sum(steps - 1 for at, steps in self.prices.items() if devices >> at & 1)

    @property
    def is_over(self) -> bool:
        return not self.left or self.is_out

    @property
    def size(self) -> int:
        return self._devices.size

    def run(self, interrupt: Interrupt | None) -> bool:
        attribute = self._attribute
        for at in positions(self.left):
            if self.is_out:
                break
            try:
                self._derive(attribute, at, interrupt)
            except Interrupted:
                return False
            self.left &= ~(1 << at)
            self.known |= 1 << at
            if self.left and not self.is_out and interrupt is not None and interrupt():
                return False
        return True

    def _derive(self, attribute: DerivedAttribute, at: int, interrupt: Interrupt | None) -> None:
        found: DerivedValue | CelError
        steps = 1
        try:
            found, steps = attribute.judge(self._devices.view(at), interrupt=interrupt)
        except Interrupted:
            raise
        except CelError as error:
            found = error
        self.steps += steps
        if steps > 1:
            self.prices[at] = steps
        if isinstance(found, CelError):
            self.errors |= 1 << at
            self.causes[at] = str(found)
            return
        is_own = found.is_list and not self._lists
        values: tuple[TypedValue, ...] = (("only", at),) if is_own else found.values
        for value in values:
            self.values[value] = self.values.get(value, 0) | 1 << at

    def found(self) -> DerivingFound:
        return self.known, self.values, self.errors, self.causes, self.prices, self.steps

    def accept(self, found: DerivingFound) -> None:
        self.known, self.values, self.errors, self.causes, self.prices, self.steps = found
        self.left &= ~self.known  # further devices may have been requested meanwhile
