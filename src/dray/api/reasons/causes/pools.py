"""Causes: suitable devices are in a pool that cannot be used."""

from __future__ import annotations

from dray.api.reasons.causes.base import Cause
from dray.api.reasons.devices import PoolProblem
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import pool_problem


class PublishPoolAgain(Suggestion, frozen=True, tag="help-pool-again"):
    """Publish the pool again, with the right number of slices and each device once."""

    TEXT = "publish pool {pool} as it is, in {slices} slices with each device once"
    PHRASES = {"one": "publish pool {pool} as it is, in {slices} slice with each device once"}

    pool: str
    slices: int

    def phrase(self) -> str:
        return "one" if self.slices == 1 else ""


class PoolCause(Cause, frozen=True):
    """Base class of causes where a pool cannot be used."""

    driver: str
    pool: str
    problem: PoolProblem

    def words(self) -> dict[str, str]:
        return {"why": pool_problem(self.problem)}


class IncompletePool(PoolCause, frozen=True, tag="IncompletePool"):
    """Suitable devices exist, but slices of their pool are missing.

    driver: the driver of the pool
    pool: the pool
    problem: number of published slices and of expected slices
    """

    TEXT = "pool {pool} of driver {driver} cannot be used: {why}"
    HELPS = (PublishPoolAgain,)


class InvalidPool(PoolCause, frozen=True, tag="InvalidPool"):
    """Suitable devices exist, but the slices of their pool contradict each other.

    driver: the driver of the pool
    pool: the pool
    problem: the contradiction
    """

    TEXT = "pool {pool} of driver {driver} cannot be used: {why}"
    HELPS = (PublishPoolAgain,)
