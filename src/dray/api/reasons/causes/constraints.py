"""Devices that have to share an attribute, or to differ in one, are not free together."""

from __future__ import annotations

from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.cause_wording import requests_of
from dray.api.reasons.causes.base import Cause, similar_name
from dray.api.reasons.causes.taken import EndPods, MovePods, UsePriority
from dray.api.reasons.causes.too_few import MoreDevices
from dray.api.reasons.devices import InputProblem
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import input_problem, say


class RenameInConstraint(Suggestion, frozen=True, tag="help-constraint-name"):
    """Another attribute in a constraint."""

    TEXT = "write {new} instead of {old} in a constraint of {where}"

    where: str
    old: str
    new: str


class NoConstraint(Suggestion, frozen=True, tag="help-no-constraint"):
    """A claim without one of its constraints."""

    TEXT = "leave out the constraint on {attribute} of {where}"

    where: str
    attribute: str


class ConstraintUnmet(Cause, frozen=True, tag="Constraint"):
    """Too few free devices of one node share an attribute, or differ in it, as a constraint demands.

    claim: whose constraint it is
    requests: the requests that it is about
    attribute: the attribute
    distinct: whether the devices must differ in it; otherwise they must share it
    needed: how many devices the requests need
    most: how many free devices of the best node share one value, or how many values they have
    node: that node
    template: the template of the claim, where it was made from one
    """

    TEXT = "{who} {needs} {needed} devices that {how}"
    PHRASES = {
        "share": "share {attribute}: of those that are free, at most {most} on one node ({node})",
        "differ": "all differ in {attribute}: at most {most} values are free on one node ({node})",
    }
    HELPS = (MovePods, EndPods, NoConstraint, UsePriority, MoreDevices)

    claim: str
    requests: tuple[str, ...]
    attribute: str
    distinct: bool
    needed: int
    most: int
    node: str
    template: str = ""

    def words(self) -> dict[str, str]:
        phrase = "differ" if self.distinct else "share"
        how = self.say(phrase, attribute=self.attribute, most=self.most, node=self.node)
        return who_needs(self.claim, self.requests, self.template) | {"how": how}


class ConstraintAttribute(Cause, frozen=True, tag="ConstraintAttribute"):
    """A constraint is about an attribute that no device has.

    claim: whose constraint it is
    requests: the requests that it is about
    attribute: the attribute
    devices: how many devices are published
    similar: an attribute that devices have and that is probably meant
    template: the template of the claim, where it was made from one
    """

    TEXT = "{who} {needs} devices that share {attribute}, which 0 of {devices} devices have{meant}"
    HELPS = (RenameInConstraint, NoConstraint)

    claim: str
    requests: tuple[str, ...]
    attribute: str
    devices: int
    similar: str = ""
    template: str = ""

    def words(self) -> dict[str, str]:
        return who_needs(self.claim, self.requests, self.template) | {"meant": similar_name(self.similar)}


class ConstraintOfAll(Cause, frozen=True, tag="ConstraintOfAll"):
    """A request asks for all matching devices, and they do not satisfy a constraint.

    claim: the claim
    problem: which constraint refuses which device
    """

    TEXT = "it asks for all matching devices, and they do not satisfy its constraint: {why}"
    HELPS = (NoConstraint,)

    claim: str
    problem: InputProblem

    def words(self) -> dict[str, str]:
        return {"why": input_problem(self.problem)}


def who_needs(claim: str, requests: tuple[str, ...], template: str) -> dict[str, str]:
    """The requests of a constraint, with the verb that goes with them."""
    needs = CausePhrase.SEVERAL_NEED if len(requests) > 1 else CausePhrase.ONE_NEEDS
    return {"who": requests_of(claim, requests, template), "needs": say(needs)}
