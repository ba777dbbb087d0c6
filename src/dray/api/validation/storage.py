"""Volumes, claims for them, and the classes, drivers and attachments that provide them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from msgspec.structs import replace

from dray.api import names
from dray.api.errors import duplicate, forbidden, invalid, required, unsupported
from dray.api.quantity import Quantity
from dray.api.types import core, storage
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors, named, required_name, unchanged
from dray.api.validation.metadata import metadata, metadata_update
from dray.api.validation.nodes import node_selector
from dray.api.validation.paths import METADATA, SPEC, Path
from dray.api.validation.placement import label_selector
from dray.api.validation.volumes import host_path

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_VOLUME_MODES = ("Block", "Filesystem")
_RECLAIM = ("Delete", "Recycle", "Retain")
_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLE_MODES = ("Ephemeral", "Persistent")
_PARAMETERS_MAX = 512
_PARAMETERS_BYTES_MAX = 256 * 1024
_NODE_ID_MAX = 192
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
    yield from metadata(volume.metadata, namespaced=False)
    yield from volume_spec(volume.spec, SPEC)


def update_volume(volume: core.PersistentVolume, old: core.PersistentVolume, context: Context) -> Errors:
    yield from metadata_update(volume.metadata, old.metadata)
    yield from volume_spec(volume.spec, SPEC)
    for name in _SOURCES:
        if getattr(volume.spec, name) != getattr(old.spec, name):
            text = "spec.persistentvolumesource is immutable after creation"
            yield forbidden(SPEC / "persistentvolumesource", f"{text}: {name} has changed")
            break
    yield from unchanged(volume.spec.volumeMode, old.spec.volumeMode, SPEC / "volumeMode", volume.spec.volumeMode)
    if old.spec.nodeAffinity is not None and volume.spec.nodeAffinity != old.spec.nodeAffinity:
        yield invalid(SPEC / "nodeAffinity", volume.spec.nodeAffinity, "field is immutable")


def volume_spec(spec: core.PersistentVolumeSpec, path: Path) -> Errors:
    if not spec.accessModes:
        yield required(path / "accessModes")
    yield from _access_modes(spec.accessModes, path / "accessModes")
    if not spec.capacity:
        yield required(path / "capacity")
    elif set(spec.capacity) != {"storage"}:
        yield unsupported(path / "capacity", dict(spec.capacity), ("storage",))
    for name, amount in spec.capacity.items():
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
        yield from driver_name(spec.csi.driver, path / "csi" / "driver")
        if not spec.csi.volumeHandle:
            yield required(path / "csi" / "volumeHandle")


def _access_modes(modes: Sequence[str], path: Path) -> Errors:
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield unsupported(path, mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and len(set(modes)) > 1:
        yield forbidden(path, "may not use ReadWriteOncePod with other access modes")


def _class_and_mode(class_name: str | None, mode: str | None, path: Path) -> Errors:
    if class_name:
        yield from named(class_name, path / "storageClassName", names.subdomain)
    if mode is not None and mode not in _VOLUME_MODES:
        yield unsupported(path / "volumeMode", mode, _VOLUME_MODES)


def _positive(amount: str, path: Path) -> Errors:
    if Quantity.parse(amount).sign <= 0:
        yield invalid(path, amount, "must be greater than zero")


# PersistentVolumeClaim


def create_claim(claim: core.PersistentVolumeClaim, context: Context) -> Errors:
    yield from metadata(claim.metadata, namespaced=True)
    yield from _claim_spec(claim.spec, SPEC)


def update_claim(claim: core.PersistentVolumeClaim, old: core.PersistentVolumeClaim, context: Context) -> Errors:
    """A bound claim may only grow; one that is not may be given its volume, and get a class."""
    yield from metadata_update(claim.metadata, old.metadata)
    yield from _claim_spec(claim.spec, SPEC)
    before, now = old.spec, claim.spec
    given: Any = {"volumeName": now.volumeName} if not before.volumeName else {}
    if before.storageClassName is None:
        given["storageClassName"] = now.storageClassName
    if old.status.phase == "Bound":
        yield from _grown(now, before)
    resources, attributes = now.resources, now.volumeAttributesClassName
    changed: Any = {"volumeAttributesClassName": attributes}
    if old.status.phase == "Bound":
        changed["resources"] = replace(before.resources, requests=resources.requests)
    if replace(before, **given, **changed) != now and replace(before, **changed) != now:
        text = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield forbidden(SPEC, text)


def _grown(now: core.PersistentVolumeClaimSpec, before: core.PersistentVolumeClaimSpec) -> Errors:
    new, old = now.resources.requests.get("storage"), before.resources.requests.get("storage")
    if new and old and Quantity.parse(new) < Quantity.parse(old):
        yield forbidden(SPEC / "resources" / "requests" / "storage", "field can not be less than previous value")


def _claim_spec(spec: core.PersistentVolumeClaimSpec, path: Path) -> Errors:
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
    for field in ("dataSource", "dataSourceRef"):
        source = getattr(spec, field)
        if source is not None:
            for name in ("name", "kind"):
                if not getattr(source, name):
                    yield required(path / field / name)


# Classes and drivers


def create_class(class_: storage.StorageClass, context: Context) -> Errors:
    yield from metadata(class_.metadata, namespaced=False)
    yield from _class(class_)


def update_class(class_: storage.StorageClass, old: storage.StorageClass, context: Context) -> Errors:
    yield from metadata_update(class_.metadata, old.metadata)
    for field in ("parameters", "provisioner", "reclaimPolicy"):
        if getattr(class_, field) != getattr(old, field):
            yield forbidden(field, f"updates to {field} are forbidden.")
    yield from unchanged(class_.volumeBindingMode, old.volumeBindingMode, Path("volumeBindingMode"))


def _class(class_: storage.StorageClass) -> Errors:
    if not class_.provisioner:
        yield required("provisioner", class_.provisioner)
    else:
        yield from named(class_.provisioner.lower(), Path("provisioner"), names.qualified_name)
    yield from _parameters(class_.parameters)
    if class_.reclaimPolicy not in ("Delete", "Retain"):
        yield unsupported("reclaimPolicy", class_.reclaimPolicy, ("Delete", "Retain"))
    if class_.volumeBindingMode not in _BINDING_MODES:
        yield unsupported("volumeBindingMode", class_.volumeBindingMode, _BINDING_MODES)


def _parameters(parameters: Mapping[str, str]) -> Errors:
    path = Path("parameters")
    if len(parameters) > _PARAMETERS_MAX:
        yield invalid(path, len(parameters), f"must have at most {_PARAMETERS_MAX} entries")
    if "" in parameters:
        yield invalid(path, "", "field can not be empty.")
    if sum(len(key) + len(value) for key, value in parameters.items()) > _PARAMETERS_BYTES_MAX:
        yield invalid(path, len(parameters), f"must have at most {_PARAMETERS_BYTES_MAX} bytes")


def create_attributes_class(class_: storage.VolumeAttributesClass, context: Context) -> Errors:
    yield from metadata(class_.metadata, namespaced=False)
    yield from driver_name(class_.driverName, Path("driverName"))
    if not class_.parameters:
        yield required("parameters", "must contain at least one key/value pair")
    yield from _parameters(class_.parameters)


def update_attributes_class(
    class_: storage.VolumeAttributesClass, old: storage.VolumeAttributesClass, context: Context
) -> Errors:
    yield from metadata_update(class_.metadata, old.metadata)
    for field in ("driverName", "parameters"):
        if getattr(class_, field) != getattr(old, field):
            yield forbidden(field, f"updates to {field} are forbidden.")


def driver_name(name: str, path: Path) -> Errors:
    if not name:
        yield required(path)
        return
    if len(name) > names.LABEL_MAX:
        yield invalid(path, name, f"must be no more than {names.LABEL_MAX} characters")
    yield from named(name.lower(), path, names.subdomain)


def create_driver(driver: storage.CSIDriver, context: Context) -> Errors:
    yield from metadata(driver.metadata, namespaced=False)
    yield from driver_name(driver.metadata.name, METADATA / "name") if driver.metadata.name else ()
    yield from _driver_spec(driver.spec)


def update_driver(driver: storage.CSIDriver, old: storage.CSIDriver, context: Context) -> Errors:
    yield from metadata_update(driver.metadata, old.metadata)
    yield from _driver_spec(driver.spec)
    now = driver.spec.attachRequired
    yield from unchanged(now, old.spec.attachRequired, SPEC / "attachRequired", now)


def _driver_spec(spec: storage.CSIDriverSpec) -> Errors:
    for field in ("attachRequired", "podInfoOnMount", "storageCapacity"):
        if getattr(spec, field) is None:
            yield required(SPEC / field)
    if spec.fsGroupPolicy not in _GROUP_POLICIES:
        yield unsupported(SPEC / "fsGroupPolicy", spec.fsGroupPolicy, _GROUP_POLICIES)
    for index, mode in enumerate(spec.volumeLifecycleModes):
        if mode not in _LIFECYCLE_MODES:
            yield unsupported(SPEC / "volumeLifecycleModes" / index, mode, _LIFECYCLE_MODES)
    seen: set[str] = set()
    for index, token in enumerate(spec.tokenRequests):
        if token.audience in seen:
            yield duplicate(SPEC / "tokenRequests" / index / "audience", token.audience)
        seen.add(token.audience)


# What is known about nodes and volumes


def create_node(node: storage.CSINode, context: Context) -> Errors:
    yield from metadata(node.metadata, namespaced=False)
    yield from _node_drivers(node.spec)


def update_node(node: storage.CSINode, old: storage.CSINode, context: Context) -> Errors:
    yield from metadata_update(node.metadata, old.metadata)
    yield from _node_drivers(node.spec)
    known = {driver.name: driver for driver in old.spec.drivers}
    for index, driver in enumerate(node.spec.drivers):
        before = known.get(driver.name)
        if before is not None and (driver.nodeID, driver.topologyKeys) != (before.nodeID, before.topologyKeys):
            yield invalid(Path("CSINode") / "spec" / "drivers" / index, driver, "field is immutable")


def _node_drivers(spec: storage.CSINodeSpec) -> Errors:
    path = SPEC / "drivers"
    seen: set[str] = set()
    for index, driver in enumerate(spec.drivers):
        here = path / index
        yield from driver_name(driver.name, here / "name")
        if not driver.nodeID:
            yield required(here / "nodeID")
        elif len(driver.nodeID) > _NODE_ID_MAX:
            yield invalid(here / "nodeID", driver.nodeID, f"must be {_NODE_ID_MAX} characters or less")
        if driver.allocatable is not None and (driver.allocatable.count or 0) < 0:
            yield invalid(here / "allocatable" / "count", driver.allocatable.count, "must be non-negative")
        for key in driver.topologyKeys or ():
            yield from named(key, here, names.qualified_name)
        if driver.name in seen:
            yield duplicate(here / "name", driver.name)
        seen.add(driver.name)


def create_capacity(capacity: storage.CSIStorageCapacity, context: Context) -> Errors:
    yield from metadata(capacity.metadata, namespaced=True)
    yield from _capacity(capacity)


def update_capacity(capacity: storage.CSIStorageCapacity, old: storage.CSIStorageCapacity, context: Context) -> Errors:
    yield from metadata_update(capacity.metadata, old.metadata)
    yield from _capacity(capacity)
    for field in ("nodeTopology", "storageClassName"):
        yield from unchanged(getattr(capacity, field), getattr(old, field), Path(field), getattr(capacity, field))


def _capacity(capacity: storage.CSIStorageCapacity) -> Errors:
    yield from required_name(capacity.storageClassName, Path("storageClassName"), names.subdomain)
    for field in ("capacity", "maximumVolumeSize"):
        amount = getattr(capacity, field)
        if amount is not None and Quantity.parse(amount).sign < 0:
            yield invalid(field, amount, "must be greater than or equal to 0")
    yield from label_selector(capacity.nodeTopology, Path("nodeTopology"))


def create_attachment(attachment: storage.VolumeAttachment, context: Context) -> Errors:
    yield from metadata(attachment.metadata, namespaced=False)
    yield from _attachment_spec(attachment.spec)


def update_attachment(attachment: storage.VolumeAttachment, old: storage.VolumeAttachment, context: Context) -> Errors:
    yield from metadata_update(attachment.metadata, old.metadata)
    yield from _attachment_spec(attachment.spec)
    yield from unchanged(attachment.spec, old.spec, SPEC, attachment.spec)


def _attachment_spec(spec: storage.VolumeAttachmentSpec) -> Errors:
    yield from driver_name(spec.attacher, SPEC / "attacher")
    inline, volume, path = spec.source.inlineVolumeSpec, spec.source.persistentVolumeName, SPEC / "source"
    if inline is None and volume is None:
        yield required(path, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    elif inline is not None and volume is not None:
        yield forbidden(path, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    elif volume is not None and not volume:
        yield required(path / "persistentVolumeName", "must specify non empty persistentVolumeName")
    elif inline is not None:
        yield from volume_spec(inline, path / "inlineVolumeSpec")
    yield from required_name(spec.nodeName, SPEC / "nodeName", names.subdomain)
