"""Causes: the capacity of devices, or the counters shared by partitions, are too small."""

from __future__ import annotations

from dray.api.reasons.cause_wording import lacks
from dray.api.reasons.causes.taken import EndPods, MovePods, UsePriority
from dray.api.reasons.causes.too_few import MoreDevices, ShortCause
from dray.api.reasons.devices import LackingAmount
from dray.api.reasons.requested import ClaimAmount
from dray.api.reasons.suggestions import Suggestion


class LessCapacity(Suggestion, frozen=True, tag="help-less-capacity"):
    """Request only as much capacity as the nearest device can provide."""

    TEXT = "ask for {amounts} of {capacities} in {where}"

    where: str
    capacities: tuple[str, ...]
    amounts: tuple[str, ...]


class AmountCause(ShortCause, frozen=True):
    """Base class of causes where no device of the closest node has enough of an amount left."""

    lacking: tuple[LackingAmount, ...]
    held: tuple[ClaimAmount, ...] = ()

    def words(self) -> dict[str, str]:
        return ShortCause.words(self) | {"lacks": lacks(self.lacking, self.held)}


class CapacityTooLarge(AmountCause, frozen=True, tag="CapacityTooLarge"):
    """The request asks for more capacity than a device has, or than the device's policy grants one request.

    asked: the request
    most: number of suitable devices on the best node
    node: the best node
    step: the condition after which too few devices remain
    lacking: the needed and the existing amounts, for the device that comes closest
    held: the claims that hold part of this amount
    """

    TEXT = "{at_most} {condition}: {lacks}"
    HELPS = (LessCapacity,)


class CapacityExhausted(AmountCause, frozen=True, tag="CapacityExhausted"):
    """The matching devices have too little capacity left.

    asked: the request
    most: number of suitable devices on the best node
    node: the best node
    step: the condition after which too few devices remain
    lacking: the needed and the remaining amounts, for the device that comes closest
    held: the claims that hold part of this amount
    """

    TEXT = "{at_most} {condition}: {lacks}"
    HELPS = (LessCapacity, MovePods, EndPods, UsePriority, MoreDevices)


class CountersExhausted(AmountCause, frozen=True, tag="CountersExhausted"):
    """The counters that the matching partitions consume have too little left.

    asked: the request
    most: number of suitable devices on the best node
    node: the best node
    step: the condition after which too few devices remain
    lacking: the needed and the remaining amounts, for the partition that comes closest
    held: the claims that hold part of this amount
    """

    TEXT = "{at_most} {condition}: {lacks}"
    HELPS = (MovePods, EndPods, UsePriority)
