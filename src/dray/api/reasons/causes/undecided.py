"""Causes: invalid input that no devices can satisfy, and causes that could not be determined."""

from __future__ import annotations

from dray.api.reasons.causes.base import Cause
from dray.api.reasons.devices import InputProblem, TimedOut
from dray.api.reasons.wording import input_problem, timed_out


class WrongInput(Cause, frozen=True, tag="Wrong"):
    """A claim, class or pool is invalid, so no devices can satisfy it.

    problem: the problem
    claim: the claim, if the problem is in a claim
    """

    TEXT = "{what}"

    problem: InputProblem
    claim: str = ""

    def words(self) -> dict[str, str]:
        return {"what": input_problem(self.problem)}


class SearchTookTooLong(Cause, frozen=True, tag="TimedOut"):
    """Determining the cause needs more steps than an explanation is allowed.

    late: number of nodes for which the search was not finished
    nodes: number of nodes where the pod can run
    progress: how far the search came on one of these nodes
    """

    TEXT = "whether {late} of {nodes} nodes can serve its claims takes too long to find out: {how_far}"
    PHRASES = {"why": "why no node can serve its claims takes too long to find out"}

    late: int = 0
    nodes: int = 0
    progress: TimedOut | None = None

    def phrase(self) -> str:
        return "" if self.nodes else "why"

    def words(self) -> dict[str, str]:
        return {"how_far": timed_out(self.progress) if self.progress is not None else ""}


class UnknownCause(Cause, frozen=True, tag="Unknown"):
    """No node can satisfy the claims, and the reason could not be determined."""

    TEXT = "no node can serve its claims"
