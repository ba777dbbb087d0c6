"""Nothing is in the way: it runs, is finished or has its devices."""

from __future__ import annotations

from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.causes import base
from dray.api.reasons.causes.base import Cause
from dray.api.reasons.wording import say


class IsFinished(Cause, frozen=True, tag="Finished"):
    """The pod or the job has ended.

    outcome: its phase, or the condition that says so
    message: why it failed, where that is known
    """

    TEXT = "it is finished: {outcome}{why}"

    outcome: str
    message: str = ""

    def words(self) -> dict[str, str]:
        return {"why": f": {self.message}" if self.message else ""}


class IsRunning(Cause, frozen=True, tag="Running"):
    """The pod runs.

    node: where
    """

    TEXT = "it runs on {node}"

    node: str


class DevicesUnhealthy(Cause, frozen=True, tag="DevicesUnhealthy"):
    """The pod runs, and drivers report some of its devices as unhealthy.

    node: where
    devices: the devices, each with what its driver says
    """

    TEXT = "it runs on {node}, but its devices are not all healthy: {names}"

    node: str
    devices: tuple[str, ...]

    def words(self) -> dict[str, str]:
        return {"names": ", ".join(self.devices)}


class AllRun(Cause, frozen=True, tag="AllRun"):
    """All pods of the workload or the group run.

    pods: how many there are
    """

    TEXT = "all of its {pods} pods run"
    PHRASES = {"one": "its pod runs", "none": "it wants no pods"}

    pods: int

    def phrase(self) -> str:
        return "none" if not self.pods else "one" if self.pods == 1 else ""


class IsAllocated(Cause, frozen=True, tag="Allocated"):
    """The claim has its devices.

    devices: its devices, written driver/pool/device
    users: the pods and groups that it is reserved for
    """

    TEXT = "it is allocated: {names}; {used}"
    PHRASES = {"nothing": "no device"}

    devices: tuple[str, ...] = ()
    users: tuple[str, ...] = ()

    def words(self) -> dict[str, str]:
        names = ", ".join(self.users)
        used = say(CausePhrase.USED_BY, names=names) if names else say(CausePhrase.USED_BY_NOBODY)
        return {"names": ", ".join(self.devices) or self.say("nothing"), "used": used}


class ClaimUnused(Cause, frozen=True, tag="Unused"):
    """No pod uses the claim, so nobody allocates it."""

    TEXT = "no pod uses it: a claim is allocated when a pod that uses it gets its node"


class PodWaits(Cause, frozen=True, tag="PodWaits"):
    """A workload, a group or a claim waits for one of its pods.

    pod: the first pod that waits
    cause: why that pod waits
    """

    TEXT = "pod {pod} waits: {why}"

    pod: str
    cause: base.AnyCause

    @property
    def root(self) -> Cause:
        return self.cause

    def words(self) -> dict[str, str]:
        return {"why": self.cause.text}
