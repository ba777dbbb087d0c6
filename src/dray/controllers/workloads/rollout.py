"""Computes the next size of each ReplicaSet of a Deployment: rolling update, recreation, proportional scaling.

The rules are Kubernetes'. Each step either grows the new ReplicaSet as far as the surge allows, or shrinks old ones
as far as availability allows, never both. The next step waits for the status of the last. Pure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from dray.api.types.apps import Deployment, ReplicaSet
from dray.controllers.workloads.pods import creation_time
from dray.controllers.workloads.revisions import DESIRED_REPLICAS, MAX_REPLICAS, Sets, annotated

RECREATE = "Recreate"


class Resize(NamedTuple):
    """A ReplicaSet and its next size."""

    replica_set: ReplicaSet
    replicas: int


def share(value: int | str | None, whole: int, *, up: bool) -> int:
    """Return an absolute number, or a percentage of `whole` rounded up or down; 0 for None.

    A percentage is text such as "25%"; `up` rounds up.
    """
    if isinstance(value, str):
        exact = int(value.removesuffix("%")) * whole / 100
        return math.ceil(exact) if up else math.floor(exact)
    return value or 0


def wanted(deployment: Deployment) -> int:
    """Return the number of pods that the Deployment wants: 1 if its spec does not say."""
    return 1 if deployment.spec.replicas is None else deployment.spec.replicas


def max_surge(deployment: Deployment) -> int:
    """Return how many pods may exist beyond the wanted number: 0 for strategy Recreate."""
    update = deployment.spec.strategy.rollingUpdate
    if deployment.spec.strategy.type == RECREATE or update is None:
        return 0
    return share(update.maxSurge, wanted(deployment), up=True)


def max_unavailable(deployment: Deployment) -> int:
    """Return how many of the wanted pods may be unavailable during a rolling update.

    Returns 0 for strategy Recreate and without wanted pods, otherwise at least 1 if no extra pods may exist either.
    """
    update, count = deployment.spec.strategy.rollingUpdate, wanted(deployment)
    if deployment.spec.strategy.type == RECREATE or update is None or not count:
        return 0
    missing = share(update.maxUnavailable, count, up=False)
    if not missing and not max_surge(deployment):
        missing = 1  # otherwise nothing could ever change
    return min(missing, count)


def max_replicas(deployment: Deployment) -> int:
    return wanted(deployment) + max_surge(deployment)


def size(replica_set: ReplicaSet) -> int:
    return replica_set.spec.replicas or 0


def available(replica_set: ReplicaSet) -> int:
    """Return the number of available pods that stay. The status of a set that was just shrunk may count more."""
    return min(replica_set.status.availableReplicas, size(replica_set))


def total(sets: Sequence[ReplicaSet]) -> int:
    return sum(map(size, sets))


def active(sets: Sequence[ReplicaSet]) -> list[ReplicaSet]:
    return [one for one in sets if size(one)]


def new_size(deployment: Deployment, current: int, others: int) -> int:
    """Return the next size of the new ReplicaSet, which has `current` pods while the old ones have `others`.

    Strategy Recreate, and a set that has enough pods, get the wanted number at once. Otherwise the set only grows, as
    far as the maximum of all pods allows.
    """
    goal = wanted(deployment)
    if current >= goal or deployment.spec.strategy.type == RECREATE:
        return goal
    room = max_replicas(deployment) - current - others
    return current + max(0, min(room, goal - current))


def rolling_step(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> list[Resize]:
    goal = new_size(deployment, size(new), total(old))
    if goal != size(new):
        return [Resize(new, goal)]
    return _shrink_old(deployment, new, old)


def _shrink_old(deployment: Deployment, new: ReplicaSet, old: Sequence[ReplicaSet]) -> list[Resize]:
    """Return smaller sizes for old ReplicaSets: unavailable pods first, then as many available ones as allowed.

    Returns nothing if no pod may go now. ReplicaSets that keep their size are left out.
    """
    least = wanted(deployment) - max_unavailable(deployment)
    waiting = size(new) - available(new)
    bearable = size(new) + total(old) - least - waiting
    if not active(old) or bearable <= 0:
        return []
    sizes = {one.metadata.name: size(one) for one in old}
    ordered = sorted(old, key=creation_time)
    for one in ordered:
        broken = min(bearable, size(one) - available(one))
        if size(one) and broken > 0:
            sizes[one.metadata.name] -= broken
            bearable -= broken
    spare = available(new) + sum(map(available, old)) - least
    for one in ordered:
        fewer = max(0, min(spare, sizes[one.metadata.name]))
        sizes[one.metadata.name] -= fewer
        spare -= fewer
    return [Resize(one, sizes[one.metadata.name]) for one in old if sizes[one.metadata.name] != size(one)]


def is_scaled(deployment: Deployment, sets: Sets) -> bool:
    """Whether the Deployment's size changed since its ReplicaSets were last resized.

    ReplicaSets of size 0, and those without the annotation, do not count.
    """
    return any(annotated(one, DESIRED_REPLICAS) not in (None, wanted(deployment)) for one in active(sets.all))


def scaling_step(deployment: Deployment, sets: Sets) -> list[Resize]:
    """Return new sizes after a change of the Deployment's size, in proportion to the current sizes.

    ReplicaSets that keep their size are included, because their annotations must record the Deployment's new size.
    """
    running, goal = active(sets.all), wanted(deployment)
    if len(running) <= 1:
        only = running[0] if running else sets.new or (sets.old[-1] if sets.old else None)
        return [Resize(only, goal)] if only is not None else []
    if sets.new is not None and _is_saturated(deployment, sets.new):
        return [Resize(one, 0) for one in active(sets.old)]
    if deployment.spec.strategy.type == RECREATE:
        return [Resize(one, size(one)) for one in running]  # only recorded; the recreation does the rest
    return _in_proportion(deployment, running)


def _is_saturated(deployment: Deployment, new: ReplicaSet) -> bool:
    """Whether the new ReplicaSet has the wanted size and all its pods are available."""
    goal = wanted(deployment)
    return size(new) == goal == annotated(new, DESIRED_REPLICAS) == new.status.availableReplicas


def _in_proportion(deployment: Deployment, running: Sequence[ReplicaSet]) -> list[Resize]:
    allowed = max_replicas(deployment) if wanted(deployment) else 0
    to_add = allowed - total(running)
    newest = sorted(running, key=creation_time, reverse=to_add > 0)
    ordered = sorted(newest, key=size, reverse=True)
    sizes, added = [], 0
    for one in ordered:
        part = _part(deployment, one, to_add, added)
        sizes.append(size(one) + part)
        added += part
    sizes[0] = max(0, sizes[0] + to_add - added)  # the rounding error goes to the largest set
    return [Resize(one, replicas) for one, replicas in zip(ordered, sizes, strict=True)]


def _part(deployment: Deployment, one: ReplicaSet, to_add: int, added: int) -> int:
    """Return one ReplicaSet's share in a change by `to_add` pods, of which `added` are already assigned.

    The result is negative if pods are to be removed.
    """
    if to_add == added:
        return 0
    if not wanted(deployment):
        return -size(one)
    before = annotated(one, MAX_REPLICAS) or deployment.status.replicas or size(one)
    exact = size(one) * max_replicas(deployment) / before
    fraction = math.floor(exact + 0.5) - size(one)
    rest = to_add - added
    return min(fraction, rest) if to_add > 0 else max(fraction, rest)
