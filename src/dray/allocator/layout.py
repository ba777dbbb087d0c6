"""The devices that a node sees, in the order of the search: pools by driver and name, slices by name, then position.

`Layout` contains no names and is shared by all nodes with equal hardware. It concatenates the bit sets of its device lists.
`NodeView` adds the names for one node. An incomplete or invalid pool offers no devices but is part of the layout, because a
request for all devices fails if there is one. Left out: how slices become pools (`pools`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from dray.allocator.budget import Turn, left_of
from dray.allocator.capacity import CapacityFault, Consumption, nanos
from dray.allocator.content import DeviceList, Eligible, RequestClasses, SelectorMatch
from dray.allocator.deriving import TypedValue
from dray.allocator.identity import Features
from dray.allocator.packing import CounterAmounts, Packing, Takes
from dray.api.allocations import DeviceId
from dray.api.pools import PoolName
from dray.api.reasons.devices import PoolState
from dray.api.types.resource import Device, DeviceToleration, ResourceSlice


class LayoutPart(NamedTuple):
    """The devices of one slice. The node can reach those in `visible`."""

    content: DeviceList
    visible: int


class ComputedAttribute(NamedTuple):
    """Values of a derived attribute: devices by value, and devices on which the expression fails."""

    values: dict[TypedValue, int]
    errors: int
    causes: dict[int, str]
    steps: int = 0


class PoolShape(NamedTuple):
    """A pool without its name. Only a usable pool has `parts`; those of other pools are in `withheld`."""

    state: PoolState
    parts: tuple[LayoutPart, ...] = ()
    counters: tuple[tuple[str, str, int], ...] = ()  # counter set, counter, value
    binding: bool = False  # whether devices have binding conditions
    gate: str = ""  # feature gate that the pool needs and that is off
    withheld: tuple[LayoutPart, ...] = ()


class Layout:
    """The pools of a node as one numbered sequence of devices, with the same questions as `DeviceList`."""

    def __init__(self, pools: Sequence[PoolShape], features: Features = Features()) -> None:  # noqa: B008 (frozen)
        self.pools = tuple(pools)
        self.features = features
        self.parts: list[tuple[int, LayoutPart]] = []
        self.ends: list[int] = []
        size = 0
        for pool in pools:
            for part in pool.parts:
                self.parts.append((size, part))
                size += len(part.content.devices)
            self.ends.append(size)
        self.offsets = [offset for offset, _ in self.parts]
        self.size = size
        self.visible = sum(part.visible << offset for offset, part in self.parts)
        self.invalid = any(pool.state is PoolState.INVALID for pool in pools)
        self._matches: dict[tuple[str, ...], SelectorMatch] = {}
        self._values: dict[str, dict[TypedValue, int]] = {}
        self._tolerated: dict[tuple[DeviceToleration, ...], int] = {}

    def match(self, selectors: tuple[str, ...], limit: int | None = None, turn: Turn | None = None) -> SelectorMatch:
        """Return the reachable devices that match all selectors. Errors count also on unreachable devices, as in Kubernetes.

        Raises as `DeviceList.match` does.
        """
        found = self._matches.get(selectors)
        if found is None:
            found = self._matches[selectors] = self._match(selectors, limit, turn)
        if limit is not None:
            left_of(limit, found.steps)
        return found

    def _match(self, selectors: tuple[str, ...], limit: int | None, turn: Turn | None) -> SelectorMatch:
        devices = errors = steps = 0
        causes = {}
        for offset, part in self.parts:
            match = part.content.match(selectors, left_of(limit, steps), turn)
            steps += match.steps
            devices |= (match.devices & part.visible) << offset
            errors |= match.errors << offset
            for at, cause in match.causes.items():
                causes[at + offset] = cause
        return SelectorMatch(devices, errors, causes, steps)

    def values(self, attribute: str) -> dict[TypedValue, int]:
        """Return the devices with an attribute by value, in the order in which values first appear.

        The devices are bit sets of the layout's numbers. Devices without the attribute are left out.
        """
        found = self._values.get(attribute)
        if found is None:
            found = self._values[attribute] = {}
            for offset, part in self.parts:
                for value, bits in part.content.values(attribute, self.features.list_type_attributes).items():
                    kind, _ = value
                    own = ("only", (offset, value)) if kind == "only" else value
                    found[own] = found.get(own, 0) | bits << offset
        return found

    def derived(
        self, expression: str, wanted: int, limit: int | None = None, turn: Turn | None = None
    ) -> ComputedAttribute:
        """Evaluate a derived attribute for the devices in `wanted`. Raises as `DeviceList.match` does."""
        steps = 0
        values: dict[TypedValue, int] = {}
        errors = 0
        causes: dict[int, str] = {}
        for offset, part in self.parts:
            own = wanted >> offset & part.content.everything
            if own:
                lists = self.features.list_type_attributes
                found = part.content.derived(expression, lists, own, left_of(limit, steps), turn)
                steps += found.price(own)
                errors |= (found.errors & own) << offset
                causes |= {at + offset: text for at, text in found.causes.items()}
                for value, bits in found.values.items():
                    kind, _ = value
                    named = ("only", (offset, value)) if kind == "only" else value
                    values[named] = values.get(named, 0) | (bits & own) << offset
        return ComputedAttribute(values, errors, causes, steps)

    def tolerated(self, tolerations: tuple[DeviceToleration, ...]) -> int:
        """Return the devices without a taint that forbids allocation with these tolerations, as a bit set."""
        found = self._tolerated.get(tolerations)
        if found is None:
            found = sum(part.content.tolerated(tolerations) << offset for offset, part in self.parts)
            self._tolerated[tolerations] = found
        return found

    def device(self, at: int) -> Device:
        """Return device number `at`."""
        offset, part = self.parts[bisect_right(self.offsets, at) - 1]
        return part.content.devices[at - offset]

    @cached_property
    def counting(self) -> int:
        """The devices that consume shared counters, as a bit set of the layout's numbers."""
        return sum(part.content.counting << offset for offset, part in self.parts)

    @cached_property
    def binding(self) -> int:
        """The devices with binding conditions, as a bit set of the layout's numbers."""
        return sum(part.content.binding << offset for offset, part in self.parts)

    @cached_property
    def shareable(self) -> int:
        """The devices of which several claims can have shares, as a bit set. 0 if the feature is off."""
        if not self.features.consumable_capacity:
            return 0
        return sum(part.content.shareable << offset for offset, part in self.parts)

    @cached_property
    def packing(self) -> Packing:
        """The counters and capacities that devices consume."""
        return Packing(self.pools, self.shareable, self.features)

    def eligible(self, requests: RequestClasses) -> int:
        """Return the devices that can serve a request for capacity if nothing of them is in use.

        The devices are a bit set. Returns -1, the set of all numbers, if the feature is off.
        """
        if not self.features.consumable_capacity:
            return -1
        return sum(1 << offset + at for offset, part in self.parts for at in self._eligible(part, requests).consumed)

    def capacity_faults(self, requests: RequestClasses) -> dict[int, CapacityFault]:
        """Return the errors that a request for capacity causes, by device number. Empty if the feature is off."""
        if not self.features.consumable_capacity:
            return {}
        return {
            offset + at: fault
            for offset, part in self.parts
            for at, fault in self._eligible(part, requests).faults.items()
        }

    def takes(self, requests: RequestClasses) -> Takes:
        """Return what a request for capacity takes of each shareable device, by device (a set of one).

        Devices that cannot serve the request are left out.
        """
        capacities = self.packing.capacities
        found: dict[int, CounterAmounts] = {}
        for offset, part in self.parts:
            for at, consumed in self._eligible(part, requests).consumed.items():
                bit = 1 << offset + at
                if bit & self.shareable:
                    found[bit] = tuple((capacities[bit, name], nanos(much)) for name, much in consumed.items())
        return Takes(found)

    def consumed(self, at: int, requests: RequestClasses) -> Consumption:
        """Return the capacity that a request consumes of device number `at`, which must be shareable and eligible."""
        offset, part = self.parts[bisect_right(self.offsets, at) - 1]
        return self._eligible(part, requests).consumed[at - offset]

    def _eligible(self, part: LayoutPart, requests: RequestClasses) -> Eligible:
        return part.content.eligible(requests, self.features.fractional_capacity_range)


class NodeView:
    """The layout of one node, with the names for results and messages."""

    def __init__(
        self,
        node: str,
        layout: Layout,
        pools: Sequence[PoolName],
        slices: Sequence[ResourceSlice],
        elsewhere: Sequence[tuple[ResourceSlice, ...]],
    ) -> None:
        self.node = node
        self.layout = layout
        self.pools = tuple(pools)
        self.slices = tuple(slices)  # one for each part of the layout
        self.elsewhere = tuple(elsewhere)  # for each pool, unreachable slices whose devices consume its counters

    def id_of(self, at: int) -> DeviceId:
        """Return the driver, pool and name of device number `at`."""
        part = bisect_right(self.layout.offsets, at) - 1
        spec = self.slices[part].spec
        return DeviceId(spec.driver, spec.pool.name, spec.devices[at - self.layout.offsets[part]].name)

    @cached_property
    def devices(self) -> tuple[DeviceId, ...]:
        """Driver, pool and name of every device, in the order of the layout's numbers."""
        return tuple(self.id_of(at) for at in range(self.layout.size))

    @cached_property
    def places(self) -> dict[DeviceId, int]:
        """The layout's number of every device, by driver, pool and name."""
        return {device: at for at, device in enumerate(self.devices)}

    def slice_of(self, at: int) -> ResourceSlice:
        """Return the slice that contains device number `at`."""
        return self.slices[bisect_right(self.layout.offsets, at) - 1]
