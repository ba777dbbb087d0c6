"""What a pod needs from the API: the objects that its node may read on its behalf.

Pure functions of a pod. Left out: whose pod it is, and persistent volumes, which no runtime here mounts.
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.types.core import Container, EphemeralContainer, Pod
from dray.api.types.scheduling import PodGroup


def secrets(pod: Pod) -> Iterator[str]:
    """Names of the secrets that the pod's containers and volumes use."""
    yield from (reference.name for reference in pod.spec.imagePullSecrets)
    for container in _containers(pod):
        yield from (source.secretRef.name for source in container.envFrom if source.secretRef)
        yield from (v.valueFrom.secretKeyRef.name for v in container.env if v.valueFrom and v.valueFrom.secretKeyRef)
    for volume in pod.spec.volumes:
        if volume.secret:
            yield volume.secret.secretName
        if volume.projected:
            yield from (source.secret.name for source in volume.projected.sources or () if source.secret)


def config_maps(pod: Pod) -> Iterator[str]:
    """Names of the configuration maps that the pod's containers and volumes use."""
    for container in _containers(pod):
        yield from (source.configMapRef.name for source in container.envFrom if source.configMapRef)
        yield from (
            v.valueFrom.configMapKeyRef.name for v in container.env if v.valueFrom and v.valueFrom.configMapKeyRef
        )
    for volume in pod.spec.volumes:
        if volume.configMap:
            yield volume.configMap.name
        if volume.projected:
            yield from (source.configMap.name for source in volume.projected.sources or () if source.configMap)


def claims(pod: Pod) -> Iterator[str]:
    """Names of the claims that the pod uses: named by itself, or generated for it."""
    yield from (entry.resourceClaimName for entry in pod.spec.resourceClaims if entry.resourceClaimName)
    yield from (entry.resourceClaimName for entry in pod.status.resourceClaimStatuses if entry.resourceClaimName)
    if pod.status.extendedResourceClaimStatus:
        yield pod.status.extendedResourceClaimStatus.resourceClaimName


def group_claims(group: PodGroup) -> Iterator[str]:
    """Names of the claims that the pods of a group share."""
    yield from (entry.resourceClaimName for entry in group.spec.resourceClaims if entry.resourceClaimName)
    yield from (entry.resourceClaimName for entry in group.status.resourceClaimStatuses if entry.resourceClaimName)


def service_account(pod: Pod) -> str:
    return pod.spec.serviceAccountName or pod.spec.serviceAccount


def _containers(pod: Pod) -> Iterator[Container | EphemeralContainer]:
    yield from pod.spec.containers
    yield from pod.spec.initContainers
    yield from pod.spec.ephemeralContainers
