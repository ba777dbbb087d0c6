"""Cause: a request refers to a device class that does not exist."""

from __future__ import annotations

from dray.api.reasons.cause_wording import claim_named
from dray.api.reasons.causes.base import Cause, similar_name
from dray.api.reasons.suggestions import Suggestion


class UseClass(Suggestion, frozen=True, tag="help-use-class"):
    """Refer to another device class in the request."""

    TEXT = "ask for class {new} instead of {old} in {where}"

    where: str
    old: str
    new: str


class CreateClass(Suggestion, frozen=True, tag="help-create-class"):
    """Create a device class for the devices of a driver."""

    TEXT = "create DeviceClass {device_class}, which selects the devices of driver {driver}"

    device_class: str
    driver: str


class ClassMissing(Cause, frozen=True, tag="ClassMissing"):
    """The device class of a request does not exist.

    claim: the claim with the request
    request: the request that refers to the class
    device_class: name of the missing class
    similar: an existing class with a similar name
    template: the template from which the claim was created, if any
    """

    TEXT = "request {request} of {whose}: device class {device_class} does not exist{meant}"
    HELPS = (UseClass, CreateClass)

    claim: str
    request: str
    device_class: str
    similar: str = ""
    template: str = ""

    def words(self) -> dict[str, str]:
        return {"meant": similar_name(self.similar), "whose": claim_named(self.claim, self.template)}
