"""Attributes that a request computes of devices, one device after the other: what constraints then see of them.

An expression is evaluated only on devices that somebody asks about, once each. It may take long, so it can be left to
another process. Left out: which devices are asked about (`problem`), and the expressions themselves (`dray.cel`).
"""

from __future__ import annotations

from typing import Protocol

from dray.allocator.bits import positions
from dray.allocator.work import Work
from dray.cel import STORED, CelError, DeviceView, Interrupt, Interrupted
from dray.cel.derived import DerivedAttribute, DerivedValue, compile_derived

Value = tuple[str, object]

QUICK_LENGTH = 256  # of an expression: to compile it takes 10 ms at most
QUICK_COST = 4_000  # estimated, of an expression: to evaluate it takes a few milliseconds at most


class DeviceViews(Protocol):
    """The devices that expressions are about, by position."""

    def view(self, at: int) -> DeviceView:
        """The device at a position, as expressions see it."""

    @property
    def size(self) -> int:
        """How many there are."""


DerivingFound = tuple[int, dict[Value, int], int, dict[int, str], dict[int, int], int]


class Deriving(Work):
    """One expression: the devices of each value found so far, and those on which it fails, with what CEL says.

    Where values are lists, a device may have several; where lists are no values, a list is the device's own.
    """

    def __init__(self, devices: DeviceViews, expression: str, lists: bool) -> None:
        self._devices = devices
        self._expression = expression
        self._lists = lists
        self.left = 0
        self.known = 0
        self.prices: dict[int, int] = {}  # steps by device, where they are more than one
        self.values: dict[Value, int] = {}
        self.errors = 0
        self.causes: dict[int, str] = {}

    def ask(self, wanted: int) -> bool:
        """Ask for these devices as well; answers whether any of them is to be looked at."""
        unknown = wanted & ~self.known
        self.left |= unknown
        return bool(unknown)

    @property
    def _attribute(self) -> DerivedAttribute:
        return compile_derived(self._expression, features=STORED)

    @property
    def is_costly(self) -> bool:
        """Whether it may take milliseconds to look at a device."""
        return len(self._expression) > QUICK_LENGTH or self._attribute.max_cost > QUICK_COST

    def price(self, devices: int) -> int:
        """The steps that devices took which are known."""
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
        values: tuple[Value, ...] = (("only", at),) if is_own else found.values
        for value in values:
            self.values[value] = self.values.get(value, 0) | 1 << at

    def found(self) -> DerivingFound:
        return self.known, self.values, self.errors, self.causes, self.prices, self.steps

    def accept(self, found: DerivingFound) -> None:
        self.known, self.values, self.errors, self.causes, self.prices, self.steps = found
        self.left &= ~self.known  # more may have been asked for meanwhile
