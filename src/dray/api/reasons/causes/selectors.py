"""Causes: a selector fails or matches no device."""

from __future__ import annotations

from dray.api.reasons.cause_wording import selector_fault
from dray.api.reasons.causes.base import Cause, RequestCause
from dray.api.reasons.devices import InputProblem
from dray.api.reasons.selector_faults import SelectorFault
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import input_problem


class RenameInSelector(Suggestion, frozen=True, tag="help-selector-name"):
    """Use another attribute or capacity in a selector."""

    TEXT = "write {new} instead of {old} in a selector of {where}"

    where: str
    old: str
    new: str


class OtherValue(Suggestion, frozen=True, tag="help-selector-value"):
    """Use another value in a selector."""

    TEXT = "ask for {new} instead of {old} in {where}"

    where: str
    old: str
    new: str


class GuardSelector(Suggestion, frozen=True, tag="help-selector-guard"):
    """Change a selector to test first whether the device has the attribute."""

    TEXT = "write {new} instead of {old} in a selector of {where}, since not every device has it"

    where: str
    old: str
    new: str


class ChangeClassSelector(Suggestion, frozen=True, tag="help-class-selector"):
    """Change a selector of the device class."""

    TEXT = "let class {device_class} select with {new}"

    device_class: str
    old: str
    new: str


class SelectorFails(Cause, frozen=True, tag="SelectorFails"):
    """Evaluating a selector of a claim or class fails for a device.

    claim: the claim
    problem: the selector, the device and the CEL error
    fault: the attribute or capacity that no device has, if this is the reason
    """

    TEXT = "{failure}{why}"
    PHRASES = {"why": "; {fault}"}
    HELPS = (RenameInSelector, GuardSelector, ChangeClassSelector)

    claim: str
    problem: InputProblem
    fault: SelectorFault | None = None

    def words(self) -> dict[str, str]:
        why = self.say("why", fault=selector_fault(self.fault)) if self.fault is not None else ""
        return {"failure": input_problem(self.problem), "why": why}


class SelectorCause(RequestCause, frozen=True):
    """Base class of causes where a selector of a request matches no device."""

    selector: int
    candidates: int
    fault: SelectorFault

    def words(self) -> dict[str, str]:
        return {"why": selector_fault(self.fault)}


class UnknownAttribute(SelectorCause, frozen=True, tag="UnknownAttribute"):
    """A selector of the request uses an attribute or capacity that no device has.

    asked: the request
    selector: index of the selector, starting at 0
    candidates: number of devices that match the class and the previous selectors
    fault: the unknown name, and the name that was probably meant
    """

    TEXT = "selector #{selector} matches none of {candidates}: {why}"
    HELPS = (RenameInSelector,)


class NoMatch(SelectorCause, frozen=True, tag="NoMatch"):
    """A selector of the request matches no device.

    asked: the request
    selector: index of the selector, starting at 0
    candidates: number of devices that match the class and the previous selectors
    fault: the part of the selector that no device satisfies, and the values that devices have
    """

    TEXT = "selector #{selector} matches none of {candidates}: {why}"
    HELPS = (OtherValue,)


class ClassMatchesNothing(RequestCause, frozen=True, tag="ClassMatchesNothing"):
    """The device class of the request matches none of the published devices.

    asked: the request
    published: number of published devices
    fault: why the selector of the class matches no device
    """

    TEXT = "class {device_class} matches none of the {published} that are published: {why}"
    HELPS = (ChangeClassSelector,)

    published: int
    fault: SelectorFault

    def words(self) -> dict[str, str]:
        return {"why": selector_fault(self.fault), "device_class": self.asked.device_class}
