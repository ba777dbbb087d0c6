"""Causes: enough devices match, but they are allocated to other claims or spread over several nodes."""

from __future__ import annotations

import msgspec

from dray.api.reasons.cause_texts import CausePhrase
from dray.api.reasons.cause_wording import asked
from dray.api.reasons.causes.base import RequestCause
from dray.api.reasons.causes.tainted import RemoveRule, RemoveTaint, TolerateDevice, taints_named
from dray.api.reasons.causes.too_few import FewerDevices, MoreDevices
from dray.api.reasons.suggestions import Suggestion
from dray.api.reasons.wording import say


class EndPods(Suggestion, frozen=True, tag="help-end-pods"):
    """End pods that no controller would recreate."""

    TEXT = "end {pods} on {node}"

    pods: tuple[str, ...]
    node: str


class MovedPod(msgspec.Struct, frozen=True):
    """A pod to move, and its new node."""

    pod: str
    to: str


class MovePods(Suggestion, frozen=True, tag="help-move-pods"):
    """Move pods to other nodes: cordon the node, evict the pods and uncordon the node."""

    TEXT = "move {each}: cordon {node}, evict {them}, uncordon {node}"
    PHRASES = {"each": "{pod} to {to}"}

    node: str
    moves: tuple[MovedPod, ...]

    def words(self) -> dict[str, str]:
        each = [say(f"{self.code}.each", pod=one.pod, to=one.to) for one in self.moves]
        and_ = say(CausePhrase.AND_NAME)
        return {"each": and_.join(each), "them": and_.join(one.pod for one in self.moves)}


class UsePriority(Suggestion, frozen=True, tag="help-use-priority"):
    """Give the pod a priority class with which it preempts other pods."""

    TEXT = "give {where} the priority class {priority_class}, with which it preempts {pods} on {node}"

    where: str
    priority_class: str
    pods: tuple[str, ...]
    node: str


class AddAlternative(Suggestion, frozen=True, tag="help-add-alternative"):
    """Accept devices of another class as an alternative of the request."""

    TEXT = "accept {devices} of class {device_class} as an alternative in {where} (firstAvailable)"

    where: str
    device_class: str
    devices: int


class NotAll(Suggestion, frozen=True, tag="help-not-all"):
    """Request the number of free devices instead of all devices of a node."""

    TEXT = "ask for {devices} instead of all devices in {where}"

    where: str
    devices: int


class AllTaken(RequestCause, frozen=True, tag="AllTaken"):
    """Devices match the request, but too few of them are free in the whole cluster.

    asked: the request
    matching: number of matching devices in the cluster
    taken: number of matching devices that are allocated to other claims
    tainted: number of matching devices with taints that the request does not tolerate
    taints: these taints
    taint_rules: the DeviceTaintRules that add the taints
    """

    TEXT = "{how_many} that match are taken{not_taken}"
    PHRASES = {
        "all": "all {matching}",
        "some": "{taken} of {matching}",
        "free": ", {free} free",
        "tainted": ", {tainted} tainted: {names}{rules}",
    }
    HELPS = (
        MovePods,
        EndPods,
        FewerDevices,
        TolerateDevice,
        RemoveRule,
        RemoveTaint,
        AddAlternative,
        UsePriority,
        MoreDevices,
    )

    matching: int
    taken: int
    tainted: int = 0
    taints: tuple[str, ...] = ()
    taint_rules: tuple[str, ...] = ()

    def words(self) -> dict[str, str]:
        free = self.matching - self.taken - self.tainted
        names, rules = taints_named(self.taints, self.taint_rules)
        tainted = self.say("tainted", tainted=self.tainted, names=names, rules=rules) if self.tainted else ""
        phrase = "all" if self.taken == self.matching else "some"
        return {
            "how_many": self.say(phrase, taken=self.taken, matching=self.matching),
            "not_taken": f"{self.say('free', free=free) if free else ''}{tainted}",
        }


class NotAllFree(RequestCause, frozen=True, tag="NotAllFree"):
    """The request asks for all matching devices of a node, and on every node some of them are allocated to other
    claims.

    asked: the request
    free: number of free devices on the node that comes closest
    node: the node that comes closest
    """

    TEXT = "{who} asks for all {needed} matching devices of a node, and at most {free} are free ({node})"
    HELPS = (MovePods, EndPods, NotAll, AddAlternative, UsePriority, MoreDevices)

    free: int
    node: str

    @property
    def text(self) -> str:
        return self.detail

    def words(self) -> dict[str, object]:
        return {"who": asked(self.asked), "needed": self.asked.needed}


class Fragmented(RequestCause, frozen=True, tag="Fragmented"):
    """Enough devices are free in the cluster, but no single node has as many as the request needs.

    asked: the request
    free: number of free devices in the cluster
    nodes: number of nodes with free devices
    most: number of free devices on the best node where the pod can run
    node: the best node
    """

    TEXT = "{free} are free, but spread over {nodes} nodes, at most {most} on one ({node})"
    NEED = CausePhrase.NEEDS_ON_ONE_NODE
    JOINED = CausePhrase.NEED_THEN_CAUSE
    HELPS = (MovePods, EndPods, FewerDevices, AddAlternative, UsePriority, MoreDevices)

    free: int
    nodes: int
    most: int
    node: str
