"""Why a node group does not help a pod, and why a node cannot be removed, as codes. Left out: words (`wording`)."""

from __future__ import annotations

from enum import StrEnum


class NoHelp(StrEnum):
    """Why a group does not help a pod."""

    REFUSED = "group-refused"  # an empty node of the group refuses the pod
    CLOSED = "group-closed"  # the group failed lately, and is left alone for a while
    NO_ROOM = "group-no-room"  # a node would do, but the group may not have as many more as are needed
    NETWORK = "group-network"  # a node would do, but devices on the network have run out


class Stays(StrEnum):
    """Why a node cannot be removed."""

    MINIMUM = "stays-minimum"  # its group has no more nodes than it must have
    NO_CONTROLLER = "stays-no-controller"  # nobody would make this pod again
    NOT_TO_BE_EVICTED = "stays-annotation"  # an annotation of this pod forbids it
    BUDGET = "stays-budget"  # this PodDisruptionBudget does not allow it
    NO_PLACE = "stays-no-place"  # this pod finds no place elsewhere
    HELD = "stays-held"  # this claim holds devices of the node


class ScaleUp(StrEnum):
    """What is done for a pod that waits."""

    TRIGGERED = "scale-up"
    NOTHING = "no-scale-up"
