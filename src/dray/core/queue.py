"""The pods that wait for a node, in the order in which they are tried.

A pod is in exactly one place: *active* (tried next, by priority and age), *backoff* (failed for a reason that passes by
itself, tried again after a while), *unschedulable* (tried again when something happens that may help it) or *gated*
(not tried before a plugin lets it in). A scheduling cycle never awaits, so nothing can happen between the look at the
cluster and the verdict; the queue therefore needs no record of events that were missed meanwhile.

Time is passed in. Left out: what helps which pod, which the plugins decide.
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
HELPED_AT_ONCE = 200  # pods that an event lets go in one step: more would keep the event loop
FLUSH_AFTER = 300.0  # an unschedulable pod is tried again after this even if no event seemed to help it


class QueuePlace(Enum):
    ACTIVE = "active"
    BACKOFF = "backoff"
    UNSCHEDULABLE = "unschedulable"
    GATED = "gated"
    TRYING = "trying"  # popped; its verdict is not in yet


@dataclass(slots=True)
class Waiting:
    """One pod in the queue and what is known of its attempts."""

    pod: Pod
    place: QueuePlace = QueuePlace.ACTIVE
    attempts: int = 0
    refused_by: frozenset[str] = frozenset()  # plugins whose verdict must change for the pod to fit
    alike: Hashable = None  # equal for pods that the same devices help; None where devices alone do not help
    attempt: Attempt | None = None  # its last attempt, or the one that is not over
    since: float = 0.0  # when it entered its place
    tried: float | None = None  # when it was tried first
    ready: float = 0.0  # when its backoff ends
    pause: float = 0.0  # how long it is to wait at least
    ticket: int = 0  # tells a current heap entry from an outdated one
    line: QueueLine | None = None  # those who come after it
    failed_on: frozenset[str] = frozenset()  # nodes where its devices did not become ready
    is_reported: bool = False  # whether a gated pod was told what it lacks
    nomination: Nomination | None = None  # the place that was kept for it before it was placed

    @property
    def key(self) -> str:
        return self.pod.metadata.uid

    def backoff(self) -> float:
        return float(min(MAX_BACKOFF, INITIAL_BACKOFF * 2 ** max(0, self.attempts - 1)))


class AlikePods:
    """Unschedulable pods that the same devices help: by priority, and of equals who was refused first.

    Thousands may wait, so that none of them is looked at before it is the first.
    """

    def __init__(self) -> None:
        self._by_priority: dict[int, OrderedDict[str, Waiting]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_priority)

    def add(self, waiting: Waiting) -> None:
        self._by_priority.setdefault(waiting.pod.spec.priority or 0, OrderedDict())[waiting.key] = waiting

    def remove(self, uid: str) -> None:
        for priority, pods in self._by_priority.items():  # few, and that of a pod may have changed
            if pods.pop(uid, None) is not None:
                if not pods:
                    del self._by_priority[priority]
                return

    def first(self, before: float = math.inf) -> Waiting | None:
        """The first of those that were refused before a ticket was drawn."""
        for priority in sorted(self._by_priority, reverse=True):
            oldest = next(iter(self._by_priority[priority].values()))
            if oldest.ticket < before:
                return oldest
        return None


class QueueLine:
    """Unschedulable pods that the same event helps, each tried only if those before it left some of the help over.

    The next one goes when the one before has its verdict, or is gone. Of a thousand pods that wait for one device, one is
    tried when it becomes free. Who is refused after the event, with a later ticket, is not in the line.
    """

    def __init__(self, pods: AlikePods, ticket: int, is_left: Callable[[], bool]) -> None:
        self._pods = pods
        self._ticket = ticket
        self._is_left = is_left

    def next(self) -> Waiting | None:
        """The next one that still waits, if it has something to hope for."""
        following = self._pods.first(self._ticket)
        return following if following is not None and self._is_left() else None


@dataclass
class SchedulingQueue:
    """All pods without a node, by uid."""

    now: Callable[[], float]
    on_change: Callable[[], None] = lambda: None  # a pod can be tried, or will be sooner than was known
    flush_after: float = FLUSH_AFTER
    _pods: dict[str, Waiting] = field(default_factory=dict)
    _active: list[tuple[int, float, int, Waiting]] = field(default_factory=list)
    _backoff: list[tuple[float, int, Waiting]] = field(default_factory=list)
    # The unschedulable ones by the plugins that refused them, each group in the order of its refusals.
    _refused: dict[frozenset[str], dict[str, Waiting]] = field(default_factory=dict)
    _alike: dict[Hashable, AlikePods] = field(default_factory=dict)  # those of them that devices help
    # Plugins (None: all) whose verdict an event may have changed, and the ticket before which pods were refused then.
    _helped: dict[frozenset[str] | None, int] = field(default_factory=dict)
    _gated: dict[str, Waiting] = field(default_factory=dict)
    _tickets: Iterator[int] = field(default_factory=itertools.count)

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> Waiting | None:
        return self._pods.get(uid)

    def refused(self) -> Iterable[Waiting]:
        """The pods that wait for something to happen: unschedulable or gated."""
        unschedulable = (group.values() for group in self._refused.values())
        return itertools.chain(*unschedulable, self._gated.values(), filter(_is_late, self._backing_off()))

    def gated(self) -> list[Waiting]:
        """The pods that may not be tried yet, those first that wait for longest."""
        return [*self._gated.values()]

    def _backing_off(self) -> Iterator[Waiting]:
        return (waiting for _, ticket, waiting in self._backoff if waiting.ticket == ticket)

    def counts(self) -> dict[str, int]:
        """How many pods are in each place, by the names of `scheduler_pending_pods`."""
        backing_off = [*self._backing_off()]
        late, gated = sum(map(_is_late, backing_off)), len(self._gated)
        backoff, refused = len(backing_off) - late, late + sum(map(len, self._refused.values()))
        active = sum(1 for _, _, ticket, w in self._active if w.ticket == ticket)
        return {"active": active, "backoff": backoff, "unschedulable": refused, "gated": gated}

    def __iter__(self) -> Iterator[Waiting]:
        return iter(self._pods.values())

    def copy(self) -> SchedulingQueue:
        """A queue of its own with the same pods in the same places, for whoever only wants to try something."""
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
        """Take in a new pod, or the new form of one that is known. A `gated` pod may not be tried yet."""
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
        """The next pod to try; it stays known until it is removed or put back."""
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
        """No node fits for now: wait for an event that changes the verdict of these plugins."""
        waiting.refused_by, waiting.alike = frozenset(plugins), alike
        if self._pods.get(waiting.key) is waiting:
            self._enter(waiting, QueuePlace.UNSCHEDULABLE)

    def retry(self, waiting: Waiting, pause: float = 0.0, refused_by: Iterable[str] = ()) -> None:
        """Something failed that may work next time: try again after a backoff, or a longer pause.

        Where plugins refused the pod since they had no more time, it counts as unschedulable; but no event cuts the
        pause short, or the same long search would start again and again.
        """
        waiting.pause, waiting.refused_by = pause, frozenset(refused_by)
        if self._pods.get(waiting.key) is waiting:
            self._enter(waiting, QueuePlace.BACKOFF)

    def postpone(self, waiting: Waiting) -> None:
        """An attempt is not over, but others have waited long enough: it goes on after them."""
        waiting.attempts -= 1
        if self._pods.get(waiting.key) is waiting:
            self._enter(waiting, QueuePlace.ACTIVE)

    def take(self, waiting: Waiting) -> bool:
        """Take a pod along with another one of its gang. False for a pod that may not be tried, or is being tried."""
        if waiting.place in (QueuePlace.GATED, QueuePlace.TRYING):
            return False
        self._leave(waiting)
        self._begin(waiting)
        return True

    def _begin(self, waiting: Waiting) -> None:
        """Note that an attempt begins, or goes on."""
        waiting.place = QueuePlace.TRYING
        waiting.attempts += 1
        if waiting.tried is None:
            waiting.tried = self.now()

    def put_back(self, waiting: Waiting) -> None:
        """Let a pod be tried again whose attempt came to nothing: not even a refusal."""
        if waiting.place is QueuePlace.TRYING:
            self.postpone(waiting)

    def refused_by(self, plugins: Set[str] | None = None) -> list[Waiting]:
        """The unschedulable pods that one of the plugins refused."""
        if not self._refused:
            return []
        groups = [group.values() for by, group in self._refused.items() if plugins is None or by & plugins]
        return [*itertools.chain(*groups)]

    def alike(self) -> list[AlikePods]:
        """The unschedulable pods that devices help, those together that the same devices help."""
        return [*self._alike.values()]

    def activate_refused(self, plugins: Set[str] | None = None) -> None:
        """Something happened that may change the verdict of these plugins, or of any: try whom they refused again.

        Thousands may wait, so that only the first go at once; the others follow, some before each attempt.
        """
        if self._refused:
            self._helped[None if plugins is None else frozenset(plugins)] = next(self._tickets)
            self._activate_some()

    def _activate_some(self) -> None:
        """Let the next of those go whom an event has helped, in the order of their refusals."""
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
        """Something happened that may help these unschedulable pods: try them again, at once."""
        for waiting in sorted(helped, key=lambda w: w.ticket):
            self._enter(waiting, QueuePlace.ACTIVE)

    def activate_in_turn(self, helped: AlikePods, is_left: Callable[[], bool]) -> None:
        """As `activate`, where what helps one may be gone for the others: `is_left` is asked before each."""
        if is_left():
            self._call_next(QueueLine(helped, next(self._tickets), is_left))

    def judged(self, waiting: Waiting) -> None:
        """A popped pod has its verdict, whichever: those who come after it may go."""
        line, waiting.line = waiting.line, None
        if line is not None:
            self._call_next(line)

    def activate_one(self, uid: str) -> None:
        """Something happened that concerns this pod alone."""
        waiting = self._pods.get(uid)
        if waiting is not None and waiting.place in (QueuePlace.UNSCHEDULABLE, QueuePlace.BACKOFF):
            self._enter(waiting, QueuePlace.ACTIVE)

    def next_wake(self) -> float | None:
        """When a pod becomes active by time alone."""
        times = [self._backoff[0][0]] if self._backoff else []
        if (refused := self._longest_refused()) is not None:
            times.append(refused.since + self.flush_after)
        return min(times, default=None)

    def _wake(self) -> None:
        now = self.now()
        while self._backoff and self._backoff[0][0] <= now:
            _, ticket, waiting = heapq.heappop(self._backoff)
            if waiting.ticket == ticket:
                self._enter(waiting, QueuePlace.ACTIVE)
        while (refused := self._longest_refused()) is not None and refused.since + self.flush_after <= now:
            self._enter(refused, QueuePlace.ACTIVE)

    def _longest_refused(self) -> Waiting | None:
        """Found among the first of each group; pods are refused by few combinations of plugins."""
        longest = None
        for group in self._refused.values():
            first = next(iter(group.values()))
            if longest is None or first.ticket < longest.ticket:
                longest = first
        return longest

    def _call_next(self, line: QueueLine) -> None:
        if (following := line.next()) is not None:
            self._enter(following, QueuePlace.ACTIVE)
            following.line = line

    def _leave(self, waiting: Waiting) -> None:
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
            self.judged(waiting)  # it will not be tried

    def _leave_alike(self, waiting: Waiting) -> None:
        group = self._alike[waiting.alike]
        group.remove(waiting.key)
        if not group:
            del self._alike[waiting.alike]

    def _enter(self, waiting: Waiting, place: QueuePlace) -> None:
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
            self.on_change()  # whoever sleeps until the next pod is due sleeps too long now
        elif place is QueuePlace.UNSCHEDULABLE:
            self._refused.setdefault(waiting.refused_by, {})[waiting.key] = waiting
            if waiting.alike is not None:
                self._alike.setdefault(waiting.alike, AlikePods()).add(waiting)
        else:
            self._gated[waiting.key] = waiting


def _before(refused: Iterable[Waiting], ticket: int) -> Iterator[Waiting]:
    """Those of a group that were refused before a ticket was drawn; a group is in the order of its tickets."""
    return itertools.takewhile(lambda waiting: waiting.ticket < ticket, refused)


def _is_late(waiting: Waiting) -> bool:
    """Whether a pod that backs off was refused for lack of time."""
    return bool(waiting.refused_by)
