"""Causes that are not problems: the object runs, is finished or is allocated."""

from __future__ import annotations

from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.causes import base
from dray.api.reasons.causes.base import Cause
from dray.api.reasons.wording import say


class IsFinished(Cause, frozen=True, tag="Finished"):
    """The pod or Job has finished.

    outcome: phase of the pod, or the condition that ended the Job
    message: why it failed, if known
    """

    TEXT = "it is finished: {outcome}{why}"

    outcome: str
    message: str = ""

    def words(self) -> dict[str, str]:
        return {"why": f": {self.message}" if self.message else ""}


class IsRunning(Cause, frozen=True, tag="Running"):
    """The pod is running.

    node: the node of the pod
    """

    TEXT = "it runs on {node}"

    node: str


class DevicesUnhealthy(Cause, frozen=True, tag="DevicesUnhealthy"):
    """The pod is running, and drivers report some of its devices as unhealthy.

    node: the node of the pod
    devices: the unhealthy devices, each with the message from its driver
    """

    TEXT = "it runs on {node}, but its devices are not all healthy: {names}"

    node: str
    devices: tuple[str, ...]

    def words(self) -> dict[str, str]:
        return {"names": ", ".join(self.devices)}


class AllRun(Cause, frozen=True, tag="AllRun"):
    """All pods of the workload or PodGroup are running.

    pods: number of pods
    """

    TEXT = "all of its {pods} pods run"
    PHRASES = {"one": "its pod runs", "none": "it wants no pods"}

    pods: int

    def phrase(self) -> str:
        return "none" if not self.pods else "one" if self.pods == 1 else ""


class IsAllocated(Cause, frozen=True, tag="Allocated"):
    """The claim is allocated.

    devices: the allocated devices as driver/pool/device
    users: the pods and PodGroups that the claim is reserved for
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
    """No pod uses the claim, so the scheduler does not allocate it."""

    TEXT = "no pod uses it: a claim is allocated when a pod that uses it gets its node"


class PodWaits(Cause, frozen=True, tag="PodWaits"):
    """A workload, PodGroup or claim waits for one of its pods.

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
