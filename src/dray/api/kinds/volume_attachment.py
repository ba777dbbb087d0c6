"""VolumeAttachment: requests that a volume is attached to a node. Stored only; dray does not act on it."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, flag, text
from dray.api.kind import STATUS, Resource
from dray.api.types import storage

KIND = Resource(
    storage.VolumeAttachment,
    namespaced=False,
    subresources=STATUS,
    inert=True,
    columns=(
        NAME,
        text("Attacher", "spec.attacher", format="name"),
        text("PV", "spec.source.persistentVolumeName"),
        text("Node", "spec.nodeName"),
        flag("Attached", "status.attached"),
        AGE,
    ),
    conditional=("v1",),
    is_returned_when_deleted=True,
)
