"""The smaller kinds of resource.k8s.io: DeviceClass, DeviceTaintRule, ResourcePoolStatusRequest."""

from __future__ import annotations

import re

from dray.api import names
from dray.api.errors import invalid, required, too_many
from dray.api.names import qualified_name
from dray.api.types import resource
from dray.api.validation import devices
from dray.api.validation.conditions import conditions
from dray.api.validation.context import Context
from dray.api.validation.lists import (
    Errors,
    at_least,
    at_most,
    at_most_bytes,
    bounded,
    each,
    named,
    required_name,
    unchanged,
)
from dray.api.validation.metadata import metadata, metadata_update
from dray.api.validation.paths import SPEC, STATUS, Path
from dray.api.wire import Wire

POOL_LIMIT_MAX = 1000
RULE_CONDITIONS_MAX = 8
REQUEST_CONDITIONS_MAX = 10
VALIDATION_ERROR_MAX = 256
VALIDATION_ERRORS_MAX = 10
SUMMARY_MAX = 32


# DeviceClass


def create_class(class_: resource.DeviceClass, context: Context) -> Errors:
    yield from metadata(class_.metadata, namespaced=False)
    yield from _class_spec(class_.spec, None, context)


def update_class(class_: resource.DeviceClass, old: resource.DeviceClass, context: Context) -> Errors:
    yield from metadata(class_.metadata, namespaced=False)
    yield from metadata_update(class_.metadata, old.metadata)
    yield from _class_spec(class_.spec, old.spec, context)


def _class_spec(spec: resource.DeviceClassSpec, old: resource.DeviceClassSpec | None, context: Context) -> Errors:
    stored = old is not None and old.selectors == spec.selectors
    yield from devices.selectors(spec.selectors, SPEC / "selectors", context, stored)
    stored_config = old is not None and old.config == spec.config

    def config(item: resource.DeviceClassConfiguration, here: Path) -> Errors:
        yield from devices.opaque(item.opaque, here, stored_config)

    yield from bounded(spec.config, devices.LIST_MAX, SPEC / "config", config)
    if spec.extendedResourceName is not None:
        yield from _extended_resource(spec.extendedResourceName, SPEC / "extendedResourceName")


def _extended_resource(name: str, path: Path) -> Errors:
    if "/" not in name:
        yield invalid(path, name, "a name must be a domain-prefixed path, such as 'example.com/my-prop'")
    elif "kubernetes.io/" in name:
        yield invalid(path, name, 'must not have "kubernetes.io/" domain')
    if name.startswith("requests."):
        yield invalid(path, name, 'must not have "requests." prefix')
    for text in qualified_name(f"requests.{name}"):
        yield invalid(path, name, text)


# DeviceTaintRule


def create_rule(rule: resource.DeviceTaintRule, context: Context) -> Errors:
    yield from _rule_spec(rule.spec, None)


def update_rule(rule: resource.DeviceTaintRule, old: resource.DeviceTaintRule, context: Context) -> Errors:
    yield from _rule_spec(rule.spec, old.spec)


def update_rule_status(rule: resource.DeviceTaintRule, old: resource.DeviceTaintRule, context: Context) -> Errors:
    path = STATUS / "conditions"
    yield from conditions(rule.status.conditions, path)
    if len(rule.status.conditions) > RULE_CONDITIONS_MAX:
        yield too_many(path, len(rule.status.conditions), RULE_CONDITIONS_MAX)


def _rule_spec(spec: resource.DeviceTaintRuleSpec, old: resource.DeviceTaintRuleSpec | None) -> Errors:
    selector, path = spec.deviceSelector, SPEC / "deviceSelector"
    if selector is not None:
        if selector.driver is not None:
            yield from devices.driver_name(selector.driver, path / "driver")
        if selector.pool is not None:
            yield from devices.pool_name(selector.pool, path / "pool")
        if selector.device is not None:
            yield from named(selector.device, path / "device", names.label)
    yield from devices.taint(spec.taint, SPEC / "taint", old.taint if old is not None else None)


# ResourcePoolStatusRequest


def create_request(request: resource.ResourcePoolStatusRequest, context: Context) -> Errors:
    spec = request.spec
    yield from _request_driver(spec.driver, context)
    if spec.poolName is not None:
        yield from devices.pool_filter(spec.poolName, SPEC / "poolName")
    yield from at_least(spec.limit, 1, SPEC / "limit")
    yield from at_most(spec.limit, POOL_LIMIT_MAX, SPEC / "limit")
    if spec.defaultPartitionTypeAttribute is not None:
        path = SPEC / "defaultPartitionTypeAttribute"
        yield from devices.fully_qualified_name(spec.defaultPartitionTypeAttribute, path)
    yield from at_least(spec.ttlSecondsAfterComplete, 0, SPEC / "ttlSecondsAfterComplete")


def _request_driver(driver: str, context: Context) -> Errors:
    """v1alpha1 writes a driver as `example.com/gpu` too."""
    if context.version == "v1alpha1" and re.fullmatch("[^/]+/[^/]+", driver):
        domain, _, name = driver.partition("/")
        yield from named(domain, SPEC / "driver", names.caseless_subdomain)
        yield from named(name, SPEC / "driver", names.caseless_subdomain)
    else:
        yield from required_name(driver, SPEC / "driver", names.caseless_subdomain)


def update_request(
    request: resource.ResourcePoolStatusRequest, old: resource.ResourcePoolStatusRequest, context: Context
) -> Errors:
    yield from unchanged(request.spec, old.spec, SPEC)


def update_request_status(
    request: resource.ResourcePoolStatusRequest, old: resource.ResourcePoolStatusRequest, context: Context
) -> Errors:
    """A request is answered once; then its status stands."""
    status = request.status
    if old.status is not None:
        yield from unchanged(status, old.status, STATUS)
        return
    if status is None:
        return
    if status.poolCount is None:
        yield required(STATUS / "poolCount")
    yield from at_least(status.poolCount, 0, STATUS / "poolCount")
    yield from bounded(status.pools, POOL_LIMIT_MAX, STATUS / "pools", _pool_status)
    if len(status.conditions) > REQUEST_CONDITIONS_MAX:
        yield too_many(STATUS / "conditions", len(status.conditions), REQUEST_CONDITIONS_MAX)
    yield from conditions(status.conditions, STATUS / "conditions")
    if len(status.validationErrors) > VALIDATION_ERRORS_MAX:
        yield too_many(STATUS / "validationErrors", len(status.validationErrors), VALIDATION_ERRORS_MAX)
    yield from each(status.validationErrors, STATUS / "validationErrors", _validation_error)


def _validation_error(text: str, path: Path) -> Errors:
    yield from at_most_bytes(text, VALIDATION_ERROR_MAX, path)


_LEAST = (
    ("generation", 0),
    ("resourceSliceCount", 1),
    ("totalDevices", 0),
    ("allocatedDevices", 0),
    ("availableDevices", 0),
    ("unavailableDevices", 0),
)


def _pool_status(pool: resource.PoolStatus, path: Path) -> Errors:
    yield from required_name(pool.driver, path / "driver", names.caseless_subdomain)
    yield from devices.pool_reference(pool.poolName, path / "poolName")
    for name, least in _LEAST:  # an answer may list a thousand pools, so only what is wrong is looked at closely
        value = getattr(pool, name)
        if value is not None and value < least:
            yield from at_least(value, least, path / name)
    if pool.nodeName is not None:
        yield from named(pool.nodeName, path / "nodeName", names.subdomain)
    if pool.validationError is not None:
        yield from at_most_bytes(pool.validationError, VALIDATION_ERROR_MAX, path / "validationError")
    if pool.partitionSummary:
        yield from _partitions(pool.partitionSummary, path / "partitionSummary")
    if pool.shareableSummary is not None:
        yield from _shareable(pool.shareableSummary, path / "shareableSummary")


def _partitions(items: tuple[resource.PartitionTypeStatus, ...], path: Path) -> Errors:
    def check(item: resource.PartitionTypeStatus, here: Path) -> Errors:
        yield from _stated(item, ("type", "total", "allocatable", "attribute"), here)
        yield from at_least(item.total, 0, here / "total")
        yield from at_least(item.allocatable, 0, here / "allocatable")

    yield from bounded(items, SUMMARY_MAX, path, check, lambda item: (item.attribute, item.type))


def _shareable(summary: resource.ShareableSummaryStatus, path: Path) -> Errors:
    def check(item: resource.ShareableCapacityStatus, here: Path) -> Errors:
        yield from _stated(item, ("name", "total", "consumed", "available"), here)

    counts = ("fullyAvailableDevices", "partiallyAvailableDevices")
    yield from _stated(summary, counts, path)
    for name in counts:
        yield from at_least(getattr(summary, name), 0, path / name)
    yield from bounded(summary.capacity, SUMMARY_MAX, path / "capacity", check)


def _stated(item: Wire, fields: tuple[str, ...], path: Path) -> Errors:
    for field in fields:
        if getattr(item, field) in (None, ""):
            yield required(path / field)
