"""PersistentVolume: storage that a claim can be bound to."""

from __future__ import annotations

from dray.api.cells import UNSET
from dray.api.columns import AGE, NAME, text, wide
from dray.api.kind import STATUS, Resource
from dray.api.kinds.persistent_volume_claim import access_modes, phase
from dray.api.types import core


def _claim(volume: core.PersistentVolume) -> str:
    claim = volume.spec.claimRef
    return f"{claim.namespace}/{claim.name}" if claim else ""


KIND = Resource(
    "",
    "persistentvolumes",
    "PersistentVolume",
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
)
