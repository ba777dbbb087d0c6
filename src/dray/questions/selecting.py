"""Devices that an expression selects, and for each other device the part of the expression that excludes it.

For expressions being typed: each is evaluated on every device, within a number of steps. Left out: creating device
views (the caller provides them), and advice (`selectors`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from dray.allocator.budget import OutOfSteps, StepMeter
from dray.api.allocations import DeviceId
from dray.cel import DeviceView, EvaluationError, check_selector, compile_selector
from dray.cel.selector import Selector
from dray.inspect.asking import expressions
from dray.inspect.expressions import ExpressionPart, parts_of
from dray.inspect.hardware import Hardware
from dray.inspect.snapshot import Snapshot

OF_CLASS = ExpressionPart("", 0, 0)  # represents the class, which is not part of the expression


class Failure(NamedTuple):
    """Devices excluded by one part: the part is false, or fails with `error`."""

    part: ExpressionPart
    error: str
    devices: list[int]


class SelectedDevices(NamedTuple):
    """Result of a selection by device number. `problem` describes an invalid expression."""

    problem: str
    matched: list[int]
    failures: list[Failure]
    max_cost: int
    is_complete: bool


class MatchingDevices(NamedTuple):
    """Devices of a cluster that an expression selects. `problem` describes an invalid expression.

    `failed` groups the other devices: the part of the expression that excludes them, its evaluation error (empty if
    the part is
    false), and the devices.
    """

    problem: str
    matched: list[DeviceId]
    failed: list[tuple[str, str, list[DeviceId]]]
    is_complete: bool


def matching(snapshot: Snapshot, expression: str, of_class: str = "", steps: int | None = None) -> MatchingDevices:
    """Evaluate an expression on all devices of a class, or of the cluster without a class, within a number of steps."""
    class_ = snapshot.classes[of_class].spec.selectors if of_class else ()
    devices = Hardware(snapshot.pools).devices
    found = select([*enumerate(one.view for one in devices)], expression, expressions(class_), StepMeter(steps))
    failed = [(one.part.text, one.error, [devices[number].id for number in one.devices]) for one in found.failures]
    return MatchingDevices(found.problem, [devices[number].id for number in found.matched], failed, found.is_complete)


def select(devices: Iterable[tuple[int, DeviceView]], expression: str, of_class: Sequence[str], meter: StepMeter) -> SelectedDevices:  # fmt: skip
    """Evaluate class selectors and expression on numbered devices, as far as the meter allows."""
    refused = check_selector(expression) if expression.strip() else None
    if refused is not None:
        return SelectedDevices(f"{refused.reason}: {refused.detail}", [], [], 0, True)
    judge = _Judge(expression, of_class)
    matched: list[int] = []
    failures: dict[tuple[ExpressionPart, str], list[int]] = {}
    is_complete = True
    for number, view in devices:
        try:
            failed = judge.failed(view, meter)
        except OutOfSteps:
            is_complete = False
            break
        if failed is None:
            matched.append(number)
        else:
            failures.setdefault(failed, []).append(number)
    found = [Failure(part, error, numbers) for (part, error), numbers in failures.items()]
    return SelectedDevices("", matched, sorted(found, key=lambda one: one.part.start), judge.max_cost, is_complete)


class _Judge:
    """Compiled selectors of a class, and compiled parts of an expression."""

    def __init__(self, expression: str, of_class: Sequence[str]) -> None:
        self._class = [compile_selector(one) for one in of_class]
        self._whole = compile_selector(expression) if expression.strip() else None
        self._parts = [(part, compile_selector(part.text)) for part in parts_of(expression)] if self._whole else []
        self.max_cost = self._whole.max_cost if self._whole is not None else 0

    def failed(self, view: DeviceView, meter: StepMeter) -> tuple[ExpressionPart, str] | None:
        """Return the part that excludes a device and its error (empty if the part is false), or None for a match.

        The selectors of the class come first.
        """
        for selector in self._class:
            said = _said(selector, view, meter)
            if said is not True:
                return OF_CLASS, "" if said is False else said
        if self._whole is None:
            return None
        said = _said(self._whole, view, meter)
        return None if said is True else self._blame(view, said, meter)

    def _blame(self, view: DeviceView, said: bool | str, meter: StepMeter) -> tuple[ExpressionPart, str]:
        """Return the first part with the same result as the whole expression, and its error (empty if it is false).

        A false part hides the errors of others, so the results are compared. Returns the first part if none has the
        same result.
        """
        for part, selector in self._parts:
            if selector.error is None and _said(selector, view, meter) == said:
                return part, "" if said is False else str(said)
        return self._parts[0][0], "" if said is False else str(said)


def _said(selector: Selector, view: DeviceView, meter: StepMeter) -> bool | str:
    """Evaluate a selector. Returns true or false, or the text of an error."""
    if selector.error is not None:
        return str(selector.error)
    answer, steps = selector.judge(view)
    meter.spend(steps)
    return str(answer) if isinstance(answer, EvaluationError) else answer
