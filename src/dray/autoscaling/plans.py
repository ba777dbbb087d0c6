"""A plan as data: nodes to add with the pods that go there, pods that no node helps and why, and how good the plan is.

Left out: finding it (`planner`), words (`report`).
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from dray.api.reasons.autoscaling import NoHelp
from dray.api.reasons.claims import ClaimProblem
from dray.api.reasons.nodes import NodeVerdict
from dray.sim.what_if import DeviceUse, PodOutcome


class PlannedPod(msgspec.Struct, frozen=True):
    """A pod on a new node, with its devices."""

    pod: str
    devices: tuple[DeviceUse, ...] = ()


class PlannedNode(msgspec.Struct, frozen=True):
    """A node to add. `steps` is how far down their lists of alternatives its pods are served."""

    name: str
    group: str
    pods: tuple[PlannedPod, ...] = ()
    steps: int = 0
    for_minimum: bool = False


class GroupRefusal(msgspec.Struct, frozen=True):
    """Why a group does not help. A verdict or problem tells what an empty node says."""

    group: str
    code: NoHelp
    verdict: NodeVerdict | None = None
    problem: ClaimProblem | None = None


class Unhelped(msgspec.Struct, frozen=True):
    """Pods that stay without a node, for the same reasons.

    Of a `gang`, nodes are needed for so many pods at once, and only `found` of them could get one.
    """

    pods: tuple[str, ...]
    refusals: tuple[GroupRefusal, ...] = ()
    gang: str = ""
    needed: int = 0
    found: int = 0


class Served(msgspec.Struct, frozen=True):
    """Pods that are alike and get nodes: the groups whose nodes take them, and why the others do not."""

    pods: tuple[str, ...]
    able: tuple[str, ...]
    refusals: tuple[GroupRefusal, ...] = ()


class Check(msgspec.Struct, frozen=True):
    """What the scheduler makes of the new nodes on its own, in its own order: the pods that would still wait."""

    placed: int
    waiting: tuple[str, ...]


class ScaleUpPlan(msgspec.Struct, frozen=True):
    """What to add and why. Prices are by the hour; `cost` and `lower_bound` are in the measure of the expander.

    No set of nodes for the same pods costs less than `lower_bound`; where the plan is `proven`, it is the cheapest one.
    `blocked` pods wait for something else than a node, `useless` are the groups that help none of the pods that wait.
    `preempted` has the pods that end for more important ones, each with the pod that preempts it.
    """

    nodes: tuple[PlannedNode, ...] = ()
    served: tuple[Served, ...] = ()
    unhelped: tuple[Unhelped, ...] = ()
    blocked: tuple[PodOutcome, ...] = ()
    useless: tuple[str, ...] = ()
    price: float = 0.0
    cost: float = 0.0
    lower_bound: float = 0.0
    proven: bool = True
    seconds: float = 0.0
    check: Check | None = None
    preempted: Mapping[str, str] = {}

    @property
    def increases(self) -> dict[str, int]:
        """How many nodes to add to which group."""
        found: dict[str, int] = {}
        for node in self.nodes:
            found[node.group] = found.get(node.group, 0) + 1
        return found

    @property
    def pods(self) -> frozenset[str]:
        """The pods that go to new nodes."""
        return frozenset(pod.pod for node in self.nodes for pod in node.pods)

    @property
    def gap(self) -> float:
        """By how much the plan costs more than the lower bound, as a part of the lower bound."""
        if self.proven or self.cost <= self.lower_bound:
            return 0.0
        return self.cost / self.lower_bound - 1 if self.lower_bound else float("inf")
