"""Defragmentation: which pods must move so that other pods fit, and the largest claim that moves make possible.

The answer is a plan of moves, verified in the simulation; nothing is changed. Left out: the search
(`dray.sim.moving`).
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from dray.api.types.resource import DeviceClass
from dray.api.usage import MOST_DEVICES
from dray.api.wire import Tree
from dray.questions.supposing import SupposedChange, suppose
from dray.sim.cluster import Cluster
from dray.sim.demands import PodBatch, claim_for_devices, demand_of
from dray.sim.moving import MOST_MOVES, MovePlan, MovePlanner
from dray.sim.what_if import bring, is_placed

_TRIES = 5000  # limit of tries for one question


class Defragmentation(msgspec.Struct, frozen=True):
    """Smallest plan of moves after which pods fit.

    If `plan` is None, no plan with the allowed number of moves was found; `complete` says whether none exists.
    `device_class`
    and `devices` are set by `largest_claims`: after the moves, a claim for this many devices of the class fits on one
    node, and
    `devices_now` without moves.
    """

    plan: MovePlan | None
    complete: bool
    device_class: str = ""
    devices: int = 0
    devices_now: int = 0

    @property
    def fits(self) -> bool:
        """Whether the pods fit, with or without moves. Always true for results of `largest_claims`."""
        return self.plan is not None or bool(self.device_class)


def defragment(
    cluster: Cluster,
    demand: PodBatch,
    supposed: Iterable[SupposedChange] = (),
    *,
    most: int = MOST_MOVES,
    tries: int = _TRIES,
) -> Defragmentation:
    """Find the smallest set of moves after which the pods of a manifest fit.

    Raises ChangeError for an invalid `supposed` change.
    """
    with cluster.fork() as trial:
        for change in supposed:
            suppose(trial, change)
        return _planned(trial, demand, most, tries)


def largest_claims(
    cluster: Cluster,
    device_class: str = "",
    supposed: Iterable[SupposedChange] = (),
    *,
    most: int = MOST_MOVES,
    tries: int = _TRIES,
) -> list[Defragmentation]:
    """Find for one class, or for every class, the largest claim on one node that moves make possible.

    Raises ChangeError for an invalid `supposed` change.
    """
    with cluster.fork() as trial:
        for change in supposed:
            suppose(trial, change)
        names = sorted(one.metadata.name for one in trial.all(DeviceClass))
        return [_largest(trial, name, most, tries) for name in names if device_class in ("", name)]


def _planned(cluster: Cluster, demand: PodBatch, most: int, tries: int) -> Defragmentation:
    """Plan moves for the pods of a manifest in a fork of the cluster."""
    with cluster.fork() as trial:
        trial.add(*demand.shared)
        bring(trial, demand)
        trial.settle()
        came = [now for pod in demand.pods if (now := trial.current(pod)) is not None]
        waiting = [pod for pod in came if not is_placed(trial, pod)]
        found = MovePlanner(trial, tries).plan(waiting, most)
        return Defragmentation(found.plan, found.complete)


def _largest(cluster: Cluster, device_class: str, most: int, tries: int) -> Defragmentation:
    """Increase the number of devices as long as a plan is found. Returns the last plan."""
    now, best, complete = 0, Defragmentation(None, True, device_class), True
    for devices in range(1, MOST_DEVICES + 1):
        found = _planned(cluster, _claiming(device_class, devices), most, tries)
        if found.plan is None:
            complete = found.complete
            break
        now = devices if not found.plan.moves else now
        best = Defragmentation(found.plan, True, device_class, devices, now)
    return msgspec.structs.replace(best, complete=complete)


def _claiming(device_class: str, devices: int) -> PodBatch:
    """Return a batch with one claim for this many devices of a class."""
    claim = claim_for_devices(device_class, devices)
    meta = msgspec.structs.replace(claim.metadata, name=f"{devices}-devices")
    return demand_of([msgspec.structs.replace(claim, metadata=meta)], "default")


def defragmentation_tree(answer: Defragmentation) -> Tree:
    """Convert an answer to JSON data for `-o json`."""
    plan = answer.plan
    tree: Tree = {"fits": answer.fits, "complete": answer.complete}
    if plan is not None:
        tree["moves"] = [{"pod": one.pod, "from": one.source, "to": one.target} for one in plan.moves]
        tree["pods"] = [{"pod": one.pod, "node": one.node} for one in plan.pods]
    if answer.device_class:
        tree |= {"class": answer.device_class, "devices": answer.devices, "devicesNow": answer.devices_now}
    return tree
