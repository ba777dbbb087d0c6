"""Pulling images for containers: pull policies, pull secrets and pauses after failures.

Texts and pauses are those of Kubernetes. If no source of images is configured, the node uses no images, and
containers run on the host's file system. Left out: the sources of images, and unpacking.
"""

from __future__ import annotations

import asyncio
import base64
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dray.api.types.core import Pod
from dray.client import Clock, EventRecorder
from dray.node.containers import AnyContainer
from dray.node.environment import ConfigProblem, Sources
from dray.node.images.archives import Archives, FoundImage
from dray.node.images.library import Library, StoredImage
from dray.node.images.manifest import ImageError
from dray.node.images.reference import ImageName, InvalidImageName
from dray.node.images.registry import Credential, Registries
from dray.node.lifecycle import ContainerWaits

log = logging.getLogger(__name__)

_FIRST_PAUSE, _LAST_PAUSE = 10.0, 300.0
_SOON = 1.0  # until a failure is shown as a back-off


@dataclass(frozen=True)
class ImageSettings:
    """Sources of images: directories of this machine, and registries by host, each with the URL of a mirror or ""."""

    directories: tuple[Path, ...] = ()
    registries: Mapping[str, str] = field(default_factory=dict)

    @property
    def given(self) -> bool:
        return bool(self.directories or self.registries)


class NoImage(Exception):
    """A container must wait for its image. `waiting` is the reason, `seconds` the time until the next attempt."""

    def __init__(self, waiting: ContainerWaits, seconds: float) -> None:
        super().__init__(waiting.message)
        self.waiting = waiting
        self.seconds = seconds


@dataclass
class _Failure:
    error: str
    pause: float
    until: float


class Images:
    """The images of a node: finds or pulls the image of a container."""

    def __init__(self, root: Path, settings: ImageSettings, clock: Clock, recorder: EventRecorder) -> None:
        self._library = Library(root / "images")
        self._archives = Archives(settings.directories)
        self._registries = Registries(settings.registries)
        self._clock = clock
        self._recorder = recorder
        self._locks: dict[str, asyncio.Lock] = {}
        # by pod and image, since another pod may have working secrets
        self._failures: dict[tuple[str, str], _Failure] = {}
        self.used = settings.given

    async def ensure(self, pod: Pod, container: AnyContainer, sources: Sources) -> StoredImage:
        """Return the image of a container, pulled if necessary. Raises `NoImage` if the container must wait."""
        try:
            name = ImageName.parse(container.image)
        except InvalidImageName as error:
            text = f'Failed to apply default image tag "{container.image}": {error}'
            self._recorder.warning(pod, "InspectFailed", text)
            raise NoImage(ContainerWaits("InvalidImageName", text), _LAST_PAUSE) from error
        async with self._locks.setdefault(name.full, asyncio.Lock()):
            known = self._library.named(name.full)
            if known is not None and container.imagePullPolicy != "Always":
                text = f'Container image "{container.image}" already present on machine and can be accessed by the pod'
                self._recorder.record(pod, "Pulled", text)
                return known
            if container.imagePullPolicy != "Never":
                self._check_pause(pod, container, name)
            return await self._pull(pod, container, name, sources)

    def identity(self, image: str, stored: StoredImage) -> str:
        """Return the `imageID` of a container's status: the image's repository with the digest of the stored image."""
        return ImageName.parse(image).pinned(stored.digest)

    def _check_pause(self, pod: Pod, container: AnyContainer, name: ImageName) -> None:
        failure = self._failures.get((pod.metadata.uid, name.full))
        left = failure.until - self._clock.monotonic() if failure is not None else 0.0
        if failure is not None and left > 0:
            text = f'Back-off pulling image "{container.image}"'
            self._recorder.record(pod, "BackOff", text)
            self._recorder.warning(pod, "Failed", "Error: ImagePullBackOff")
            raise NoImage(ContainerWaits("ImagePullBackOff", f"{text}: ErrImagePull: {failure.error}"), left)

    async def _pull(self, pod: Pod, container: AnyContainer, name: ImageName, sources: Sources) -> StoredImage:
        begun = self._clock.monotonic()
        never = container.imagePullPolicy == "Never"
        if not never:
            self._recorder.record(pod, "Pulling", f'Pulling image "{container.image}"')
        try:
            stored = await self._fetch(name, () if never else await _credentials(pod, name, sources), never)
        except (ImageError, OSError) as error:
            raise self._failed(pod, container, name, str(error)) from error
        if stored is None:
            text = f'Container image "{container.image}" is not present with pull policy of Never'
            self._recorder.warning(pod, "ErrImageNeverPull", text)
            raise NoImage(ContainerWaits("ErrImageNeverPull", text), _FIRST_PAUSE)
        self._failures.pop((pod.metadata.uid, name.full), None)
        self._library.remember(name.full, stored.digest)
        took = f"{self._clock.monotonic() - begun:.3g}s"
        text = f'Successfully pulled image "{container.image}" in {took} ({took} including waiting).'
        self._recorder.record(pod, "Pulled", f"{text} Image size: {stored.size} bytes.")
        return stored

    def _failed(self, pod: Pod, container: AnyContainer, name: ImageName, error: str) -> NoImage:
        key, now = (pod.metadata.uid, name.full), self._clock.monotonic()
        before = self._failures.get(key)
        pause = min(before.pause * 2, _LAST_PAUSE) if before is not None else _FIRST_PAUSE
        # Forget failures of pods that have not tried again for so long: their next pause is short again.
        self._failures = {k: failure for k, failure in self._failures.items() if failure.until + _LAST_PAUSE > now}
        self._failures[key] = _Failure(error, pause, now + pause)
        self._recorder.warning(pod, "Failed", f'Failed to pull image "{container.image}": {error}')
        self._recorder.warning(pod, "Failed", "Error: ErrImagePull")
        return NoImage(ContainerWaits("ErrImagePull", error), _SOON)

    async def _fetch(self, name: ImageName, credentials: Sequence[Credential], never: bool) -> StoredImage | None:
        """Return the image from a directory of this machine or from its registry.

        With `never` the registry is not asked, and None is returned if no directory has the image. Raises
        `ImageError` if the image cannot be found.
        """
        local = await asyncio.to_thread(self._archives.find, name)
        if local is not None:
            return await asyncio.to_thread(self._library.add, local)
        if never:
            return None
        if not self._registries.allows(name):
            raise ImageError(f"{name.full}: not in an image directory, and registry {name.registry} is not configured")
        with self._library.workshop() as place:
            pulled = await self._registries.pull(name, credentials, place, self._library.digests())
            if isinstance(pulled, FoundImage):
                return await asyncio.to_thread(self._library.add, pulled)
        return self._library.get(pulled)


async def _credentials(pod: Pod, name: ImageName, sources: Sources) -> list[Credential]:
    """Return the logins for the image's registry from the pod's pull secrets. Unreadable secrets are skipped.

    Missing secrets are skipped too.
    """
    found = []
    for reference in pod.spec.imagePullSecrets:
        try:
            data = await sources.data("secret", reference.name) or {}
        except ConfigProblem as error:
            log.info("pull secret %s of pod %s: %s", reference.name, pod.metadata.name, error)
            continue
        found += _logins(data, name)
    return found


def _logins(data: Mapping[str, bytes], name: ImageName) -> list[Credential]:
    try:
        if ".dockerconfigjson" in data:
            hosts: Any = json.loads(data[".dockerconfigjson"]).get("auths", {})
        else:
            hosts = json.loads(data.get(".dockercfg", b"{}"))
        entries = [(str(host), dict(entry)) for host, entry in dict(hosts).items()]
        return [_login(entry) for host, entry in entries if _host(host) == name.registry]
    except (ValueError, TypeError, AttributeError):
        return []  # not in a known form of a pull secret


def _host(text: str) -> str:
    host = urlsplit(text if "//" in text else f"//{text}").netloc
    return "docker.io" if host in ("index.docker.io", "registry-1.docker.io") else host


def _login(entry: Mapping[str, Any]) -> Credential:
    if "auth" in entry:
        user, _, password = base64.b64decode(entry["auth"]).decode().partition(":")
        return Credential(user, password)
    return Credential(entry.get("username", ""), entry.get("password", ""))
