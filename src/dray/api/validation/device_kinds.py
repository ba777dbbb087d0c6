"""Rules for DeviceClass and ResourcePoolStatusRequest that cannot be expressed as steps."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dray.api import names
from dray.api.constraints import checked
from dray.api.paths import STATUS, Path
from dray.api.types import resource
from dray.api.validation import devices
from dray.api.validation.context import Context
from dray.api.validation.lists import Errors, each, named, required_name, unchanged, within

_STATUS = "io.k8s.api.resource.v1alpha3.ResourcePoolStatusRequestStatus"


def selectors(
    items: Sequence[resource.DeviceSelector],
    old: Sequence[resource.DeviceSelector] | None,
    path: Path,
    context: Context,
) -> Errors:
    """Yield errors in the selectors of a DeviceClass. Unchanged expressions are not compiled again."""
    yield from devices.selectors(items, path, context, items == old)


def configurations(
    items: Sequence[resource.DeviceClassConfiguration],
    old: Sequence[resource.DeviceClassConfiguration] | None,
    path: Path,
    context: Context,
) -> Errors:
    """Yield errors in the configurations of a DeviceClass. The size of unchanged ones is not checked again."""

    def config(item: resource.DeviceClassConfiguration, here: Path) -> Errors:
        yield from devices.opaque(item.opaque, here, items == old)

    yield from each(within(items, devices.LIST_MAX), path, config)


def request_driver(driver: str, old: str | None, path: Path, context: Context) -> Errors:
    """Yield errors in a driver name. v1alpha1 also permits the form `example.com/gpu`."""
    if context.version == "v1alpha1" and re.fullmatch("[^/]+/[^/]+", driver):
        for part in driver.split("/"):
            yield from named(part, path, names.caseless_subdomain)
    else:
        yield from required_name(driver, path, names.caseless_subdomain)


def update_request_status(
    request: resource.ResourcePoolStatusRequest, old: resource.ResourcePoolStatusRequest, context: Context
) -> Errors:
    """Yield errors if a status that is already set is changed, or a new status is invalid."""
    if old.status is not None:
        yield from unchanged(request.status, old.status, STATUS)
    elif request.status is not None:
        yield from checked(_STATUS, request.status, STATUS)
