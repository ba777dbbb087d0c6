"""Lifecycle hooks of containers: postStart before a container counts as started, preStop before it is stopped.

A failed hook causes a warning event, and a failed postStart ends the container. Left out: the actions (`handlers`).
"""

from __future__ import annotations

from dray.api.types.core import Pod
from dray.client import Clock, EventRecorder
from dray.node.containers import AnyContainer
from dray.node.handlers import Handlers
from dray.node.runtime import ContainerKey, Runtime

LEAST_GRACE_SECONDS = 2.0  # least time for a container to end after its preStop hook
_LONGEST_POST_START_SECONDS = 600.0  # Kubernetes has no limit; here a hook that hangs becomes visible


class Hooks:
    def __init__(self, handlers: Handlers, runtime: Runtime, clock: Clock, recorder: EventRecorder) -> None:
        self._handlers = handlers
        self._runtime = runtime
        self._clock = clock
        self._recorder = recorder
        self._ran: set[ContainerKey] = set()  # containers whose preStop hook has run

    async def post_start(self, pod: Pod, container: AnyContainer, key: ContainerKey, address: str) -> bool:
        """Run the container's postStart hook. Returns whether the container may keep running: True without a hook.

        `address` is the pod's. A failure is recorded as an event.
        """
        hook = container.lifecycle.postStart if container.lifecycle is not None else None
        if hook is None:
            return True
        outcome = await self._handlers.act(hook, container, key, address, _LONGEST_POST_START_SECONDS)
        if not outcome.ok:
            self._recorder.warning(pod, "FailedPostStartHook", "PostStartHook failed")
        return outcome.ok

    async def stop(
        self, pod: Pod | None, container: AnyContainer | None, key: ContainerKey, address: str, grace: float
    ) -> None:
        """Run the container's preStop hook, then stop the container. The hook's time is part of the grace period.

        `grace` is in seconds. The hook is skipped if it has run already, if pod or container are unknown, or with a
        grace period of 0.
        """
        hook = None
        if container is not None and container.lifecycle is not None and key not in self._ran and grace > 0:
            hook = container.lifecycle.preStop
        if hook is not None and pod is not None and container is not None:
            self._ran.add(key)
            begun = self._clock.monotonic()
            outcome = await self._handlers.act(hook, container, key, address, grace)
            if not outcome.ok:
                self._recorder.warning(pod, "FailedPreStopHook", "PreStopHook failed")
            grace = max(LEAST_GRACE_SECONDS, grace - (self._clock.monotonic() - begun))
        await self._runtime.stop(key, grace)
