"""The smaller kinds of resource.k8s.io: DeviceClass, DeviceTaintRule, ResourcePoolStatusRequest."""

from __future__ import annotations

import re

from dray.api import names
from dray.api.errors import too_many
from dray.api.paths import SPEC, STATUS, Path
from dray.api.types import resource
from dray.api.validation import devices
from dray.api.validation.conditions import conditions
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors, at_least, at_most_bytes, each, named, required_name, unchanged, within
from dray.api.validation.metadata import metadata, metadata_update

RULE_CONDITIONS_MAX = 8
REQUEST_CONDITIONS_MAX = 10
VALIDATION_ERROR_MAX = 256
VALIDATION_ERRORS_MAX = 10


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

    yield from each(within(spec.config, devices.LIST_MAX), SPEC / "config", config)


# DeviceTaintRule


def create_rule(rule: resource.DeviceTaintRule, context: Context) -> Errors:
    yield from _rule_spec(rule.spec)


def update_rule(rule: resource.DeviceTaintRule, old: resource.DeviceTaintRule, context: Context) -> Errors:
    yield from _rule_spec(rule.spec)


def update_rule_status(rule: resource.DeviceTaintRule, old: resource.DeviceTaintRule, context: Context) -> Errors:
    path = STATUS / "conditions"
    yield from conditions(rule.status.conditions, path)
    if len(rule.status.conditions) > RULE_CONDITIONS_MAX:
        yield too_many(path, len(rule.status.conditions), RULE_CONDITIONS_MAX)


def _rule_spec(spec: resource.DeviceTaintRuleSpec) -> Errors:
    selector, path = spec.deviceSelector, SPEC / "deviceSelector"
    if selector is not None:
        if selector.driver is not None:
            yield from devices.driver_name(selector.driver, path / "driver")
        if selector.pool is not None:
            yield from devices.pool_name(selector.pool, path / "pool")
        if selector.device is not None:
            yield from named(selector.device, path / "device", names.label)
    yield from devices.taint(spec.taint, SPEC / "taint")


# ResourcePoolStatusRequest


def create_request(request: resource.ResourcePoolStatusRequest, context: Context) -> Errors:
    spec = request.spec
    yield from _request_driver(spec.driver, context)
    yield from at_least(spec.ttlSecondsAfterComplete, 0, SPEC / "ttlSecondsAfterComplete")


def _request_driver(driver: str, context: Context) -> Errors:
    """v1alpha1 writes a driver as `example.com/gpu` too."""
    if context.version == "v1alpha1" and re.fullmatch("[^/]+/[^/]+", driver):
        domain, _, name = driver.partition("/")
        yield from named(domain, SPEC / "driver", names.caseless_subdomain)
        yield from named(name, SPEC / "driver", names.caseless_subdomain)
    else:
        yield from required_name(driver, SPEC / "driver", names.caseless_subdomain)


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
    if len(status.conditions) > REQUEST_CONDITIONS_MAX:
        yield too_many(STATUS / "conditions", len(status.conditions), REQUEST_CONDITIONS_MAX)
    yield from conditions(status.conditions, STATUS / "conditions")
    if len(status.validationErrors) > VALIDATION_ERRORS_MAX:
        yield too_many(STATUS / "validationErrors", len(status.validationErrors), VALIDATION_ERRORS_MAX)
    yield from each(status.validationErrors, STATUS / "validationErrors", _validation_error)


def _validation_error(text: str, path: Path) -> Errors:
    yield from at_most_bytes(text, VALIDATION_ERROR_MAX, path)
