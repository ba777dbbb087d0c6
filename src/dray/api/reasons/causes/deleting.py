"""A pod or a claim is being deleted and still there."""

from __future__ import annotations

from dray.api.reasons.causes.base import Cause, named


class IsDeleting(Cause, frozen=True, tag="Deleting"):
    """It is being deleted.

    users: the pods and groups that use it still, if it is a claim
    """

    TEXT = "it is being deleted{used}"
    PHRASES = {"used": ", used by {names}"}

    users: tuple[str, ...] = ()

    def words(self) -> dict[str, str]:
        return {"used": self.say("used", names=", ".join(self.users)) if self.users else ""}


class DriverNotThere(Cause, frozen=True, tag="DriverNotThere"):
    """A driver does not unprepare the devices of a pod that is being deleted.

    node: where
    drivers: the drivers of the pod's devices
    message: what the node says
    """

    TEXT = (
        "it is being deleted, but driver {names}, which must unprepare its devices, does not do so on {node}: {message}"
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
