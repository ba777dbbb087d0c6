"""DeviceTaintRules: selection of devices, and adding the rules' taints to slices.

Taints are published in slices or come from rules. `with_rules` combines both, so that the allocator only handles
slices. Used by the scheduler and the eviction controller. All functions are pure. `selectors.tolerates_device`
matches tolerations.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from dray.api.types.core import Taint
from dray.api.types.resource import DeviceTaint, DeviceTaintRule, ResourceSlice


def selects(rule: DeviceTaintRule, driver: str, pool: str, device: str | None = None) -> bool:
    """Return whether a rule selects a device, or any device of a pool. A rule without selector selects none."""
    selector = rule.spec.deviceSelector
    return (
        selector is not None
        and selector.driver in (None, driver)
        and selector.pool in (None, pool)
        and (device is None or selector.device in (None, device))
    )


def with_rules(slice_: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    """Return the slice with the rules' taints added to its devices; the same object if no rule applies."""
    spec = slice_.spec
    near = [rule for rule in rules if selects(rule, spec.driver, spec.pool.name)]
    if not near:
        return slice_
    devices = tuple(
        replace(device, taints=(*device.taints, *added))
        if (added := _added(near, spec.driver, spec.pool.name, device.name))
        else device
        for device in spec.devices
    )
    return replace(slice_, spec=replace(spec, devices=devices))


def _added(rules: Sequence[DeviceTaintRule], driver: str, pool: str, device: str) -> list[DeviceTaint]:
    return [rule.spec.taint for rule in rules if selects(rule, driver, pool, device)]


def taint_text(taint: DeviceTaint | Taint) -> str:
    """Return `key=value:effect`, as kubectl writes a taint."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
