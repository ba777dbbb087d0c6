"""Causes: no node has as many devices as a request needs, even if all were free. Also suggestions to request less."""

from __future__ import annotations

from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.causes.base import Cause, RequestCause
from dray.api.reasons.devices import DeviceStep, InputProblem, StepCode
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import condition, input_problem, say


class FewerDevices(Suggestion, frozen=True, tag="help-fewer-devices"):
    """Request only as many devices as one node can provide."""

    TEXT = "ask for {devices} instead of {asked_for} devices in {where}"

    where: str
    asked_for: int
    devices: int


class MoreDevices(Suggestion, frozen=True, tag="help-more-devices"):
    """Add devices to a node."""

    TEXT = "{number} more {device} on {node}"

    device: str
    node: str
    number: int


class NoDevices(RequestCause, frozen=True, tag="NoDevices"):
    """The cluster has no devices.

    asked: the request
    """

    TEXT = "no driver publishes any device"


class ShortCause(RequestCause, frozen=True):
    """Base class of causes with a condition after which no node has as many devices as a request needs."""

    NEED = CausePhrase.NEEDS_ON_ONE_NODE

    most: int
    node: str
    step: DeviceStep

    def words(self) -> dict[str, str]:
        phrase = CausePhrase.AT_MOST if self.most else CausePhrase.NONE_ON_ONE
        return {"at_most": say(phrase, found=self.most, node=self.node), "condition": condition(self.step)}


class TooFewDevices(ShortCause, frozen=True, tag="TooFewDevices"):
    """No node where the pod can run has enough devices for the request.

    asked: the request
    most: number of suitable devices on the best node
    node: the best node
    step: the condition after which too few devices remain
    """

    TEXT = "{at_most} {condition}"
    PHRASES = {"published": "no node that it may use has more than {most}"}
    HELPS = (FewerDevices, MoreDevices)

    def phrase(self) -> str:
        return "published" if self.step.code is StepCode.PUBLISHED else ""


class FeatureOff(RequestCause, frozen=True, tag="FeatureOff"):
    """Suitable devices exist, but can only be used with a feature gate that is off.

    asked: the request
    gate: the feature gate
    devices: number of devices that need the feature gate
    """

    TEXT = "{devices} of the devices that match need gate {gate}, which is off"

    gate: str
    devices: int


class TooManyDevices(Cause, frozen=True, tag="TooManyDevices"):
    """The claim asks for more devices than one claim can have.

    claim: the claim
    problem: the requested number of devices and the maximum
    """

    TEXT = "{what}"
    HELPS = (FewerDevices,)

    claim: str
    problem: InputProblem

    def words(self) -> dict[str, str]:
        return {"what": input_problem(self.problem)}
