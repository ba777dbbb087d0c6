"""Which nodes to add so that waiting pods fit, and which nodes to remove."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from dray.api.types.apps import DaemonSet
from dray.autoscaling import planner
from dray.autoscaling.groups import NodeGroups
from dray.autoscaling.plans import ScaleUpPlan
from dray.autoscaling.scale_down import ScaleDown, scale_down
from dray.sim.cluster import Cluster


class NodePlan(NamedTuple):
    """Nodes to add (`up`), or nodes to remove (`down`). At most one of both is not empty."""

    up: ScaleUpPlan
    down: ScaleDown


def plan(
    cluster: Cluster, groups: NodeGroups, daemon_sets: Iterable[DaemonSet] = (), seconds: float = planner.SECONDS
) -> NodePlan:
    """Plan nodes for the waiting pods. Removes nodes only if none must be added. The search is limited to `seconds`."""
    up = planner.plan(cluster, groups, daemon_sets=daemon_sets, seconds=seconds)
    return NodePlan(up, ScaleDown() if up.nodes else scale_down(cluster, groups))
