"""Slices and claims to count."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from dray.api.types.resource import ResourceClaim, ResourceSlice
from tests import objects

DRIVER = "gpu.example.com"


def slice_tree(
    name: str = "s0",
    devices: Iterable[str | dict[str, Any]] = ("gpu-0", "gpu-1"),
    *,
    driver: str = DRIVER,
    pool: str = "node-1",
    node: str | None = "node-1",
    generation: int = 1,
    of: int = 1,
) -> dict[str, Any]:
    return objects.resource_slice(
        name, *devices, node=node or "", driver=driver, pool=pool, generation=generation, count=of
    )


def tainted(name: str, effect: str = "NoSchedule") -> dict[str, Any]:
    return {"name": name, "taints": [{"key": "broken", "effect": effect, "timeAdded": "2026-01-01T00:00:00Z"}]}


def claim_tree(
    name: str = "c", *devices: str, driver: str = DRIVER, pool: str = "node-1", admin: bool | None = None
) -> dict[str, Any]:
    results = [
        {"request": "r", "driver": driver, "pool": pool, "device": device}
        | ({"adminAccess": admin} if admin is not None else {})
        for device in devices
    ]
    status = {"allocation": {"devices": {"results": results}}} if devices else {}
    return objects.claim(name, objects.request(count=1), namespace="default", status=status)


def slice_(*arguments: Any, **options: Any) -> ResourceSlice:
    return msgspec.convert(slice_tree(*arguments, **options), ResourceSlice)


def claim(*arguments: Any, **options: Any) -> ResourceClaim:
    return msgspec.convert(claim_tree(*arguments, **options), ResourceClaim)
