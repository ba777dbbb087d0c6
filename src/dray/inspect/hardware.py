"""Published devices of a cluster as selectors see them: existing attribute names, their values, and number of
devices.

Only the newest generation of each pool counts. Left out: which node reaches which device, and which devices are
taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from difflib import get_close_matches
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from dray.allocator.budget import StepMeter
from dray.api.allocations import DeviceId
from dray.api.availability import ClusterPools
from dray.api.reasons.selector_faults import Place
from dray.api.types.resource import Device
from dray.cel.device import DeviceView

if TYPE_CHECKING:
    from dray.inspect.expressions import AttributeAccess

_ALIKE = 0.65  # minimum similarity of two names to suggest one for the other


class Published(NamedTuple):
    """A published device with its node."""

    id: DeviceId
    device: Device
    node: str  # empty if the device is not limited to one node
    view: DeviceView


class Matching(NamedTuple):
    """Devices that match selectors, and the first evaluation error, if any."""

    passed: list[Published]
    error: str = ""


class Hardware:
    """All published devices of a cluster. Evaluating selectors for them spends steps of `meter`."""

    def __init__(self, pools: ClusterPools, meter: StepMeter | None = None) -> None:
        self.meter = meter
        self.pools = {name: pools[name].slices for name in pools}
        self.problems = {name: problem for name in pools if (problem := pools[name].problem)}

    @cached_property
    def devices(self) -> list[Published]:
        """All devices of all pools, including unusable pools.

        The node of a device is empty if it belongs to none.
        """
        return [
            Published(
                DeviceId(driver, pool, device.name),
                device,
                one.spec.nodeName or device.nodeName or "",
                DeviceView(driver, device.attributes, device.capacity, device.allowMultipleAllocations or False),
            )
            for (driver, pool), slices in self.pools.items()
            for one in slices
            for device in one.spec.devices
        ]

    @cached_property
    def usable(self) -> list[Published]:
        """Devices of usable pools."""
        return [one for one in self.devices if (one.id.driver, one.id.pool) not in self.problems]

    @cached_property
    def values(self) -> dict[tuple[str, str, str], Counter[str]]:
        """For each kind, domain and name of an attribute or capacity, the number of devices by value.

        The keys are (kind, domain, name), where the kind is "attributes" or "capacity". Values are given as text.
        """
        found: dict[tuple[str, str, str], Counter[str]] = {}
        for one in self.devices:
            for kind, by_domain in (("attributes", one.view.attributes), ("capacity", one.view.capacity)):
                for domain, named in by_domain.items():
                    for name, value in named.items():
                        found.setdefault((kind, domain, name), Counter())[str(value)] += 1
        return found

    def suggestion(self, access: AttributeAccess) -> Place | None:
        """Return the similar attribute or capacity that was probably meant by a name no device has, or None.

        A similar name in the same domain is preferred, then the name in another domain, then the other kind.
        """
        from dray.inspect.expressions import KINDS

        kind, domain, name = access[:3]
        siblings = [n for k, d, n in self.values if (k, d) == (kind, domain)]
        if match := alike(name, siblings):
            return Place(kind, domain, match)
        domains = sorted({d for k, d, n in self.values if (k, n) == (kind, name)})
        if domains:
            return Place(kind, alike(domain, domains) or domains[0], name)
        other = next((k for k in KINDS if k != kind and (k, domain, name) in self.values), None)
        return Place(other, domain, name) if other else None


def matching(devices: Iterable[Published], expressions: Iterable[str], meter: StepMeter | None = None) -> Matching:
    """Return the devices that match all expressions. Stops at the first evaluation error, like an allocation.

    Raises OutOfSteps if the meter's steps are used up.
    """
    from dray.cel import STORED, EvaluationError, compile_selector

    selectors = [compile_selector(expression, features=STORED) for expression in expressions]
    broken = next((s.error for s in selectors if s.error is not None), None)
    if broken is not None:
        return Matching([], str(broken))
    passed: list[Published] = []
    for one in devices:
        for selector in selectors:
            answer, steps = selector.judge(one.view)
            if meter is not None:
                meter.spend(steps)
            if isinstance(answer, EvaluationError):
                return Matching(passed, str(answer))
            if not answer:
                break
        else:
            passed.append(one)
    return Matching(passed)


def alike(name: str, known: Iterable[str]) -> str:
    """Return the known name that is most similar to a name; empty if none is similar enough.

    Case is ignored.
    """
    candidates = [*known]
    folded = {candidate.casefold(): candidate for candidate in candidates}
    if name.casefold() in folded:
        return folded[name.casefold()]
    near = get_close_matches(name.casefold(), folded, n=1, cutoff=_ALIKE)
    return folded[near[0]] if near else ""
