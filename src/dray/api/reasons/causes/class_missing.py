"""A request names a device class that does not exist."""

from __future__ import annotations

from dray.api.reasons.cause_wording import claim_named
from dray.api.reasons.causes.base import Cause, similar_name
from dray.api.reasons.suggestions import Suggestion


class UseClass(Suggestion, frozen=True, tag="help-use-class"):
    """Another class in a request."""

    TEXT = "ask for class {new} instead of {old} in {where}"

    where: str
    old: str
    new: str


class CreateClass(Suggestion, frozen=True, tag="help-create-class"):
    """A class for the devices of a driver."""

    TEXT = "create DeviceClass {device_class}, which selects the devices of driver {driver}"

    device_class: str
    driver: str


class ClassMissing(Cause, frozen=True, tag="ClassMissing"):
    """The device class of a request does not exist.

    claim: whose request it is
    request: the request that names the class
    device_class: the class that does not exist
    similar: a class that exists and has a similar name
    template: the template of the claim, where it was made from one
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
