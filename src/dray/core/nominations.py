"""Nominations: places kept for pods until the victims preempted for them are gone.

A nomination counts the pod on its node and holds devices and shares in the ledger, in addition to their current
holders, so pods of the same or lower priority cannot take them. A decision about a pod ignores nominations of lower
priority and the pod's own nomination (`lifted`). Nominations are not written into claims. After the deadline of a
nomination, its victims are no longer waited for. Left out: which pods are nominated (`preemption`,
`group_preemption`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import msgspec
from msgspec.structs import replace

from dray.api.allocations import NOTHING, DeviceId, Taken, together
from dray.api.disruption import is_preempted
from dray.api.types.core import Pod
from dray.core.attempt import Promise
from dray.core.journal import RecordInverse
from dray.core.ledger import DeviceLedger
from dray.core.victims import priority_of
from dray.verdicts.demand import PodDemand, demand_of
from dray.verdicts.node_resources import with_claims
from dray.verdicts.nodes import NodeTable

PATIENCE = 300.0  # seconds that a nomination outlasts the grace period of its victims
DEFAULT_GRACE = 30  # seconds, for pods without terminationGracePeriodSeconds


class Nomination(msgspec.Struct, frozen=True):
    """Node kept for a pod, what the pod will take there, and the victims preempted for it.

    `taken` is empty if the devices are unknown, as after a restart of the scheduler.
    """

    pod: Pod
    node: str
    demand: PodDemand
    taken: Taken = NOTHING
    victims: frozenset[str] = frozenset()  # uids of preempted pods that still exist
    until: float = 0.0  # deadline after which the victims are no longer waited for

    @property
    def is_open(self) -> bool:
        """Whether no devices and no victims are known, as for a nomination read from a pod's status after a restart."""
        return not self.taken and not self.victims

    @property
    def holder(self) -> str:
        """Key under which the ledger holds the devices. No claim has this key as its uid."""
        return f"nominated {self.pod.metadata.uid}"


class Nominations:
    """The nominations of the cluster, by uid of the nominated pod."""

    def __init__(self, table: NodeTable, ledger: DeviceLedger, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._table = table
        self._ledger = ledger
        self._known: dict[str, Nomination] = {}
        self._leaving: Counter[str] = Counter()  # number of nominations that wait for each victim, by uid
        self._overdue: set[str] = set()  # victims that no nomination waits for any longer
        self.record: RecordInverse | None = None  # receives the inverse of each change during a trial

    def __bool__(self) -> bool:
        return bool(self._known)

    def __iter__(self) -> Iterator[Nomination]:
        return iter([*self._known.values()])

    def get(self, uid: str) -> Nomination | None:
        return self._known.get(uid)

    def on(self, node: str) -> list[Nomination]:
        """Return the nominations for a node (by name), empty if there are none."""
        return [one for one in self._known.values() if one.node == node]

    def holding(self, devices: set[DeviceId]) -> list[Nomination]:
        """Return the nominations that hold, or may hold, one of these devices."""
        return [one for one in self._known.values() if one.is_open or not devices.isdisjoint(one.taken.touched)]

    def is_leaving(self, pod: Pod) -> bool:
        """Whether a pod was preempted, according to a nomination or its DisruptionTarget condition."""
        return pod.metadata.uid in self._leaving or is_preempted(pod)

    def is_overdue(self, pod: Pod) -> bool:
        """Whether a pod was preempted but still exists after the deadline."""
        return pod.metadata.uid in self._overdue

    def nominate(self, pod: Pod, promise: Promise, victims: Iterable[Pod]) -> None:
        """Nominate a pod for its promised node and devices until its victims are gone."""
        gone = [*victims]
        grace = max(map(_grace, gone), default=0)
        uids = frozenset(victim.metadata.uid for victim in gone)
        self._nominate(pod, promise, uids, self._clock() + grace + PATIENCE)

    def keep(self, pod: Pod, promise: Promise) -> None:
        """Replace the node and devices of a pod's nomination. Victims and deadline stay the same.

        Raises KeyError if the pod has no nomination.
        """
        known = self._known[pod.metadata.uid]
        self._nominate(pod, promise, known.victims, known.until)

    def _nominate(self, pod: Pod, promise: Promise, victims: frozenset[str], until: float) -> None:
        """Store a nomination with the resources and devices of the promise."""
        taken = together(promise.outcome.taken) if promise.outcome is not None else NOTHING
        demand = with_claims(pod, demand_of(pod), promise.node_claims)
        self._set(pod.metadata.uid, Nomination(pod, promise.node, demand, taken, victims, until))

    def expire(self) -> list[Nomination]:
        """End and return the nominations whose deadline has passed. Their victims become overdue."""
        now = self._clock()
        late = [one for one in self._known.values() if one.until <= now]
        for one in late:
            self._overdue |= one.victims
            self._set(one.pod.metadata.uid, None)
        return late

    def told(self, old: Pod | None, new: Pod) -> bool:
        """Update nominations from the status of a pod without a node. `old` is None for a new pod.

        Returns True if an existing nomination was replaced or ended, and False otherwise, also for a new nomination.
        """
        uid, name = new.metadata.uid, new.status.nominatedNodeName
        if not name and not self._known:
            return False  # as for most pods
        known = self._known.get(uid)
        before = old.status.nominatedNodeName if old is not None else ""
        if name != before and name != (known.node if known is not None else ""):
            until = self._clock() + PATIENCE
            self._set(uid, Nomination(new, name, demand_of(new), until=until) if name else None)
            return known is not None
        if known is not None and known.pod is not new:
            self._set(uid, replace(known, pod=new))
        return False

    def restore(self, nomination: Nomination) -> None:
        """Restore the nomination of a pod whose binding failed."""
        self._set(nomination.pod.metadata.uid, nomination)

    def clear(self, uid: str) -> bool:
        """End a nomination. Returns whether the pod had one."""
        is_known = uid in self._known
        if is_known:
            self._set(uid, None)
        return is_known

    def spare(self, uid: str, victims: frozenset[str]) -> None:
        """Remove victims (uids) from the nomination of a pod (`uid`), if it has one, because their eviction failed."""
        if (known := self._known.get(uid)) is not None:
            self._set(uid, replace(known, victims=known.victims - victims))

    def gone(self, victim: str) -> list[Nomination]:
        """Remove an ended pod from the victims of all nominations. Returns the nominations that waited for the pod."""
        self._overdue.discard(victim)
        waiting = [one for one in self._known.values() if victim in one.victims]
        for one in waiting:
            self._set(one.pod.metadata.uid, replace(one, victims=one.victims - {victim}))
        return waiting

    @contextmanager
    def lifted(self, *pods: Pod) -> Iterator[None]:
        """Context manager: ignore the nominations of these pods, and those of lower priority, within the block.

        All pods must have the same priority.
        """
        if not self._known:
            yield
            return
        uids, priority = {pod.metadata.uid for pod in pods}, priority_of(pods[0])
        lifted = [one for key, one in self._known.items() if key in uids or priority_of(one.pod) < priority]
        for one in lifted:
            self._uncount(one)
        try:
            yield
        finally:
            for one in lifted:
                if self._known.get(one.pod.metadata.uid) is one:
                    self._count(one)

    def _set(self, uid: str, new: Nomination | None) -> None:
        """Set or end (None) a pod's nomination and update table and ledger."""
        before = self._replace(uid, new)
        if self.record is not None:
            self.record(partial(self._replace, uid, before))
        if before is not None:
            self._uncount(before)
        if new is not None:
            self._count(new)

    def _replace(self, uid: str, new: Nomination | None) -> Nomination | None:
        """Replace a nomination without updating table and ledger. Returns the previous nomination, or None."""
        before = self._known.pop(uid, None)
        self._leaving.subtract(before.victims if before is not None else ())
        if new is not None:
            self._known[uid] = new
            self._leaving.update(new.victims)
        self._leaving = +self._leaving
        return before

    def _count(self, one: Nomination) -> None:
        """Count a nomination in table and ledger."""
        self._table.nominate(one.pod, one.node, one.demand)
        if one.taken:
            self._ledger.promise(one.holder, one.taken)

    def _uncount(self, one: Nomination) -> None:
        """Remove a nomination from table and ledger."""
        placed = self._table.placed_pod(one.pod.metadata.uid)
        if placed is not None and placed.is_nominated:
            self._table.unplace(one.pod.metadata.uid)
        self._ledger.forget(one.holder)


def _grace(victim: Pod) -> int:
    said = victim.spec.terminationGracePeriodSeconds
    return DEFAULT_GRACE if said is None else said
