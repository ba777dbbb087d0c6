"""Volumes, and claims for them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from dray.api import names
from dray.api.constraints import checked
from dray.api.errors import forbidden, invalid, required, unsupported
from dray.api.paths import SPEC, STATUS, Path
from dray.api.quantity import Quantity
from dray.api.schema import CORE
from dray.api.types import core
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors, named, one_of, required_name, unchanged
from dray.api.validation.nodes import node_selector
from dray.api.validation.placement import label_selector
from dray.api.validation.volumes import host_path

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_RECLAIM = ("Delete", "Recycle", "Retain")
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


# PersistentVolume


def create_volume(volume: core.PersistentVolume, context: Context) -> Errors:
    spec, path = volume.spec, SPEC
    if not spec.accessModes:
        yield required(path / "accessModes")
    yield from _access_modes(spec.accessModes, path / "accessModes")
    if not spec.capacity:
        yield required(path / "capacity")
    if set(spec.capacity) != {"storage"}:
        yield unsupported(path / "capacity", dict(spec.capacity) or None, ("storage",))
    for name, amount in spec.capacity.items():
        yield from _quantity(amount, path / "capacity" % name)
        yield from _positive(amount, path / "capacity" % name)
    if spec.persistentVolumeReclaimPolicy not in ("", *_RECLAIM):
        yield unsupported(path / "persistentVolumeReclaimPolicy", spec.persistentVolumeReclaimPolicy, _RECLAIM)
    if spec.nodeAffinity is not None:
        if spec.nodeAffinity.required is None:
            yield required(path / "nodeAffinity" / "required", "must specify required node constraints")
        else:
            yield from node_selector(spec.nodeAffinity.required, path / "nodeAffinity" / "required")
    yield from _volume_source(spec, path)
    yield from _class_and_mode(spec.storageClassName, spec.volumeMode, path)
    if spec.volumeAttributesClassName is not None:
        yield from _attributes_class(spec, path)


def update_volume(volume: core.PersistentVolume, old: core.PersistentVolume, context: Context) -> Errors:
    yield from create_volume(volume, context)
    for name in _SOURCES:
        if getattr(volume.spec, name) != getattr(old.spec, name):
            text = "spec.persistentvolumesource is immutable after creation"
            yield forbidden(SPEC / "persistentvolumesource", f"{text}: {name} has changed")
            break
    mode, affinity = volume.spec.volumeMode, volume.spec.nodeAffinity
    yield from unchanged(mode, old.spec.volumeMode, Path("volumeMode"), mode)  # without `spec`, as Kubernetes has it
    if old.spec.nodeAffinity is not None:
        yield from unchanged(affinity, old.spec.nodeAffinity, Path("nodeAffinity"), affinity)
    if old.spec.volumeAttributesClassName is not None and volume.spec.volumeAttributesClassName is None:
        yield forbidden(SPEC / "volumeAttributesClassName", "update from non-nil value to nil is forbidden")


def inline_spec(spec: core.PersistentVolumeSpec, path: Path) -> Errors:
    """A volume that is described where it is attached: it has no claim, no size and no class."""
    unwanted = "may not be specified in the context of inline volumes"
    for field in ("claimRef", "capacity", "nodeAffinity", "storageClassName"):
        if getattr(spec, field):
            yield forbidden(path / field, unwanted)
    if spec.csi is None:
        yield required(path / "csi", "has to be specified in the context of inline volumes")
    if not spec.accessModes:
        yield required(path / "accessModes")
    yield from _access_modes(spec.accessModes, path / "accessModes")
    if spec.persistentVolumeReclaimPolicy not in ("", "Retain"):
        yield forbidden(path / "persistentVolumeReclaimPolicy", "may only be Retain in the context of inline volumes")
    yield from _volume_source(spec, path)
    if spec.volumeMode not in (None, "Filesystem"):
        text = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        yield forbidden(path / "volumeMode", text)


def _attributes_class(spec: core.PersistentVolumeSpec, path: Path) -> Errors:
    given, here = spec.volumeAttributesClassName or "", path / "volumeAttributesClassName"
    yield from required_name(given, here, names.subdomain, "an empty string is disallowed")
    if spec.csi is None:
        yield required(path / "csi", "has to be specified when using volumeAttributesClassName")


def _volume_source(spec: core.PersistentVolumeSpec, path: Path) -> Errors:
    chosen = [name for name in _SOURCES if getattr(spec, name) is not None]
    if not chosen:
        yield required(path, "must specify a volume type")
    for name in chosen[1:]:
        yield forbidden(path / name, "may not specify more than 1 volume type")
    if spec.hostPath is not None:
        yield from host_path(spec.hostPath, path / "hostPath")
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


def _access_modes(modes: Sequence[str], path: Path) -> Errors:
    for mode in modes:
        yield from one_of(mode, ACCESS_MODES, path)
    if "ReadWriteOncePod" in modes and len({*modes} & {*ACCESS_MODES}) > 1:
        yield forbidden(path, "may not use ReadWriteOncePod with other access modes")


def _class_and_mode(class_name: str | None, mode: str | None, path: Path) -> Errors:
    if class_name:
        yield from named(class_name, path / "storageClassName", names.subdomain)
    yield from one_of(mode, _VOLUME_MODES, path / "volumeMode")


def _positive(amount: str, path: Path) -> Errors:
    if Quantity.parse(amount).sign <= 0:
        yield invalid(path, amount, "must be greater than zero")


# PersistentVolumeClaim


def create_claim(claim: core.PersistentVolumeClaim, context: Context) -> Errors:
    spec, path = claim.spec, SPEC
    if not spec.accessModes:
        yield required(path / "accessModes", "at least 1 access mode is required")
    yield from label_selector(spec.selector, path / "selector")
    yield from _access_modes(spec.accessModes, path / "accessModes")
    amount = spec.resources.requests.get("storage")
    if amount is None:
        yield required(path / "resources" % "storage")
    else:
        yield from _positive(amount, path / "resources" % "storage")
    yield from _class_and_mode(spec.storageClassName, spec.volumeMode, path)
    source, reference = spec.dataSource, spec.dataSourceRef
    for given, here in ((source, path / "dataSource"), (reference, path / "dataSourceRef")):
        if given is not None:
            yield from _data_source(given, here)
    if reference is not None and reference.namespace:
        yield from named(reference.namespace, path / "dataSourceRef" / "namespace", names.label)
        if source is not None:
            text = "may not be specified when dataSourceRef.namespace is specified"
            yield invalid(path, str(path / "dataSource"), text)
    elif source is not None and reference is not None:
        same = (source.apiGroup, source.kind, source.name) == (reference.apiGroup, reference.kind, reference.name)
        if not same:
            yield invalid(path, str(path / "dataSource"), "must match dataSourceRef")
    if spec.volumeAttributesClassName:
        yield from named(spec.volumeAttributesClassName, path / "volumeAttributesClassName", names.subdomain)


def update_claim(claim: core.PersistentVolumeClaim, old: core.PersistentVolumeClaim, context: Context) -> Errors:
    """A bound claim may only grow; one that is not may be given its volume, and get a class."""
    yield from create_claim(claim, context)
    before, now = old.spec, claim.spec
    given: Any = {"volumeName": now.volumeName} if not before.volumeName else {}
    if before.storageClassName is None:
        given["storageClassName"] = now.storageClassName
    resources, attributes = now.resources, now.volumeAttributesClassName
    changed: Any = {"volumeAttributesClassName": attributes}
    if old.status.phase == "Bound":
        changed["resources"] = replace(before.resources, requests=resources.requests)
    if replace(before, **given, **changed) != now and replace(before, **changed) != now:
        text = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield forbidden(SPEC, text)
    yield from _shrunk(claim, old)
    yield from unchanged(now.volumeMode, before.volumeMode, Path("volumeMode"), now.volumeMode)
    if before.volumeAttributesClassName is not None and not attributes:
        instead = "nil" if attributes is None else "an empty string"
        yield forbidden(SPEC / "volumeAttributesClassName", f"update from non-nil value to {instead} is forbidden")


def update_claim_status(claim: core.PersistentVolumeClaim, old: core.PersistentVolumeClaim, context: Context) -> Errors:
    for name, amount in claim.status.capacity.items():
        yield from _quantity(amount, STATUS / "capacity" % name)


def _quantity(amount: str, path: Path) -> Errors:
    if (quantity := Quantity.parse(amount)).sign < 0:
        yield invalid(path, quantity.scaled(0), "must be a valid resource quantity")


def _shrunk(claim: core.PersistentVolumeClaim, old: core.PersistentVolumeClaim) -> Errors:
    """What was asked for may be taken back as long as there is not yet as much."""
    asked, before, there = (
        Quantity.parse(amounts.get("storage", "0"))
        for amounts in (claim.spec.resources.requests, old.spec.resources.requests, old.status.capacity)
    )
    if asked < before and asked <= there:
        yield forbidden(SPEC / "resources" / "requests" / "storage", "field can not be less than status.capacity")


def _data_source(source: core.TypedLocalObjectReference | core.TypedObjectReference, path: Path) -> Errors:
    for name in ("name", "kind"):
        if not getattr(source, name):
            yield required(path / name)
    if not source.apiGroup and source.kind != "PersistentVolumeClaim":
        yield invalid(path, source.kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
    if source.apiGroup:
        yield from named(source.apiGroup, path / "apiGroup", names.subdomain)
