"""A selector fails, or matches no device."""

from __future__ import annotations

from dray.api.reasons.cause_wording import selector_fault
from dray.api.reasons.causes.base import Cause, RequestCause
from dray.api.reasons.devices import InputProblem
from dray.api.reasons.selector_faults import SelectorFault
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import input_problem


class RenameInSelector(Suggestion, frozen=True, tag="help-selector-name"):
    """Another attribute or capacity in a selector."""

    TEXT = "write {new} instead of {old} in a selector of {where}"

    where: str
    old: str
    new: str


class OtherValue(Suggestion, frozen=True, tag="help-selector-value"):
    """Another value in a selector."""

    TEXT = "ask for {new} instead of {old} in {where}"

    where: str
    old: str
    new: str


class GuardSelector(Suggestion, frozen=True, tag="help-selector-guard"):
    """A selector that asks first whether a device has the attribute."""

    TEXT = "write {new} instead of {old} in a selector of {where}, since not every device has it"

    where: str
    old: str
    new: str


class ChangeClassSelector(Suggestion, frozen=True, tag="help-class-selector"):
    """Another selector in a device class."""

    TEXT = "let class {device_class} select with {new}"

    device_class: str
    old: str
    new: str


class SelectorFails(Cause, frozen=True, tag="SelectorFails"):
    """A selector of a claim or a class fails on a device.

    claim: the claim
    problem: which selector fails, on which device, and what CEL says
    fault: the name that no device has, if that is why
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
    """A selector of a request that matches no device."""

    selector: int
    candidates: int
    fault: SelectorFault

    def words(self) -> dict[str, str]:
        return {"why": selector_fault(self.fault)}


class UnknownAttribute(SelectorCause, frozen=True, tag="UnknownAttribute"):
    """A selector of the request uses an attribute or capacity that no device has.

    asked: the request
    selector: the number of the selector, counted from 0
    candidates: how many devices the class and the selectors before leave
    fault: the name, and which one is probably meant
    """

    TEXT = "selector #{selector} matches none of {candidates}: {why}"
    HELPS = (RenameInSelector,)


class NoMatch(SelectorCause, frozen=True, tag="NoMatch"):
    """A selector of the request matches no device.

    asked: the request
    selector: the number of the selector, counted from 0
    candidates: how many devices the class and the selectors before leave
    fault: which part of it nothing meets, and what devices have there
    """

    TEXT = "selector #{selector} matches none of {candidates}: {why}"
    HELPS = (OtherValue,)


class ClassMatchesNothing(RequestCause, frozen=True, tag="ClassMatchesNothing"):
    """The class of the request selects none of the devices that are published.

    asked: the request
    published: how many devices are published
    fault: why the selector of the class matches none
    """

    TEXT = "class {device_class} matches none of the {published} that are published: {why}"
    HELPS = (ChangeClassSelector,)

    published: int
    fault: SelectorFault

    def words(self) -> dict[str, str]:
        return {"why": selector_fault(self.fault), "device_class": self.asked.device_class}
