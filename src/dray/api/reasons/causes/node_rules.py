"""Causes: every node refuses the pod for reasons other than devices: resources, labels, taints or other pods."""

from __future__ import annotations

from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.cause_wording import refusals
from dray.api.reasons.causes.base import Cause, named
from dray.api.reasons.causes.taken import EndPods
from dray.api.reasons.nodes import NodeReason
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import say


class Uncordon(Suggestion, frozen=True, tag="help-uncordon"):
    """Uncordon a node."""

    TEXT = "let pods onto {node} again: kubectl uncordon {node}"

    node: str


class LabelNode(Suggestion, frozen=True, tag="help-label-node"):
    """Add the labels that the pod requires to a node."""

    TEXT = "label {node} with {labels}"

    node: str
    labels: tuple[str, ...]


class TolerateNode(Suggestion, frozen=True, tag="help-tolerate-node"):
    """Add a toleration for a node taint to the pod."""

    TEXT = "tolerate the taint {taint} of {node} in {where}"

    where: str
    taint: str
    node: str


class RemoveNodeTaint(Suggestion, frozen=True, tag="help-remove-node-taint"):
    """Remove a taint from a node."""

    TEXT = "remove the taint {taint} of {node}"

    taint: str
    node: str


class AskLess(Suggestion, frozen=True, tag="help-ask-less"):
    """Request only as much of a resource as the node has left."""

    TEXT = "ask for {amount} of {resource} in {where}, which {node} has left"

    where: str
    resource: str
    amount: str
    node: str


class NoNodeSelector(Suggestion, frozen=True, tag="help-no-node-selector"):
    """Remove the node selector or node affinity from the pod."""

    TEXT = "leave out {selector} of {where}"

    where: str
    selector: str


class NoHostPort(Suggestion, frozen=True, tag="help-no-host-port"):
    """Remove the host ports from the pod."""

    TEXT = "leave out host port {ports} of {where}"

    where: str
    ports: tuple[str, ...]


class SpreadLoosely(Suggestion, frozen=True, tag="help-spread-loosely"):
    """Turn a topology spread constraint into a preference (ScheduleAnyway)."""

    TEXT = "let the spread over {topology_key} of {where} be ScheduleAnyway"

    where: str
    topology_key: str


class NoPodAffinity(Suggestion, frozen=True, tag="help-no-pod-affinity"):
    """Remove the required pod affinity or anti-affinity from the pod."""

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
    """Scheduling rules unrelated to devices keep the pod from its nodes.

    nodes: the nodes that have devices for the pod's claims; empty if the pod has no claims
    refused: why nodes refuse the pod, with the number of nodes
    """

    TEXT = "its devices are on {names}, where it may not run: {why}"
    PHRASES = {"anywhere": "no node accepts it: {why}"}
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
