"""Enough devices match, but others have them, or those that are free are spread over several nodes."""

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
    """The end of pods that would not come again."""

    TEXT = "end {pods} on {node}"

    pods: tuple[str, ...]
    node: str


class MovedPod(msgspec.Struct, frozen=True):
    """A pod that moves, and where it finds a place."""

    pod: str
    to: str


class MovePods(Suggestion, frozen=True, tag="help-move-pods"):
    """Pods of one node that find a place elsewhere: the node is cordoned while they are evicted."""

    TEXT = "move {each}: cordon {node}, evict {them}, uncordon {node}"
    PHRASES = {"each": "{pod} to {to}"}

    node: str
    moves: tuple[MovedPod, ...]

    def words(self) -> dict[str, str]:
        each = [say(f"{self.code}.each", pod=one.pod, to=one.to) for one in self.moves]
        and_ = say(CausePhrase.AND_NAME)
        return {"each": and_.join(each), "them": and_.join(one.pod for one in self.moves)}


class UsePriority(Suggestion, frozen=True, tag="help-use-priority"):
    """A priority with which the pod preempts others."""

    TEXT = "give {where} the priority class {priority_class}, with which it preempts {pods} on {node}"

    where: str
    priority_class: str
    pods: tuple[str, ...]
    node: str


class AddAlternative(Suggestion, frozen=True, tag="help-add-alternative"):
    """Devices of another class that serve a request where the first choice is not free."""

    TEXT = "accept {devices} of class {device_class} as an alternative in {where} (firstAvailable)"

    where: str
    device_class: str
    devices: int


class NotAll(Suggestion, frozen=True, tag="help-not-all"):
    """The devices that are free instead of all devices of a node."""

    TEXT = "ask for {devices} instead of all devices in {where}"

    where: str
    devices: int


class AllTaken(RequestCause, frozen=True, tag="AllTaken"):
    """Devices match the request, but not enough of them are free anywhere.

    asked: the request
    matching: how many devices of the cluster match
    taken: how many of them others have
    tainted: how many of them have taints that the request does not tolerate
    taints: these taints
    taint_rules: the DeviceTaintRules that add them
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
    """The request asks for all matching devices of a node, and on every node others have some of them.

    asked: the request
    free: how many are free on the node that comes closest
    node: that node
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
    """Enough devices are free, but no single node has as many as the request needs.

    asked: the request
    free: how many are free in the cluster
    nodes: over how many nodes they are spread
    most: how many are free on the best node that the pod may use
    node: that node
    """

    TEXT = "{free} are free, but spread over {nodes} nodes, at most {most} on one ({node})"
    NEED = CausePhrase.NEEDS_ON_ONE_NODE
    JOINED = CausePhrase.NEED_THEN_CAUSE
    HELPS = (MovePods, EndPods, FewerDevices, AddAlternative, UsePriority, MoreDevices)

    free: int
    nodes: int
    most: int
    node: str
