"""Whether the containers of a pod are started and ready: first by hooks, then by probes while the containers run.

Containers of a runtime that executes nothing count as started and ready while they run. Left out: what happens to a
container that failed (`lifecycle`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from dray.api.types.core import Pod, Probe
from dray.node.containers import AnyContainer, container_of
from dray.node.context import NodeContext
from dray.node.handlers import Handlers
from dray.node.hooks import Hooks
from dray.node.lifecycle import Histories, last
from dray.node.probes import Probes
from dray.node.runtime import ContainerKey

Kill = Callable[[ContainerKey, float | None, str], None]  # container, grace period (None: the pod's), message


class ContainerHealth:
    """Follows the containers of one pod. `changed` is called when the readiness of a container changes."""

    def __init__(self, node: NodeContext, changed: Callable[[], None], kill: Kill) -> None:
        self._node = node
        self._changed = changed
        self._kill = kill
        handlers = Handlers(node.runtime, node.clock)
        self._hooks = Hooks(handlers, node.runtime, node.clock, node.recorder)
        self._probes = Probes(handlers, node.clock, node.recorder, changed, self._failed)
        self._own: set[ContainerKey] = set()  # containers that this agent started
        self._starting: dict[ContainerKey, asyncio.Task[None]] = {}  # tasks of postStart hooks that still run

    def began(self, pod: Pod, container: AnyContainer, key: ContainerKey) -> None:
        """Note that the agent started this container just now, and run its postStart hook in the background.

        A runtime that executes nothing runs no hooks.
        """
        self._own.add(key)
        if (
            self._node.runtime.executes
            and container.lifecycle is not None
            and container.lifecycle.postStart is not None
        ):
            self._starting[key] = asyncio.create_task(self._post_start(pod, container, key))

    async def _post_start(self, pod: Pod, container: AnyContainer, key: ContainerKey) -> None:
        good = await self._hooks.post_start(pod, container, key, self._address(pod))
        self._starting.pop(key, None)
        if not good:
            self._kill(key, None, "FailedPostStartHook")
        self._changed()

    def look(self, pod: Pod, histories: Histories) -> None:
        """Start probes of running containers and stop the probes of all others.

        A container is probed once its postStart hook has ended.
        """
        running: set[ContainerKey] = set()
        for container in (*pod.spec.initContainers, *pod.spec.containers):
            attempt = last(histories, container.name)
            if attempt is None or not attempt.running:
                continue
            running.add(attempt.key)
            if attempt.key not in self._starting and self._node.runtime.executes:
                found = attempt.key not in self._own
                self._probes.begin(pod, container, attempt, self._address(pod), found=found)
        self._probes.forget(*(key for key in self._probes.keys if key not in running))
        if pod.metadata.deletionTimestamp is not None:
            self._probes.stop_killing()

    def started(self, histories: Histories) -> frozenset[str]:
        return self._names(histories, self._probes.started)

    def ready(self, histories: Histories) -> frozenset[str]:
        return self._names(histories, self._probes.ready)

    def _names(self, histories: Histories, holds: Callable[[ContainerKey], bool]) -> frozenset[str]:
        """Return the names of running containers for which `holds` is True.

        If the runtime executes nothing, all running containers are included.
        """
        running = [attempts[-1].key for attempts in histories.values() if attempts and attempts[-1].running]
        return frozenset(key.container for key in running if not self._node.runtime.executes or holds(key))

    async def stop(self, pod: Pod | None, key: ContainerKey, grace: float) -> None:
        """Stop a container after running its preStop hook."""
        container, address = None, ""
        if pod is not None and self._node.runtime.executes:
            container, address = container_of(pod, key.container), self._address(pod)
        await self._hooks.stop(pod, container, key, address, grace)

    def close(self) -> None:
        self._probes.close()
        for task in self._starting.values():
            task.cancel()

    def _failed(self, key: ContainerKey, kind: str, probe: Probe) -> None:
        grace = probe.terminationGracePeriodSeconds
        text = f"Container {key.container} failed {kind.lower()} probe, will be restarted"
        self._kill(key, None if grace is None else float(grace), text)

    def _address(self, pod: Pod) -> str:
        return self._node.place_of(pod).pod_address
