"""Codes for why a node group does not help a pod, and why a node cannot be removed. `wording` formats them as text."""

from __future__ import annotations

from enum import StrEnum


class NoHelp(StrEnum):
    """Why scaling up a node group does not help a pod."""

    REFUSED = "group-refused"  # the pod would not fit on an empty node of the group
    CLOSED = "group-closed"  # scaling up the group failed recently; it is not used for a while
    NO_ROOM = "group-no-room"  # a new node would fit, but the group's maximum size does not allow enough of them
    NETWORK = "group-network"  # a new node would fit, but network-attached devices are exhausted


class Stays(StrEnum):
    """Why a node cannot be removed."""

    MINIMUM = "stays-minimum"  # the node group has its minimum size
    NO_CONTROLLER = "stays-no-controller"  # no controller would recreate this pod
    NOT_TO_BE_EVICTED = "stays-annotation"  # an annotation of this pod forbids eviction
    BUDGET = "stays-budget"  # this PodDisruptionBudget does not allow the eviction
    NO_PLACE = "stays-no-place"  # this pod fits on no other node
    HELD = "stays-held"  # this claim has devices of the node allocated


class ScaleUp(StrEnum):
    """What the autoscaler does for a pending pod."""

    TRIGGERED = "scale-up"
    NOTHING = "no-scale-up"
