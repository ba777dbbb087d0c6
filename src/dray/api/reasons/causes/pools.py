"""Devices that would do are in a pool that cannot be used."""

from __future__ import annotations

from dray.api.reasons.causes.base import Cause
from dray.api.reasons.devices import PoolProblem
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import pool_problem


class PublishPoolAgain(Suggestion, frozen=True, tag="help-pool-again"):
    """The pool as its slices are, with their right number and each device once."""

    TEXT = "publish pool {pool} as it is, in {slices} slices with each device once"
    PHRASES = {"one": "publish pool {pool} as it is, in {slices} slice with each device once"}

    pool: str
    slices: int

    def phrase(self) -> str:
        return "one" if self.slices == 1 else ""


class PoolCause(Cause, frozen=True):
    """A pool that cannot be used."""

    driver: str
    pool: str
    problem: PoolProblem

    def words(self) -> dict[str, str]:
        return {"why": pool_problem(self.problem)}


class IncompletePool(PoolCause, frozen=True, tag="IncompletePool"):
    """Devices would do, but slices of their pool are missing.

    driver: whose pool it is
    pool: the pool
    problem: how many slices there are, and how many there are to be
    """

    TEXT = "pool {pool} of driver {driver} cannot be used: {why}"
    HELPS = (PublishPoolAgain,)


class InvalidPool(PoolCause, frozen=True, tag="InvalidPool"):
    """Devices would do, but their pool contradicts itself.

    driver: whose pool it is
    pool: the pool
    problem: what is wrong with it
    """

    TEXT = "pool {pool} of driver {driver} cannot be used: {why}"
    HELPS = (PublishPoolAgain,)
