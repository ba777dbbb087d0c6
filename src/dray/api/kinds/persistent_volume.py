"""PersistentVolume: storage that a PersistentVolumeClaim can be bound to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dray.api import names
from dray.api.cells import UNSET
from dray.api.columns import AGE, NAME, text, wide
from dray.api.errors import forbidden, required, unsupported
from dray.api.kind import STATUS, Resource
from dray.api.kinds.persistent_volume_claim import access_modes, phase, positive_amount, valid_amount
from dray.api.paths import Path
from dray.api.pod_warnings import fractional
from dray.api.rules import Errors, checked, one_of, required_name, unchanged
from dray.api.schema import CORE
from dray.api.trees import add_finalizer
from dray.api.types import core
from dray.api.wire import Tree

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_NOT_SOURCES = (
    "accessModes",
    "capacity",
    "claimRef",
    "mountOptions",
    "nodeAffinity",
    "persistentVolumeReclaimPolicy",
    "storageClassName",
    "volumeAttributesClassName",
    "volumeMode",
)
_SOURCES = tuple(name for name in core.PersistentVolumeSpec.__struct_fields__ if name not in _NOT_SOURCES)


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


def capacity(spec: core.PersistentVolumeSpec, path: Path) -> Errors:
    """Yield errors unless the capacity of a volume has only a positive amount of storage."""
    here = path / "capacity"
    if not spec.capacity:
        yield required(here)
    if set(spec.capacity) != {"storage"}:
        yield unsupported(here, dict(spec.capacity) or None, ("storage",))
    for name, amount in spec.capacity.items():
        yield from valid_amount(amount, here % name)
        yield from positive_amount(amount, here % name)


def same_volume(now: core.PersistentVolumeSpec, before: core.PersistentVolumeSpec, path: Path) -> Errors:
    """Yield errors if an update changes the source, mode or node affinity of a volume, or unsets its class.

    A missing node affinity may be added. The class is the volumeAttributesClassName.
    """
    for name in _SOURCES:
        if getattr(now, name) != getattr(before, name):
            text = "spec.persistentvolumesource is immutable after creation"
            yield forbidden(path / "persistentvolumesource", f"{text}: {name} has changed")
            break
    # The paths of the next two errors omit `spec`, as in Kubernetes.
    yield from unchanged(now.volumeMode, before.volumeMode, Path("volumeMode"), now.volumeMode)
    if before.nodeAffinity is not None:
        yield from unchanged(now.nodeAffinity, before.nodeAffinity, Path("nodeAffinity"), now.nodeAffinity)
    if before.volumeAttributesClassName is not None and now.volumeAttributesClassName is None:
        yield forbidden(path / "volumeAttributesClassName", "update from non-nil value to nil is forbidden")


def attributes_class(spec: core.PersistentVolumeSpec, path: Path) -> Errors:
    """Yield errors if the volumeAttributesClassName of a volume is invalid, or the volume is not a CSI volume."""
    given, here = spec.volumeAttributesClassName or "", path / "volumeAttributesClassName"
    yield from required_name(given, here, names.subdomain, "an empty string is disallowed")
    if spec.csi is None:
        yield required(path / "csi", "has to be specified when using volumeAttributesClassName")


def volume_source(spec: core.PersistentVolumeSpec, path: Path) -> Errors:
    """Yield errors unless a PersistentVolume has exactly one valid source.

    A local volume also needs a node affinity, and a hostPath of `/` may not be recycled.
    """
    chosen = [name for name in _SOURCES if getattr(spec, name) is not None]
    if not chosen:
        yield required(path, "must specify a volume type")
    for name in chosen[1:]:
        yield forbidden(path / name, "may not specify more than 1 volume type")
    if spec.hostPath is not None:
        yield from checked(f"{CORE}HostPathVolumeSource", spec.hostPath, path / "hostPath")
        if spec.hostPath.path == "/" and spec.persistentVolumeReclaimPolicy == "Recycle":
            text = "may not be 'recycle' for a hostPath mount of '/'"
            yield forbidden(path / "persistentVolumeReclaimPolicy", text)
    if spec.local is not None:
        if not spec.local.path:
            yield required(path / "local" / "path")
        if spec.nodeAffinity is None:
            yield required(path / "nodeAffinity", "Local volume requires node affinity")
    if spec.csi is not None:
        yield from checked(f"{CORE}CSIPersistentVolumeSource", spec.csi, path / "csi")


def allowed_modes(modes: Sequence[str], path: Path) -> Errors:
    """Yield errors if access modes are unknown, or ReadWriteOncePod is combined with others."""
    for mode in modes:
        yield from one_of(mode, ACCESS_MODES, path)
    if "ReadWriteOncePod" in modes and len({*modes} & {*ACCESS_MODES}) > 1:
        yield forbidden(path, "may not use ReadWriteOncePod with other access modes")
