"""The pod has a node and does not run there."""

from __future__ import annotations

from dray.api.reasons.causes.base import Cause
from dray.api.reasons.suggestions import Suggestion


class MakePodAgain(Suggestion, frozen=True, tag="help-pod-again"):
    """The pod made again, away from a node that is gone."""

    TEXT = "create {where} again"

    where: str


class NoNodeName(Suggestion, frozen=True, tag="help-no-node-name"):
    """A pod whose node the scheduler chooses."""

    TEXT = "leave out spec.nodeName of {where}, so that the scheduler places it"

    where: str


class NodeMissing(Cause, frozen=True, tag="NodeMissing"):
    """The node of the pod does not exist.

    node: its name
    """

    TEXT = "its node {node} does not exist"
    HELPS = (MakePodAgain,)

    node: str


class NodeDead(Cause, frozen=True, tag="NodeDead"):
    """The node of the pod is not ready.

    node: the node
    message: what its Ready condition says
    """

    TEXT = "its node {node} is not ready: {message}"
    HELPS = (MakePodAgain,)

    node: str
    message: str


class ClaimNotAllocated(Cause, frozen=True, tag="ClaimNotAllocated"):
    """The pod was given its node by hand, and nobody allocates its claim.

    node: the node
    claim: the claim
    """

    TEXT = "node {node} waits for claim {claim}, which is not allocated"
    HELPS = (NoNodeName,)

    node: str
    claim: str


class NotReserved(Cause, frozen=True, tag="NotReserved"):
    """A claim of the pod is allocated and not reserved for it.

    node: the node
    claim: the claim
    """

    TEXT = "node {node} waits: claim {claim} is not reserved for the pod"

    node: str
    claim: str


class NodeTrouble(Cause, frozen=True, tag="NodeTrouble"):
    """The node reports that it cannot start the pod.

    node: the node
    message: what it says
    """

    TEXT = "node {node} cannot start it: {message}"

    node: str
    message: str


class VolumeNotReady(Cause, frozen=True, tag="VolumeNotReady"):
    """The node reports that a volume of the pod is not ready.

    node: the node
    message: what it says
    """

    TEXT = "node {node} cannot mount a volume: {message}"

    node: str
    message: str


class PodStarting(Cause, frozen=True, tag="Starting"):
    """The node has not started the pod yet.

    node: the node
    """

    TEXT = "node {node} has not started it yet"

    node: str
