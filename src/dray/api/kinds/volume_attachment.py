"""VolumeAttachment: requests that a volume is attached to a node. Stored only; dray does not act on it."""

from __future__ import annotations

from dray.api.columns import AGE, NAME, flag, text
from dray.api.errors import forbidden, required
from dray.api.kind import STATUS, Resource
from dray.api.kinds.persistent_volume import allowed_modes, volume_source
from dray.api.paths import Path
from dray.api.rules import Errors
from dray.api.types import core, storage

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


def attachment_source(source: storage.VolumeAttachmentSource, path: Path) -> Errors:
    """Yield errors unless exactly one of a volume name and a valid inline volume is set."""
    inline, volume = source.inlineVolumeSpec, source.persistentVolumeName
    if inline is None and volume is None:
        yield required(path, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    elif inline is not None and volume is not None:
        yield forbidden(path, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    elif volume is not None and not volume:
        yield required(path / "persistentVolumeName", "must specify non empty persistentVolumeName")
    elif inline is not None:
        yield from inline_spec(inline, path / "inlineVolumeSpec")


def inline_spec(spec: core.PersistentVolumeSpec, path: Path) -> Errors:
    """Yield errors in the inline volume of a VolumeAttachment, which cannot have a claim, size or class."""
    unwanted = "may not be specified in the context of inline volumes"
    for field in ("claimRef", "capacity", "nodeAffinity", "storageClassName"):
        if getattr(spec, field):
            yield forbidden(path / field, unwanted)
    if spec.csi is None:
        yield required(path / "csi", "has to be specified in the context of inline volumes")
    if not spec.accessModes:
        yield required(path / "accessModes")
    yield from allowed_modes(spec.accessModes, path / "accessModes")
    if spec.persistentVolumeReclaimPolicy not in ("", "Retain"):
        yield forbidden(path / "persistentVolumeReclaimPolicy", "may only be Retain in the context of inline volumes")
    yield from volume_source(spec, path)
    if spec.volumeMode not in (None, "Filesystem"):
        text = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        yield forbidden(path / "volumeMode", text)
