"""Causes about a ResourcePoolStatusRequest: its result, or why it has none."""

from __future__ import annotations

from dray.api.reasons.causes.base import Cause


class RequestAnswered(Cause, frozen=True, tag="Complete"):
    """The request for pool status has its result.

    driver: the driver of the pools
    listed: number of pools in the result
    pools: number of matching pools
    """

    TEXT = "it is answered: {listed} of {pools} pools"

    driver: str
    listed: int
    pools: int


class NoMatchingPools(Cause, frozen=True, tag="NoPools"):
    """The request for pool status has its result: no pool matches.

    driver: the driver whose pools were requested
    """

    TEXT = "it is answered: driver {driver} has no matching pool"

    driver: str


class AnswerFailed(Cause, frozen=True, tag="Failed"):
    """The controller failed to compute the result of the request for pool status.

    driver: the driver whose pools were requested
    message: the message from the controller
    """

    TEXT = "its computation failed: {message}"

    driver: str
    message: str


class NoController(Cause, frozen=True, tag="NoController"):
    """The request for pool status has no result yet."""

    TEXT = "it has not been answered: no controller manager is running, or its gate DRAResourcePoolStatus is off"
