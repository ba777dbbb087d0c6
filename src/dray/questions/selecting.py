"""Which devices an expression selects, and for each of the others, which part of the expression it fails.

For an expression that somebody is still typing: it is evaluated on every device, within a number of steps. Left out: what the
devices are (the caller brings how expressions see them), and advice (`selectors`).
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

OF_CLASS = ExpressionPart("", 0, 0)  # stands for the class, which has no place in the expression


class Failure(NamedTuple):
    """Devices that fail at one part: where it is false, or (with an error) where it has no answer."""

    part: ExpressionPart
    error: str
    devices: list[int]


class SelectedDevices(NamedTuple):
    """What an expression selects. `problem` is what is wrong with the expression itself."""

    problem: str
    matched: list[int]
    failures: list[Failure]
    max_cost: int
    is_complete: bool


class MatchingDevices(NamedTuple):
    """The devices of a cluster that an expression selects. `problem` is what is wrong with the expression itself.

    `failed` are the others, by the part of the expression that is false for them or, with what is wrong, has no answer.
    """

    problem: str
    matched: list[DeviceId]
    failed: list[tuple[str, str, list[DeviceId]]]
    is_complete: bool


def matching(snapshot: Snapshot, expression: str, of_class: str = "", steps: int | None = None) -> MatchingDevices:
    """The devices of a class, or of all, that an expression selects; up to a number of steps."""
    class_ = snapshot.classes[of_class].spec.selectors if of_class else ()
    devices = Hardware(snapshot.pools).devices
    found = select([*enumerate(one.view for one in devices)], expression, expressions(class_), StepMeter(steps))
    failed = [(one.part.text, one.error, [devices[number].id for number in one.devices]) for one in found.failures]
    return MatchingDevices(found.problem, [devices[number].id for number in found.matched], failed, found.is_complete)


def select(devices: Iterable[tuple[int, DeviceView]], expression: str, of_class: Sequence[str], meter: StepMeter) -> SelectedDevices:  # fmt: skip
    """Ask about every device, by number, as far as the meter allows."""
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
    """The selectors of a class and the parts of an expression, compiled."""

    def __init__(self, expression: str, of_class: Sequence[str]) -> None:
        self._class = [compile_selector(one) for one in of_class]
        self._whole = compile_selector(expression) if expression.strip() else None
        self._parts = [(part, compile_selector(part.text)) for part in parts_of(expression)] if self._whole else []
        self.max_cost = self._whole.max_cost if self._whole is not None else 0

    def failed(self, view: DeviceView, meter: StepMeter) -> tuple[ExpressionPart, str] | None:
        """Where a device fails; None where it matches."""
        for selector in self._class:
            said = _said(selector, view, meter)
            if said is not True:
                return OF_CLASS, "" if said is False else said
        if self._whole is None:
            return None
        said = _said(self._whole, view, meter)
        return None if said is True else self._blame(view, said, meter)

    def _blame(self, view: DeviceView, said: bool | str, meter: StepMeter) -> tuple[ExpressionPart, str]:
        """The first part that says the same as the whole: a part that is false hides the failure of another one."""
        for part, selector in self._parts:
            if selector.error is None and _said(selector, view, meter) == said:
                return part, "" if said is False else str(said)
        return self._parts[0][0], "" if said is False else str(said)


def _said(selector: Selector, view: DeviceView, meter: StepMeter) -> bool | str:
    """Yes, no, or why there is no answer."""
    if selector.error is not None:
        return str(selector.error)
    answer, steps = selector.judge(view)
    meter.spend(steps)
    return str(answer) if isinstance(answer, EvaluationError) else answer
