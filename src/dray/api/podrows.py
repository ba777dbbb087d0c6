"""The table row of a pod: its ready containers, restarts, and one word for its state.

The state is searched in the same order as in Kubernetes: phase, reason of the pod, scheduling gates, the first
unfinished init container, the containers from last to first, deletion.
"""

from __future__ import annotations

from dray.api.cells import age, seconds
from dray.api.types import core

COMPLETED = {
    "Succeeded": "All containers of the pod have ended well.",
    "Failed": "A container of the pod has failed.",
}


class _Restarts:
    """Number of container restarts, and the time of the last one."""

    def __init__(self) -> None:
        self.count = 0
        self.last = ""

    def add(self, status: core.ContainerStatus) -> None:
        self.count += status.restartCount
        ended = status.lastState.terminated
        if ended and ended.finishedAt and (not self.last or seconds(ended.finishedAt) > seconds(self.last)):
            self.last = ended.finishedAt

    def text(self, now: float) -> str:
        return f"{self.count} ({age(self.last, now)} ago)" if self.count and self.last else str(self.count)


class PodRow:
    """Content of a pod's table row."""

    def __init__(self, pod: core.Pod) -> None:
        self.pod = pod
        self.metadata, self.spec, self.status = pod.metadata, pod.spec, pod.status
        self.reason = pod.status.reason or pod.status.phase
        if any(c.type == "PodScheduled" and c.reason == "SchedulingGated" for c in pod.status.conditions):
            self.reason = "SchedulingGated"
        self.sidecars = {c.name for c in pod.spec.initContainers if c.restartPolicy == "Always"}
        self.total = len(pod.spec.containers) + len(self.sidecars)
        self.ready = 0
        self.restarts = _Restarts()
        waiting = self._look_at_init_containers()
        if not waiting or _condition(pod, "Initialized"):
            self._look_at_containers()
        self._look_at_deletion()

    def _look_at_init_containers(self) -> bool:
        """Count init containers and set the state. Returns whether an unfinished init container blocks the pod."""
        for position, status in enumerate(self.pod.status.initContainerStatuses):
            self.restarts.add(status)
            ended = status.state.terminated
            if ended and ended.exitCode == 0:
                continue
            if status.name in self.sidecars and status.started:
                self.ready += status.ready
                continue
            self.reason = f"Init:{self._init_reason(status, position)}"
            return True
        return False

    def _init_reason(self, status: core.ContainerStatus, position: int) -> str:
        if status.state.terminated:
            return _ended(status.state.terminated)
        waiting = status.state.waiting
        if waiting and waiting.reason and waiting.reason != "PodInitializing":
            return waiting.reason
        return f"{position}/{len(self.pod.spec.initContainers)}"

    def _look_at_containers(self) -> None:
        self.restarts = _Restarts()
        for status in self.pod.status.initContainerStatuses:
            if status.name in self.sidecars:
                self.restarts.add(status)
        running = False
        for status in reversed(self.pod.status.containerStatuses):
            self.restarts.add(status)
            if status.state.waiting and status.state.waiting.reason:
                self.reason = status.state.waiting.reason
            elif status.state.terminated:
                self.reason = _ended(status.state.terminated)
            elif status.ready and status.state.running:
                running = True
                self.ready += 1
        if self.reason == "Completed" and running:
            self.reason = "Running" if _condition(self.pod, "Ready") else "NotReady"

    def _look_at_deletion(self) -> None:
        if self.pod.metadata.deletionTimestamp is None:
            return
        if self.pod.status.reason == "NodeLost":
            self.reason = "Unknown"
        elif self.pod.status.phase not in COMPLETED:
            self.reason = "Terminating"

    @property
    def readiness_gates(self) -> str:
        gates = self.spec.readinessGates
        return f"{sum(_condition(self.pod, gate.conditionType) for gate in gates)}/{len(gates)}" if gates else ""


def completion(pod: core.Pod) -> list[dict[str, str]]:
    """Return the row condition of a finished pod, in a list; the list is empty for other pods."""
    message = COMPLETED.get(pod.status.phase)
    if message is None:
        return []
    return [{"type": "Completed", "status": "True", "reason": pod.status.phase, "message": message}]


def _condition(pod: core.Pod, type_: str) -> bool:
    return any(c.type == type_ and c.status == "True" for c in pod.status.conditions)


def _ended(state: core.ContainerStateTerminated) -> str:
    if state.reason:
        return state.reason
    return f"Signal:{state.signal}" if state.signal else f"ExitCode:{state.exitCode}"
