"""The volumes of a pod as directories on the host: empty ones, host paths, and files made of API objects.

Files are written once, when the pod starts; a service account token is not renewed. Left out: everything that needs a
storage system, which is refused by its name, and mounting, which is the runtime's.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from dray.api.errors import ApiError
from dray.api.types.core import Container, KeyToPath, Pod, ServiceAccount, ServiceAccountTokenProjection, Volume
from dray.client import Client
from dray.node.environment import ConfigProblem, Place, Sources, pod_field
from dray.node.runtime import Mount

Files = dict[str, bytes]

_SUPPORTED = "emptyDir, hostPath, configMap, secret, downwardAPI and projected"


class Volumes:
    """The volumes of one pod, made below a directory when a container first needs them."""

    def __init__(self, pod: Pod, directory: Path, sources: Sources, place: Place) -> None:
        self._pod = pod
        self._directory = directory
        self._sources = sources
        self._place = place
        self._made: dict[str, str] = {}

    async def mounts(self, container: Container) -> tuple[Mount, ...]:
        """What to mount into a container."""
        by_name = {volume.name: volume for volume in self._pod.spec.volumes}
        found = []
        for mount in container.volumeMounts:
            if mount.name not in by_name:
                raise ConfigProblem(f"volume {mount.name} is not defined")
            source = await self._path(by_name[mount.name])
            if mount.subPath:
                source = os.path.join(source, mount.subPath)
            found.append(Mount(source, mount.mountPath, mount.readOnly))
        return tuple(found)

    def named(self, container: Container) -> tuple[Mount, ...]:
        """What a container would mount, for runtimes that mount nothing: only host paths have a source."""
        paths = {v.name: v.hostPath.path for v in self._pod.spec.volumes if v.hostPath is not None}
        return tuple(Mount(paths.get(mount.name, ""), mount.mountPath) for mount in container.volumeMounts)

    async def _path(self, volume: Volume) -> str:
        if volume.name not in self._made:
            self._made[volume.name] = await self._make(volume)
        return self._made[volume.name]

    async def _make(self, volume: Volume) -> str:
        if volume.hostPath is not None:
            return _host_path(volume.hostPath.path, volume.hostPath.type or "")
        directory = self._directory / volume.name
        if volume.emptyDir is None:
            files = await self._files(volume)
            directory.mkdir(parents=True, exist_ok=True)
            for name, data in files.items():
                _write(directory / name, data)
        else:
            directory.mkdir(parents=True, exist_ok=True)
            directory.chmod(0o777)
        return str(directory)

    async def _files(self, volume: Volume) -> Files:
        if volume.projected is None:
            return await self._projection(volume, volume.name)
        files: Files = {}
        for source in volume.projected.sources or ():
            if source.serviceAccountToken is not None:
                files |= await self._token(source.serviceAccountToken)
            else:
                files |= await self._projection(source, volume.name)
        return files

    async def _projection(self, source: Any, volume: str) -> Files:
        """Files of one source; volumes and projections spell them alike, but for the name of a secret."""
        if source.configMap is not None:
            name, data = source.configMap.name, await self._sources.config_map(source.configMap.name)
            return _items("configmap", name, data, source.configMap.items, source.configMap.optional)
        if source.secret is not None:
            name = getattr(source.secret, "secretName", "") or getattr(source.secret, "name", "")
            data = await self._sources.secret(name)
            return _items("secret", name, data, source.secret.items, source.secret.optional)
        if source.downwardAPI is not None:
            return {
                item.path: pod_field(self._pod, item.fieldRef.fieldPath, self._place).encode()
                for item in source.downwardAPI.items
                if item.fieldRef is not None
            }
        raise ConfigProblem(f"volume {volume}: only {_SUPPORTED} are supported")

    async def _token(self, projection: ServiceAccountTokenProjection) -> Files:
        meta = self._pod.metadata
        bound = {"kind": "Pod", "apiVersion": "v1", "name": meta.name, "uid": meta.uid}
        spec: dict[str, Any] = {"boundObjectRef": bound, "audiences": [a for a in (projection.audience,) if a]}
        if projection.expirationSeconds:
            spec["expirationSeconds"] = projection.expirationSeconds
        account = self._pod.spec.serviceAccountName or "default"
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        return {projection.path: (await _issue(self._sources.client, account, meta.namespace, request)).encode()}


async def _issue(client: Client, account: str, namespace: str, request: dict[str, Any]) -> str:
    try:
        answer: Any = await client.create(
            ServiceAccount, request, namespace=namespace, name=account, subresource="token"
        )
    except ApiError as error:
        raise ConfigProblem(f"token of service account {account}: {error}") from error
    return str(answer.status.token)


def _items(what: str, name: str, data: Files | None, items: Sequence[KeyToPath], optional: bool | None) -> Files:
    if data is None:
        if optional:
            return {}
        raise ConfigProblem(f'{what} "{name}" not found')
    if not items:
        return data
    missing = [item.key for item in items if item.key not in data]
    if missing and not optional:
        raise ConfigProblem(f"couldn't find key {missing[0]} in {what} {name}")
    return {item.path: data[item.key] for item in items if item.key in data}


def _host_path(path: str, kind: str) -> str:
    if kind == "DirectoryOrCreate":
        Path(path).mkdir(parents=True, exist_ok=True)
    elif kind == "FileOrCreate":
        Path(path).touch()
    if not os.path.exists(path):
        raise ConfigProblem(f"hostPath {path} does not exist")
    return path


def _write(file: Path, data: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(data)
    file.chmod(0o644)
