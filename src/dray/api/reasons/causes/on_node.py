"""Causes: the pod is assigned to a node but does not run there."""

from __future__ import annotations

from dray.api.reasons.causes.base import Cause
from dray.api.reasons.suggestions import Suggestion


class MakePodAgain(Suggestion, frozen=True, tag="help-pod-again"):
    """Create the pod again, because its node is gone."""

    TEXT = "create {where} again"

    where: str


class NoNodeName(Suggestion, frozen=True, tag="help-no-node-name"):
    """Remove spec.nodeName from the pod, so that the scheduler chooses the node."""

    TEXT = "leave out spec.nodeName of {where}, so that the scheduler places it"

    where: str


class NodeMissing(Cause, frozen=True, tag="NodeMissing"):
    """The node of the pod does not exist.

    node: name of the node
    """

    TEXT = "its node {node} does not exist"
    HELPS = (MakePodAgain,)

    node: str


class NodeDead(Cause, frozen=True, tag="NodeDead"):
    """The node of the pod is not ready.

    node: the node
    message: message of the node's Ready condition
    """

    TEXT = "its node {node} is not ready: {message}"
    HELPS = (MakePodAgain,)

    node: str
    message: str


class ClaimNotAllocated(Cause, frozen=True, tag="ClaimNotAllocated"):
    """The pod was created with spec.nodeName, so the scheduler does not allocate its claim.

    node: the node
    claim: the claim
    """

    TEXT = "node {node} waits for claim {claim}, which is not allocated"
    HELPS = (NoNodeName,)

    node: str
    claim: str


class NotReserved(Cause, frozen=True, tag="NotReserved"):
    """A claim of the pod is allocated but not reserved for the pod.

    node: the node
    claim: the claim
    """

    TEXT = "node {node} waits: claim {claim} is not reserved for the pod"

    node: str
    claim: str


class NodeTrouble(Cause, frozen=True, tag="NodeTrouble"):
    """The node reports that it cannot start the pod.

    node: the node
    message: the message from the node
    """

    TEXT = "node {node} cannot start it: {message}"

    node: str
    message: str


class VolumeNotReady(Cause, frozen=True, tag="VolumeNotReady"):
    """The node reports that a volume of the pod is not ready.

    node: the node
    message: the message from the node
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
