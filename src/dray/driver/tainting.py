"""Taints devices that their driver reports as unhealthy, so that no new pod gets them.

For a driver that does not taint its devices itself. The effect `NoSchedule` keeps new pods away, `NoExecute` also
evicts the pods that have such a device. Left out: deciding when a device is unhealthy, which the driver does.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from dray.api.wire import Tree
from dray.driver.contract import DeviceHealth, Driver, HealthReporter
from dray.driver.pools import Pool, Pools

EFFECTS = ("None", "NoSchedule", "NoExecute")


async def pools_of(driver: Driver, effect: str) -> Pools:
    """Return a driver's pools, with a taint of this effect on each device that the driver reports as unhealthy.

    With effect "" or a driver that does not report health, no taints are added.
    """
    pools = await driver.devices()
    if not effect or not isinstance(driver, HealthReporter):
        return pools
    return tainted(pools, await driver.health(), {"key": f"{driver.name}/unhealthy", "effect": effect})


def tainted(pools: Pools, health: Iterable[DeviceHealth], taint: Mapping[str, str]) -> Pools:
    """Return the pools with the taint added to each unhealthy device.

    Only devices whose health is False count; unknown health does not.
    """
    sick = {(one.pool, one.device) for one in health if one.healthy is False}
    return {name: replace(pool, devices=_devices(name, pool, sick, taint)) for name, pool in pools.items()}


def _devices(name: str, pool: Pool, sick: set[tuple[str, str]], taint: Mapping[str, str]) -> Sequence[Tree]:
    return [
        {**one, "taints": [*one.get("taints", ()), {**taint}]} if (name, one.get("name")) in sick else one
        for one in pool.devices
    ]
