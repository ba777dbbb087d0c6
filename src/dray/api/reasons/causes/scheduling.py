"""The scheduler has not placed the pod, though nothing that can be seen is in the way."""

from __future__ import annotations

from dray.api.reasons.causes.base import Cause, named
from dray.api.reasons.suggestions import Suggestion


class UseScheduler(Suggestion, frozen=True, tag="help-use-scheduler"):
    """A scheduler that runs."""

    TEXT = "let {new} schedule {where} instead of {old}"

    where: str
    old: str
    new: str


class RemoveGates(Suggestion, frozen=True, tag="help-remove-gates"):
    """A pod without its scheduling gates."""

    TEXT = "remove the scheduling gates {gates} of {where}"

    where: str
    gates: tuple[str, ...]


class SchedulingGated(Cause, frozen=True, tag="SchedulingGated"):
    """Scheduling gates keep the pod from the scheduler.

    gates: the gates
    """

    TEXT = "its scheduling gates hold it back: {names}"
    HELPS = (RemoveGates,)

    gates: tuple[str, ...]

    def words(self) -> dict[str, str]:
        return {"names": named(self.gates)}


class NoScheduler(Cause, frozen=True, tag="NoScheduler"):
    """The pod fits, and no scheduler has looked at it.

    nodes: where it fits
    scheduler: the scheduler that the pod names
    """

    TEXT = "it fits on {names}, but no scheduler has looked at it: does {scheduler} run?"
    HELPS = (UseScheduler,)

    nodes: tuple[str, ...]
    scheduler: str

    def words(self) -> dict[str, str]:
        return {"names": named(self.nodes)}


class WillBeTried(Cause, frozen=True, tag="WillBeTried"):
    """The pod was refused and fits by now.

    nodes: where it fits
    scheduler: who will try it again
    """

    TEXT = "it fits on {names} by now; the scheduler {scheduler} will try it again"

    nodes: tuple[str, ...]
    scheduler: str

    def words(self) -> dict[str, str]:
        return {"names": named(self.nodes)}


class SchedulerSays(Cause, frozen=True, tag="SchedulerSays"):
    """The user may not read what decides where the pod runs.

    message: what the scheduler wrote into the pod, word for word
    """

    TEXT = "the scheduler says: {message}"
    PHRASES = {"nothing": "you may not read what decides where it runs, and no scheduler has said anything"}

    message: str = ""

    def phrase(self) -> str:
        return "" if self.message else "nothing"
