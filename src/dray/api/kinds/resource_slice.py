"""ResourceSlice: some of the devices of a pool, published by their driver."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from itertools import pairwise
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

from dray.api import names
from dray.api.columns import AGE, NAME, text
from dray.api.constraints.formats import DRIVER_MAX, IDENTIFIER_MAX, fully_qualified
from dray.api.conversion import WorkloadLookup
from dray.api.errors import duplicate, forbidden, invalid, not_found_value, required, too_long, too_many
from dray.api.kind import DRA_DEPRECATED, DRA_VERSIONS, NOW, KindRules, Resource
from dray.api.paths import SPEC, Path
from dray.api.quantity import Quantity
from dray.api.quoting import quote
from dray.api.rules import Errors, bounded, checked, each, named, unchanged, unique, within
from dray.api.semver import Semver
from dray.api.types import resource
from dray.api.validation import devices
from dray.api.validation.nodes import node_selector
from dray.api.wire import Tree, Wire

if TYPE_CHECKING:
    from dray.api.validation.context import Context


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


OPTIONS_MAX = 10
LARGEST = 2**63 - 1
_BOTH = 'exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time'


def _warnings(slice_: resource.ResourceSlice, old: resource.ResourceSlice | None) -> Iterator[str]:
    driver = slice_.spec.driver
    if driver != driver.lower():
        yield f"spec.driver: driver names should be lowercase; {quote(driver)} contains uppercase characters"


def _to_stored(tree: Tree, old: Wire | None, workloads: WorkloadLookup | None) -> None:
    spec = tree.get("spec", {})
    for name in ("nodeName", "allNodes"):
        if not spec.get(name, True):
            del spec[name]  # v1beta1 has no pointers, so the zero value means unset
    for device in spec.get("devices") or ():
        device.update(device.pop("basic", None) or {})


def _from_stored(tree: Tree) -> None:
    for device in tree.get("spec", {}).get("devices") or ():
        name = device.pop("name", "")
        basic = dict(device)
        device.clear()
        device.update(name=name, basic=basic)


KIND = Resource(
    resource.ResourceSlice,
    versions=DRA_VERSIONS,
    namespaced=False,
    gate="DynamicResourceAllocation",
    columns=(NAME, text("Node", "spec.nodeName"), text("Driver", "spec.driver"), text("Pool", "spec.pool.name"), AGE),
    generation=("spec",),
    deprecated=DRA_DEPRECATED,
    rules=KindRules("resource_slice.create", "resource_slice.update"),
    error_names={
        "v1beta1": (
            (
                r"(\bdevices\[\d+\])(\.attributes\[[^]]*\]|\.consumesCounters(\[\d+\](\.\w+)?)?|\.taints\[\d+\]\.effect)$",
                r"\1.basic\2",
            ),
        )
    },
    defaults={
        "spec.devices[].taints[].timeAdded": NOW,
        "spec.devices[].capacity{}.value": "0",
        "spec.devices[].consumesCounters[].counters{}.value": "0",
        "spec.sharedCounters[].counters{}.value": "0",
    },
    guards={
        "DRADeviceTaints": ("spec.devices[].taints",),
        "DRAPartitionableDevices": (
            "spec.sharedCounters|perDeviceNodeSelection",
            "spec.devices[].consumesCounters|nodeName|nodeSelector|allNodes",
        ),
        "DRAConsumableCapacity": ("spec.devices[].allowMultipleAllocations", "spec.devices[].capacity{}.requestPolicy"),
        "DRADeviceBindingConditions": ("spec.devices[].bindingConditions|bindingFailureConditions|bindsToNode",),
        "DRAOptionalNodeOperations": ("spec.skipNodeOperations",),
        "DRAListTypeAttributes": ("spec.devices[].attributes{}.bools|ints|strings|versions",),
        "DRANodeAllocatableResources": ("spec.devices[].nodeAllocatableResources",),
        "DRADeviceCompatibilityGroups": ("spec.devices[].consumesCounters[].compatibilityGroups",),
        "DRAPartitionableDevicesType": ("spec.partitionTypeAttribute",),
    },
    warnings=_warnings,
    to_stored={"v1beta1": _to_stored},
    from_stored={"v1beta1": _from_stored},
    selectable={
        "spec.nodeName": lambda slice_: slice_.spec.nodeName or "",
        "spec.driver": attrgetter("spec.driver"),
        "spec.pool.name": attrgetter("spec.pool.name"),
    },
    not_selectable="field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {field}",
    is_returned_when_deleted=True,
)


def request_policy(capacity: resource.DeviceCapacity, path: Path) -> Errors:
    """Yield errors in the request policy of a capacity; the capacity must have a policy."""
    policy = capacity.requestPolicy
    assert policy is not None  # only called for capacities that have one
    whole = Quantity.parse(capacity.value)
    if policy.validValues and policy.validRange is not None:
        yield forbidden(path, _BOTH)
    elif policy.validValues:
        if policy.default is None:
            yield required(path / "default", "required when validValues is defined")
        else:
            yield from _values(policy.validValues, policy.default, whole, path / "validValues")
    elif policy.validRange is not None:
        if policy.default is None:
            yield required(path / "default", "required when validRange is defined")
        else:
            yield from _range(policy.validRange, Quantity.parse(policy.default), whole, path / "validRange")


def _values(options: tuple[str, ...], default: str, whole: Quantity, path: Path) -> Errors:
    amounts = [Quantity.parse(option) for option in options]
    for index, (before, amount) in enumerate(pairwise(amounts), 1):
        if before > amount:
            yield invalid(path / index, str(amount), "values must be sorted in ascending order")
    if len(options) > OPTIONS_MAX:
        yield too_many(path, len(options), OPTIONS_MAX)
        amounts = []  # too many to validate each
    for index, amount in enumerate(amounts):
        if amount > whole:
            yield invalid(path / index, str(amount), f"option is larger than capacity value: {whole}")
    seen: set[Fraction] = set()
    for index, amount in enumerate(amounts):
        if _exact(amount) in seen:
            yield duplicate(path / index, str(amount))
        seen.add(_exact(amount))
    if Quantity.parse(default) not in amounts:
        yield invalid(path, default, "default value is not valid according to the requestPolicy")


def _range(bounds: resource.CapacityRequestPolicyRange, default: Quantity, whole: Quantity, path: Path) -> Errors:
    if bounds.min is None:
        yield required(path / "min", "required when validRange is defined")
        return
    low = Quantity.parse(bounds.min)
    if low > whole:
        yield invalid(path / "min", str(low), f"min is larger than capacity value: {whole}")
    if default < low:
        yield invalid(path / "default", str(default), f"default is less than min: {low}")
    high = Quantity.parse(bounds.max) if bounds.max is not None else None
    if high is not None:
        if low > high:
            yield invalid(path / "max", str(low), f"min is larger than max: {high}")
        if high > whole:
            yield invalid(path / "max", str(high), f"max is larger than capacity value: {whole}")
        if default > high:
            yield invalid(path / "default", str(default), f"default is more than max: {high}")
    if bounds.step is not None:
        amounts = {"default": default, "min": low, "max": high, "step": Quantity.parse(bounds.step)}
        yield from _steps({name: amount for name, amount in amounts.items() if amount is not None}, whole, path)


def _steps(amounts: Mapping[str, Quantity], whole: Quantity, path: Path) -> Errors:
    """Yield errors if an amount in the range is not a whole number of steps above the minimum."""
    low, step = amounts["min"], amounts["step"]
    if step.sign <= 0:
        yield invalid(path / "step", str(step), "must be greater than zero")
        return
    first = low + step
    if first > whole:
        yield invalid(path / "step", str(step), f"one step {first} is larger than capacity value: {whole}")
    outside = [error for name, amount in amounts.items() for error in _countable(amount, path / name)]
    yield from outside
    if outside:
        return
    for name in ("default", "max"):
        amount = amounts.get(name)
        if amount is not None and (_exact(amount) - _exact(low)) % _exact(step):
            text = f"value is not a multiple of a given step ({step}) from ({low})"
            yield invalid(path / "step", str(amount), text)


def _countable(amount: Quantity, path: Path) -> Errors:
    """Yield an error if an amount is negative or does not fit a 64-bit integer."""
    if amount.sign < 0:
        yield invalid(path, str(amount), "must be greater than or equal to 0")
    elif _exact(amount) > LARGEST:
        yield invalid(path, str(amount), f"must not be larger than {LARGEST}")


def _exact(amount: Quantity) -> Fraction:
    return amount.unscaled * Fraction(10) ** amount.scale


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
    """Return whether an attribute is valid at first glance: a number, a boolean, or a short string.

    False means only that the attribute must be checked completely.
    """
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
            yield from request_policy(capacity, path / "requestPolicy")
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
