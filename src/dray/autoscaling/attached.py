"""Network-attached pools, which new nodes can reach but do not multiply.

A kind that needs devices of such pools can only be served until the pools are exhausted, however many nodes are
bought. Units are placed one by one, each with a new node of its own, until no devices are left.
"""

from __future__ import annotations

from collections.abc import Sequence

from dray.api.types.core import Node
from dray.autoscaling.demand import PodKind, Unit
from dray.autoscaling.packings import Packings
from dray.autoscaling.trial import ClusterTemplate, placed, withdraw
from dray.sim.cluster import Cluster


def servable(kinds: Sequence[PodKind], packings: Sequence[Packings], base: ClusterTemplate) -> list[int]:
    """Return for each kind how many units the network-attached pools can serve, after all units of earlier kinds.

    The result is in the order of the kinds. All units of a kind that uses no network-attached devices count.
    """
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
    """Return how many units can be placed if each may have a new node of any group.

    Units are tried in order until one cannot be placed. The placed units and nodes stay in the cluster.
    """
    for count, unit in enumerate(kind.units):
        if not any(_is_served(cluster, unit, own) for own in able):
            return count
    return len(kind.units)


def _is_served(cluster: Cluster, unit: Unit, own: Packings) -> bool:
    """Try a unit with a new node of a group. Returns whether the unit was placed; if not, undoes the changes."""
    name = f"{own.trial.name}-{sum(1 for _ in cluster.all(Node))}"
    cluster.add(*own.group.template.objects(name))
    if placed(cluster, unit):
        return True
    withdraw(cluster, unit)
    cluster.remove(Node, name)
    return False
