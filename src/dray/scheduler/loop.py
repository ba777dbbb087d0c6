"""Scheduling loop: takes pods from the queue, decides about each without awaiting, and starts bindings concurrently.

Each turn makes several attempts; then informers, bindings and clients of the server run. Left out: deciding
(`attempt`), writing (`binding`), conditions and events of pods (`pod_status`).
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from dray.api.errors import ApiError
from dray.api.reasons.nodes import PreemptionCode
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceClaim
from dray.client import Informer
from dray.core.attempt import Attempt, Promise, Refused, Unfinished
from dray.core.core import SchedulerCore
from dray.core.gang_attempt import GangAttempt
from dray.core.queue import Waiting
from dray.scheduler.background_search import SLOW_ATTEMPT_BACKOFF, BackgroundSearch
from dray.scheduler.binding import PASSING, Binder, Overtaken
from dray.scheduler.conditions import NotReady
from dray.scheduler.feed import InformerFeed
from dray.scheduler.gang_loop import GangLoop
from dray.scheduler.group_status import GroupReporter
from dray.scheduler.metrics import PREEMPTION_ATTEMPTS, SchedulerFigures, pod_bound
from dray.scheduler.pod_status import PodStatusWriter
from dray.scheduler.preempting import Preempting
from dray.scheduler.tasks import Tasks

log = logging.getLogger(__name__)


GiveWay = Callable[[], Awaitable[float]]
"""Lets other tasks in this process run. Returns the seconds of work after which it should be called again."""
TURN_SECONDS = 0.005  # seconds of work per turn in a process without an API server


class SchedulingLoop:
    """Makes attempts for the pods in the queue and carries out the decisions."""

    def __init__(
        self,
        core: SchedulerCore,
        feed: InformerFeed,
        pod_status: PodStatusWriter,
        groups: GroupReporter,
        tasks: Tasks,
        background_search: BackgroundSearch,
        binder: Binder,
        gangs: GangLoop,
        preempting: Preempting,
        pods: Informer[Pod],
        give_way: GiveWay | None = None,
    ) -> None:
        self._core = core
        self._feed = feed
        self._pod_status, self._tasks, self._background_search = pod_status, tasks, background_search
        self._binder, self._groups, self._gangs = binder, groups, gangs
        self._preempting = preempting
        self._pods = pods
        self._give_way = give_way or _next_turn
        self._wake = asyncio.Event()
        core.queue.on_change = self._wake.set
        self._figures = SchedulerFigures(core.queue)

    async def run(self) -> None:
        """Make attempts until cancelled."""
        while True:
            seconds = await self._give_way()
            turn_ends = time.perf_counter() + seconds  # the turn starts after other tasks have run
            while time.perf_counter() < turn_ends:
                self._core.now = time.monotonic()
                waiting = self._core.next()
                if waiting is None:
                    await self._sleep()
                    break
                self._try(waiting)
                await self._tasks.make_room()

    def close(self) -> None:
        self._figures.close()

    async def _sleep(self) -> None:
        """Wait until a pod may be tried, because of an event or the end of a backoff."""
        self._wake.clear()
        due = self._core.queue.next_wake()
        try:
            async with asyncio.timeout(None if due is None else max(0.0, due - time.monotonic())):
                await self._wake.wait()
        except TimeoutError:
            return

    # -- one attempt

    def _try(self, waiting: Waiting) -> None:
        """Make or continue an attempt, and carry out its decision."""
        started, profile = time.perf_counter(), waiting.pod.spec.schedulerName
        earlier, result = waiting.attempt.seconds if waiting.attempt is not None else 0.0, "error"
        if (gang := self._gangs.begin(waiting)) is not None:
            self._try_gang(gang)
            return
        try:
            attempt = self._core.begin(waiting)
            begun = time.perf_counter()
            self._figures.passed("PreFilter", profile, begun - started)
            decision = self._core.decide(attempt)
            decided = time.perf_counter()
            self._figures.passed("Filter", profile, decided - begun)
            attempt.seconds = earlier + decided - started
            if isinstance(decision, Unfinished):
                self._continue_later(waiting, attempt, decision)
                return
            self._figures.decided(attempt.seconds)
            if isinstance(decision, Refused):
                self._refuse(waiting, attempt, decision)
                result = "unschedulable"
            else:
                self._place(waiting, decision, attempt.seconds)
                result = ""  # the result is counted after binding
        except Exception:  # an error in one pod must not block other pods
            log.exception("attempt to place %s/%s failed", waiting.pod.metadata.namespace, waiting.pod.metadata.name)
            self._core.fail(waiting)
        self._background_search.forget(waiting.key)
        if result:
            self._figures.attempted(result, profile, earlier + time.perf_counter() - started)

    def _try_gang(self, gang: GangAttempt) -> None:
        """Make or continue an attempt to place a gang."""
        unfinished = self._gangs.go_on(gang)
        if unfinished is None:
            self._background_search.forget(gang.leader.key)
            return

        def spend(seconds: float) -> None:
            gang.seconds += seconds

        self._wait_for_work(gang.leader, unfinished, spend)

    def _continue_later(self, waiting: Waiting, attempt: Attempt, unfinished: Unfinished) -> None:
        """Continue an attempt after other tasks have run, or when the background work that it needs is done."""

        def spend(seconds: float) -> None:
            attempt.seconds += seconds

        self._wait_for_work(waiting, unfinished, spend)

    def _wait_for_work(self, waiting: Waiting, unfinished: Unfinished, spend: Callable[[float], None]) -> None:
        """Request background work for a pod.

        Requeues the pod at once, or when the work is done if the attempt depends on it.

        Calls `spend` with the seconds waited.
        """
        works, is_hurried = unfinished.left_over
        self._background_search.need(waiting, works)
        if is_hurried or not works:
            self._core.queue.postpone(waiting)
            return

        def go_on(seconds: float) -> None:
            spend(seconds)
            self._core.now = time.monotonic()
            self._core.queue.postpone(waiting)

        self._background_search.wait(waiting, go_on)

    def _place(self, waiting: Waiting, promise: Promise, seconds: float) -> None:
        """Count a pod on its node and start binding it."""
        pod = waiting.pod
        self._core.place(waiting, promise)
        log.debug("pod %s/%s goes to node %s", pod.metadata.namespace, pod.metadata.name, promise.node)
        self._tasks.start(self._bind(waiting, promise, seconds))

    def _refuse(self, waiting: Waiting, attempt: Attempt, refused: Refused) -> None:
        """Requeue a refused pod, report the reason, and start preemption and deallocation if these may help."""
        pod = waiting.pod
        log.debug("pod %s/%s waits, refused by %s", pod.metadata.namespace, pod.metadata.name, sorted(refused.rules))
        self._core.refuse(waiting, refused, attempt.seconds * SLOW_ATTEMPT_BACKOFF if refused.is_late else 0.0)
        self._pod_status.report_unschedulable(pod, refused.why)
        self._groups.waits(pod, refused.why)
        claim = self._core.state.devices.expendable(attempt)
        if claim is not None:  # PostFilter
            self._tasks.start(self._deallocate(claim))
        self._preempt(waiting, refused)
        if attempt.claims.left_over is not None:
            self._tasks.start(self._binder.discard(attempt.claims.left_over, pod))

    def _preempt(self, waiting: Waiting, refused: Refused) -> None:
        """Carry out the preemption part of a refusal."""
        why, pod = refused.why.preemption, waiting.pod
        if refused.plan is not None or why is not None:
            PREEMPTION_ATTEMPTS.inc()
        if refused.plan is not None:
            self._preempting.start(waiting, refused.plan)
        elif why is not None and why.code is PreemptionCode.UNAVAILABLE and pod.status.nominatedNodeName:
            self._preempting.unnominate(pod)
        for claim in refused.to_release:
            self._tasks.start(self._deallocate(claim))

    async def _deallocate(self, claim: ResourceClaim) -> None:
        try:
            await self._binder.deallocate(claim)
        except ApiError as error:
            log.info("could not deallocate %s: %s", claim.metadata.name, error)

    # -- binding

    async def _bind(self, waiting: Waiting, promise: Promise, seconds: float) -> None:
        """Write a decision that took `seconds`, and record the result."""
        pod, profile = promise.claims.pod, promise.claims.pod.spec.schedulerName
        started = time.perf_counter()
        if self._pod_status.is_writing(pod.metadata.uid):
            await self._pod_status.finished(pod.metadata.uid)
        try:
            settled = await self._binder.bind(promise)
        except Exception as error:  # after any error, the pod must be retried
            unexpected = not isinstance(error, (ApiError, Overtaken, NotReady))
            level, name = logging.ERROR if unexpected else logging.INFO, f"{pod.metadata.namespace}/{pod.metadata.name}"
            log.log(level, "binding %s failed: %s", name, error, exc_info=unexpected)
            self._figures.attempted("error", profile, seconds + time.perf_counter() - started)
            self._not_bound(waiting, promise, error)
            return
        self._core.confirm(promise, settled)
        self._feed.look_soon()
        binding = time.perf_counter() - started
        self._figures.passed("Bind", profile, binding)
        self._figures.attempted("scheduled", profile, seconds + binding)
        pod_bound(waiting, time.monotonic())
        self._figures.chose(promise.outcome.alternatives if promise.outcome else ())
        self._pod_status.report_bound(pod, promise.node)

    def _not_bound(self, waiting: Waiting, promise: Promise, error: Exception) -> None:
        """Undo the placement of a pod that could not be bound, and report the error.

        Not reported are errors that only mean that another client was faster, and errors of a pod deleted meanwhile.
        """
        meta = promise.claims.pod.metadata
        current = self._pods.get(meta.namespace, meta.name)
        is_bound = current is not None and current.metadata.uid == meta.uid and bool(current.spec.nodeName)
        if isinstance(error, NotReady):
            waiting.failed_on |= {promise.node}
        self._core.now = time.monotonic()
        self._core.undo(waiting, promise, is_bound=is_bound)
        if self._core.queue.get(waiting.key) is not waiting:
            return  # the pod was deleted meanwhile
        if isinstance(error, NotReady):
            self._pod_status.report_devices_not_ready(waiting.pod, error.found)
        elif not isinstance(error, PASSING):
            self._pod_status.report_not_bound(waiting.pod, promise.node, error)


async def _next_turn() -> float:
    await asyncio.sleep(0)
    return TURN_SECONDS
