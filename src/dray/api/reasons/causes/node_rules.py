"""Nodes have the devices, or none are needed, but no node takes the pod: room, labels, taints, neighbours."""

from __future__ import annotations

from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.cause_wording import refusals
from dray.api.reasons.causes.base import Cause, named
from dray.api.reasons.causes.taken import EndPods
from dray.api.reasons.nodes import NodeReason
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import say


class Uncordon(Suggestion, frozen=True, tag="help-uncordon"):
    """A node that is cordoned opened again."""

    TEXT = "let pods onto {node} again: kubectl uncordon {node}"

    node: str


class LabelNode(Suggestion, frozen=True, tag="help-label-node"):
    """The labels that a pod asks for put on a node."""

    TEXT = "label {node} with {labels}"

    node: str
    labels: tuple[str, ...]


class TolerateNode(Suggestion, frozen=True, tag="help-tolerate-node"):
    """A toleration for the taint of a node."""

    TEXT = "tolerate the taint {taint} of {node} in {where}"

    where: str
    taint: str
    node: str


class RemoveNodeTaint(Suggestion, frozen=True, tag="help-remove-node-taint"):
    """A node without one of its taints."""

    TEXT = "remove the taint {taint} of {node}"

    taint: str
    node: str


class AskLess(Suggestion, frozen=True, tag="help-ask-less"):
    """A pod that asks for as much of a resource as a node has left."""

    TEXT = "ask for {amount} of {resource} in {where}, which {node} has left"

    where: str
    resource: str
    amount: str
    node: str


class NoNodeSelector(Suggestion, frozen=True, tag="help-no-node-selector"):
    """A pod that does not ask for labels of nodes."""

    TEXT = "leave out {selector} of {where}"

    where: str
    selector: str


class NoHostPort(Suggestion, frozen=True, tag="help-no-host-port"):
    """A pod without its host ports."""

    TEXT = "leave out host port {ports} of {where}"

    where: str
    ports: tuple[str, ...]


class SpreadLoosely(Suggestion, frozen=True, tag="help-spread-loosely"):
    """A spread constraint that is only a preference."""

    TEXT = "let the spread over {topology_key} of {where} be ScheduleAnyway"

    where: str
    topology_key: str


class NoPodAffinity(Suggestion, frozen=True, tag="help-no-pod-affinity"):
    """A pod that does not demand other pods near it, or away from it."""

    TEXT = "leave out the required {affinity} of {where}"

    where: str
    affinity: str


NODE_HELPS = (
    Uncordon,
    TolerateNode,
    RemoveNodeTaint,
    LabelNode,
    NoNodeSelector,
    NoHostPort,
    AskLess,
    NoPodAffinity,
    SpreadLoosely,
    EndPods,
)


class NodeRules(Cause, frozen=True, tag="NodeRules"):
    """Rules that have nothing to do with which devices there are keep the pod from its nodes.

    nodes: the nodes that have devices for its claims; none where it has no claims
    refused: why nodes do not take it, and how many of them say so
    """

    TEXT = "its devices are on {names}, where it may not run: {why}"
    PHRASES = {"anywhere": "no node takes it: {why}"}
    HELPS = NODE_HELPS

    nodes: tuple[str, ...] = ()
    refused: tuple[tuple[NodeReason, int], ...] = ()

    def phrase(self) -> str:
        return "" if self.nodes else "anywhere"

    def words(self) -> dict[str, str]:
        why = refusals(self.refused) or say(CausePhrase.OTHER_CLAIMS)
        return {"names": named(self.nodes), "why": why}


class NoNodes(Cause, frozen=True, tag="NoNodes"):
    """The cluster has no nodes."""

    TEXT = "the cluster has no nodes"
