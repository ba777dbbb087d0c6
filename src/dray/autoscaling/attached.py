"""Pools that are attached to the network: new nodes reach them, and do not multiply them.

A kind that takes devices from such pools can be served only as long as they last, however many nodes are bought. Units are
placed one after the other, each with a new node of its own, until a pool has run out.
"""

from __future__ import annotations

from collections.abc import Sequence

from dray.api.types.core import Node
from dray.autoscaling.demand import PodKind, Unit
from dray.autoscaling.packings import Packings
from dray.autoscaling.trial import ClusterTemplate, placed, withdraw
from dray.sim.cluster import Cluster


def servable(kinds: Sequence[PodKind], packings: Sequence[Packings], base: ClusterTemplate) -> list[int]:
    """How many units of each kind the pools on the network can serve, all units of earlier kinds being served."""
    cluster: Cluster | None = None
    found = []
    for number, kind in enumerate(kinds):
        able = [own for own in packings if own.most[number]]
        if not any(own.reaches[number] for own in able):
            found.append(len(kind.units))
            continue
        if cluster is None:
            cluster = Cluster(base.objects, gates=base.gates)
        found.append(_served(cluster, kind, able))
    return found


def _served(cluster: Cluster, kind: PodKind, able: Sequence[Packings]) -> int:
    """How many units get what they need when each may have a new node of any group."""
    for count, unit in enumerate(kind.units):
        if not any(_is_served(cluster, unit, own) for own in able):
            return count
    return len(kind.units)


def _is_served(cluster: Cluster, unit: Unit, own: Packings) -> bool:
    name = f"{own.trial.name}-{sum(1 for _ in cluster.all(Node))}"
    cluster.add(*own.group.template.objects(name))
    if placed(cluster, unit):
        return True
    withdraw(cluster, unit)
    cluster.remove(Node, name)
    return False
