"""One alternative of a request, and the cluster's devices that remain after each of its conditions.

The allocator counts the devices of one node. This module counts in the whole cluster, to distinguish "no such device
exists" from "too few on this node". Left out: constraints, which concern several devices at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cached_property

from dray.allocator.taints import intolerable
from dray.api.allocations import DeviceId
from dray.api.extended_resources import IMPLICIT_PREFIX, IN_MEMORY
from dray.api.pools import PoolName
from dray.api.reasons import cause_wording
from dray.api.reasons.requested import RequestedDevices
from dray.api.types.resource import (
    DeviceClass,
    DeviceSelector,
    DeviceSubRequest,
    DeviceTaint,
    ExactDeviceRequest,
    ResourceClaim,
)
from dray.inspect.hardware import Hardware, Published, matching
from dray.inspect.snapshot import Snapshot

DeviceRequestSpec = ExactDeviceRequest | DeviceSubRequest


class Ask:
    """An alternative of a claim's request, or the request itself if it has no alternatives."""

    def __init__(
        self, claim: ResourceClaim, name: str, spec: DeviceRequestSpec, class_: DeviceClass | None, template: str = ""
    ) -> None:
        self.claim = claim.metadata.name
        self.template = template
        self.name = name
        self.spec = spec
        self.class_name = spec.deviceClassName
        named = class_.spec.extendedResourceName if class_ is not None else None
        self._resource = named or f"{IMPLICIT_PREFIX}{spec.deviceClassName}"
        self.of_class = expressions(class_.spec.selectors) if class_ is not None else ()
        self.selectors = expressions(spec.selectors)

    def asked(self, needed: int) -> RequestedDevices:
        """Return the description of this request that causes contain, for `needed` devices."""
        resource = self._resource if self.claim == IN_MEMORY else ""
        return RequestedDevices(self.claim, self.name, self.class_name, needed, resource, self.template)

    @property
    def label(self) -> str:
        return cause_wording.asked(self.asked(0))


def asks_of(claim: ResourceClaim, snapshot: Snapshot) -> dict[str, Ask]:
    """Return all requests and alternatives of a claim by allocator name, such as `request/alternative`."""
    classes, template = snapshot.classes, snapshot.template_of(claim)
    found: dict[str, Ask] = {}
    for request in claim.spec.devices.requests or ():
        specs: list[tuple[str, DeviceRequestSpec]] = [
            (f"{request.name}/{sub.name}", sub) for sub in request.firstAvailable
        ]
        if request.exactly is not None:
            specs.append((request.name, request.exactly))
        for name, spec in specs:
            found[name] = Ask(claim, name, spec, classes.get(spec.deviceClassName), template)
    return found


def expressions(selectors: Sequence[DeviceSelector]) -> tuple[str, ...]:
    """Return the CEL expressions of device selectors.

    Selectors without CEL are left out.
    """
    return tuple(selector.cel.expression for selector in selectors if selector.cel is not None)


class DeviceCensus:
    """Devices of a cluster that satisfy the conditions of a request, condition by condition."""

    def __init__(self, ask: Ask, hardware: Hardware, taken: set[DeviceId]) -> None:
        self.ask = ask
        self.hardware = hardware
        self._taken = taken

    def _matching(self, devices: Iterable[Published], expressions: Sequence[str]) -> list[Published]:
        return matching(devices, expressions, self.hardware.meter).passed

    @cached_property
    def of_class(self) -> list[Published]:
        """Devices in usable pools that match the selectors of the device class."""
        return self._matching(self.hardware.usable, self.ask.of_class)

    def after(self, selectors: int) -> list[Published]:
        """Return the devices that match the class and the first `selectors` selectors of the request.

        `selectors` is a number; 0 means that only the class selects.
        """
        return self._matching(self.of_class, self.ask.selectors[:selectors])

    @cached_property
    def selected(self) -> list[Published]:
        """Devices that match the class and all selectors of the request."""
        return self.after(len(self.ask.selectors))

    @cached_property
    def tainted(self) -> list[Published]:
        """Selected devices with taints that the request does not tolerate."""
        tolerations = self.ask.spec.tolerations
        return [one for one in self.selected if intolerable(one.device.taints, tolerations)]

    @cached_property
    def tolerated(self) -> list[Published]:
        """Selected devices without untolerated taints."""
        shunned = {one.id for one in self.tainted}
        return [one for one in self.selected if one.id not in shunned]

    @cached_property
    def taken(self) -> list[Published]:
        """Tolerated devices that are exclusively allocated."""
        return [one for one in self.tolerated if one.id in self._taken]

    @cached_property
    def free(self) -> list[Published]:
        """Tolerated devices that are not exclusively allocated."""
        return [one for one in self.tolerated if one.id not in self._taken]

    def locked_away(self) -> dict[PoolName, int]:
        """Return for each unusable pool the number of unallocated devices that match class and selectors.

        Pools without any are left out.
        """
        found: Counter[PoolName] = Counter()
        suspects = [one for one in self.hardware.devices if one.id[:2] in self.hardware.problems]
        unique = {one.id: one for one in suspects if one.id not in self._taken}
        for one in self._matching(unique.values(), self.ask.of_class + self.ask.selectors):
            found[PoolName(one.id.driver, one.id.pool)] += 1
        return found

    def taints(self) -> list[DeviceTaint]:
        """Return the distinct taints that the request does not tolerate."""
        found: dict[tuple[str, str, str], DeviceTaint] = {}
        for one in self.tainted:
            for taint in one.device.taints:
                if intolerable((taint,), self.ask.spec.tolerations):
                    found.setdefault((taint.key, taint.value, taint.effect), taint)
        return [*found.values()]
