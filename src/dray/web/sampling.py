"""One point of the time series: numbers of devices and pods by state. Values that the identity may not know are None."""

from __future__ import annotations

import time

from dray.api.availability import HELD, DeviceState
from dray.api.types.core import Pod
from dray.api.types.resource import ResourceSlice
from dray.web.consumers import WAITS, DashboardConsumers
from dray.web.inventory import DashboardInventory
from dray.web.rights import Scopes, VisibleScope
from dray.web.rows.claims import PodState

_PLACED = (PodState.STARTING, PodState.RUNNING, PodState.ENDING)


def sample_of(
    inventory: DashboardInventory, consumers: DashboardConsumers, scopes: Scopes, before: int
) -> tuple[float | None, ...]:
    """Return the values of `history.SERIES`; `before` is the number of allocations counted earlier.

    The first value is the Unix time in seconds. Values about objects that the user may not read everywhere are None.
    """
    devices, pods = inventory.tally, consumers.tally
    published = sum(devices.values()) - devices[DeviceState.UNPUBLISHED]
    held, free = sum(devices[state] for state in HELD), devices[DeviceState.FREE]
    knows_claims, knows_pods = inventory.claims_known, scopes[Pod] is VisibleScope.ALL
    return (
        round(time.time()),
        published if scopes[ResourceSlice] is VisibleScope.ALL else None,
        held if knows_claims else None,
        published - held - free if knows_claims else None,
        sum(pods[state] for state in WAITS) if knows_pods else None,
        sum(pods[state] for state in _PLACED) if knows_pods else None,
        consumers.allocations - before if knows_claims else None,
    )
