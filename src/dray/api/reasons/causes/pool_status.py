"""A ResourcePoolStatusRequest: its answer, or why it has none."""

from __future__ import annotations

from dray.api.reasons.causes.base import Cause


class RequestAnswered(Cause, frozen=True, tag="Complete"):
    """The request for pool status has its answer.

    driver: whose pools
    listed: how many pools the answer lists
    pools: how many pools match
    """

    TEXT = "it is answered: {listed} of {pools} pools"

    driver: str
    listed: int
    pools: int


class NoMatchingPools(Cause, frozen=True, tag="NoPools"):
    """The request for pool status is answered: no pool matches.

    driver: whose pools were asked for
    """

    TEXT = "it is answered: driver {driver} has no matching pool"

    driver: str


class AnswerFailed(Cause, frozen=True, tag="Failed"):
    """The answer to the request for pool status could not be computed.

    driver: whose pools were asked for
    message: what the controller says
    """

    TEXT = "its computation failed: {message}"

    driver: str
    message: str


class NoController(Cause, frozen=True, tag="NoController"):
    """The request for pool status has no answer yet."""

    TEXT = "nobody has answered it: no controller manager runs, or its gate DRAResourcePoolStatus is off"
