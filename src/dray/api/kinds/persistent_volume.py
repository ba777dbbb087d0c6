"""PersistentVolume: storage that a PersistentVolumeClaim can be bound to."""

from __future__ import annotations

from collections.abc import Iterator

from dray.api.cells import UNSET
from dray.api.columns import AGE, NAME, text, wide
from dray.api.kind import STATUS, Resource
from dray.api.kinds.persistent_volume_claim import access_modes, phase
from dray.api.pod_warnings import fractional
from dray.api.trees import add_finalizer
from dray.api.types import core
from dray.api.wire import Tree

_RECYCLE = "The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning."


def _claim(volume: core.PersistentVolume) -> str:
    claim = volume.spec.claimRef
    return f"{claim.namespace}/{claim.name}" if claim else ""


def _protect(tree: Tree) -> None:
    """Add the finalizer that prevents deletion while a claim uses the volume, and set the initial status."""
    add_finalizer(tree, "kubernetes.io/pv-protection")
    tree["status"] = {"phase": "Pending", "lastPhaseTransitionTime": tree["metadata"].get("creationTimestamp")}


def _warnings(volume: core.PersistentVolume, old: core.PersistentVolume | None) -> Iterator[str]:
    if volume.spec.persistentVolumeReclaimPolicy == "Recycle":
        yield f"spec.persistentVolumeReclaimPolicy: {_RECYCLE}"
    yield from fractional(volume.spec.capacity, ("storage",), "spec.capacity")


KIND = Resource(
    core.PersistentVolume,
    namespaced=False,
    short_names=("pv",),
    subresources=STATUS,
    columns=(
        NAME,
        text("Capacity", lambda volume: volume.spec.capacity.get("storage")),
        text("Access Modes", lambda volume: access_modes(volume.spec.accessModes)),
        text("Reclaim Policy", "spec.persistentVolumeReclaimPolicy"),
        text("Status", phase),
        text("Claim", _claim),
        text("StorageClass", "spec.storageClassName"),
        text("VolumeAttributesClass", "spec.volumeAttributesClassName", UNSET),
        text("Reason", "status.reason"),
        AGE,
        wide("VolumeMode", "spec.volumeMode", UNSET),
    ),
    status_writes_metadata=True,
    defaults={
        "spec.persistentVolumeReclaimPolicy": "Retain",
        "spec.volumeMode": "Filesystem",
        "spec.hostPath.type": "",
        "spec.iscsi.iscsiInterface": "default",
        "spec.rbd.pool": "rbd",
        "spec.rbd.user": "admin",
        "spec.rbd.keyring": "/etc/ceph/keyring",
        "status.phase": "Pending",
    },
    on_create=_protect,
    warnings=_warnings,
    is_returned_when_deleted=True,
)
