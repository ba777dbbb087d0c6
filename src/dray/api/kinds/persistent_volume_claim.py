"""PersistentVolumeClaim: asks for a volume."""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.cells import UNSET
from dray.api.columns import AGE, NAME, text, wide
from dray.api.kind import STATUS, Resource
from dray.api.types import core

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}


def access_modes(modes: Iterable[str]) -> str:
    """Returns the short names of access modes."""
    given = set(modes)
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def phase(obj: core.PersistentVolume | core.PersistentVolumeClaim) -> str:
    """Returns the phase of a volume or claim, or that it is being deleted."""
    return "Terminating" if obj.metadata.deletionTimestamp else obj.status.phase


KIND = Resource(
    "",
    "persistentvolumeclaims",
    "PersistentVolumeClaim",
    core.PersistentVolumeClaim,
    short_names=("pvc",),
    subresources=STATUS,
    columns=(
        NAME,
        text("Status", phase),
        text("Volume", "spec.volumeName"),
        text("Capacity", lambda claim: claim.spec.volumeName and claim.status.capacity.get("storage")),
        text("Access Modes", lambda claim: claim.spec.volumeName and access_modes(claim.status.accessModes)),
        text("StorageClass", "spec.storageClassName"),
        text("VolumeAttributesClass", "spec.volumeAttributesClassName", UNSET),
        AGE,
        wide("VolumeMode", "spec.volumeMode", UNSET),
    ),
)
