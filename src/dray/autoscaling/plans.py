"""Plan as data: nodes to add with their pods, pods that no node helps and why, and the quality of the plan.

Left out: finding it (`planner`) and wording (`report`).
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
    """A node to add. `steps` is the number of fallback steps of its pods to lower-ranked alternatives."""

    name: str
    group: str
    pods: tuple[PlannedPod, ...] = ()
    steps: int = 0
    for_minimum: bool = False


class GroupRefusal(msgspec.Struct, frozen=True):
    """Why a group does not help. `verdict` or `problem` is the refusal by an empty node."""

    group: str
    code: NoHelp
    verdict: NodeVerdict | None = None
    problem: ClaimProblem | None = None


class Unhelped(msgspec.Struct, frozen=True):
    """Pods that stay without a node for the same reasons.

    For a `gang`, `needed` pods must get nodes at once, and only `found` of them could.
    """

    pods: tuple[str, ...]
    refusals: tuple[GroupRefusal, ...] = ()
    gang: str = ""
    needed: int = 0
    found: int = 0


class Served(msgspec.Struct, frozen=True):
    """Equal pods that get nodes: the groups whose nodes fit, and why other groups do not."""

    pods: tuple[str, ...]
    able: tuple[str, ...]
    refusals: tuple[GroupRefusal, ...] = ()


class Check(msgspec.Struct, frozen=True):
    """Result of letting the scheduler use the new nodes on its own: placed pods, and pods that would still wait."""

    placed: int
    waiting: tuple[str, ...]


class ScaleUpPlan(msgspec.Struct, frozen=True):
    """Nodes to add and why. Prices are per hour; `cost` and `lower_bound` use the expander's measure.

    No set of nodes for the same pods costs less than `lower_bound`; if `proven`, the plan is the cheapest. `blocked`
    pods wait for something other than a node. `useless` are groups that help none of the waiting pods. `preempted`
    maps each preempted pod to its preemptor.
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
        """Number of nodes to add by group."""
        found: dict[str, int] = {}
        for node in self.nodes:
            found[node.group] = found.get(node.group, 0) + 1
        return found

    @property
    def pods(self) -> frozenset[str]:
        """Pods that get new nodes.

        They are given by name.
        """
        return frozenset(pod.pod for node in self.nodes for pod in node.pods)

    @property
    def gap(self) -> float:
        """Cost beyond the lower bound, relative to the lower bound.

        0 for a plan that is proven to be cheapest, infinite without a lower bound.
        """
        if self.proven or self.cost <= self.lower_bound:
            return 0.0
        return self.cost / self.lower_bound - 1 if self.lower_bound else float("inf")
