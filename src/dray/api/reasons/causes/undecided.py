"""Input that no devices make right, and what could not be found out."""

from __future__ import annotations

from dray.api.reasons.causes.base import Cause
from dray.api.reasons.devices import InputProblem, TimedOut
from dray.api.reasons.wording import input_problem, timed_out


class WrongInput(Cause, frozen=True, tag="Wrong"):
    """A claim, a class or a pool is wrong, and no devices make that right.

    problem: what is wrong
    claim: the claim, where the problem is one of a claim
    """

    TEXT = "{what}"

    problem: InputProblem
    claim: str = ""

    def words(self) -> dict[str, str]:
        return {"what": input_problem(self.problem)}


class SearchTookTooLong(Cause, frozen=True, tag="TimedOut"):
    """The steps that the explanation may take were not enough.

    late: on how many nodes it is not known whether they have devices
    nodes: how many nodes the pod may use
    progress: how far the search came on one of them
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
    """No node can serve the claims, and nothing tells why."""

    TEXT = "no node can serve its claims"
