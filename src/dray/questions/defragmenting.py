"""Defragmentation: which pods have to move so that a claim fits, or the largest claim that can fit at all.

The answer is a plan of moves, each verified in the simulation; nothing is changed. Left out: the search (`dray.sim.moving`).
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

_TRIES = 5000  # for one question


class Defragmentation(msgspec.Struct, frozen=True):
    """The smallest plan after which pods fit.

    Without a plan there is none with as many moves as were allowed, and `complete` says whether that is certain. `device_class`
    and `devices` are set where the question was about the largest claim: so many devices of the class fit on one node after the
    moves, and `devices_now` without any.
    """

    plan: MovePlan | None
    complete: bool
    device_class: str = ""
    devices: int = 0
    devices_now: int = 0

    @property
    def fits(self) -> bool:
        """Whether the pods fit, with moves or without; where the largest claim is asked for, always."""
        return self.plan is not None or bool(self.device_class)


def defragment(
    cluster: Cluster,
    demand: PodBatch,
    supposed: Iterable[SupposedChange] = (),
    *,
    most: int = MOST_MOVES,
    tries: int = _TRIES,
) -> Defragmentation:
    """The smallest set of moves after which the pods of a manifest fit. Raises ChangeError."""
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
    """For a class, or for each, the largest claim on one node that moves make possible. Raises ChangeError."""
    with cluster.fork() as trial:
        for change in supposed:
            suppose(trial, change)
        names = sorted(one.metadata.name for one in trial.all(DeviceClass))
        return [_largest(trial, name, most, tries) for name in names if device_class in ("", name)]


def _planned(cluster: Cluster, demand: PodBatch, most: int, tries: int) -> Defragmentation:
    with cluster.fork() as trial:
        trial.add(*demand.shared)
        bring(trial, demand)
        trial.settle()
        came = [now for pod in demand.pods if (now := trial.current(pod)) is not None]
        waiting = [pod for pod in came if not is_placed(trial, pod)]
        found = MovePlanner(trial, tries).plan(waiting, most)
        return Defragmentation(found.plan, found.complete)


def _largest(cluster: Cluster, device_class: str, most: int, tries: int) -> Defragmentation:
    """Ask for one device more, as long as a plan is found."""
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
    claim = claim_for_devices(device_class, devices)
    meta = msgspec.structs.replace(claim.metadata, name=f"{devices}-devices")
    return demand_of([msgspec.structs.replace(claim, metadata=meta)], "default")


def defragmentation_tree(answer: Defragmentation) -> Tree:
    """An answer for `-o json`."""
    plan = answer.plan
    tree: Tree = {"fits": answer.fits, "complete": answer.complete}
    if plan is not None:
        tree["moves"] = [{"pod": one.pod, "from": one.source, "to": one.target} for one in plan.moves]
        tree["pods"] = [{"pod": one.pod, "node": one.node} for one in plan.pods]
    if answer.device_class:
        tree |= {"class": answer.device_class, "devices": answer.devices, "devicesNow": answer.devices_now}
    return tree
