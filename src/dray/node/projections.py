"""The files of configMap, secret, downwardAPI and projected volumes, as their API objects define them.

A service account token is used for four fifths of its lifetime, as in the kubelet, and then replaced. Left out:
writing the files (`atomicfiles`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from dray.api.errors import ApiError
from dray.api.times import parse_timestamp
from dray.api.types.core import (
    DownwardAPIVolumeFile,
    KeyToPath,
    Pod,
    ServiceAccount,
    ServiceAccountTokenProjection,
    Volume,
)
from dray.client import Client, Clock
from dray.node.atomicfiles import FileContent
from dray.node.environment import ConfigProblem, Sources, VariablePlace, container_resource, pod_field

Files = dict[str, FileContent]

SUPPORTED = "emptyDir, hostPath, persistentVolumeClaim, configMap, secret, downwardAPI and projected"
_TOKEN_LIFE = 0.8  # part of its lifetime after which a token is renewed
_TOKEN_SECONDS = 24 * 3600.0  # and a token is renewed after this time at the latest
_AGAIN_SECONDS = 30.0  # pause after a failed renewal
_JITTER_SECONDS = 10.0  # so that tokens of pods that started together are not all renewed at once


class IssuedToken(NamedTuple):
    text: str
    renew: float  # time of the renewal


class ProjectedTokens:
    """Cache of the service account tokens of one pod, by audience and duration."""

    def __init__(self, client: Client, clock: Clock, jitter: Callable[[], float] = random.random) -> None:
        self._client = client
        self._clock = clock
        self._jitter = jitter
        self._issued: dict[tuple[str, int | None], IssuedToken] = {}

    @property
    def renewal(self) -> float | None:
        """The time (seconds since 1970) when the next token must be renewed, or None without tokens."""
        return min((token.renew for token in self._issued.values()), default=None)

    async def get(self, pod: Pod, projection: ServiceAccountTokenProjection) -> str:
        key = projection.audience, projection.expirationSeconds
        known = self._issued.get(key)
        if known is None or self._clock.time() >= known.renew:
            try:
                known = self._issued[key] = await self._issue(pod, projection)
            except ConfigProblem:
                if known is None:
                    raise
                known = self._issued[key] = known._replace(renew=self._clock.time() + _AGAIN_SECONDS)
        return known.text

    async def _issue(self, pod: Pod, projection: ServiceAccountTokenProjection) -> IssuedToken:
        meta, account = pod.metadata, pod.spec.serviceAccountName or "default"
        bound = {"kind": "Pod", "apiVersion": "v1", "name": meta.name, "uid": meta.uid}
        spec: dict[str, Any] = {"boundObjectRef": bound, "audiences": [a for a in (projection.audience,) if a]}
        if projection.expirationSeconds:
            spec["expirationSeconds"] = projection.expirationSeconds
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec}
        try:
            answer: Any = await self._client.create(
                ServiceAccount, request, namespace=meta.namespace, name=account, subresource="token"
            )
        except ApiError as error:
            raise ConfigProblem(f"token of service account {account}: {error}") from error
        now = self._clock.time()
        life = parse_timestamp(answer.status.expirationTimestamp) - now
        renew = min(life * _TOKEN_LIFE, _TOKEN_SECONDS) - self._jitter() * min(_JITTER_SECONDS, life / 20)
        return IssuedToken(str(answer.status.token), now + renew)


class Projections:
    """Builds the files of a pod's volumes from API objects."""

    def __init__(self, sources: Sources, tokens: ProjectedTokens, place: VariablePlace) -> None:
        self._sources = sources
        self._tokens = tokens
        self._place = place

    async def files(self, pod: Pod, volume: Volume) -> Files:
        if volume.projected is None:
            source = volume.configMap or volume.secret or volume.downwardAPI
            return await self._of(pod, volume, volume.name, _mode(source))
        files: Files = {}
        mode = _mode(volume.projected)
        for part in volume.projected.sources or ():
            if part.serviceAccountToken is not None:
                text = await self._tokens.get(pod, part.serviceAccountToken)
                files[part.serviceAccountToken.path] = FileContent(text.encode(), mode)
            else:
                files |= await self._of(pod, part, volume.name, mode)
        return files

    async def _of(self, pod: Pod, source: Any, volume: str, mode: int) -> Files:
        """Return the files of one source of a volume or projection, which differ only in a secret's name field.

        Raises ConfigProblem for an unsupported source, or if a required object or key is missing. `mode` is the
        default file mode.
        """
        if source.configMap is not None:
            name = source.configMap.name
            data = await self._sources.data("configmap", name)
            return _items("configmap", name, data, source.configMap.items, source.configMap.optional, mode)
        if source.secret is not None:
            name = getattr(source.secret, "secretName", "") or getattr(source.secret, "name", "")
            data = await self._sources.data("secret", name)
            return _items("secret", name, data, source.secret.items, source.secret.optional, mode)
        if source.downwardAPI is not None:
            return {item.path: self._told(pod, item, mode) for item in source.downwardAPI.items}
        raise ConfigProblem(f"volume {volume}: only {SUPPORTED} are supported")

    def _told(self, pod: Pod, item: DownwardAPIVolumeFile, mode: int) -> FileContent:
        mode = mode if item.mode is None else item.mode
        if item.fieldRef is not None:
            return FileContent(pod_field(pod, item.fieldRef.fieldPath, self._place).encode(), mode)
        if item.resourceFieldRef is not None:
            return FileContent(container_resource(pod, item.resourceFieldRef, self._place).encode(), mode)
        raise ConfigProblem(f"downwardAPI {item.path}: expected fieldRef or resourceFieldRef")


def _mode(source: Any) -> int:
    mode: int | None = getattr(source, "defaultMode", None)
    return 0o644 if mode is None else mode


def _items(
    what: str, name: str, data: dict[str, bytes] | None, items: Sequence[KeyToPath], optional: bool | None, mode: int
) -> Files:
    if data is None:
        if optional:
            return {}
        raise ConfigProblem(f'{what} "{name}" not found')
    if not items:
        return {key: FileContent(value, mode) for key, value in data.items()}
    missing = [item.key for item in items if item.key not in data]
    if missing and not optional:
        raise ConfigProblem(f"couldn't find key {missing[0]} in {what} {name}")
    return {
        item.path: FileContent(data[item.key], mode if item.mode is None else item.mode)
        for item in items
        if item.key in data
    }
