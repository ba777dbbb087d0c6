"""What provides volumes: classes, drivers, attachments, and what is known about nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dray.api import names
from dray.api.errors import duplicate, forbidden, invalid, required, too_long, unsupported
from dray.api.paths import SPEC, Path
from dray.api.quantity import Quantity
from dray.api.types import core, storage
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors, named, one_of, required_name, unchanged, unique
from dray.api.validation.metadata import metadata, metadata_update
from dray.api.validation.placement import label_selector
from dray.api.validation.storage import driver_name, inline_spec

_BINDING_MODES = ("Immediate", "WaitForFirstConsumer")
_GROUP_POLICIES = ("File", "None", "ReadWriteOnceWithFSType")
_LIFECYCLE_MODES = ("Persistent", "Ephemeral")
_PARAMETERS_MAX = 512
_PARAMETERS_BYTES_MAX = 256 * 1024
_NODE_ID_MAX = 256
_SHORTEST_TOKEN = 600
_LONGEST_TOKEN = 2**32
_SHORTEST_PERIOD = 10


# Classes and drivers


def create_class(class_: storage.StorageClass, context: Context) -> Errors:
    if class_.provisioner:
        yield from _provisioner(class_.provisioner, Path("provisioner"))
    yield from _parameters(class_.parameters)
    if class_.reclaimPolicy not in ("Delete", "Retain"):
        yield unsupported("reclaimPolicy", class_.reclaimPolicy, ("Delete", "Retain"))
    if class_.volumeBindingMode not in _BINDING_MODES:
        yield unsupported("volumeBindingMode", class_.volumeBindingMode, _BINDING_MODES)
    yield from _topologies(class_.allowedTopologies)


def _topologies(terms: Sequence[core.TopologySelectorTerm]) -> Errors:
    seen: list[dict[str, set[str]]] = []
    for index, term in enumerate(terms):
        path = Path("allowedTopologies") / index / "matchLabelExpressions"
        wanted: dict[str, set[str]] = {}
        for position, expression in enumerate(term.matchLabelExpressions):
            here = path / position
            if not expression.values:
                yield required(here / "values")
            yield from unique(expression.values, here / "values", str)
            yield from named(expression.key, here / "key", names.qualified_name)
            if expression.key in wanted:
                yield duplicate(here / "key", expression.key)
            wanted[expression.key] = {*expression.values}
        if wanted in seen:
            yield duplicate(path, "")
        seen.append(wanted)


def _provisioner(name: str, path: Path) -> Errors:
    yield from required_name(name.lower(), path, names.qualified_name)


def _parameters(parameters: Mapping[str, str]) -> Errors:
    path = Path("parameters")
    if len(parameters) > _PARAMETERS_MAX:
        yield too_long(path, _PARAMETERS_MAX)
        return
    if "" in parameters:
        yield invalid(path, "", "field can not be empty.")
    if sum(len(key) + len(value) for key, value in parameters.items()) > _PARAMETERS_BYTES_MAX:
        yield too_long(path, _PARAMETERS_BYTES_MAX)


def create_attributes_class(class_: storage.VolumeAttributesClass, context: Context) -> Errors:
    yield from metadata(class_.metadata, namespaced=False)
    yield from _provisioner(class_.driverName, Path("driverName"))
    yield from _parameters(class_.parameters)
    if not class_.parameters:
        yield required("parameters", "must contain at least one key/value pair")


def update_attributes_class(
    class_: storage.VolumeAttributesClass, old: storage.VolumeAttributesClass, context: Context
) -> Errors:
    yield from metadata_update(class_.metadata, old.metadata)
    for field in ("driverName", "parameters"):
        if getattr(class_, field) != getattr(old, field):
            yield forbidden(field, f"updates to {field} are forbidden.")
    yield from create_attributes_class(class_, context)


def create_driver(driver: storage.CSIDriver, context: Context) -> Errors:
    spec = driver.spec
    if spec.fsGroupPolicy not in _GROUP_POLICIES:
        yield unsupported(SPEC / "fsGroupPolicy", spec.fsGroupPolicy, _GROUP_POLICIES)
    seen: set[str] = set()
    for index, token in enumerate(spec.tokenRequests):
        path, seconds = SPEC / "tokenRequests" / index, token.expirationSeconds
        if token.audience in seen:
            yield duplicate(path / "audience", token.audience)
            continue
        seen.add(token.audience)
        if seconds is not None and seconds < _SHORTEST_TOKEN:
            yield invalid(path / "expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
        if seconds is not None and seconds > _LONGEST_TOKEN:
            yield invalid(path / "expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    for mode in spec.volumeLifecycleModes:
        yield from one_of(mode, _LIFECYCLE_MODES, SPEC / "volumeLifecycleModes")
    period = spec.nodeAllocatableUpdatePeriodSeconds
    if period is not None and period < _SHORTEST_PERIOD:
        text = f"must be greater than or equal to {_SHORTEST_PERIOD} seconds"
        yield invalid(SPEC / "nodeAllocatableUpdatePeriodSeconds", period, text)


def update_driver(driver: storage.CSIDriver, old: storage.CSIDriver, context: Context) -> Errors:
    yield from create_driver(driver, context)
    now, before = driver.spec, old.spec
    yield from unchanged(now.attachRequired, before.attachRequired, SPEC / "attachedRequired", now.attachRequired)


# What is known about nodes and volumes


def create_node(node: storage.CSINode, context: Context) -> Errors:
    path = SPEC / "drivers"
    seen: set[str] = set()
    for index, driver in enumerate(node.spec.drivers or ()):
        here = path / index
        yield from driver_name(driver.name, here / "name")
        if not driver.nodeID:
            yield required(here / "nodeID")
        elif len(driver.nodeID) > _NODE_ID_MAX:
            yield invalid(here / "nodeID", driver.nodeID, f"must be {_NODE_ID_MAX} characters or less")
        if driver.allocatable is not None and (driver.allocatable.count or 0) < 0:
            count = driver.allocatable.count
            yield invalid(here / "allocatable" / "count", count, "must be greater than or equal to 0")
        if driver.name in seen:
            yield duplicate(here / "name", driver.name)
        seen.add(driver.name)
        keys: Sequence[str] = driver.topologyKeys or ()
        for position, key in enumerate(keys):
            if not key:
                yield required(here)
            if key in keys[:position]:
                yield duplicate(here, key)
            yield from named(key, here, names.qualified_name)


def update_node(node: storage.CSINode, old: storage.CSINode, context: Context) -> Errors:
    yield from create_node(node, context)
    known = {driver.name: driver for driver in old.spec.drivers or ()}
    for driver in node.spec.drivers or ():
        before = known.get(driver.name)
        if before is not None and (driver.nodeID, driver.topologyKeys) != (before.nodeID, before.topologyKeys):
            yield invalid(SPEC / "drivers", driver, "field is immutable")


def create_capacity(capacity: storage.CSIStorageCapacity, context: Context) -> Errors:
    yield from label_selector(capacity.nodeTopology, Path("nodeTopology"))
    yield from named(capacity.storageClassName, Path("storageClassName"), names.subdomain)
    if capacity.capacity is not None and Quantity.parse(capacity.capacity).sign < 0:
        yield invalid("capacity", capacity.capacity, "must be greater than or equal to 0")


def update_capacity(capacity: storage.CSIStorageCapacity, old: storage.CSIStorageCapacity, context: Context) -> Errors:
    for field in ("nodeTopology", "storageClassName"):
        yield from unchanged(getattr(capacity, field), getattr(old, field), Path(field), getattr(capacity, field))


def create_attachment(attachment: storage.VolumeAttachment, context: Context) -> Errors:
    yield from _attachment_spec(attachment.spec)
    if attachment.spec.source.persistentVolumeName is not None:
        path = SPEC / "source" / "persistentVolumeName"
        yield from named(attachment.spec.source.persistentVolumeName, path, names.subdomain)


def update_attachment(attachment: storage.VolumeAttachment, old: storage.VolumeAttachment, context: Context) -> Errors:
    yield from _attachment_spec(attachment.spec)


def _attachment_spec(spec: storage.VolumeAttachmentSpec) -> Errors:
    inline, volume, path = spec.source.inlineVolumeSpec, spec.source.persistentVolumeName, SPEC / "source"
    if inline is None and volume is None:
        yield required(path, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    elif inline is not None and volume is not None:
        yield forbidden(path, "must specify exactly one of inlineVolumeSpec and persistentVolumeName")
    elif volume is not None and not volume:
        yield required(path / "persistentVolumeName", "must specify non empty persistentVolumeName")
    elif inline is not None:
        yield from inline_spec(inline, path / "inlineVolumeSpec")
    yield from named(spec.nodeName, SPEC / "nodeName", names.subdomain)
