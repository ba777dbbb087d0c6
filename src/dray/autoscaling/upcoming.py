"""Nodes on their way: ordered nodes, and nodes whose drivers have not published devices yet.

Until a deadline, they count as their template, so that no node is bought twice for the same pods. After it, they
count as they are; an ordered node then counts as nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from msgspec.structs import replace

from dray.api.times import parse_timestamp
from dray.api.types.apps import DaemonSet
from dray.api.types.core import Node
from dray.api.types.resource import ResourceSlice
from dray.autoscaling.groups import NodeGroup, NodeGroups
from dray.autoscaling.trial import add_node, template_of
from dray.sim.cluster import Cluster
from dray.sim.copies import node_like


def complete_nodes(cluster: Cluster, groups: NodeGroups, now: float) -> list[str]:
    """Add the missing devices of young nodes from their templates. Returns the names of these nodes.

    `now` is Unix time in seconds. A node is only completed if a driver of its group has not published slices.
    """
    published: dict[str, set[str]] = {}
    for piece in cluster.all(ResourceSlice):
        published.setdefault(piece.spec.nodeName or "", set()).add(piece.spec.driver)
    found = []
    for node in cluster.all(Node):
        group = groups.of(node)
        drivers = published.get(node.metadata.name, set())
        if group is None or not _is_young(node, groups, now) or not _lacks(group, drivers):
            continue
        found.append(node.metadata.name)
        pieces = group.template.slices_of(node.metadata.name)
        cluster.add(_ready(node), *(piece for piece in pieces if piece.spec.driver not in drivers))
    return found


def add_ordered(
    cluster: Cluster, groups: NodeGroups, ordered: Mapping[str, int], daemon_sets: Iterable[DaemonSet] = ()
) -> None:
    """Add ordered nodes to a cluster from their templates, with daemons.

    `ordered` has the number of nodes by group. The nodes are named GROUP-ordered-NUMBER.
    """
    base = template_of(cluster, daemon_sets)
    for group in groups.groups:
        for number in range(1, ordered.get(group.name, 0) + 1):
            add_node(cluster, groups, f"{group.name}-ordered-{number}", group.name, base)


def _is_young(node: Node, groups: NodeGroups, now: float) -> bool:
    """Whether a node was created less than `provisionSeconds` ago.

    `now` is Unix time in seconds. False without a creation time.
    """
    created = node.metadata.creationTimestamp
    return created is not None and now - parse_timestamp(created) < groups.settings.provisionSeconds


def _lacks(group: NodeGroup, drivers: Iterable[str]) -> bool:
    """Whether a driver of the group's template has not published slices yet."""
    return not {piece.spec.driver for piece in group.template.slices} <= {*drivers}


def _ready(node: Node) -> Node:
    """Return the node ready and without state taints, with its identity unchanged."""
    made = node_like(node, node.metadata.name)
    return replace(made, metadata=replace(node.metadata, labels=made.metadata.labels))
