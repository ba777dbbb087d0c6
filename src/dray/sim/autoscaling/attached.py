"""Pools that are attached to the network: new nodes reach them, and do not multiply them.

A kind that takes devices from such pools can be served only as long as they last, however many nodes are bought. Units are
placed one after the other, each with a new node of its own, until a pool has run out.
"""

from __future__ import annotations

from collections.abc import Sequence

from dray.api.types.core import Pod
from dray.sim.autoscaling.demand import Kind
from dray.sim.autoscaling.fillings import Fillings
from dray.sim.autoscaling.trial import World, placed
from dray.sim.cluster import Cluster


def servable(kinds: Sequence[Kind], fillings: Sequence[Fillings], world: World) -> list[int]:
    """How many units of each kind the pools on the network can serve, all units of earlier kinds being served."""
    cluster: Cluster | None = None
    found = []
    for number, kind in enumerate(kinds):
        user = next((own for own in fillings if _uses_network(own, number)), None)
        if user is None:
            found.append(len(kind.units))
            continue
        if cluster is None:
            cluster = Cluster(world.objects, gates=world.gates)
        found.append(_served(cluster, kind, user, number))
    return found


def _uses_network(own: Fillings, kind: int) -> bool:
    filled = own.filled(((kind, 1),))
    return filled is not None and not all(own.trial.brings(use.device) for use in filled.devices())


def _served(cluster: Cluster, kind: Kind, user: Fillings, number: int) -> int:
    for count, unit in enumerate(kind.units):
        cluster.add(*user.group.template.objects(f"{user.trial.name}-{number}-{count}"))
        if not placed(cluster, unit):
            for pod in unit.pods:
                cluster.remove(Pod, pod.metadata.name, pod.metadata.namespace)
            return count
    return len(kind.units)
