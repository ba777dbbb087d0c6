"""Turns and attempts: takes pods from the queue one by one, decides without awaiting, and lets bindings run beside.

In each turn attempts follow one another; then informers, bindings and whoever talks to the server get theirs. Left out:
deciding (`attempt`), writing (`binding`), what the pod is told (`telling`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping

from dray.api.claim_access import PodClaims
from dray.api.errors import ApiError, Conflict, NotFound
from dray.api.reasons.nodes import SchedulingRule, Unschedulable
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.client import Informer
from dray.core.attempt import Attempt, Decision, Placement, Promise, Refused, Unfinished
from dray.core.configuration import SchedulerProfile
from dray.core.queue import Waiting
from dray.scheduler.binding import Binder, Overtaken
from dray.scheduler.conditions import NotReady
from dray.scheduler.hints import Hints
from dray.scheduler.metrics import SchedulerFigures
from dray.scheduler.parts import SchedulerParts
from dray.verdicts.demand import Candidate
from dray.verdicts.node_resources import with_claims

log = logging.getLogger(__name__)

PAUSE_FOR_THOUGHT = 9  # an attempt that took too long makes its pod wait nine times as long: others want nine tenths
PASSING = (Overtaken, Conflict, NotFound)  # failures of a binding that only mean that somebody else was faster


GiveWay = Callable[[], Awaitable[float]]
"""Lets others in this process go first; returns the seconds of work after which it should be called again."""
TURN_SECONDS = 0.005  # of work between two turns of others, in a process without an API server


class SchedulingLoop:
    """Tries pods."""

    def __init__(
        self,
        parts: SchedulerParts,
        hints: Hints,
        placement: Placement,
        binder: Binder,
        profiles: Mapping[str, SchedulerProfile],
        pods: Informer[Pod],
        give_way: GiveWay | None = None,
    ) -> None:
        self._queue, self._table, self._devices = parts.queue, parts.table, parts.devices
        self._teller, self._tasks, self._thinker = parts.teller, parts.tasks, parts.thinker
        self._hints = hints
        self.placement = placement
        self._binder = binder
        self._profiles = profiles
        self._pods = pods
        self._give_way = give_way or _next_turn
        self._wake = asyncio.Event()
        self._queue.on_change = self._wake.set
        self._figures = SchedulerFigures(self._queue)
        self._last: Candidate | None = None  # the pod that was tried last: the next is often like it

    async def run(self) -> None:
        while True:
            seconds = await self._give_way()
            turn_ends = time.perf_counter() + seconds  # a turn begins when others have had theirs
            while time.perf_counter() < turn_ends:
                waiting = self._queue.pop()
                if waiting is None:
                    await self._sleep()
                    break
                self._try(waiting)
                await self._tasks.make_room()

    async def _sleep(self) -> None:
        self._wake.clear()
        due = self._queue.next_wake()
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - self._queue.now())):
                await self._wake.wait()
        except TimeoutError:
            return

    # -- one attempt

    def _try(self, waiting: Waiting) -> None:
        """Make an attempt, or a further part of one, and do what follows from it."""
        started = time.perf_counter()
        earlier = waiting.attempt.seconds if waiting.attempt is not None else 0.0
        profile, result = self._profiles[waiting.pod.spec.schedulerName], "error"
        try:
            candidate = self._last = Candidate(waiting.pod, self._last)
            lacking = waiting.attempt.lacking if waiting.attempt is not None and earlier else {}
            census = waiting.attempt.census if waiting.attempt is not None and earlier else None
            attempt = waiting.attempt = Attempt(
                candidate,
                PodClaims(waiting.pod),
                profile,
                earlier,
                failed_on=waiting.failed_on,
                lacking=lacking,
                census=census,
            )
            decision = self.decide(attempt)
            attempt.seconds = earlier + time.perf_counter() - started
            if isinstance(decision, Unfinished):
                self._continue_later(waiting, attempt, decision)
                return
            result = self._follow(waiting, attempt, decision)
            attempt.seconds, attempt.census = 0.0, None
        except Exception:  # one pod that cannot be judged must not keep the others waiting
            log.exception("attempt to place %s/%s failed", waiting.pod.metadata.namespace, waiting.pod.metadata.name)
            self._queue.retry(waiting)
        self._thinker.forget(waiting.key)
        self._queue.judged(waiting)
        self._figures.attempted(result, profile.name, earlier + time.perf_counter() - started)

    def _continue_later(self, waiting: Waiting, attempt: Attempt, unfinished: Unfinished) -> None:
        """Let an attempt go on after others had their turn; where it needs work that takes long, when that is done."""
        works, is_hurried = unfinished.left_over
        self._thinker.need(waiting, works)
        if is_hurried or not works:
            self._queue.postpone(waiting)
            return

        def go_on(seconds: float) -> None:
            attempt.seconds += seconds
            self._queue.postpone(waiting)

        self._thinker.wait(waiting, self._devices.seconds_left(attempt), go_on)

    def _follow(self, waiting: Waiting, attempt: Attempt, decision: Promise | Refused) -> str:
        """Do what an attempt decided; the name of its result in the figures."""
        if isinstance(decision, Refused):
            self._refuse(waiting, attempt, decision)
            return "unschedulable"
        pod = waiting.pod
        self._table.place(pod, decision.node, with_claims(pod, attempt.candidate.demand, decision.node_claims))
        log.debug("pod %s/%s goes to node %s", pod.metadata.namespace, pod.metadata.name, decision.node)
        self._tasks.start(self._bind(waiting, decision))
        return "scheduled"

    def decide(self, attempt: Attempt) -> Decision:
        """A node and devices for the pod of an attempt, or why there are none."""
        started, profile = time.perf_counter(), attempt.profile.name
        claims = self._devices.claims_of(attempt.pod)
        if not isinstance(claims, PodClaims):
            why = Unschedulable(len(self._table), problem=claims)
            return Refused(why, frozenset({SchedulingRule.DYNAMIC_RESOURCES}))
        attempt.claims = claims
        prepared = time.perf_counter()
        self._figures.passed("PreFilter", profile, prepared - started)
        try:
            return self.placement.decide(attempt)
        finally:
            self._figures.passed("Filter", profile, time.perf_counter() - prepared)

    def _refuse(self, waiting: Waiting, attempt: Attempt, refused: Refused) -> None:
        """Let a pod wait: for an event, or for a while if its attempt took too long."""
        pod = waiting.pod
        log.debug("pod %s/%s waits, refused by %s", pod.metadata.namespace, pod.metadata.name, sorted(refused.rules))
        if refused.is_late:
            self._queue.retry(waiting, attempt.seconds * PAUSE_FOR_THOUGHT, refused.rules)
        else:
            self._queue.refuse(waiting, refused.rules, attempt.alike)
        self._teller.waits(pod, refused.why)
        claim = self._devices.expendable(attempt)
        if claim is not None:  # PostFilter; preemption would come here too
            self._tasks.start(self._deallocate(claim))
        if attempt.claims.left_over is not None:
            self._tasks.start(self._binder.discard(attempt.claims.left_over, pod))

    async def _deallocate(self, claim: ResourceClaim) -> None:
        try:
            await self._binder.deallocate(claim)
        except ApiError as error:
            log.info("could not deallocate %s: %s", claim.metadata.name, error)

    # -- binding

    async def _bind(self, waiting: Waiting, promise: Promise) -> None:
        pod = promise.claims.pod
        started = time.perf_counter()
        await self._teller.finished(pod.metadata.uid)
        try:
            settled = await self._binder.bind(promise)
        except Exception as error:  # whatever it is, the pod must not be lost
            unexpected = not isinstance(error, (ApiError, Overtaken, NotReady))
            level, name = logging.ERROR if unexpected else logging.INFO, f"{pod.metadata.namespace}/{pod.metadata.name}"
            log.log(level, "binding %s failed: %s", name, error, exc_info=unexpected)
            self._not_bound(waiting, promise, error)
            return
        freed = sum(map(self._devices.claim_written, settled))
        if promise.special is not None:
            freed += self._devices.claim_made(promise.special, settled[-1])
        if freed:
            self._hints.devices_changed()
        self._figures.passed("Bind", pod.spec.schedulerName, time.perf_counter() - started)
        self._figures.chose(promise.outcome.alternatives if promise.outcome else ())
        self._teller.bound(pod, promise.node)

    def _not_bound(self, waiting: Waiting, promise: Promise, error: Exception) -> None:
        self._undo(promise)
        self._queue.retry(waiting)
        if self._queue.get(waiting.key) is not waiting:
            return  # gone meanwhile
        if isinstance(error, NotReady):
            waiting.failed_on |= {promise.node}
            self._teller.not_ready(waiting.pod, error.found)
        elif not isinstance(error, PASSING):
            self._teller.not_bound(waiting.pod, promise.node, error)
        self._hints.pod_waits(waiting.pod, waiting.pod)  # a claim that went meanwhile keeps it out until it is back

    def _undo(self, promise: Promise) -> None:
        meta = promise.claims.pod.metadata
        current = self._pods.get(meta.namespace, meta.name)
        if current is None or current.metadata.uid != meta.uid or not current.spec.nodeName:
            self._table.unplace(meta.uid)
            self._hints.room_came()
        for claim in promise.pending:
            self._devices.ledger.forget(claim.metadata.uid)
        if promise.pending:
            self._hints.classes_changed()


async def _next_turn() -> float:
    await asyncio.sleep(0)
    return TURN_SECONDS
