"""Objects that a pod needs and its node may therefore read.

Pure functions of a pod. Persistent volumes are not included, because no runtime of dray mounts them.
"""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.podclaims import group_name
from dray.api.types.core import Container, EphemeralContainer, Pod, Volume
from dray.api.types.scheduling import PodGroup


def secrets(pod: Pod) -> Iterator[str]:
    """Yield the names of Secrets that the pod uses in containers, volumes and image pulls."""
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
    """Yield the names of ConfigMaps that the pod's containers and volumes use."""
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
    """Yield the names of ResourceClaims that the pod uses, both named and generated ones."""
    yield from (entry.resourceClaimName for entry in pod.spec.resourceClaims if entry.resourceClaimName)
    yield from (entry.resourceClaimName for entry in pod.status.resourceClaimStatuses if entry.resourceClaimName)
    if pod.status.extendedResourceClaimStatus:
        yield pod.status.extendedResourceClaimStatus.resourceClaimName


def group_claims(group: PodGroup) -> Iterator[str]:
    """Yield the names of ResourceClaims that the pods of a group share."""
    yield from (entry.resourceClaimName for entry in group.spec.resourceClaims if entry.resourceClaimName)
    yield from (entry.resourceClaimName for entry in group.status.resourceClaimStatuses if entry.resourceClaimName)


def service_account(pod: Pod) -> str:
    return pod.spec.serviceAccountName or pod.spec.serviceAccount


def volume_claims(pod: Pod) -> Iterator[str]:
    """Yield the names of PersistentVolumeClaims in a pod's spec."""
    for volume in pod.spec.volumes:
        if volume.persistentVolumeClaim is not None:
            yield volume.persistentVolumeClaim.claimName


def first(pod: Pod) -> str:
    """Return the plural of the first kind of API object that the pod references, or "" if it references none.

    The status counts like the spec, because both entitle the node.
    """
    named: tuple[tuple[str, object], ...] = (
        ("serviceaccounts", service_account(pod)),
        ("secrets", next(secrets(pod), None) or any(map(_names_storage_secret, pod.spec.volumes))),
        ("configmaps", next(config_maps(pod), None)),
        ("resourceclaims", next(claims(pod), None)),
        ("resourceclaimtemplates", any(entry.resourceClaimTemplateName for entry in pod.spec.resourceClaims)),
        ("podgroups", group_name(pod)),
        ("persistentvolumeclaims", any(v.persistentVolumeClaim or v.ephemeral for v in pod.spec.volumes)),
        ("serviceaccounts", any(_projects_token(volume) for volume in pod.spec.volumes)),
    )
    return next((kind for kind, found in named if found), "")


def token_audiences(pod: Pod) -> set[str]:
    """Return the audiences of the tokens in the pod's volumes; "" is the API server."""
    sources = [s for v in pod.spec.volumes if v.projected for s in v.projected.sources or ()]
    return {source.serviceAccountToken.audience for source in sources if source.serviceAccountToken}


def _names_storage_secret(volume: Volume) -> bool:
    """Return whether the volume references a Secret for its storage.

    No runtime of dray mounts these volumes, so nodes need not read the Secret.
    """
    kinds = (
        volume.cephfs,
        volume.cinder,
        volume.flexVolume,
        volume.iscsi,
        volume.rbd,
        volume.scaleIO,
        volume.storageos,
    )
    by_reference = any(kind is not None and kind.secretRef for kind in kinds)
    in_csi = volume.csi is not None and volume.csi.nodePublishSecretRef
    return bool(by_reference or in_csi or (volume.azureFile and volume.azureFile.secretName))


def _projects_token(volume: Volume) -> bool:
    """Return whether a volume projects a service account token."""
    sources = volume.projected.sources if volume.projected else None
    return any(source.serviceAccountToken for source in sources or ())


def _containers(pod: Pod) -> Iterator[Container | EphemeralContainer]:
    yield from pod.spec.containers
    yield from pod.spec.initContainers
    yield from pod.spec.ephemeralContainers
