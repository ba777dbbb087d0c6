"""Starting the containers of one pod: what they are to run, with which devices, and what to do when it fails.

Nothing that a container lacks is passed over in silence: it is an event, and stands in the pod's conditions. Left out:
when to start what (`lifecycle`).
"""

from __future__ import annotations

from dray.api.types.core import Container, Pod
from dray.client.backoff import Backoff
from dray.node import lifecycle, metrics
from dray.node.cdi import CdiError
from dray.node.environment import ConfigProblem, Sources, command_line, environment
from dray.node.lifecycle import Histories, Waiting
from dray.node.runtime import Key, StartError, Task
from dray.node.surroundings import Surroundings
from dray.node.volumes import Volumes

_HOSTNAME_CHARACTERS = 63  # the kernel takes no more, and Kubernetes cuts names off here


class Starter:
    """Starts containers of one pod, each failure later than the one before."""

    def __init__(self, node: Surroundings, pod: Pod) -> None:
        self._node = node
        place = node.place_of(pod)
        self._place = place
        self._sources = Sources(node.client, pod.metadata.namespace)
        self._volumes = Volumes(pod, node.root / "pods" / pod.metadata.uid / "volumes", self._sources, place)
        self._backoffs: dict[str, Backoff] = {}
        self._troubles: dict[str, tuple[Waiting, float]] = {}  # by container; until when not to try again
        self._cannot: dict[str, list[str]] = {}

    @property
    def not_applied(self) -> list[str]:
        """What containers lack because the runtime cannot give it, in words."""
        return [f"container {name}: {', '.join(what)}" for name, what in self._cannot.items() if what]

    @property
    def next_try(self) -> float | None:
        """Seconds until a start that failed may be tried again."""
        now = self._node.clock.monotonic()
        return min((max(0.0, until - now) for _, until in self._troubles.values()), default=None)

    async def start(self, pod: Pod, name: str, histories: Histories) -> Waiting | None:
        """Start a container; why it has to wait, if it has."""
        waiting, until = self._troubles.get(name, (None, 0.0))
        if waiting is not None and until > self._node.clock.monotonic():
            return waiting
        container = next(c for c in (*pod.spec.initContainers, *pod.spec.containers) if c.name == name)
        metrics.STARTS.labels(_type(pod, name)).inc()
        try:
            await self._node.runtime.start(await self._task(pod, container, histories))
        except ConfigProblem as error:
            return self._troubled(pod, name, Waiting("CreateContainerConfigError", str(error)))
        except (CdiError, StartError, OSError) as error:
            return self._troubled(pod, name, Waiting("CreateContainerError", str(error)))
        self._troubles.pop(name, None)
        self._backoffs.pop(name, None)
        self._node.recorder.record(pod, "Started", f"Started container {name}")
        return None

    def _troubled(self, pod: Pod, name: str, waiting: Waiting) -> Waiting:
        metrics.START_ERRORS.labels(_type(pod, name), waiting.reason).inc()
        if name not in self._backoffs:
            self._backoffs[name] = Backoff(self._node.clock, initial=1.0, limit=60.0, jitter=lambda: 0.0)
        self._troubles[name] = waiting, self._node.clock.monotonic() + self._backoffs[name].next_delay()
        self._node.recorder.warning(pod, "Failed", f"Error: container {name}: {waiting.message}")
        return waiting

    async def _task(self, pod: Pod, container: Container, histories: Histories) -> Task:
        runtime, uid = self._node.runtime, pod.metadata.uid
        if runtime.needs_command and not (container.command or container.args):
            # As with an image that has no command, the pod waits: one that failed would be replaced at once, for ever.
            raise StartError(f"no command, and the runtime {runtime.name} pulls no image that would say what to run")
        granted = self._node.claims.granted(uid, container)
        merged = self._node.specs.edits([cdi for grant in granted for cdi in grant.device.cdi])
        env = await environment(pod, container, self._sources, self._place)
        before = lifecycle.last(histories, container.name)
        number = before.key.attempt + 1 if before else restarts(pod).get(container.name, 0)
        task = Task(
            key=Key(uid, container.name, number),
            argv=command_line(container, env),
            env=env,
            directory=container.workingDir,
            edits=merged.edits,
            mounts=await self._volumes.mounts(container) if runtime.mounts_volumes else self._volumes.named(container),
            hostname=(pod.spec.hostname or pod.metadata.name)[:_HOSTNAME_CHARACTERS].rstrip("-."),
            quick_ends=lifecycle.quick_ends(before),
            annotations=pod.metadata.annotations,
        )
        self._say(pod, container.name, runtime.cannot(task), merged.conflicts)
        return task

    def _say(self, pod: Pod, name: str, cannot: list[str], conflicts: tuple[str, ...]) -> None:
        if cannot and self._cannot.get(name) != cannot:
            what = ", ".join(cannot)
            message = f"container {name}: the runtime {self._node.runtime.name} cannot apply: {what}"
            self._node.recorder.warning(pod, "DeviceEditsNotApplied", message)
        for conflict in conflicts:
            self._node.recorder.warning(pod, "ConflictingDeviceEdits", f"container {name}: {conflict}")
        self._cannot[name] = cannot


def _type(pod: Pod, name: str) -> str:
    """What metrics call a container of this kind."""
    return "init_container" if any(c.name == name for c in pod.spec.initContainers) else "container"


def restarts(pod: Pod) -> dict[str, int]:
    """How often containers had been started before the runtime lost sight of them."""
    statuses = (*pod.status.initContainerStatuses, *pod.status.containerStatuses)
    return {status.name: status.restartCount + 1 for status in statuses if status.containerID}
