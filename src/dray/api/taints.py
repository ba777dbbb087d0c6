"""DeviceTaintRules: which devices a rule taints.

Taints stand on the devices of a slice or come from a rule; `with_rules` puts both in one place, so that the allocator
needs to know slices only. Shared by the scheduler and the eviction controller. Pure. Left out: who tolerates what
(`selectors.tolerates_device`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from msgspec.structs import replace

from dray.api.types.core import Taint
from dray.api.types.resource import DeviceTaint, DeviceTaintRule, ResourceSlice


def selects(rule: DeviceTaintRule, driver: str, pool: str, device: str | None = None) -> bool:
    """Whether a rule means a device, or, without one, any device of a pool. No selector means no device."""
    selector = rule.spec.deviceSelector
    return (
        selector is not None
        and selector.driver in (None, driver)
        and selector.pool in (None, pool)
        and (device is None or selector.device in (None, device))
    )


def with_rules(slice_: ResourceSlice, rules: Iterable[DeviceTaintRule]) -> ResourceSlice:
    """The slice with the taints of the rules on its devices; the same object where no rule means one of them."""
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
    """`key=value:effect`, as kubectl writes it."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
