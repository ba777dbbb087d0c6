"""Causes: the scheduler has not placed the pod, although no visible obstacle exists."""

from __future__ import annotations

from dray.api.reasons.causes.base import Cause, named
from dray.api.reasons.suggestions import Suggestion


class UseScheduler(Suggestion, frozen=True, tag="help-use-scheduler"):
    """Use a scheduler that is running."""

    TEXT = "let {new} schedule {where} instead of {old}"

    where: str
    old: str
    new: str


class RemoveGates(Suggestion, frozen=True, tag="help-remove-gates"):
    """Remove the scheduling gates from the pod."""

    TEXT = "remove the scheduling gates {gates} of {where}"

    where: str
    gates: tuple[str, ...]


class SchedulingGated(Cause, frozen=True, tag="SchedulingGated"):
    """Scheduling gates prevent the pod from being scheduled.

    gates: the scheduling gates
    """

    TEXT = "its scheduling gates hold it back: {names}"
    HELPS = (RemoveGates,)

    gates: tuple[str, ...]

    def words(self) -> dict[str, str]:
        return {"names": named(self.gates)}


class NoScheduler(Cause, frozen=True, tag="NoScheduler"):
    """The pod fits on a node, but no scheduler has considered it.

    nodes: the nodes where the pod fits
    scheduler: the scheduler named in the pod
    """

    TEXT = "it fits on {names}, but no scheduler has tried it: is {scheduler} running?"
    HELPS = (UseScheduler,)

    nodes: tuple[str, ...]
    scheduler: str

    def words(self) -> dict[str, str]:
        return {"names": named(self.nodes)}


class WillBeTried(Cause, frozen=True, tag="WillBeTried"):
    """The pod was unschedulable earlier and fits now.

    nodes: the nodes where the pod fits
    scheduler: the scheduler that will try it again
    """

    TEXT = "it fits on {names} by now; the scheduler {scheduler} will try it again"

    nodes: tuple[str, ...]
    scheduler: str

    def words(self) -> dict[str, str]:
        return {"names": named(self.nodes)}


class SchedulerSays(Cause, frozen=True, tag="SchedulerSays"):
    """The user has no permission to read the objects that determine where the pod can run.

    message: the scheduler's message in the pod's status, unchanged
    """

    TEXT = "the scheduler says: {message}"
    PHRASES = {"nothing": "you may not read what decides where it runs, and no scheduler has said anything"}

    message: str = ""

    def phrase(self) -> str:
        return "" if self.message else "nothing"
