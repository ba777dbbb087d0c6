"""Probes of a pod's containers: when each probe runs, how many results in a row count, and the resulting container
state.

A container with a startup probe is neither probed for liveness nor ready before that probe has succeeded. Without a
readiness probe a container is ready once it has started. Left out: the probe actions (`handlers`), and stopping
failed containers (`podworker`).
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field

from dray.api.types.core import Container, Pod, Probe
from dray.client import Clock, EventRecorder
from dray.node.handlers import ActionOutcome, Handlers
from dray.node.runtime import ContainerAttempt, ContainerKey

STARTUP, READINESS, LIVENESS = "Startup", "Readiness", "Liveness"


class Streak:
    """Count of equal probe results in a row. `good` changes only when a threshold of the probe is reached. Pure."""

    def __init__(self, probe: Probe, good: bool) -> None:
        self._needed = {True: max(1, probe.successThreshold or 1), False: max(1, probe.failureThreshold or 3)}
        self._last: bool | None = None
        self._count = 0
        self.good = good

    def add(self, ok: bool) -> bool:
        """Count a result. Returns whether its threshold is reached.

        `good` changes to the result when the threshold is reached. A different result starts the count again.
        """
        self._count = self._count + 1 if ok == self._last else 1
        self._last = ok
        if self._count < self._needed[ok]:
            return False
        self.good = ok
        return True


@dataclass
class _Probed:
    """State of a running container: whether it has started and is ready, and its probe tasks."""

    started: bool
    ready: bool
    tasks: list[asyncio.Task[None]] = field(default_factory=list)


class Probes:
    """The probes of one pod's containers.

    `changed` is called when a container starts or its readiness changes, `failed` when a startup or liveness
    probe fails.
    """

    def __init__(
        self,
        handlers: Handlers,
        clock: Clock,
        recorder: EventRecorder,
        changed: Callable[[], None],
        failed: Callable[[ContainerKey, str, Probe], None],
    ) -> None:
        self.handlers = handlers
        self.clock = clock
        self.recorder = recorder
        self.changed = changed
        self.failed = failed
        self.probed: dict[ContainerKey, _Probed] = {}

    def started(self, key: ContainerKey) -> bool:
        return key in self.probed and self.probed[key].started

    def ready(self, key: ContainerKey) -> bool:
        return key in self.probed and self.probed[key].started and self.probed[key].ready

    def begin(self, pod: Pod, container: Container, attempt: ContainerAttempt, address: str, *, found: bool) -> None:
        """Start the probes of a running container.

        With `found`, the container was started by an earlier agent, and its state is taken from the pod's status.
        """
        if attempt.key in self.probed:
            return
        known = next((s for s in pod.status.containerStatuses if s.name == container.name), None)
        was = known if found and known is not None and known.restartCount == attempt.key.attempt else None
        probed = self.probed[attempt.key] = _Probed(
            started=container.startupProbe is None or bool(was is not None and was.started),
            ready=container.readinessProbe is None or bool(was is not None and was.ready),
        )
        asking = _ContainerProbes(self, pod, container, attempt, address, found)
        if not probed.started and container.startupProbe is not None:
            self._spawn(probed, asking.until_started(container.startupProbe))
        else:
            self.spawn_others(asking)

    def spawn_others(self, asking: _ContainerProbes) -> None:
        probed = self.probed.get(asking.attempt.key)
        if probed is not None and asking.container.livenessProbe is not None:
            self._spawn(probed, asking.liveness(asking.container.livenessProbe))
        if probed is not None and asking.container.readinessProbe is not None:
            self._spawn(probed, asking.readiness(asking.container.readinessProbe), READINESS)

    def _spawn(self, probed: _Probed, work: Coroutine[None, None, None], name: str = "") -> None:
        probed.tasks.append(asyncio.create_task(work, name=name))

    def stop_killing(self) -> None:
        """Stop liveness and startup probes because the pod is being deleted; readiness probes continue."""
        for probed in self.probed.values():
            for task in probed.tasks:
                if task.get_name() != READINESS:
                    task.cancel()

    def forget(self, *keys: ContainerKey) -> None:
        """Stop the probes of containers that no longer run."""
        for key in keys:
            probed = self.probed.pop(key, None)
            for task in probed.tasks if probed is not None else ():
                task.cancel()

    def close(self) -> None:
        self.forget(*self.probed)

    @property
    def keys(self) -> list[ContainerKey]:
        return [*self.probed]


@dataclass(frozen=True)
class _ContainerProbes:
    """Runs the probes of one container."""

    probes: Probes
    pod: Pod
    container: Container
    attempt: ContainerAttempt
    address: str
    found: bool

    async def until_started(self, probe: Probe) -> None:
        streak = Streak(probe, good=False)
        await self._delay(probe)
        while True:
            reached = streak.add(await self._ask(probe, STARTUP))
            if reached and streak.good:
                break
            if reached:
                self.probes.failed(self.attempt.key, STARTUP, probe)
                return
            await self._pause(probe)
        self.probes.probed[self.attempt.key].started = True
        self.probes.changed()
        self.probes.spawn_others(self)

    async def liveness(self, probe: Probe) -> None:
        streak = Streak(probe, good=True)
        await self._delay(probe)
        while True:
            streak.add(await self._ask(probe, LIVENESS))
            if not streak.good:
                self.probes.failed(self.attempt.key, LIVENESS, probe)
                return
            await self._pause(probe)

    async def readiness(self, probe: Probe) -> None:
        probed = self.probes.probed[self.attempt.key]
        streak = Streak(probe, good=probed.ready)
        await self._delay(probe)
        while True:
            if streak.add(await self._ask(probe, READINESS)) and probed.ready != streak.good:
                probed.ready = streak.good
                self.probes.changed()
            await self._pause(probe)

    async def _delay(self, probe: Probe) -> None:
        left = self.attempt.started + probe.initialDelaySeconds - self.probes.clock.time()
        if self.found:  # so that after a restart of the agent not all probes run at once
            left = max(left, random.random() * (probe.periodSeconds or 10))
        if left > 0:
            await self.probes.clock.sleep(left)

    async def _pause(self, probe: Probe) -> None:
        await self.probes.clock.sleep(probe.periodSeconds or 10)

    async def _ask(self, probe: Probe, kind: str) -> bool:
        seconds = float(probe.timeoutSeconds or 1)
        outcome = await self.probes.handlers.act(probe, self.container, self.attempt.key, self.address, seconds)
        self._tell(kind, outcome)
        return outcome.ok

    def _tell(self, kind: str, outcome: ActionOutcome) -> None:
        recorder = self.probes.recorder
        if outcome.errored:
            text = f"{kind} probe errored and resulted in failure state: {outcome.text}"
            recorder.warning(self.pod, "Unhealthy", text)
        elif not outcome.ok:
            recorder.warning(self.pod, "Unhealthy", f"{kind} probe failed: {outcome.text}")
        elif outcome.warning:
            recorder.warning(self.pod, "ProbeWarning", f"{kind} probe warning: {outcome.text}")
