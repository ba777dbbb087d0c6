"""Rows of storage: volumes, claims for them, classes, drivers, attachments."""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.types import core, storage
from dray.apiserver.wire.tables.printer import AGE, NAME, Cell, Printer, TableColumn, counts, flags, plain, wide
from dray.apiserver.wire.tables.text import NONE, UNSET, age

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_DEFAULT = "storageclass.kubernetes.io/is-default-class"


def _modes(modes: Iterable[str]) -> str:
    given = set(modes)
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _volume(obj: core.PersistentVolume, now: float) -> list[Cell]:
    spec, claim = obj.spec, obj.spec.claimRef
    return [
        obj.metadata.name,
        spec.capacity.get("storage", ""),
        _modes(spec.accessModes),
        spec.persistentVolumeReclaimPolicy,
        "Terminating" if obj.metadata.deletionTimestamp else obj.status.phase,
        f"{claim.namespace}/{claim.name}" if claim else "",
        spec.storageClassName,
        spec.volumeAttributesClassName or UNSET,
        obj.status.reason,
        age(obj.metadata.creationTimestamp, now),
        spec.volumeMode or UNSET,
    ]


def _claim(obj: core.PersistentVolumeClaim, now: float) -> list[Cell]:
    spec, bound = obj.spec, bool(obj.spec.volumeName)
    return [
        obj.metadata.name,
        "Terminating" if obj.metadata.deletionTimestamp else obj.status.phase,
        spec.volumeName,
        obj.status.capacity.get("storage", "") if bound else "",
        _modes(obj.status.accessModes) if bound else "",
        spec.storageClassName or "",
        spec.volumeAttributesClassName or UNSET,
        age(obj.metadata.creationTimestamp, now),
        spec.volumeMode or UNSET,
    ]


def _class(obj: storage.StorageClass, now: float) -> list[Cell]:
    default = obj.metadata.annotations.get(_DEFAULT) == "true"
    return [
        obj.metadata.name + (" (default)" if default else ""),
        obj.provisioner,
        obj.reclaimPolicy or "Delete",
        obj.volumeBindingMode or UNSET,
        bool(obj.allowVolumeExpansion),
        age(obj.metadata.creationTimestamp, now),
    ]


def _driver(obj: storage.CSIDriver, now: float) -> list[Cell]:
    spec = obj.spec
    return [
        obj.metadata.name,
        True if spec.attachRequired is None else spec.attachRequired,
        bool(spec.podInfoOnMount),
        bool(spec.storageCapacity),
        ",".join(token.audience for token in spec.tokenRequests) or UNSET,
        bool(spec.requiresRepublish),
        ",".join(spec.volumeLifecycleModes) or NONE,
        age(obj.metadata.creationTimestamp, now),
    ]


def _node(obj: storage.CSINode, now: float) -> list[Cell]:
    return [obj.metadata.name, len(obj.spec.drivers or ()), age(obj.metadata.creationTimestamp, now)]


def _capacity(obj: storage.CSIStorageCapacity, now: float) -> list[Cell]:
    created = age(obj.metadata.creationTimestamp, now)
    return [obj.metadata.name, obj.storageClassName, obj.capacity or UNSET, created]


def _attachment(obj: storage.VolumeAttachment, now: float) -> list[Cell]:
    return [
        obj.metadata.name,
        obj.spec.attacher,
        obj.spec.source.persistentVolumeName or "",
        obj.spec.nodeName,
        obj.status.attached,
        age(obj.metadata.creationTimestamp, now),
    ]


def _attributes_class(obj: storage.VolumeAttributesClass, now: float) -> list[Cell]:
    return [obj.metadata.name, obj.driverName, age(obj.metadata.creationTimestamp, now)]


VOLUME = Printer(
    (
        NAME,
        *plain("Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim", "StorageClass"),
        *plain("VolumeAttributesClass", "Reason"),
        AGE,
        *wide("VolumeMode"),
    ),
    _volume,
)
CLAIM = Printer(
    (
        NAME,
        *plain("Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass"),
        AGE,
        *wide("VolumeMode"),
    ),
    _claim,
)
CLASS = Printer(
    (NAME, *plain("Provisioner", "ReclaimPolicy", "VolumeBindingMode"), *flags("AllowVolumeExpansion"), AGE), _class
)
DRIVER = Printer(
    (
        NAME,
        *flags("AttachRequired", "PodInfoOnMount", "StorageCapacity"),
        *plain("TokenRequests"),
        *flags("RequiresRepublish"),
        *plain("Modes"),
        AGE,
    ),
    _driver,
)
NODE = Printer((NAME, *counts("Drivers"), AGE), _node)
CAPACITY = Printer((NAME, *plain("StorageClassName", "Capacity"), AGE), _capacity)
ATTACHMENT = Printer(
    (NAME, TableColumn("Attacher", format="name"), *plain("PV", "Node"), *flags("Attached"), AGE), _attachment
)
ATTRIBUTES_CLASS = Printer((NAME, *plain("DriverName"), AGE), _attributes_class)
