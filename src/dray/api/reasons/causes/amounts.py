"""Capacity of devices, or counters that partitions share, do not suffice."""

from __future__ import annotations

from dray.api.reasons.cause_wording import lacks
from dray.api.reasons.causes.taken import EndPods, MovePods, UsePriority
from dray.api.reasons.causes.too_few import MoreDevices, ShortCause
from dray.api.reasons.devices import LackingAmount
from dray.api.reasons.requested import ClaimAmount
from dray.api.reasons.suggestions import Suggestion


class LessCapacity(Suggestion, frozen=True, tag="help-less-capacity"):
    """As much capacity as the nearest device can give."""

    TEXT = "ask for {amounts} of {capacities} in {where}"

    where: str
    capacities: tuple[str, ...]
    amounts: tuple[str, ...]


class AmountCause(ShortCause, frozen=True):
    """An amount that no device of the closest node has left."""

    lacking: tuple[LackingAmount, ...]
    held: tuple[ClaimAmount, ...] = ()

    def words(self) -> dict[str, str]:
        return ShortCause.words(self) | {"lacks": lacks(self.lacking, self.held)}


class CapacityTooLarge(AmountCause, frozen=True, tag="CapacityTooLarge"):
    """The request asks for more capacity than a device has, or than its policy gives to one request.

    asked: the request
    most: how many devices the best node has
    node: that node
    step: the condition after which too few devices are left
    lacking: what is asked for and what there is, on the device that comes closest
    held: which claims hold how much of it
    """

    TEXT = "{at_most} {condition}: {lacks}"
    HELPS = (LessCapacity,)


class CapacityExhausted(AmountCause, frozen=True, tag="CapacityExhausted"):
    """The devices that match have too little capacity left.

    asked: the request
    most: how many devices the best node has
    node: that node
    step: the condition after which too few devices are left
    lacking: what is asked for and what is left, on the device that comes closest
    held: which claims hold how much of it
    """

    TEXT = "{at_most} {condition}: {lacks}"
    HELPS = (LessCapacity, MovePods, EndPods, UsePriority, MoreDevices)


class CountersExhausted(AmountCause, frozen=True, tag="CountersExhausted"):
    """The counters that the matching partitions draw on have too little left.

    asked: the request
    most: how many devices the best node has
    node: that node
    step: the condition after which too few devices are left
    lacking: what is needed and what is left, for the partition that comes closest
    held: which claims hold how much of it
    """

    TEXT = "{at_most} {condition}: {lacks}"
    HELPS = (MovePods, EndPods, UsePriority)
