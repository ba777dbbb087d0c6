"""Queue of the pods that wait for a node, in the order in which they are tried.

A pod is in exactly one place: *active* (tried next, by priority and age), *backoff* (failed for a temporary reason,
retried after a delay), *unschedulable* (retried after a change that may help) or *gated* (not tried until a
precondition holds). A scheduling cycle never awaits, so the cluster cannot change between reading the state and the
verdict; the queue therefore needs no record of missed events.

The current time is passed in. Left out: which change helps which pod; the caller decides that.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Set
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING

from dray.api.types.core import Pod
from dray.core.attempt import Attempt

if TYPE_CHECKING:
    from dray.core.nominations import Nomination

INITIAL_BACKOFF = 1.0  # seconds, doubled with each failed attempt, as Kubernetes does
MAX_BACKOFF = 10.0
HELPED_AT_ONCE = 200  # pods activated in one step after an event; more would block the event loop
FLUSH_AFTER = 300.0  # seconds after which an unschedulable pod is retried without any event


class QueuePlace(Enum):
    """Place of a pod in the queue."""

    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    TRYING = "trying"  # popped, and the verdict is still open


@dataclass(slots=True)
class Waiting:
    """A pod in the queue, with the state of its attempts."""

    pod: Pod
    place: QueuePlace = QueuePlace.ACTIVE
    attempts: int = 0
    # plugins that refused the pod; one of them must accept before the pod can fit
    refused_by: frozenset[str] = frozenset()
    alike: Hashable = None  # key of pods that the same device change would unblock; None if devices alone cannot help
    attempt: Attempt | None = None  # the last or current attempt
    since: float = 0.0  # when the pod entered its current place
    tried: float | None = None  # time of the first attempt
    ready: float = 0.0  # when the backoff ends
    pause: float = 0.0  # minimum wait in seconds
    ticket: int = 0  # identifies the current heap entry; entries with another ticket are outdated
    line: QueueLine | None = None  # pods to try after this pod
    failed_on: frozenset[str] = frozenset()  # nodes where devices of the pod did not become ready
    is_reported: bool = False  # whether the reason for gating the pod was reported
    nomination: Nomination | None = None  # nomination of the pod before it was placed

    @property
    def key(self) -> str:
        return self.pod.metadata.uid

    def backoff(self) -> float:
        """Return the backoff in seconds, which doubles with each attempt up to MAX_BACKOFF."""
        return float(min(MAX_BACKOFF, INITIAL_BACKOFF * 2 ** max(0, self.attempts - 1)))


class AlikePods:
    """Unschedulable pods that the same device change would unblock, ordered by priority and then by time of refusal.

    There may be thousands of such pods, so a pod is not examined before it is first.
    """

    def __init__(self) -> None:
        self._by_priority: dict[int, OrderedDict[str, Waiting]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_priority)

    def add(self, waiting: Waiting) -> None:
        self._by_priority.setdefault(waiting.pod.spec.priority or 0, OrderedDict())[waiting.key] = waiting

    def remove(self, uid: str) -> None:
        # there are few priorities, and a pod's priority may have changed
        for priority, pods in self._by_priority.items():
            if pods.pop(uid, None) is not None:
                if not pods:
                    del self._by_priority[priority]
                return

    def first(self, before: float = math.inf) -> Waiting | None:
        """Return the first pod of the highest priority whose oldest pod has a ticket below `before`, or None if none
        has.
        """
        for priority in sorted(self._by_priority, reverse=True):
            oldest = next(iter(self._by_priority[priority].values()))
            if oldest.ticket < before:
                return oldest
        return None


class QueueLine:
    """Unschedulable pods that one event may unblock, tried one after the other while the freed devices last.

    The next pod is activated when the previous pod has a verdict or was removed. If a thousand pods wait for one
    device, only one pod is tried when the device becomes free. Pods refused after the event, with a later ticket, are
    not in the line.
    """

    def __init__(self, pods: AlikePods, ticket: int, is_left: Callable[[], bool]) -> None:
        self._pods = pods
        self._ticket = ticket
        self._is_left = is_left

    def next(self) -> Waiting | None:
        """Return the next waiting pod of the line, or None if no pod waits or nothing is left for the pod."""
        following = self._pods.first(self._ticket)
        return following if following is not None and self._is_left() else None


@dataclass
class SchedulingQueue:
    """All pods without a node, by uid."""

    now: Callable[[], float]
    on_change: Callable[[], None] = lambda: None  # called when a pod becomes active or enters backoff
    flush_after: float = FLUSH_AFTER
    _pods: dict[str, Waiting] = field(default_factory=dict)
    _active: list[tuple[int, float, int, Waiting]] = field(default_factory=list)
    _backoff: list[tuple[float, int, Waiting]] = field(default_factory=list)
    # Unschedulable pods by the set of plugins that refused them, each group in order of refusal.
    _refused: dict[frozenset[str], dict[str, Waiting]] = field(default_factory=dict)
    _alike: dict[Hashable, AlikePods] = field(default_factory=dict)  # unschedulable pods that devices may help
    # By plugins whose verdict an event may have changed (None: any plugin), the ticket that separates earlier refusals.
    _helped: dict[frozenset[str] | None, int] = field(default_factory=dict)
    _gated: dict[str, Waiting] = field(default_factory=dict)
    _tickets: Iterator[int] = field(default_factory=itertools.count)

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> Waiting | None:
        return self._pods.get(uid)

    def refused(self) -> Iterable[Waiting]:
        """Return the unschedulable and gated pods, and the pods in backoff that were refused for lack of time."""
        unschedulable = (group.values() for group in self._refused.values())
        return itertools.chain(*unschedulable, self._gated.values(), filter(_is_late, self._backing_off()))

    def gated(self) -> list[Waiting]:
        """Return the gated pods, longest waiting first."""
        return [*self._gated.values()]

    def _backing_off(self) -> Iterator[Waiting]:
        return (waiting for _, ticket, waiting in self._backoff if waiting.ticket == ticket)

    def counts(self) -> dict[str, int]:
        """Return the number of pods in each place, by the label values of `scheduler_pending_pods`."""
        backing_off = [*self._backing_off()]
        late, gated = sum(map(_is_late, backing_off)), len(self._gated)
        backoff, refused = len(backing_off) - late, late + sum(map(len, self._refused.values()))
        active = sum(1 for _, _, ticket, w in self._active if w.ticket == ticket)
        return {"active": active, "backoff": backoff, "unschedulable": refused, "gated": gated}

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._pods.values())

    def copy(self) -> SchedulingQueue:
        """Return an independent queue with the same pods in the same places."""
        twin = SchedulingQueue(self.now, flush_after=self.flush_after)
        order = sorted(self._pods.values(), key=lambda waiting: waiting.ticket)
        for waiting in order:
            twin._pods[waiting.key] = again = replace(waiting, ticket=-1, line=None, place=QueuePlace.TRYING)
            twin._enter(again, waiting.place)
        if self._helped:
            ticket = next(twin._tickets)
            twin._helped = dict.fromkeys(self._helped, ticket)
        return twin

    def add(self, pod: Pod, *, gated: bool = False) -> Waiting:
        """Add a new pod, or update a known pod. A `gated` pod is not tried. Returns the queue entry."""
        waiting = self._pods.get(pod.metadata.uid)
        if waiting is None:
            waiting = self._pods[pod.metadata.uid] = Waiting(pod)
            self._enter(waiting, QueuePlace.GATED if gated else QueuePlace.ACTIVE)
        waiting.pod = pod
        if gated and waiting.place not in (QueuePlace.TRYING, QueuePlace.GATED):
            self._enter(waiting, QueuePlace.GATED)
        elif not gated and waiting.place is QueuePlace.GATED:
            self._enter(waiting, QueuePlace.ACTIVE)
        return waiting

    def remove(self, uid: str) -> None:
        waiting = self._pods.pop(uid, None)
        if waiting is not None:
            self._leave(waiting)
            if not self._pods:
                self._pods.clear()  # frees the memory of a table that was large

    def pop(self) -> Waiting | None:
        """Take the next pod to try, or None if no pod is active. The pod stays known to the queue until it is
        removed.
        """
        if self._backoff or self._refused:
            self._wake()
        if self._helped:
            self._activate_some()
        while self._active:
            _, _, ticket, waiting = heapq.heappop(self._active)
            if waiting.ticket == ticket:
                self._begin(waiting)
                waiting.ticket = -1
                return waiting
        return None

    def refuse(self, waiting: Waiting, plugins: Iterable[str], alike: Hashable = None) -> None:
        """Mark a popped pod as unschedulable until the verdict of these plugins may change.

        `alike` is the key of pods that the same device change would unblock (None: devices cannot help). Nothing
        happens to a pod that was removed meanwhile.
        """
        waiting.refused_by, waiting.alike = frozenset(plugins), alike
        if self._pods.get(waiting.key) is waiting:
            self._enter(waiting, QueuePlace.UNSCHEDULABLE)

    def retry(self, waiting: Waiting, pause: float = 0.0, refused_by: Iterable[str] = ()) -> None:
        """Retry a pod after its backoff, or after a longer `pause`.

        With `refused_by`, plugins refused the pod because their time was used up. The pod then counts as
        unschedulable, but no general event shortens the pause; otherwise the same long search would start again and
        again.
        """
        waiting.pause, waiting.refused_by = pause, frozenset(refused_by)
        if self._pods.get(waiting.key) is waiting:
            self._enter(waiting, QueuePlace.BACKOFF)

    def postpone(self, waiting: Waiting) -> None:
        """Requeue a pod behind other active pods because its attempt is unfinished."""
        waiting.attempts -= 1
        if self._pods.get(waiting.key) is waiting:
            self._enter(waiting, QueuePlace.ACTIVE)

    def take(self, waiting: Waiting) -> bool:
        """Take a pod out of the queue along with another pod of its gang. Returns whether this succeeded.

        Returns False, without a change, if the pod is gated or being tried.
        """
        if waiting.place in (QueuePlace.GATED, QueuePlace.TRYING):
            return False
        self._leave(waiting)
        self._begin(waiting)
        return True

    def _begin(self, waiting: Waiting) -> None:
        """Mark a pod as being tried and count the attempt."""
        waiting.place = QueuePlace.TRYING
        waiting.attempts += 1
        if waiting.tried is None:
            waiting.tried = self.now()

    def put_back(self, waiting: Waiting) -> None:
        """Requeue a pod whose attempt was abandoned without a verdict. Nothing happens if the pod is not being tried."""
        if waiting.place is QueuePlace.TRYING:
            self.postpone(waiting)

    def refused_by(self, plugins: Set[str] | None = None) -> list[Waiting]:
        """Return the unschedulable pods that at least one of these plugins refused; all of them for None."""
        if not self._refused:
            return []
        groups = [group.values() for by, group in self._refused.items() if plugins is None or by & plugins]
        return [*itertools.chain(*groups)]

    def alike(self) -> list[AlikePods]:
        """Return the unschedulable pods that devices may help, grouped by the device change that would unblock them."""
        return [*self._alike.values()]

    def activate_refused(self, plugins: Set[str] | None = None) -> None:
        """Retry the pods refused by any of these plugins (None: by any plugin), since their verdict may have changed.

        There may be thousands of such pods, so the first pods are activated now and the others before later attempts.
        """
        if self._refused:
            self._helped[None if plugins is None else frozenset(plugins)] = next(self._tickets)
            self._activate_some()

    def _activate_some(self) -> None:
        """Activate the next pods that an earlier event may help, in order of refusal, at most HELPED_AT_ONCE."""
        left = HELPED_AT_ONCE
        for plugins, ticket in [*self._helped.items()]:
            groups = [group for by, group in self._refused.items() if plugins is None or by & plugins]
            found = itertools.chain(*(itertools.islice(_before(group.values(), ticket), left) for group in groups))
            first = heapq.nsmallest(left, found, key=lambda waiting: waiting.ticket)
            for waiting in first:
                self._enter(waiting, QueuePlace.ACTIVE)
            if len(first) == left:
                return
            left -= len(first)
            del self._helped[plugins]

    def activate(self, helped: Iterable[Waiting]) -> None:
        """Activate these unschedulable pods at once, in order of refusal."""
        for waiting in sorted(helped, key=lambda w: w.ticket):
            self._enter(waiting, QueuePlace.ACTIVE)

    def activate_in_turn(self, helped: AlikePods, is_left: Callable[[], bool]) -> None:
        """Activate these pods one after the other, while `is_left` returns True before each pod."""
        if is_left():
            self._call_next(QueueLine(helped, next(self._tickets), is_left))

    def judged(self, waiting: Waiting) -> None:
        """Note that a popped pod has a verdict. Activates the next pod of its line, if the pod has one."""
        line, waiting.line = waiting.line, None
        if line is not None:
            self._call_next(line)

    def activate_one(self, uid: str) -> None:
        """Activate a single pod (by uid) that is unschedulable or in backoff. Other pods are left alone."""
        waiting = self._pods.get(uid)
        if waiting is not None and waiting.place in (QueuePlace.UNSCHEDULABLE, QueuePlace.BACKOFF):
            self._enter(waiting, QueuePlace.ACTIVE)

    def next_wake(self) -> float | None:
        """Return the time when the next pod becomes active without an event, or None if no pod will.

        The time is on the clock of `now`, in seconds.
        """
        times = [self._backoff[0][0]] if self._backoff else []
        if (refused := self._longest_refused()) is not None:
            times.append(refused.since + self.flush_after)
        return min(times, default=None)

    def _wake(self) -> None:
        """Activate the pods whose backoff has ended, and unschedulable pods refused longer than `flush_after` ago."""
        now = self.now()
        while self._backoff and self._backoff[0][0] <= now:
            _, ticket, waiting = heapq.heappop(self._backoff)
            if waiting.ticket == ticket:
                self._enter(waiting, QueuePlace.ACTIVE)
        while (refused := self._longest_refused()) is not None and refused.since + self.flush_after <= now:
            self._enter(refused, QueuePlace.ACTIVE)

    def _longest_refused(self) -> Waiting | None:
        """Return the unschedulable pod with the earliest refusal, or None if there is none.

        Compares only the first pod of each plugin group.
        """
        longest = None
        for group in self._refused.values():
            first = next(iter(group.values()))
            if longest is None or first.ticket < longest.ticket:
                longest = first
        return longest

    def _call_next(self, line: QueueLine) -> None:
        """Activate the next pod of a line, if any."""
        if (following := line.next()) is not None:
            self._enter(following, QueuePlace.ACTIVE)
            following.line = line

    def _leave(self, waiting: Waiting) -> None:
        """Remove a pod from its current place."""
        if waiting.place is QueuePlace.UNSCHEDULABLE:
            group = self._refused[waiting.refused_by]
            del group[waiting.key]
            if not group:
                del self._refused[waiting.refused_by]
            if waiting.alike is not None:
                self._leave_alike(waiting)
        elif waiting.place is QueuePlace.GATED:
            del self._gated[waiting.key]
        waiting.ticket = -1
        if waiting.place is QueuePlace.ACTIVE:
            self.judged(waiting)  # the pod will not be tried

    def _leave_alike(self, waiting: Waiting) -> None:
        group = self._alike[waiting.alike]
        group.remove(waiting.key)
        if not group:
            del self._alike[waiting.alike]

    def _enter(self, waiting: Waiting, place: QueuePlace) -> None:
        """Move a pod from its current place to another."""
        self._leave(waiting)
        waiting.place, waiting.since = place, self.now()
        waiting.ticket = next(self._tickets)
        if place is QueuePlace.ACTIVE:
            priority = waiting.pod.spec.priority or 0
            heapq.heappush(self._active, (-priority, waiting.since, waiting.ticket, waiting))
            self.on_change()
        elif place is QueuePlace.BACKOFF:
            waiting.ready = waiting.since + max(waiting.backoff(), waiting.pause)
            heapq.heappush(self._backoff, (waiting.ready, waiting.ticket, waiting))
            self.on_change()  # the time of the next wake-up may have changed
        elif place is QueuePlace.UNSCHEDULABLE:
            self._refused.setdefault(waiting.refused_by, {})[waiting.key] = waiting
            if waiting.alike is not None:
                self._alike.setdefault(waiting.alike, AlikePods()).add(waiting)
        else:
            self._gated[waiting.key] = waiting


def _before(refused: Iterable[Waiting], ticket: int) -> Iterator[Waiting]:
    """Yield the pods with a ticket below `ticket`. The pods must be in ticket order."""
    return itertools.takewhile(lambda waiting: waiting.ticket < ticket, refused)


def _is_late(waiting: Waiting) -> bool:
    """Whether a pod in backoff was refused for lack of time."""
    return bool(waiting.refused_by)
