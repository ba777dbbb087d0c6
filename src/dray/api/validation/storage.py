"""Validation of PersistentVolumes and PersistentVolumeClaims."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from dray.api import names
from dray.api.constraints import checked
from dray.api.errors import forbidden, invalid, required, unsupported
from dray.api.paths import SPEC, Path
from dray.api.quantity import Quantity
from dray.api.schema import CORE
from dray.api.types import core
from dray.api.validation.lists import Errors, named, one_of, required_name, unchanged

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


# PersistentVolume


def capacity(spec: core.PersistentVolumeSpec, path: Path) -> Errors:
    """Yield errors unless the capacity of a volume has only a positive amount of storage."""
    here = path / "capacity"
    if not spec.capacity:
        yield required(here)
    if set(spec.capacity) != {"storage"}:
        yield unsupported(here, dict(spec.capacity) or None, ("storage",))
    for name, amount in spec.capacity.items():
        yield from _quantity(amount, here % name)
        yield from _positive(amount, here % name)


def same_volume(now: core.PersistentVolumeSpec, before: core.PersistentVolumeSpec, path: Path) -> Errors:
    """Yield errors if an update changes the source, mode or node affinity of a volume, or unsets its class."""
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
    yield from access_modes(spec.accessModes, path / "accessModes")
    if spec.persistentVolumeReclaimPolicy not in ("", "Retain"):
        yield forbidden(path / "persistentVolumeReclaimPolicy", "may only be Retain in the context of inline volumes")
    yield from volume_source(spec, path)
    if spec.volumeMode not in (None, "Filesystem"):
        text = "may not specify volumeMode other than Filesystem in the context of inline volumes"
        yield forbidden(path / "volumeMode", text)


def attributes_class(spec: core.PersistentVolumeSpec, path: Path) -> Errors:
    """Yield errors if the volumeAttributesClassName of a volume is invalid, or the volume is not a CSI volume."""
    given, here = spec.volumeAttributesClassName or "", path / "volumeAttributesClassName"
    yield from required_name(given, here, names.subdomain, "an empty string is disallowed")
    if spec.csi is None:
        yield required(path / "csi", "has to be specified when using volumeAttributesClassName")


def volume_source(spec: core.PersistentVolumeSpec, path: Path) -> Errors:
    """Yield errors unless a PersistentVolume has exactly one valid source."""
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


def access_modes(modes: Sequence[str], path: Path) -> Errors:
    """Yield errors if access modes are unknown, or ReadWriteOncePod is combined with others."""
    for mode in modes:
        yield from one_of(mode, ACCESS_MODES, path)
    if "ReadWriteOncePod" in modes and len({*modes} & {*ACCESS_MODES}) > 1:
        yield forbidden(path, "may not use ReadWriteOncePod with other access modes")


def _positive(amount: str, path: Path) -> Errors:
    if Quantity.parse(amount).sign <= 0:
        yield invalid(path, amount, "must be greater than zero")


# PersistentVolumeClaim


def claimed(resources: core.VolumeResourceRequirements, path: Path) -> Errors:
    """Yield an error unless a volume claim requests a positive amount of storage."""
    amount = resources.requests.get("storage")
    if amount is None:
        yield required(path % "storage")
    else:
        yield from _positive(amount, path % "storage")


def data_sources(spec: core.PersistentVolumeClaimSpec, path: Path) -> Errors:
    """Yield errors if dataSource and dataSourceRef of a volume claim contradict each other."""
    source, reference = spec.dataSource, spec.dataSourceRef
    assert reference is not None  # only called if the field is set
    if reference.namespace:
        yield from named(reference.namespace, path / "dataSourceRef" / "namespace", names.label)
        if source is not None:
            text = "may not be specified when dataSourceRef.namespace is specified"
            yield invalid(path, str(path / "dataSource"), text)
    elif source is not None:
        same = (source.apiGroup, source.kind, source.name) == (reference.apiGroup, reference.kind, reference.name)
        if not same:
            yield invalid(path, str(path / "dataSource"), "must match dataSourceRef")


def same_claim(claim: core.PersistentVolumeClaim, old: core.PersistentVolumeClaim, _: Path | None) -> Errors:
    """Yield errors if an update changes more than permitted.

    A bound claim may only grow; an unbound claim may get a volume and a class.
    """
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


def quantities(amounts: Mapping[str, str], path: Path) -> Errors:
    """Yield an error for each negative amount."""
    for name, amount in amounts.items():
        yield from _quantity(amount, path % name)


def _quantity(amount: str, path: Path) -> Errors:
    if (quantity := Quantity.parse(amount)).sign < 0:
        yield invalid(path, quantity.scaled(0), "must be a valid resource quantity")


def _shrunk(claim: core.PersistentVolumeClaim, old: core.PersistentVolumeClaim) -> Errors:
    """Yield an error if the request shrinks to the current capacity or below. It may shrink to a value above it."""
    asked, before, there = (
        Quantity.parse(amounts.get("storage", "0"))
        for amounts in (claim.spec.resources.requests, old.spec.resources.requests, old.status.capacity)
    )
    if asked < before and asked <= there:
        yield forbidden(SPEC / "resources" / "requests" / "storage", "field can not be less than status.capacity")


def data_source(source: core.TypedLocalObjectReference | core.TypedObjectReference, path: Path) -> Errors:
    """Yield errors in the object from which a volume claim is populated."""
    for name in ("name", "kind"):
        if not getattr(source, name):
            yield required(path / name)
    if not source.apiGroup and source.kind != "PersistentVolumeClaim":
        yield invalid(path, source.kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
    if source.apiGroup:
        yield from named(source.apiGroup, path / "apiGroup", names.subdomain)
