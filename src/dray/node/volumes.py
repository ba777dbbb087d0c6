"""The volumes of a pod as directories on the host: empty directories, host paths, and files made from API objects.

Volumes made from API objects are mounted read-only and updated by `refresh`. Left out: volumes that need a storage
system, which are refused with an error, and mounting, which is the runtime's task.
"""

from __future__ import annotations

import logging
import os
from pathlib import Path

from dray.api.errors import NotFound
from dray.api.types.core import (
    PersistentVolume,
    PersistentVolumeClaim,
    Pod,
    Volume,
    VolumeMount,
)
from dray.node.atomicfiles import FileContent, give_to_group, write_files
from dray.node.beneath import PathEscape, open_beneath, open_directory
from dray.node.containers import AnyContainer
from dray.node.environment import ConfigProblem, Sources, VariablePlace, expand
from dray.node.hostpaths import HostPaths
from dray.node.private import make_private
from dray.node.projections import Files, ProjectedTokens, Projections
from dray.node.runtime import BindMount

log = logging.getLogger(__name__)


class MountProblem(ConfigProblem):
    """A volume cannot be set up yet. Containers that mount it stay in the state ContainerCreating."""


class Volumes:
    """The volumes of one pod, created in a directory when a container first needs them."""

    def __init__(
        self,
        directory: Path,
        sources: Sources,
        place: VariablePlace,
        host: HostPaths,
        tokens: ProjectedTokens,
        group: int | None = None,
    ) -> None:
        self._directory = directory
        self._projections = Projections(sources, tokens, place)
        self._sources = sources
        self._tokens = tokens
        self._place = place
        self._host = host
        self._group = group  # fsGroup
        self._made: dict[str, str] = {}

    @property
    def renewal(self) -> float | None:
        """The time (seconds since 1970) when the next service account token must be renewed, or None without tokens."""
        return self._tokens.renewal

    async def mounts(self, pod: Pod, container: AnyContainer, env: dict[str, str]) -> list[BindMount]:
        """Return the mounts of a container, creating their volumes first. Raises `ConfigProblem` or `MountProblem`.

        ConfigProblem means that a volume is not defined or not valid. `env` is used to expand subPathExpr.
        """
        by_name = {volume.name: volume for volume in pod.spec.volumes}
        found = []
        for mount in container.volumeMounts:
            if mount.name not in by_name:
                raise ConfigProblem(f"volume {mount.name} is not defined")
            volume = by_name[mount.name]
            source = await self._path(pod, volume)
            part = mount.subPath or expand(mount.subPathExpr, env)
            if part:
                _prepare_part(source, part, mount, container.name)
            claim = volume.persistentVolumeClaim
            readonly = mount.readOnly or _is_written(volume) or (claim is not None and claim.readOnly)
            found.append(BindMount(source, mount.mountPath, readonly, part, mount.mountPropagation or ""))
        return found

    def named(self, pod: Pod, container: AnyContainer) -> list[BindMount]:
        """Return a container's mounts for runtimes that mount nothing: only host paths have a source.

        The source of other volumes is "".
        """
        paths = {v.name: self._host.locate(v.hostPath.path) for v in pod.spec.volumes if v.hostPath is not None}
        return [BindMount(paths.get(mount.name, ""), mount.mountPath) for mount in container.volumeMounts]

    def has_written(self, pod: Pod) -> bool:
        """Whether the pod has volumes made from API objects on disk."""
        return any(_is_written(volume) and self._place_of(volume).exists() for volume in pod.spec.volumes)

    async def refresh(self, pod: Pod) -> None:
        """Update the volumes made from API objects. A volume whose objects cannot be read stays unchanged.

        Only volumes that exist on disk are updated.
        """
        fresh = Sources(self._sources.client, self._sources.namespace)
        projections = Projections(fresh, self._tokens, self._place)
        for volume in pod.spec.volumes:
            if _is_written(volume) and self._place_of(volume).exists():
                try:
                    self._write(volume, await projections.files(pod, volume))
                except (ConfigProblem, OSError) as error:
                    log.info("volume %s of pod %s is not refreshed: %s", volume.name, pod.metadata.name, error)

    def _place_of(self, volume: Volume) -> Path:
        if "/" in volume.name or volume.name in ("", ".", ".."):
            raise ConfigProblem(f"volume {volume.name!r}: not a valid directory name")
        return self._directory / volume.name

    async def _path(self, pod: Pod, volume: Volume) -> str:
        if volume.name not in self._made:
            try:
                self._made[volume.name] = await self._make(pod, volume)
            except ConfigProblem as error:
                raise MountProblem(f'MountVolume.SetUp failed for volume "{volume.name}" : {error}') from error
        return self._made[volume.name]

    async def _make(self, pod: Pod, volume: Volume) -> str:
        if volume.hostPath is not None:
            return self._host.prepare(volume.hostPath.path, volume.hostPath.type or "")
        if volume.persistentVolumeClaim is not None:
            return self._host.prepare(await self._claimed(volume.persistentVolumeClaim.claimName), "DirectoryOrCreate")
        make_private(self._directory)
        directory = self._place_of(volume)
        if volume.emptyDir is not None:
            self._make_empty(directory)
        else:
            self._write(volume, await self._projections.files(pod, volume))
        return str(directory)

    async def _claimed(self, name: str) -> str:
        """Return the host directory of the PersistentVolume that a claim is bound to.

        Raises `ConfigProblem` if the claim is missing or unbound, or the volume is not of type hostPath or local.
        """
        sources = self._sources
        try:
            claim = await sources.client.get(PersistentVolumeClaim, name, sources.namespace)
            if claim.status.phase != "Bound" or not claim.spec.volumeName:
                raise ConfigProblem(f'persistentvolumeclaim "{name}" is not bound')
            volume = await sources.client.get(PersistentVolume, claim.spec.volumeName)
        except NotFound as error:
            raise ConfigProblem(error.message) from error
        owner = volume.spec.claimRef
        if owner is None or owner.uid != claim.metadata.uid:
            raise ConfigProblem(f"persistentvolume {volume.metadata.name} is not bound to persistentvolumeclaim {name}")
        found = volume.spec.hostPath or volume.spec.local
        if found is None:
            text = f"persistentvolume {volume.metadata.name}: only volumes of type hostPath and local are supported"
            raise ConfigProblem(text)
        return found.path

    def _make_empty(self, directory: Path) -> None:
        if directory.is_dir() and not directory.is_symlink():
            return  # an earlier container of the pod may have changed it
        directory.mkdir()
        directory.chmod(0o777)
        if self._group is not None:
            base = open_directory(str(directory))
            try:
                give_to_group(base, self._group)
                directory.chmod(0o2777)
            finally:
                os.close(base)

    def _write(self, volume: Volume, files: Files) -> None:
        if self._group is not None:  # lets the group read what the owner may read
            files = {path: FileContent(f.data, f.mode | (f.mode >> 3 & 0o040)) for path, f in files.items()}
        try:
            write_files(self._place_of(volume), files, self._group)
        except (PathEscape, ValueError) as error:
            raise ConfigProblem(f"volume {volume.name}: {error}") from error


def _is_written(volume: Volume) -> bool:
    """Whether a volume holds files made from API objects, to which no container may write."""
    sources = (volume.configMap, volume.secret, volume.downwardAPI, volume.projected)
    return any(source is not None for source in sources)


def _prepare_part(source: str, part: str, mount: VolumeMount, container: str) -> None:
    """Create a missing subPath as a directory, as in Kubernetes, and check that it stays in its volume.

    Raises `ConfigProblem` if it does not. `source` is the directory of the volume, `part` the subPath, `container`
    the name of the container.
    """
    try:
        base = open_directory(os.path.realpath(source))
        try:
            os.close(open_beneath(base, part, create=0o755))
        finally:
            os.close(base)
    except (OSError, ValueError) as error:
        text = f'failed to prepare subPath for volumeMount "{mount.name}" of container "{container}"'
        raise ConfigProblem(f"{text}: {error}") from error
