"""Starts the containers of one pod: builds the runtime's task with command, devices and volumes, and handles
failures.

Everything that the runtime cannot give a container is reported in an event and in the pod's conditions. Left out:
when to start which container (`lifecycle`).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from dray.api.cdi import CdiError
from dray.api.types.core import ContainerStatus, EphemeralContainer, Pod
from dray.client.backoff import Backoff
from dray.node import lifecycle, metrics
from dray.node.containers import AnyContainer, container_of, kind_of
from dray.node.context import NodeContext
from dray.node.environment import ConfigProblem, Sources, command_line, environment
from dray.node.images.library import StoredImage
from dray.node.images.manifest import RunConfig
from dray.node.images.puller import NoImage
from dray.node.images.users import image_user
from dray.node.lifecycle import ContainerWaits, Histories
from dray.node.projections import ProjectedTokens
from dray.node.runtime import ContainerKey, ContainerStartError, Task, TerminationMessage
from dray.node.security import ContainerSecurity, check_non_root, profiles, security_of
from dray.node.volumes import MountProblem, Volumes

_MESSAGE_BYTES = 4096
_HOSTNAME_CHARACTERS = 63  # the kernel's limit, at which Kubernetes also cuts names off


class Starter:
    """Starts the containers of one pod. After each failed start the pause before the next attempt is longer."""

    def __init__(self, node: NodeContext, pod: Pod) -> None:
        self._node = node
        place = node.place_of(pod)
        self._place = place
        self._sources = Sources(node.client, pod.metadata.namespace)
        directory = node.root / "pods" / pod.metadata.uid / "volumes"
        tokens = ProjectedTokens(node.client, node.clock)
        group = pod.spec.securityContext.fsGroup if pod.spec.securityContext is not None else None
        own = group if os.geteuid() == 0 else None  # only root can give files to a group
        self._volumes = Volumes(directory, self._sources, place, node.host_paths, tokens, own)
        self._backoffs: dict[str, Backoff] = {}
        self._troubles: dict[str, tuple[ContainerWaits, float]] = {}  # by container: why it waits, and until when
        self._cannot: dict[str, list[str]] = {}
        # when volumes are next compared with their API objects
        self._refresh = node.clock.time() + node.refresh_seconds
        self.image_ids: dict[str, str] = {}  # by container name: the image that really runs
        self._image_told = False
        self._profiles_told: set[str] = set()
        self._told = pod.metadata.labels, pod.metadata.annotations

    @property
    def not_applied(self) -> list[str]:
        """Texts for users that name what each container lacks because the runtime cannot provide it."""
        return [f"container {name}: {', '.join(what)}" for name, what in self._cannot.items() if what]

    @property
    def next_try(self) -> float | None:
        """Seconds until the next attempt of a failed start, or None if no start has failed.

        The value is 0 if an attempt is due now.
        """
        now = self._node.clock.monotonic()
        return min((max(0.0, until - now) for _, until in self._troubles.values()), default=None)

    async def refresh(self, pod: Pod) -> float | None:
        """Update the volumes made from API objects if an update is due or the pod's labels or annotations changed.

        Returns the seconds until the next update, or None if the pod has no such volumes.
        """
        if not self._volumes.has_written(pod):
            return None
        told = pod.metadata.labels, pod.metadata.annotations
        if self._node.clock.time() >= self._due() or told != self._told:
            await self._volumes.refresh(pod)
            self._told = told
            self._refresh = self._node.clock.time() + self._node.refresh_seconds
        return max(0.1, self._due() - self._node.clock.time())

    def _due(self) -> float:
        """Return the time of the next update of volumes.

        The time is in seconds since 1970.
        """
        renewal = self._volumes.renewal
        return self._refresh if renewal is None else min(self._refresh, renewal)

    async def start(self, pod: Pod, name: str, histories: Histories) -> ContainerWaits | None:
        """Start a container. Returns None if it was started, otherwise why it waits.

        During the pause after a failure nothing is tried, and the previous reason is returned. Raises KeyError if the
        pod has no such container.
        """
        waiting, until = self._troubles.get(name, (None, 0.0))
        if waiting is not None and until > self._node.clock.monotonic():
            return waiting
        container = container_of(pod, name)
        metrics.STARTS.labels(kind_of(pod, name)).inc()
        try:
            await self._node.runtime.start(await self._task(pod, container, histories))
        except NoImage as wait:
            metrics.START_ERRORS.labels(kind_of(pod, name), wait.waiting.reason).inc()
            self._troubles[name] = wait.waiting, self._node.clock.monotonic() + wait.seconds
            return wait.waiting
        except MountProblem as error:
            self._node.recorder.warning(pod, "FailedMount", str(error))
            return self._later(pod, name, ContainerWaits("ContainerCreating", str(error)))
        except ConfigProblem as error:
            return self._troubled(pod, name, ContainerWaits("CreateContainerConfigError", str(error)))
        except (CdiError, ContainerStartError, OSError) as error:
            return self._troubled(pod, name, ContainerWaits("CreateContainerError", str(error)))
        self._troubles.pop(name, None)
        self._backoffs.pop(name, None)
        self._node.recorder.record(pod, "Created", "Container created")
        self._node.recorder.record(pod, "Started", "Container started")
        return None

    def _troubled(self, pod: Pod, name: str, waiting: ContainerWaits) -> ContainerWaits:
        self._node.recorder.warning(pod, "Failed", f"Error: container {name}: {waiting.message}")
        return self._later(pod, name, waiting)

    def _later(self, pod: Pod, name: str, waiting: ContainerWaits) -> ContainerWaits:
        """Count a failed start and schedule the next attempt. Returns `waiting`.

        The pause doubles with each failure, from 1 to 60 seconds.
        """
        metrics.START_ERRORS.labels(kind_of(pod, name), waiting.reason).inc()
        if name not in self._backoffs:
            self._backoffs[name] = Backoff(self._node.clock, initial=1.0, limit=60.0, jitter=lambda: 0.0)
        self._troubles[name] = waiting, self._node.clock.monotonic() + self._backoffs[name].next_delay()
        return waiting

    async def _task(self, pod: Pod, container: AnyContainer, histories: Histories) -> Task:
        runtime, uid = self._node.runtime, pod.metadata.uid
        image = await self._image(pod, container)
        security = self._security(pod, container, image)
        granted = self._node.claims.granted(pod, container)
        merged = self._node.specs.edits([cdi for grant in granted for cdi in grant.device.cdi])
        own = await environment(pod, container, self._sources, self._place)
        run = image.run if image is not None else RunConfig()
        env = {k: v for k, _, v in (e.partition("=") for e in run.Env or ())} | self._node.service_env | own
        argv = command_line(container, env, run.Entrypoint or (), run.Cmd or ())
        if runtime.executes and not argv:
            # The pod waits: a failed pod would be replaced at once, again and again.
            unsaid = f"no command specified, and the runtime {runtime.name} uses no image that could define one"
            raise ContainerStartError("no command specified" if image is not None else unsaid)
        if runtime.mounts_volumes:
            mounts = await self._volumes.mounts(pod, container, env)
        else:
            mounts = self._volumes.named(pod, container)
        before = lifecycle.last(histories, container.name)
        number = before.key.attempt + 1 if before else restarts(pod).get(container.name, 0)
        task = Task(
            key=ContainerKey(uid, container.name, number),
            argv=argv,
            env=env,
            directory=container.workingDir or run.WorkingDir or "",
            rootfs=str(image.rootfs) if image is not None else "",
            edits=self._node.host_paths.moved(merged.edits),
            mounts=tuple(mounts),
            hostname=(pod.spec.hostname or pod.metadata.name)[:_HOSTNAME_CHARACTERS].rstrip("-."),
            quick_ends=lifecycle.quick_ends(before),
            message=_message(pod, container),
            security=security,
            annotations=pod.metadata.annotations,
            stdin=container.stdin,
            stdin_once=container.stdinOnce,
            tty=container.tty,
            target=container.targetContainerName if isinstance(container, EphemeralContainer) else "",
        )
        self._say(pod, container.name, runtime.cannot(task), merged.conflicts)
        self._say_profiles(pod, container)
        return task

    async def _image(self, pod: Pod, container: AnyContainer) -> StoredImage | None:
        """Return the image of a container, or None if containers use no images; an event says so once.

        Raises NoImage while the image cannot be had.
        """
        images, runtime = self._node.images, self._node.runtime
        if images is not None and images.used and runtime.mounts_volumes:
            image = await images.ensure(pod, container, self._sources)
            self.image_ids[container.name] = images.identity(container.image, image)
            return image
        if not self._image_told:
            self._image_told = True
            how = "on the host's file system" if runtime.executes else "without running any process"
            text = f"Images are not used: the runtime {runtime.name} runs containers {how}"
            self._node.recorder.record(pod, "ImageNotUsed", text)
        return None

    def _security(self, pod: Pod, container: AnyContainer, image: StoredImage | None) -> ContainerSecurity:
        security = security_of(pod, container)
        user = self._node.runtime.default_user()
        if image is not None:
            user, group = image_user(image.rootfs, image.run.User or "")
            if security.user is None:
                security = replace(security, user=user, group=group if security.group is None else security.group)
        check_non_root(security, user if security.user is None else security.user, pod, container.name)
        return security

    def _say_profiles(self, pod: Pod, container: AnyContainer) -> None:
        """Report once in an event that a security profile cannot be applied; the container runs without it."""
        if self._node.runtime.executes and container.name not in self._profiles_told:
            self._profiles_told.add(container.name)
            if missing := ", ".join(profiles(pod, container)):
                text = f"container {container.name}: the runtime {self._node.runtime.name} cannot apply: {missing}"
                self._node.recorder.warning(pod, "SecurityContextNotApplied", text)

    def _say(self, pod: Pod, name: str, cannot: list[str], conflicts: tuple[str, ...]) -> None:
        """Record events for device edits that cannot be applied or contradict each other.

        `cannot` names edits that cannot be applied; an event is recorded only if they changed. `conflicts` are texts.
        """
        if cannot and self._cannot.get(name) != cannot:
            what = ", ".join(cannot)
            message = f"container {name}: the runtime {self._node.runtime.name} cannot apply: {what}"
            self._node.recorder.warning(pod, "DeviceEditsNotApplied", message)
        for conflict in conflicts:
            self._node.recorder.warning(pod, "ConflictingDeviceEdits", f"container {name}: {conflict}")
        self._cannot[name] = cannot


def _message(pod: Pod, container: AnyContainer) -> TerminationMessage:
    """Return where a container writes its termination message. All containers of a pod together may write 12 KiB."""
    count = len(pod.spec.initContainers) + len(pod.spec.containers)
    fallback = container.terminationMessagePolicy == "FallbackToLogsOnError"
    return TerminationMessage(
        container.terminationMessagePath, fallback, min(_MESSAGE_BYTES, 3 * _MESSAGE_BYTES // count)
    )


def known_images(pod: Pod) -> dict[str, str]:
    """Return by container name the image IDs in the pod's status, for containers that ran before this agent started.

    Containers without an image ID are left out.
    """
    return {status.name: status.imageID for status in _statuses(pod) if status.imageID}


def restarts(pod: Pod) -> dict[str, int]:
    """Return by container name how often the container has been started, according to the pod's status.

    Containers that have not been started are left out.
    """
    return {status.name: status.restartCount + 1 for status in _statuses(pod) if status.containerID}


def _statuses(pod: Pod) -> Iterator[ContainerStatus]:
    status = pod.status
    yield from (*status.initContainerStatuses, *status.containerStatuses, *status.ephemeralContainerStatuses)
