"""Rules for DeviceClass and ResourcePoolStatusRequest that cannot be expressed as steps."""

from __future__ import annotations

from collections.abc import Sequence

from dray.api.paths import Path
from dray.api.rules import Errors, each, within
from dray.api.types import resource
from dray.api.validation import devices
from dray.api.validation.context import Context


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
