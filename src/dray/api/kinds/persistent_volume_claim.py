"""PersistentVolumeClaim: asks for a volume."""

from __future__ import annotations

from dray.api.kind import STATUS, Resource
from dray.api.types import core

KIND = Resource(
    "",
    "persistentvolumeclaims",
    "PersistentVolumeClaim",
    core.PersistentVolumeClaim,
    short_names=("pvc",),
    subresources=STATUS,
)
