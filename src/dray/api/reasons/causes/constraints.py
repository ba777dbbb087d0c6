"""Causes: too few free devices have the same value of an attribute, or different values, as a constraint requires."""

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
    """Use another attribute in a constraint."""

    TEXT = "write {new} instead of {old} in a constraint of {where}"

    where: str
    old: str
    new: str


class NoConstraint(Suggestion, frozen=True, tag="help-no-constraint"):
    """Remove a constraint from the claim."""

    TEXT = "leave out the constraint on {attribute} of {where}"

    where: str
    attribute: str


class ConstraintUnmet(Cause, frozen=True, tag="Constraint"):
    """Too few free devices on one node have the same value of an attribute, or different values, as a constraint
    requires.

    claim: the claim with the constraint
    requests: the requests that the constraint applies to
    attribute: the attribute
    distinct: whether the values must differ; otherwise they must be the same
    needed: number of devices that the requests need
    most: number of free devices with the same value on the best node, or number of different values
    node: the best node
    template: the template from which the claim was created, if any
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
    """A constraint refers to an attribute that no device has.

    claim: the claim with the constraint
    requests: the requests that the constraint applies to
    attribute: the attribute
    devices: number of published devices
    similar: an existing attribute that was probably meant
    template: the template from which the claim was created, if any
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
    """A request asks for all matching devices, and these devices violate a constraint.

    claim: the claim
    problem: the constraint and the device that violates it
    """

    TEXT = "it asks for all matching devices, and they do not satisfy its constraint: {why}"
    HELPS = (NoConstraint,)

    claim: str
    problem: InputProblem

    def words(self) -> dict[str, str]:
        return {"why": input_problem(self.problem)}


def who_needs(claim: str, requests: tuple[str, ...], template: str) -> dict[str, str]:
    """Return template values: the names of a constraint's requests (`who`) and the verb form (`needs`)."""
    needs = CausePhrase.SEVERAL_NEED if len(requests) > 1 else CausePhrase.ONE_NEEDS
    return {"who": requests_of(claim, requests, template), "needs": say(needs)}
