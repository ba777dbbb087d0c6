"""Handles one pod on this node, from its assignment to its end.

A worker compares the pod's spec with the state of its containers, performs the next step, and sleeps until something
changes. It keeps no state that it could not find out again, so it may be killed at any point. A pod is finished, and
may be deleted, only after its containers have ended and the claims that no other pod uses are unprepared. Left out:
which pods exist (`pods`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Iterable, Sequence

from dray.api import podclaims
from dray.api.errors import ApiError, Conflict, NotFound
from dray.api.host_ports import collisions, host_ports
from dray.api.times import parse_timestamp
from dray.api.types.core import Pod
from dray.api.wire import Tree
from dray.node import emptydirs, lifecycle, metrics, status
from dray.node.claims import Granted
from dray.node.containerhealth import ContainerHealth
from dray.node.containers import container_of, kind_of
from dray.node.context import NodeContext
from dray.node.health import resource_statuses, unhealthy
from dray.node.lifecycle import ContainerWaits, Histories, PodSteps
from dray.node.podclaims import PodClaimUser
from dray.node.podstart import Starter, known_images, restarts
from dray.node.reporting import StatusWriter
from dray.node.runtime import ContainerAttempt, ContainerKey

log = logging.getLogger(__name__)

# Grace period for containers of a pod that is gone from the API: such a pod was deleted by force.
FORCED_GRACE_SECONDS = 2.0
_RETRY_AFTER_BUG_SECONDS = 5.0
EVICTED = "Evicted"
_EVICTION_GRACE_SECONDS = 1.0  # as in the kubelet
_RUN_ERROR = "RunContainerError"  # the kubelet's code for a container that was created but could not be run


class PodWorker:
    """Worker of one pod. The pod is identified by `uid`, because another pod may later have the same name."""

    def __init__(self, node: NodeContext, uid: str, pod: Pod | None) -> None:
        self._node = node
        self._uid = uid
        self._pod = pod  # the latest known state
        self._exists = pod is not None
        self._wake = asyncio.Event()
        self._refusal: tuple[str, str] | None = None  # reason and message why the pod may no longer run
        self._phase = ""  # the final phase, once all containers have ended
        self._stopping: dict[ContainerKey, tuple[float, asyncio.Task[None]]] = {}
        self._begun: set[ContainerKey] = set()  # started by this agent and not known to have ended
        self._measuring: asyncio.Task[None] | None = None  # volumes with a size limit
        self._told: set[ContainerKey] = set()  # ends of containers for which a back-off event was recorded
        self._waits: dict[ContainerKey, asyncio.Task[None]] = {}
        self._unhealthy: set[str] = set()  # devices that events reported as unhealthy
        self._claims = PodClaimUser(node, uid)
        self._starter = Starter(node, pod) if pod is not None else None
        self._health = ContainerHealth(node, self.wake, self._kill)
        self._writer = StatusWriter(node.client, pod, node.clock) if pod is not None else None

    # Notifications from outside

    def update(self, pod: Pod) -> None:
        self._pod = pod
        self.wake()

    def gone(self) -> None:
        """Note that the pod no longer exists in the API."""
        self._exists = False
        self.wake()

    def wake(self) -> None:
        self._wake.set()

    def claims_may_work(self) -> None:
        """Retry preparing claims at once, because a driver became reachable."""
        self._claims.hurry()
        self.wake()

    def driver_gone(self, name: str, claims: list[str]) -> None:
        """Record a warning event: the driver that prepared these claims of the pod has been away for long."""
        if self._pod is not None:
            text = f"DRA driver {name} is not registered any more: ResourceClaim {', '.join(claims)} stays prepared"
            self._node.recorder.warning(self._pod, "DRADriverGone", f"{text} until the driver is back")

    async def run(self) -> None:
        """Work until the pod is deleted and nothing of the pod is left on the node."""
        try:
            while True:
                self._wake.clear()
                try:
                    again = await self._step()
                except Exception:
                    log.exception("pod %s", self._uid)
                    again = _RETRY_AFTER_BUG_SECONDS
                if again is not None and again < 0:
                    return
                await self._sleep(again)
        finally:
            self._let_go()

    async def _sleep(self, seconds: float | None) -> None:
        timer = None if seconds is None else self._node.clock.call_later(seconds, self.wake)
        try:
            await self._wake.wait()
        finally:
            if timer is not None:
                timer.cancel()

    def _let_go(self) -> None:
        """Cancel the worker's tasks. Containers keep running."""
        for task in (*self._waits.values(), *(task for _, task in self._stopping.values())):
            task.cancel()
        if self._measuring is not None:
            self._measuring.cancel()
        self._health.close()
        if self._writer is not None:
            self._writer.close()

    # One step: returns the seconds until the next step, None for "when woken", or a negative number for "never"

    async def _step(self) -> float | None:
        histories = self._look()
        pod = self._pod if self._exists else None
        if pod is None:
            return await self._bury(histories)
        if podclaims.is_finished(pod) or pod.metadata.deletionTimestamp is not None or self._refusal or self._phase:
            return await self._wind_down(pod, histories)
        self._refusal = self._refused(pod, histories)
        if self._refusal:
            return await self._wind_down(pod, histories)
        obstacle = await self._claims.obstacle(pod, new=not histories)
        # Preparing may have taken a while: a changed pod is examined again before any container starts.
        return await self._carry_on(pod, obstacle) if self._exists and pod is self._pod else 0.0

    def _look(self) -> dict[str, list[ContainerAttempt]]:
        """Return the attempts of each container, by name, and start waiting for the end of each running one.

        The latest attempt of a container is the last.
        """
        histories: dict[str, list[ContainerAttempt]] = {}
        for attempt in self._node.runtime.attempts(self._uid):
            histories.setdefault(attempt.key.container, []).append(attempt)
            self._count_failed_start(attempt)
            if attempt.running and attempt.key not in self._waits:
                self._waits[attempt.key] = self._background(
                    self._node.runtime.wait(attempt.key), attempt.key, self._waits
                )
        return histories

    def _count_failed_start(self, attempt: ContainerAttempt) -> None:
        """Count a container started by this agent that ended because its program could not be run."""
        if attempt.key in self._begun and not attempt.running:
            self._begun.discard(attempt.key)
            if attempt.reason == "StartError" and self._pod is not None:
                metrics.START_ERRORS.labels(kind_of(self._pod, attempt.key.container), _RUN_ERROR).inc()

    async def _carry_on(self, pod: Pod, obstacle: ContainerWaits | None) -> float | None:
        """Perform the lifecycle's steps until nothing can be done at once.

        Returns the seconds until the next check, or None. While `obstacle` is given, no container is started, and the
        obstacle becomes the waiting reason of these containers.
        """
        for _ in range(2 + len(pod.spec.initContainers)):
            histories = self._look()
            started = self._health.started(histories)
            decision = lifecycle.decide(pod, histories, self._node.clock.time(), self._node.delays, started)
            self._stop(pod, decision.stop, histories, self._grace(pod))
            if obstacle is not None:
                decision.waiting |= dict.fromkeys(decision.start, obstacle)
                break
            if not await self._start(pod, histories, decision):
                break
        self._tell_back_off(pod, histories, decision)
        self._phase = decision.phase
        if self._phase:
            return await self._wind_down(pod, self._look())
        histories = self._look()
        if histories:
            self._measure(pod)
        self._report(pod, histories, decision)
        claims = self._claims.next_try if obstacle is not None and self._node.devices else None
        assert self._starter is not None
        times = (decision.again, self._deadline(pod), claims, self._starter.next_try, await self._starter.refresh(pod))
        return min((t for t in times if t is not None), default=None)

    def _tell_back_off(self, pod: Pod, histories: Histories, decision: PodSteps) -> None:
        """Record an event, once for each end of a container, that the container's restart is delayed."""
        for name, waiting in decision.waiting.items():
            attempt = lifecycle.last(histories, name)
            if waiting.reason == lifecycle.BACK_OFF and attempt is not None and attempt.key not in self._told:
                self._told.add(attempt.key)
                meta = pod.metadata
                who = f"container {name} in pod {meta.name}_{meta.namespace}({meta.uid})"
                self._node.recorder.warning(pod, "BackOff", f"Back-off restarting failed {who}")

    async def _start(self, pod: Pod, histories: Histories, decision: PodSteps) -> bool:
        """Start the containers of a decision. Returns whether at least one was started.

        Reasons why others wait are added to `decision.waiting`.
        """
        assert self._starter is not None
        for name in decision.start:
            waiting = await self._starter.start(pod, name, histories)
            if waiting is not None:
                decision.waiting[name] = waiting
            elif started := self._newest(name):
                self._health.began(pod, container_of(pod, name), started.key)
        return any(name not in decision.waiting for name in decision.start)

    def _newest(self, name: str) -> ContainerAttempt | None:
        """Return the latest attempt of a container, or None, and mark it as started by this agent.

        None also means that the runtime does not know the container.
        """
        attempts = [a for a in self._node.runtime.attempts(self._uid) if a.key.container == name]
        self._begun |= {attempt.key for attempt in attempts[-1:]}
        return lifecycle.last(self._look(), name)

    # How long to run

    def _refused(self, pod: Pod, histories: Histories) -> tuple[str, str] | None:
        """Return reason and message why the pod may no longer run, or None if it may.

        Host ports are checked only for a pod without containers. An event is recorded for a conflict.
        """
        if not histories and (holder := self._port_holder(pod)):
            self._node.recorder.warning(pod, "NodePorts", holder)
            return "NodePorts", holder
        left = self._deadline(pod)
        if left is not None and left <= 0:
            return "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
        return None

    def _deadline(self, pod: Pod) -> float | None:
        """Return the seconds until activeDeadlineSeconds is reached, or None if the pod has no deadline.

        The value is negative once the deadline has passed. None also applies to a pod without a start time.
        """
        if pod.spec.activeDeadlineSeconds is None or pod.status.startTime is None:
            return None
        return parse_timestamp(pod.status.startTime) + pod.spec.activeDeadlineSeconds - self._node.clock.time()

    def _port_holder(self, pod: Pod) -> str:
        """Return a message naming the pod of this node that holds a host port of a new pod, or "" if all are free.

        Returns "" for a pod that has begun. Another pod holds its ports if it has begun or is older than this pod.
        """
        wanted = [*host_ports(pod.spec.containers)]
        if not wanted or self._has_begun(pod):
            return ""
        for other in self._node.pods():
            if other.metadata.uid == self._uid or podclaims.is_finished(other):
                continue
            [*taken] = collisions(wanted, host_ports(other.spec.containers))
            if taken and (self._has_begun(other) or _age(other) < _age(pod)):
                protocol, _, number = taken[0]
                meta = other.metadata
                return f"Pod was rejected: host port {number}/{protocol} is held by pod {meta.namespace}/{meta.name}"
        return ""

    def _has_begun(self, pod: Pod) -> bool:
        """Whether a pod has already been admitted on this node: it is Running or has containers."""
        return pod.status.phase == "Running" or bool(self._node.runtime.attempts(pod.metadata.uid))

    def _measure(self, pod: Pod) -> None:
        """Start to measure the pod's volumes that have a size limit; the pod is evicted when one exceeds its limit."""
        if self._measuring is None and self._node.runtime.mounts_volumes and emptydirs.size_limits(pod):
            self._measuring = asyncio.create_task(self._evict_when_full(pod), name=f"volumes of {pod.metadata.name}")

    async def _evict_when_full(self, pod: Pod) -> None:
        volumes = self._node.root / "pods" / self._uid / "volumes"
        message = await emptydirs.exceeded(pod, volumes, self._node.clock, self._node.usage_seconds)
        if self._refusal is None and not self._phase:
            self._refusal = EVICTED, message
            self._node.recorder.warning(pod, EVICTED, message)
            self.wake()

    # Stopping

    def _grace(self, pod: Pod) -> float:
        seconds = pod.spec.terminationGracePeriodSeconds
        return 30.0 if seconds is None else float(seconds)

    def _stop(self, pod: Pod | None, names: list[str], histories: Histories, grace: float) -> None:
        """Stop containers within `grace` seconds. A later call with a shorter grace period takes effect.

        Containers that do not run are skipped. `pod` is None if the API has no such pod any more; then no event is
        recorded.
        """
        deadline = self._node.clock.monotonic() + grace
        for name in names:
            attempt = lifecycle.last(histories, name)
            if attempt is None or not attempt.running:
                continue
            key = attempt.key
            known = self._stopping.get(key)
            if known is not None and known[0] <= deadline + 0.5:
                continue
            if pod is not None and known is None:
                self._node.recorder.record(pod, "Killing", f"Stopping container {name}")
            self._end(key, grace)

    def _end(self, key: ContainerKey, grace: float) -> None:
        stopping = self._background(self._health.stop(self._pod, key, grace), key, None)
        self._stopping[key] = self._node.clock.monotonic() + grace, stopping

    def _kill(self, key: ContainerKey, grace: float | None, text: str) -> None:
        """Stop a container that failed a probe or hook, with an event; its restart policy decides what follows.

        `grace` is in seconds; None means the pod's own. Nothing happens if the container is being stopped or the pod
        is unknown.
        """
        if self._pod is not None and key not in self._stopping:
            self._node.recorder.record(self._pod, "Killing", text)
            self._end(key, self._grace(self._pod) if grace is None else grace)

    def _background(
        self, work: Coroutine[None, None, None], key: ContainerKey, table: dict[ContainerKey, asyncio.Task[None]] | None
    ) -> asyncio.Task[None]:
        """Run a coroutine concerning a container in the background and wake the worker afterwards. Returns the task.

        `table` holds the task until its end, or is None. Exceptions are logged.
        """
        task = asyncio.create_task(work, name=f"container {key.container}")

        def done(finished: asyncio.Task[None]) -> None:
            if table is not None and table.get(key) is finished:
                del table[key]
            if not finished.cancelled():
                if finished.exception() is not None:
                    log.error("container %s of pod %s", key.container, key.pod, exc_info=finished.exception())
                self.wake()

        task.add_done_callback(done)
        return task

    # The end

    async def _wind_down(self, pod: Pod, histories: Histories) -> float | None:
        """End a pod: stop containers, unprepare claims, write the final status.

        The pod is deleted at last if its deletion was requested. Returns the seconds until the next check, or None.
        """
        if self._measuring is not None:
            self._measuring.cancel()
        remaining = lifecycle.next_to_stop(pod, histories)
        if remaining:
            self._stop(pod, remaining, histories, self._time_to_stop(pod))
            self._report(pod, histories, PodSteps(initialized=True))
            return None
        if not await self._claims.unprepared(pod):
            self._report(pod, histories, PodSteps(initialized=True))
            return self._claims.next_try
        if not podclaims.is_finished(pod):
            self._report(pod, histories, PodSteps(initialized=True), phase=self._final_phase(pod, histories))
            assert self._writer is not None
            await self._writer.flushed()
        if pod.metadata.deletionTimestamp is not None:
            return await self._delete(pod)
        return None

    def _time_to_stop(self, pod: Pod) -> float:
        if pod.metadata.deletionTimestamp is None:
            is_evicted = self._refusal is not None and self._refusal[0] == EVICTED
            return _EVICTION_GRACE_SECONDS if is_evicted else self._grace(pod)
        return max(0.0, parse_timestamp(pod.metadata.deletionTimestamp) - self._node.clock.time())

    def _final_phase(self, pod: Pod, histories: Histories) -> str:
        if self._phase and not self._refusal:
            return self._phase
        ends = [lifecycle.last(histories, container.name) for container in pod.spec.containers]
        good = all(end is not None and end.exit_code == 0 for end in ends)
        return "Succeeded" if good and not self._refusal else "Failed"

    async def _delete(self, pod: Pod) -> float | None:
        try:
            await self._node.client.delete(Pod, pod.metadata.name, pod.metadata.namespace, uid=self._uid, grace=0)
        except (NotFound, Conflict):
            self._exists = False
            self.wake()
        except ApiError as error:
            log.debug("pod %s is not deleted yet: %s", self._uid, error)
            return 1.0
        return None

    async def _bury(self, histories: Histories) -> float | None:
        """End the containers and claims of a pod that no longer exists in the API.

        Returns -1 when nothing is left, None while containers end, otherwise the seconds until the claims are tried
        again.
        """
        running = [name for name, attempts in histories.items() if attempts[-1].running]
        if running:
            self._stop(None, running, histories, FORCED_GRACE_SECONDS)
            return None
        if not await self._claims.unprepared(None):
            return self._claims.next_try
        self._node.runtime.remove(self._uid)
        return -1.0

    # Reporting

    def _report(self, pod: Pod, histories: Histories, decision: PodSteps, phase: str = "") -> None:
        if podclaims.is_finished(pod):
            return
        assert self._starter is not None
        assert self._writer is not None
        self._health.look(pod, histories)
        begun = any(histories.get(container.name) for container in pod.spec.containers)
        reason, message = self._refusal or ("", "")
        report = status.PodReport(
            phase=phase or ("Running" if begun else "Pending"),
            histories=histories,
            waiting=decision.waiting if not phase else {},
            initialized=decision.initialized and (begun or not phase),
            reason=reason,
            message=message,
            disrupted=message if reason == EVICTED else "",
            not_applied=self._starter.not_applied,
            image_ids=known_images(pod) | self._starter.image_ids,
            ready=self._health.ready(histories),
            started=self._health.started(histories),
            resources=self._resources(pod),
            restarts=restarts(pod),
            host_address=self._node.address,
            pod_address=self._node.place_of(pod).pod_address if histories else "",
            runtime=self._node.runtime.name,
        )
        self._writer.put(status.status_tree(pod, report, self._node.clock.time()))

    def _resources(self, pod: Pod) -> dict[str, list[Tree]]:
        containers = (*pod.spec.initContainers, *pod.spec.containers)
        granted = {container.name: [*self._node.claims.granted(pod, container)] for container in containers}
        self._tell_unhealthy(pod, granted.values())
        found = {name: resource_statuses(grants, self._node.health) for name, grants in granted.items()}
        return {name: statuses for name, statuses in found.items() if statuses}

    def _tell_unhealthy(self, pod: Pod, granted: Iterable[Sequence[Granted]]) -> None:
        """Record an event for each of the pod's devices that has become unhealthy."""
        sick = {device: text for grants in granted for device, text in unhealthy(grants, self._node.health).items()}
        for device in sorted(sick.keys() - self._unhealthy):
            why = f": {sick[device]}" if sick[device] else ""
            self._node.recorder.warning(pod, "DeviceUnhealthy", f"device {device} is unhealthy{why}")
        self._unhealthy = set(sick)


def _age(pod: Pod) -> tuple[str, str]:
    """Sort key that orders pods by creation time.

    Pairs creation timestamp (or "") and uid.
    """
    return pod.metadata.creationTimestamp or "", pod.metadata.uid
