"""Validation of ResourceSlices."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from operator import attrgetter
from typing import TypeVar

from dray.api import names
from dray.api.constraints import checked
from dray.api.constraints.formats import DRIVER_MAX, IDENTIFIER_MAX, fully_qualified
from dray.api.errors import forbidden, invalid, not_found_value, required, too_long, too_many
from dray.api.paths import SPEC, Path
from dray.api.quantity import Quantity
from dray.api.rules import Errors, bounded, each, named, unchanged, unique, within
from dray.api.semver import Semver
from dray.api.types import resource
from dray.api.validation import capacities, devices
from dray.api.validation.context import Context
from dray.api.validation.nodes import node_selector

DEVICES_MAX = 128
ADVANCED_DEVICES_MAX = 64  # if a device has taints, counters or list attributes
ATTRIBUTES_MAX = 32
ATTRIBUTE_VALUES_MAX = 48
ATTRIBUTE_VALUE_MAX = 64
COUNTER_SETS_MAX = 8
COUNTERS_MAX = 32
CONSUMPTIONS_MAX = 2
TAINTS_MAX = 16
_PLACES = ("nodeName", "nodeSelector", "allNodes", "perDeviceNodeSelection")
_ONE_PLACE = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
_ONE_DEVICE_PLACE = (
    "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true "
    "in the ResourceSlice spec"
)
_NO_DEVICE_PLACE = (
    "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the "
    "ResourceSlice spec"
)
_lists = attrgetter("bools", "ints", "strings", "versions")
_NO_LISTS: tuple[tuple[()], ...] = ((), (), (), ())
_TRUE_OR_UNSET = "must be either unset or set to true"
_SHOWN_KEY_MAX = DRIVER_MAX + 1 + IDENTIFIER_MAX
_NODE_RESOURCES = ("cpu", "memory", "ephemeral-storage")
V = TypeVar("V")


def create(slice_: resource.ResourceSlice, context: Context) -> Errors:
    """Yield errors in a new ResourceSlice."""
    yield from _spec(slice_.spec, None)


def update(slice_: resource.ResourceSlice, old: resource.ResourceSlice, context: Context) -> Errors:
    """Yield errors in an update of a ResourceSlice. Unchanged devices are not validated again."""
    yield from _spec(slice_.spec, old.spec)


def _spec(spec: resource.ResourceSliceSpec, old: resource.ResourceSliceSpec | None) -> Errors:
    yield from devices.driver_name(spec.driver, SPEC / "driver")
    yield from checked("io.k8s.api.resource.v1.ResourcePool", spec.pool, SPEC / "pool")
    if old is not None:
        yield from unchanged(spec.pool.name, old.pool.name, SPEC / "pool" / "name", spec.pool.name)
        yield from unchanged(spec.driver, old.driver, SPEC / "driver", spec.driver)
        yield from unchanged(spec.nodeName, old.nodeName, SPEC / "nodeName", spec.nodeName)
    yield from _place(spec)
    if spec.sharedCounters and spec.devices:
        yield invalid(SPEC, "", "only one of `sharedCounters` or `devices` is allowed")
    yield from _devices(spec, old)
    yield from each(within(spec.sharedCounters, COUNTER_SETS_MAX), SPEC / "sharedCounters", _counter_set)
    yield from _partition_type(spec)
    yield from devices.skipped_operations(spec.skipNodeOperations, SPEC / "skipNodeOperations")


def _place(spec: resource.ResourceSliceSpec) -> Errors:
    """Yield errors if a slice does not specify the nodes of its devices in exactly one way."""
    if spec.nodeName is not None:
        if spec.nodeName:
            yield from named(spec.nodeName, SPEC / "nodeName", names.subdomain)
        else:
            yield invalid(SPEC / "nodeName", "", "must be either unset or set to a non-empty string")
    if spec.nodeSelector is not None:
        terms = spec.nodeSelector.nodeSelectorTerms
        yield from node_selector(spec.nodeSelector, SPEC / "nodeSelector")
        if len(terms) != 1:
            text = "must have exactly one node selector term"
            yield invalid(SPEC / "nodeSelector" / "nodeSelectorTerms", terms, text)
    for name in ("allNodes", "perDeviceNodeSelection"):
        if getattr(spec, name) is False:
            yield invalid(SPEC / name, False, _TRUE_OR_UNSET)
    chosen = [f"`{name}`" for name in _PLACES if getattr(spec, name) not in (None, False, "")]
    if not chosen:
        yield required(SPEC, _ONE_PLACE)
    elif len(chosen) > 1:
        yield invalid(SPEC, f"{{{', '.join(chosen)}}}", f"{_ONE_PLACE}, but multiple fields are set")


def _devices(spec: resource.ResourceSliceSpec, old: resource.ResourceSliceSpec | None) -> Errors:
    count = len(spec.devices)
    are_many = count > ADVANCED_DEVICES_MAX
    limit = ADVANCED_DEVICES_MAX if are_many and any(map(_is_advanced, spec.devices)) else DEVICES_MAX
    if count > limit:
        yield too_many(SPEC / "devices", count, limit)
        return
    before = {device.name: device for device in old.devices} if old is not None else {}
    stays = old is not None and spec.perDeviceNodeSelection == old.perDeviceNodeSelection
    for index, device in enumerate(spec.devices):
        known = before.get(device.name)
        if not stays or known != device:  # an unchanged device is not validated again
            yield from _device(device, known, SPEC / "devices" / index, bool(spec.perDeviceNodeSelection))
    yield from unique(spec.devices, SPEC / "devices", lambda device: device.name, whole=False)


def _is_advanced(device: resource.Device) -> bool:
    return bool(device.taints or device.consumesCounters) or any(
        attribute.bools or attribute.ints or attribute.strings or attribute.versions
        for attribute in device.attributes.values()
    )


def _device(device: resource.Device, old: resource.Device | None, path: Path, own_place: bool) -> Errors:
    yield from named(device.name, path / "name", names.label)
    count = len(device.attributes) + len(device.capacity)
    if count > ATTRIBUTES_MAX:
        yield invalid(path, count, f"the total number of attributes and capacities must not exceed {ATTRIBUTES_MAX}")
    if any(_lists(attribute) != _NO_LISTS for attribute in device.attributes.values()):
        values = sum(map(_value_count, device.attributes.values()))
        if values > ATTRIBUTE_VALUES_MAX:
            yield invalid(path, values, f"the total number of attribute values must not exceed {ATTRIBUTE_VALUES_MAX}")
    yield from _entries(device.attributes, path / "attributes", _attribute, _is_short)
    if old is None or old.capacity != device.capacity:
        yield from _entries(device.capacity, path / "capacity", _capacity_of(device), _is_undivided)
    if device.taints and (old is None or old.taints != device.taints):
        yield from bounded(device.taints, TAINTS_MAX, path / "taints", devices.taint)
    if device.consumesCounters:
        here = path / "consumesCounters"
        yield from each(within(device.consumesCounters, CONSUMPTIONS_MAX), here, _consumption)
    yield from _device_place(device, path, own_place)
    if device.bindingConditions or device.bindingFailureConditions:
        yield from devices.binding_conditions(device.bindingConditions, device.bindingFailureConditions, path)
    if device.nodeAllocatableResources:
        yield from _node_resources(device, path / "nodeAllocatableResources")


def _entries(
    items: Mapping[str, V], path: Path, check: Callable[[V, Path], Errors], is_fine: Callable[[V], bool]
) -> Errors:
    """Yield errors in attributes or capacities that `is_fine` does not accept. Paths shorten very long names."""
    for name, item in items.items():
        if not devices.is_qualified_name(name):
            yield from devices.qualified_name(name, path)
        if not is_fine(item):
            yield from check(item, path % _shortened(name))


def _is_short(attribute: resource.DeviceAttribute) -> bool:
    """Return whether an attribute is valid at first glance: a number, a boolean, or a short string."""
    text = attribute.string
    return (text is None or len(text) <= ATTRIBUTE_VALUE_MAX // 4) and (
        attribute.version is None and not attribute.versions
    )


def _is_undivided(capacity: resource.DeviceCapacity) -> bool:
    return capacity.requestPolicy is None


def _shortened(key: str) -> str:
    if len(key) <= _SHOWN_KEY_MAX:
        return key
    rest = _SHOWN_KEY_MAX - 3
    return f"{key[: (rest + 1) // 2]}...{key[len(key) - rest // 2 :]}"


def _value_count(attribute: resource.DeviceAttribute) -> int:
    lists = len(attribute.bools) + len(attribute.ints) + len(attribute.strings) + len(attribute.versions)
    return lists or 1


def _attribute(attribute: resource.DeviceAttribute, path: Path) -> Errors:
    if attribute.string is not None:
        yield from _text(attribute.string, path / "string")
    if attribute.version is not None:
        yield from _version(attribute.version, path / "version")
    if attribute.versions:
        yield from each(attribute.versions, path / "versions", _version)


def _text(text: str, path: Path) -> Errors:
    if len(text.encode()) > ATTRIBUTE_VALUE_MAX:
        yield too_long(path, ATTRIBUTE_VALUE_MAX)


def _version(text: str, path: Path) -> Errors:
    if not Semver.conforms(text):
        yield invalid(path, text, "must be a string compatible with semver.org spec 2.0.0")
    yield from _text(text, path)


def _capacity_of(device: resource.Device) -> Callable[[resource.DeviceCapacity, Path], Errors]:
    """Return the check of a device's capacity: a request policy needs allowMultipleAllocations."""

    def check(capacity: resource.DeviceCapacity, path: Path) -> Errors:
        if capacity.requestPolicy is None:
            return
        if device.allowMultipleAllocations:
            yield from capacities.request_policy(capacity, path / "requestPolicy")
        else:
            yield forbidden(path / "requestPolicy", "allowMultipleAllocations must be true")

    return check


def _counter_set(item: resource.CounterSet, path: Path) -> Errors:
    yield from _counters(item.counters, path / "counters")


def _consumption(item: resource.DeviceCounterConsumption, path: Path) -> Errors:
    yield from _counters(item.counters, path / "counters")


def _counters(counters: Mapping[str, resource.Counter], path: Path) -> Errors:
    if len(counters) > COUNTERS_MAX:
        yield too_many(path, len(counters), COUNTERS_MAX)


def _device_place(device: resource.Device, path: Path, own_place: bool) -> Errors:
    if not own_place:
        if device.nodeName is not None or device.nodeSelector is not None or device.allNodes is not None:
            yield invalid(path, None, _NO_DEVICE_PLACE)
        return
    if device.nodeName:
        yield from named(device.nodeName, path / "nodeName", names.subdomain)
    elif device.nodeName is not None:
        yield invalid(path / "nodeName", "", "must not be empty")
    if device.nodeSelector is not None:
        yield from node_selector(device.nodeSelector, path / "nodeSelector")
    if device.allNodes is False:
        yield invalid(path / "allNodes", False, _TRUE_OR_UNSET)
    chosen = [f"`{name}`" for name in _PLACES[:3] if getattr(device, name) not in (None, False, "")]
    if not chosen:
        yield required(path, _ONE_DEVICE_PLACE)
    elif len(chosen) > 1:
        yield invalid(path, f"{{{', '.join(chosen)}}}", _ONE_DEVICE_PLACE)


def _node_resources(device: resource.Device, path: Path) -> Errors:
    """Yield errors in the node resources that a device consumes."""
    for name, item in device.nodeAllocatableResources.items():
        here = path % name
        if name not in _NODE_RESOURCES and not name.startswith("hugepages-"):
            yield invalid(here, name, "must be a node allocatable resource name")
        if item.mapping is None and item.overhead is None:
            yield required(here, "at least one of mapping or overhead must be set")
        if item.mapping is not None:
            yield from _mapping(item.mapping, device, here / "mapping")
        if item.overhead is not None:
            yield from _overhead(item.overhead, here / "overhead")


def _mapping(mapping: resource.NodeAllocatableMapping, device: resource.Device, path: Path) -> Errors:
    key, multiplier = mapping.capacityKey, mapping.capacityMultiplier
    if key is not None:
        if not key:
            yield invalid(path / "capacityKey", "", "capacityKey must not be an empty string")
        elif key not in device.capacity:
            yield not_found_value(path / "capacityKey", key)
        if multiplier is None:
            yield required(path / "capacityMultiplier", "capacityMultiplier is required when capacityKey is set")
    elif multiplier is not None:
        yield required(path / "capacityKey", "capacityKey is required when capacityMultiplier is set")
    for name in ("capacityMultiplier", "deviceMultiplier"):
        amount = getattr(mapping, name)
        if amount is not None and Quantity.parse(amount).sign <= 0:
            yield invalid(path / name, amount, "must be positive")


def _overhead(overhead: resource.NodeAllocatableOverhead, path: Path) -> Errors:
    if overhead.perPod is None and overhead.perContainer is None:
        yield invalid(path, "", "at least one of perPod or perContainer must be set")
    for name in ("perPod", "perContainer"):
        amount = getattr(overhead, name)
        if amount is not None and Quantity.parse(amount).sign < 0:
            yield invalid(path / name, amount, "must be non-negative")


def _partition_type(spec: resource.ResourceSliceSpec) -> Errors:
    """Yield errors if a partition does not have the attribute named by partitionTypeAttribute as a string."""
    name = spec.partitionTypeAttribute
    if name is None:
        return
    path = SPEC / "partitionTypeAttribute"
    if not any(device.consumesCounters for device in spec.devices):
        text = "may only be set on a slice which declares devices that consume counters"
        yield invalid(path, name, text)
        return
    if any(fully_qualified(name, path)):
        return  # a schema constraint reports this
    bare = name.removeprefix(f"{spec.driver}/")
    for index, device in enumerate(spec.devices):
        if not device.consumesCounters:
            continue
        here = SPEC / "devices" / index / "attributes" % name
        attribute = device.attributes.get(name) or device.attributes.get(bare)
        if attribute is None:
            text = "device consumes counters and `partitionTypeAttribute` names this attribute, so it must be set"
            yield required(here, text)
        elif attribute.string is None:
            text = "must be a string value because `partitionTypeAttribute` names this attribute"
            yield invalid(here, attribute, text)
