"""One pod on this node, from its assignment to its end.

A worker looks at what is wanted and what is there, does the next thing, and sleeps until something happens; it keeps
nothing that it could not find out again, so it may be killed at any point. A pod is over, and may disappear, only after
its containers have ended and the claims that it used last are unprepared. Left out: which pods there are (`pods`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from dray.api import podclaims
from dray.api.errors import ApiError, Conflict, NotFound
from dray.api.types.core import Container, Pod
from dray.client import Client, Clock, EventRecorder
from dray.client.backoff import Backoff
from dray.client.clock import parse_timestamp
from dray.node import lifecycle, status
from dray.node.cdi import CdiError, Specs
from dray.node.claims import Claims, ClaimsError
from dray.node.environment import ConfigProblem, Place, Sources, command_line, environment
from dray.node.health import DeviceHealth
from dray.node.lifecycle import Decision, Histories, RestartDelays, Waiting
from dray.node.reporting import StatusWriter
from dray.node.runtime import Attempt, Key, Runtime, StartError, Task
from dray.node.volumes import Volumes

log = logging.getLogger(__name__)

# How long containers of a pod that is gone from the API may take: somebody wanted it gone at once.
FORCED_GRACE_SECONDS = 2.0
_RETRY_AFTER_BUG_SECONDS = 5.0
PREPARE_FAILED = "FailedPrepareDynamicResources"
UNPREPARE_FAILED = "FailedUnprepareDynamicResources"


@dataclass
class Node:
    """What the workers of a node share."""

    name: str
    root: Path
    address: str
    client: Client
    clock: Clock
    runtime: Runtime
    claims: Claims
    specs: Specs
    health: DeviceHealth
    recorder: EventRecorder
    delays: RestartDelays = field(default_factory=RestartDelays)
    devices: bool = True  # the gate DynamicResourceAllocation

    def pod_address(self, pod: Pod) -> str:
        """Containers share the node's network; those that do not exist get an address where nobody answers."""
        if self.runtime.name != "fake":
            return self.address
        number = int(pod.metadata.uid.replace("-", "")[:6] or "0", 16)
        return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"


class PodWorker:
    """Looks after one pod; `uid` names it, for the name may be taken by another one later."""

    def __init__(self, node: Node, uid: str, pod: Pod | None) -> None:
        self._node = node
        self._uid = uid
        self._pod = pod  # the latest state, or the last one
        self._exists = pod is not None
        self._wake = asyncio.Event()
        self._refusal: tuple[str, str] | None = None  # reason and message: the pod will not run here
        self._phase = ""  # in which the containers' story has ended
        self._stopping: dict[Key, tuple[float, asyncio.Task[None]]] = {}
        self._waits: dict[Key, asyncio.Task[None]] = {}
        self._trouble: dict[str, tuple[Waiting, float, Backoff]] = {}  # containers that could not be started
        self._not_applied: dict[str, list[str]] = {}
        self._claims_backoff = Backoff(node.clock, initial=1.0, limit=60.0, jitter=lambda: 0.0)
        self._claims_again = 0.0
        self._ending = False
        self._writer: StatusWriter | None = None
        self._sources: Sources | None = None
        self._volumes: Volumes | None = None

    # What the outside tells

    def update(self, pod: Pod) -> None:
        self._pod = pod
        self.wake()

    def gone(self) -> None:
        """The pod is no longer in the API."""
        self._exists = False
        self.wake()

    def wake(self) -> None:
        self._wake.set()

    def claims_may_work(self) -> None:
        """A driver has come or come back: do not wait any longer."""
        self._claims_again = 0.0
        self._claims_backoff.reset()
        self.wake()

    async def run(self) -> None:
        """Work until the pod is gone and nothing is left of it."""
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
        """Containers run on; only we stop looking."""
        for task in (*self._waits.values(), *(task for _, task in self._stopping.values())):
            task.cancel()
        if self._writer is not None:
            self._writer.close()

    # One step: returns when to look again; a negative time means never

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
        return await self._carry_on(pod, await self._obstacle(pod, histories))

    def _look(self) -> dict[str, list[Attempt]]:
        """What is known of the containers; whoever runs is waited for."""
        histories: dict[str, list[Attempt]] = {}
        for attempt in self._node.runtime.attempts(self._uid):
            histories.setdefault(attempt.key.container, []).append(attempt)
            if attempt.running and attempt.key not in self._waits:
                self._waits[attempt.key] = self._background(
                    self._node.runtime.wait(attempt.key), attempt.key, self._waits
                )
        return histories

    async def _carry_on(self, pod: Pod, obstacle: Waiting | None) -> float | None:
        """Do what the lifecycle says until there is nothing more to do at once; an obstacle keeps from starting."""
        for _ in range(2 + len(pod.spec.initContainers)):
            histories = self._look()
            decision = lifecycle.decide(pod, histories, self._node.clock.time(), self._node.delays)
            self._stop(pod, decision.stop, histories, self._grace(pod))
            if obstacle is not None:
                decision.waiting |= dict.fromkeys(decision.start, obstacle)
                break
            started = [await self._start(pod, name, histories, decision) for name in decision.start]
            if decision.phase or not any(started):
                break
        self._phase = decision.phase
        if self._phase:
            return await self._wind_down(pod, self._look())
        self._report(pod, self._look(), decision)
        claims = self._claims_delay() if obstacle is not None and self._node.devices else None
        return self._earliest(decision.again, self._deadline(pod), claims)

    def _earliest(self, *times: float | None) -> float | None:
        now = self._node.clock.monotonic()
        troubles = [max(0.0, until - now) for _, until, _ in self._trouble.values()]
        return min([*(t for t in times if t is not None), *troubles], default=None)

    def _claims_delay(self) -> float:
        return max(0.0, self._claims_again - self._node.clock.monotonic())

    # Whether to run at all

    def _refused(self, pod: Pod, histories: Histories) -> tuple[str, str] | None:
        """Why the pod will never run here, or no longer."""
        for container in (*pod.spec.initContainers, *pod.spec.containers):
            if self._node.runtime.needs_command and not (container.command or container.args):
                return "NoCommand", (
                    f"container {container.name} has no command: images are not pulled by the runtime "
                    f"{self._node.runtime.name}, so the pod must say what to run"
                )
        left = self._deadline(pod)
        if left is not None and left <= 0:
            return "DeadlineExceeded", "Pod was active on the node longer than the specified deadline"
        return None

    def _deadline(self, pod: Pod) -> float | None:
        """Seconds until the pod has run for as long as it may."""
        if pod.spec.activeDeadlineSeconds is None or pod.status.startTime is None:
            return None
        return parse_timestamp(pod.status.startTime) + pod.spec.activeDeadlineSeconds - self._node.clock.time()

    async def _obstacle(self, pod: Pod, histories: Histories) -> Waiting | None:
        """Why no container may be started yet; None when the pod has its claims."""
        if not pod.spec.resourceClaims:
            return None
        if not self._node.devices:
            return self._without_devices(pod, histories)
        if self._node.claims.is_prepared(pod):
            return None
        if self._claims_delay() > 0:
            return status.CREATING
        try:
            await self._node.claims.prepare(pod)
        except ClaimsError as error:
            self._claims_failed(pod, PREPARE_FAILED, f"Failed to prepare dynamic resources: {error}")
            return status.CREATING
        self._claims_backoff.reset()
        # Preparing may have taken a while: a pod that has changed is looked at anew before anything is started.
        return None if self._exists and pod is self._pod else status.CREATING

    def _without_devices(self, pod: Pod, histories: Histories) -> Waiting | None:
        """The gate is off: new pods run without devices; of those that had some nothing is started any more."""
        off = "DynamicResourceAllocation is turned off on this node"
        if not self._node.claims.holds(self._uid):
            if not histories:
                self._node.recorder.warning(pod, "DevicesDisabled", f"{off}: the pod runs without its devices")
            return None
        return Waiting("DevicesDisabled", f"{off}: a pod that had devices is not started again")

    def _claims_failed(self, pod: Pod | None, reason: str, message: str) -> None:
        self._claims_again = self._node.clock.monotonic() + self._claims_backoff.next_delay()
        if pod is not None:
            self._node.recorder.warning(pod, reason, message)
        log.info("pod %s: %s", self._uid, message)

    # Starting

    async def _start(self, pod: Pod, name: str, histories: Histories, decision: Decision) -> bool:
        """Start a container; False when that has to wait."""
        trouble = self._trouble.get(name)
        if trouble is not None and trouble[1] > self._node.clock.monotonic():
            decision.waiting[name] = trouble[0]
            return False
        container = next(c for c in (*pod.spec.initContainers, *pod.spec.containers) if c.name == name)
        try:
            task = await self._task(pod, container, histories)
            await self._node.runtime.start(task)
        except (CdiError, StartError, ConfigProblem, OSError) as error:
            reason = "CreateContainerConfigError" if isinstance(error, ConfigProblem) else "CreateContainerError"
            decision.waiting[name] = self._troubled(pod, name, Waiting(reason, str(error)))
            return False
        self._trouble.pop(name, None)
        self._node.recorder.record(pod, "Started", f"Started container {name}")
        return True

    def _troubled(self, pod: Pod, name: str, waiting: Waiting) -> Waiting:
        backoff = self._trouble[name][2] if name in self._trouble else self._new_backoff()
        self._trouble[name] = waiting, self._node.clock.monotonic() + backoff.next_delay(), backoff
        self._node.recorder.warning(pod, "Failed", f"Error: container {name}: {waiting.message}")
        return waiting

    def _new_backoff(self) -> Backoff:
        return Backoff(self._node.clock, initial=1.0, limit=60.0, jitter=lambda: 0.0)

    async def _task(self, pod: Pod, container: Container, histories: Histories) -> Task:
        place = Place(self._node.name, self._node.address, self._node.pod_address(pod))
        if self._sources is None:
            self._sources = Sources(self._node.client, pod.metadata.namespace)
        if self._volumes is None:
            self._volumes = Volumes(pod, self._node.root / "pods" / self._uid / "volumes", self._sources, place)
        runtime, granted = self._node.runtime, self._node.claims.granted(self._uid, container)
        merged = self._node.specs.edits([cdi for grant in granted for cdi in grant.device.cdi])
        env = await environment(pod, container, self._sources, place)
        before = lifecycle.last(histories, container.name)
        task = Task(
            key=Key(
                self._uid,
                container.name,
                before.key.attempt + 1 if before else self._restarts(pod).get(container.name, 0),
            ),
            argv=command_line(container, env),
            env=env,
            directory=container.workingDir,
            edits=merged.edits,
            mounts=await self._volumes.mounts(container) if runtime.mounts_volumes else self._volumes.named(container),
            hostname=pod.spec.hostname or pod.metadata.name,
            quick_ends=lifecycle.quick_ends(before),
            annotations=pod.metadata.annotations,
        )
        self._say(pod, container.name, runtime.cannot(task), merged.conflicts)
        return task

    def _say(self, pod: Pod, name: str, cannot: list[str], conflicts: tuple[str, ...]) -> None:
        """Nothing that a container lacks is passed over in silence."""
        if cannot and self._not_applied.get(name) != cannot:
            what = ", ".join(cannot)
            message = f"container {name}: the runtime {self._node.runtime.name} cannot apply: {what}"
            self._node.recorder.warning(pod, "DeviceEditsNotApplied", message)
        for conflict in conflicts:
            self._node.recorder.warning(pod, "ConflictingDeviceEdits", f"container {name}: {conflict}")
        self._not_applied[name] = cannot

    def _restarts(self, pod: Pod) -> dict[str, int]:
        """How often containers had been started before the runtime lost sight of them."""
        statuses = (*pod.status.initContainerStatuses, *pod.status.containerStatuses)
        return {s.name: s.restartCount + 1 for s in statuses if s.containerID}

    # Stopping

    def _grace(self, pod: Pod) -> float:
        seconds = pod.spec.terminationGracePeriodSeconds
        return 30.0 if seconds is None else float(seconds)

    def _stop(self, pod: Pod | None, names: list[str], histories: Histories, grace: float) -> None:
        """Ask containers to end within `grace` seconds; asking again for sooner is heard."""
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
            stopping = self._background(self._node.runtime.stop(key, grace), key, None)
            self._stopping[key] = deadline, stopping

    def _background(
        self, work: Coroutine[None, None, None], key: Key, table: dict[Key, asyncio.Task[None]] | None
    ) -> asyncio.Task[None]:
        """Run something about a container, and look at the pod afterwards."""
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
        """Bring a pod to its end: containers, claims, status, and the object itself if it is to be deleted."""
        self._turn_to_the_end()
        remaining = lifecycle.next_to_stop(pod, histories)
        if remaining:
            self._stop(pod, remaining, histories, self._time_to_stop(pod))
            self._report(pod, histories, Decision(initialized=True))
            return None
        if not await self._unprepared(pod):
            self._report(pod, histories, Decision(initialized=True))
            return self._claims_delay()
        if not podclaims.is_finished(pod):
            self._report(pod, histories, Decision(initialized=True), phase=self._final_phase(pod, histories))
            await self._status(pod).flushed()
        if pod.metadata.deletionTimestamp is not None:
            return await self._delete(pod)
        return None

    def _turn_to_the_end(self) -> None:
        """Unprepare is not to wait for what was put off while the pod was to run."""
        if not self._ending:
            self._ending = True
            self._claims_again = 0.0
            self._claims_backoff.reset()

    def _time_to_stop(self, pod: Pod) -> float:
        if pod.metadata.deletionTimestamp is None:
            return self._grace(pod)
        return max(0.0, parse_timestamp(pod.metadata.deletionTimestamp) - self._node.clock.time())

    async def _unprepared(self, pod: Pod | None) -> bool:
        if not self._node.claims.holds(self._uid):
            return True
        if self._claims_again > self._node.clock.monotonic():
            return False
        try:
            await self._node.claims.unprepare(self._uid)
        except ClaimsError as error:
            self._claims_failed(pod, UNPREPARE_FAILED, f"Failed to unprepare dynamic resources: {error}")
            return False
        return True

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
        """End what is left of a pod that is gone from the API."""
        self._turn_to_the_end()
        running = [name for name, attempts in histories.items() if attempts[-1].running]
        if running:
            self._stop(None, running, histories, FORCED_GRACE_SECONDS)
            return None
        if not await self._unprepared(None):
            return self._claims_delay()
        self._node.runtime.remove(self._uid)
        return -1.0

    # Telling

    def _status(self, pod: Pod) -> StatusWriter:
        if self._writer is None:
            self._writer = StatusWriter(self._node.client, pod, self._node.clock)
        return self._writer

    def _report(self, pod: Pod, histories: Histories, decision: Decision, phase: str = "") -> None:
        if podclaims.is_finished(pod):
            return
        begun = any(histories.get(container.name) for container in pod.spec.containers)
        reason, message = self._refusal or ("", "")
        report = status.Report(
            phase=phase or ("Running" if begun else "Pending"),
            histories=histories,
            waiting=decision.waiting if not phase else {},
            initialized=decision.initialized and (begun or not phase),
            reason=reason,
            message=message,
            not_applied=[f"container {n}: {', '.join(what)}" for n, what in self._not_applied.items() if what],
            resources=self._resources(pod),
            restarts=self._restarts(pod),
            host_address=self._node.address,
            pod_address=self._node.pod_address(pod) if histories else "",
            runtime=self._node.runtime.name,
        )
        self._status(pod).put(status.status_tree(pod, report, self._node.clock.time()))

    def _resources(self, pod: Pod) -> Mapping[str, list[status.Tree]]:
        """The health of each container's devices, where drivers tell it."""
        found: dict[str, list[status.Tree]] = {}
        for container in (*pod.spec.initContainers, *pod.spec.containers):
            by_request: dict[str, list[status.Tree]] = {}
            for grant in self._node.claims.granted(self._uid, container):
                condition = self._node.health.of(grant.driver, grant.device.pool, grant.device.device)
                if condition is not None:
                    name = f"claim:{grant.claim}" + (f"/{grant.request}" if grant.request else "")
                    plain = f"{grant.driver}/{grant.device.pool}/{grant.device.device}"
                    entry = {"resourceID": next(iter(grant.device.cdi), plain), "health": condition.health}
                    if condition.message:
                        entry["message"] = condition.message
                    by_request.setdefault(name, []).append(entry)
            if by_request:
                found[container.name] = [{"name": n, "resources": r} for n, r in by_request.items()]
        return found


def _runs(histories: Histories, name: str) -> bool:
    attempt = lifecycle.last(histories, name)
    return attempt is not None and attempt.running
