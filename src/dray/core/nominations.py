"""Places that are kept for pods until the pods that were preempted for them are gone.

A nomination counts the pod on its node, and holds devices and shares in the ledger, beside those who still have them.
So nobody of the same or of lower priority gets them. Whoever is decided about does not see nominations of lower
priority, nor its own (`lifted`). Nothing of this is written into claims. A nomination has a deadline: victims that are still
there then are not waited for any more. Left out: who is nominated (`preemption`, `group_preemption`).
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

PATIENCE = 300.0  # seconds that a place is kept beyond the grace period of the victims
DEFAULT_GRACE = 30  # seconds, of pods that say nothing


class Nomination(msgspec.Struct, frozen=True):
    """A node for a pod, what it will take there, and who is preempted for it.

    `taken` is empty where the devices are not known yet, as after a restart of the scheduler.
    """

    pod: Pod
    node: str
    demand: PodDemand
    taken: Taken = NOTHING
    victims: frozenset[str] = frozenset()  # uids of pods that are preempted and not gone yet
    until: float = 0.0  # when its victims are not waited for any more

    @property
    def is_open(self) -> bool:
        """Whether the devices may be unknown, as those of a nomination that was read from a pod after a restart."""
        return not self.taken and not self.victims

    @property
    def holder(self) -> str:
        """The name under which the ledger keeps the devices; no claim has it as its uid."""
        return f"nominated {self.pod.metadata.uid}"


class Nominations:
    """The nominations of one state of the cluster, by the uid of the pod."""

    def __init__(self, table: NodeTable, ledger: DeviceLedger, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._table = table
        self._ledger = ledger
        self._known: dict[str, Nomination] = {}
        self._leaving: Counter[str] = Counter()  # victims, by the nominations that wait for them
        self._overdue: set[str] = set()  # victims that nobody waits for any more
        self.record: RecordInverse | None = None  # is given the inverse of each change while something is tried

    def __bool__(self) -> bool:
        return bool(self._known)

    def __iter__(self) -> Iterator[Nomination]:
        return iter([*self._known.values()])

    def get(self, uid: str) -> Nomination | None:
        return self._known.get(uid)

    def on(self, node: str) -> list[Nomination]:
        """The nominations for a node."""
        return [one for one in self._known.values() if one.node == node]

    def holding(self, devices: set[DeviceId]) -> list[Nomination]:
        """The nominations that wait, or may wait, for one of these devices."""
        return [one for one in self._known.values() if one.is_open or not devices.isdisjoint(one.taken.touched)]

    def is_leaving(self, pod: Pod) -> bool:
        """Whether a pod was preempted: by this scheduler, perhaps a moment ago, or as its condition says."""
        return pod.metadata.uid in self._leaving or is_preempted(pod)

    def is_overdue(self, pod: Pod) -> bool:
        """Whether a pod was preempted and should have been gone by now."""
        return pod.metadata.uid in self._overdue

    def nominate(self, pod: Pod, promise: Promise, victims: Iterable[Pod]) -> None:
        """Keep what a pod was promised for the time when its victims are gone."""
        gone = [*victims]
        grace = max(map(_grace, gone), default=0)
        uids = frozenset(victim.metadata.uid for victim in gone)
        self._nominate(pod, promise, uids, self._clock() + grace + PATIENCE)

    def keep(self, pod: Pod, promise: Promise) -> None:
        """Keep what a nominated pod will get, as far as is known now. The deadline stays."""
        known = self._known[pod.metadata.uid]
        self._nominate(pod, promise, known.victims, known.until)

    def _nominate(self, pod: Pod, promise: Promise, victims: frozenset[str], until: float) -> None:
        taken = together(promise.outcome.taken) if promise.outcome is not None else NOTHING
        demand = with_claims(pod, demand_of(pod), promise.node_claims)
        self._set(pod.metadata.uid, Nomination(pod, promise.node, demand, taken, victims, until))

    def expire(self) -> list[Nomination]:
        """End the nominations whose deadline has passed. Returns them; nobody waits for their victims any more."""
        now = self._clock()
        late = [one for one in self._known.values() if one.until <= now]
        for one in late:
            self._overdue |= one.victims
            self._set(one.pod.metadata.uid, None)
        return late

    def told(self, old: Pod | None, new: Pod) -> bool:
        """Note what the status of a pod without a node says. Returns whether a place is not kept any more."""
        uid, name = new.metadata.uid, new.status.nominatedNodeName
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
        """Keep a place again which a pod could not be bound to."""
        self._set(nomination.pod.metadata.uid, nomination)

    def clear(self, uid: str) -> bool:
        """End a nomination. Returns whether there was one."""
        is_known = uid in self._known
        if is_known:
            self._set(uid, None)
        return is_known

    def spare(self, uid: str, victims: frozenset[str]) -> None:
        """Note that these pods could not be preempted for a pod."""
        if (known := self._known.get(uid)) is not None:
            self._set(uid, replace(known, victims=known.victims - victims))

    def gone(self, victim: str) -> list[Nomination]:
        """Note that a pod is gone. Returns the nominations that it was preempted for."""
        self._overdue.discard(victim)
        waiting = [one for one in self._known.values() if victim in one.victims]
        for one in waiting:
            self._set(one.pod.metadata.uid, replace(one, victims=one.victims - {victim}))
        return waiting

    @contextmanager
    def lifted(self, *pods: Pod) -> Iterator[None]:
        """Decide about pods of one priority: their own nominations and those of lower priority do not count meanwhile."""
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
        before = self._replace(uid, new)
        if self.record is not None:
            self.record(partial(self._replace, uid, before))
        if before is not None:
            self._uncount(before)
        if new is not None:
            self._count(new)

    def _replace(self, uid: str, new: Nomination | None) -> Nomination | None:
        """Put a nomination in the place of another, which is returned. Table and ledger are left alone."""
        before = self._known.pop(uid, None)
        self._leaving.subtract(before.victims if before is not None else ())
        if new is not None:
            self._known[uid] = new
            self._leaving.update(new.victims)
        self._leaving = +self._leaving
        return before

    def _count(self, one: Nomination) -> None:
        self._table.nominate(one.pod, one.node, one.demand)
        if one.taken:
            self._ledger.promise(one.holder, one.taken)

    def _uncount(self, one: Nomination) -> None:
        placed = self._table.placed_pod(one.pod.metadata.uid)
        if placed is not None and placed.is_nominated:
            self._table.unplace(one.pod.metadata.uid)
        self._ledger.forget(one.holder)


def _grace(victim: Pod) -> int:
    said = victim.spec.terminationGracePeriodSeconds
    return DEFAULT_GRACE if said is None else said
