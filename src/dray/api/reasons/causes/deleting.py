"""Causes: a pod or claim is being deleted and still exists."""

from __future__ import annotations

from dray.api.podclaims import CLAIM_FINALIZER
from dray.api.reasons.causes.base import Cause, named


class IsDeleting(Cause, frozen=True, tag="Deleting"):
    """The object is being deleted.

    users: the pods and PodGroups that still use it, if the object is a claim
    """

    TEXT = "it is being deleted{used}"
    PHRASES = {"used": ", used by {names}"}

    users: tuple[str, ...] = ()

    def words(self) -> dict[str, str]:
        return {"used": self.say("used", names=", ".join(self.users)) if self.users else ""}


class DriverNotThere(Cause, frozen=True, tag="DriverNotThere"):
    """A driver does not unprepare the devices of a pod that is being deleted.

    node: the node of the pod
    drivers: the drivers of the pod's devices
    message: the message from the node
    """

    TEXT = (
        "it is being deleted, but driver {names}, which must unprepare its devices, does not do so on {node}: {message}; "
        "start the driver there again, or, if it is gone for good, delete the pod with --grace-period=0 --force: its claims "
        "are then released without being unprepared"
    )

    node: str
    drivers: tuple[str, ...]
    message: str

    def words(self) -> dict[str, str]:
        return {"names": ", ".join(self.drivers)}


class FinalizersLeft(Cause, frozen=True, tag="FinalizersLeft"):
    """Finalizers keep a pod that is being deleted.

    finalizers: the finalizers
    """

    TEXT = "it is being deleted, but finalizers hold it: {names}"

    finalizers: tuple[str, ...]

    def words(self) -> dict[str, str]:
        return {"names": named(self.finalizers)}


class ClaimFinalizersLeft(Cause, frozen=True, tag="ClaimFinalizersLeft"):
    """Finalizers keep a claim that is being deleted and not used by any pod.

    finalizers: the finalizers
    allocated: whether the claim is still allocated
    """

    TEXT = (
        "it is being deleted and no pod uses it, but finalizers hold it: {names}; the program that set "
        "them removes them; if that program is gone for good, remove them from metadata.finalizers"
    )
    PHRASES = {
        "protected": "it is being deleted and no pod uses it, but finalizers hold it: {names}; the resource claim controller "
        "removes that one{devices}: check whether a controller manager is running",
        "devices": ", after it has given up the devices",
    }

    finalizers: tuple[str, ...]
    allocated: bool = False

    def phrase(self) -> str:
        return "protected" if self.finalizers == (CLAIM_FINALIZER,) else ""

    def words(self) -> dict[str, str]:
        return {"names": named(self.finalizers), "devices": self.say("devices") if self.allocated else ""}
