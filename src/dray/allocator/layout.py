"""What a node sees, in the order in which devices are tried: pools by driver and name, slices by name, devices by place.

`Layout` is the shape without names, shared by all nodes with equal hardware; it puts the bit sets of its contents side
by side. `NodeView` adds the names of one node. A pool that is incomplete or invalid offers no device but is remembered,
because a request for all devices must not pass it over. Left out: how slices become pools (`pools`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from typing import NamedTuple

from dray.allocator.budget import Turn, left_of
from dray.allocator.capacity import CapacityFault, Consumption, nanos
from dray.allocator.content import DeviceList, Eligible, Requests, SelectorMatch
from dray.allocator.deriving import Value
from dray.allocator.identity import Features
from dray.allocator.packing import Amounts, Packing, Takes
from dray.api.allocations import DeviceId
from dray.api.pools import PoolName
from dray.api.reasons.devices import PoolState
from dray.api.types.resource import Device, DeviceToleration, ResourceSlice


class LayoutPart(NamedTuple):
    """The devices of one slice; those outside `visible` are out of the node's reach."""

    content: DeviceList
    visible: int


class ComputedAttribute(NamedTuple):
    """An attribute that is computed: the devices of each value, and those on which the expression fails."""

    values: dict[Value, int]
    errors: int
    causes: dict[int, str]
    steps: int = 0


class PoolShape(NamedTuple):
    """A pool without its name. Only a usable one has parts; of another, `withheld` are those that it would have."""

    state: PoolState
    parts: tuple[LayoutPart, ...] = ()
    counters: tuple[tuple[str, str, int], ...] = ()  # counter set, counter, value
    binding: bool = False  # whether devices need conditions to come true before a pod is bound
    gate: str = ""  # without which it cannot be used
    withheld: tuple[LayoutPart, ...] = ()


class Layout:
    """The pools of a node as numbered devices; answers the questions of `DeviceList` for all of them at once."""

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
        self._values: dict[str, dict[Value, int]] = {}
        self._tolerated: dict[tuple[DeviceToleration, ...], int] = {}

    def match(self, selectors: tuple[str, ...], limit: int | None = None, turn: Turn | None = None) -> SelectorMatch:
        """The devices within reach that pass all selectors; errors count even out of reach, as they come first.

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

    def values(self, attribute: str) -> dict[Value, int]:
        """The devices that have an attribute, by its value, in the order in which values first appear."""
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
        """What an expression makes of these devices. Raises as `DeviceList.match` does."""
        steps = 0
        values: dict[Value, int] = {}
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
        """The devices whose taints the tolerations cover."""
        found = self._tolerated.get(tolerations)
        if found is None:
            found = sum(part.content.tolerated(tolerations) << offset for offset, part in self.parts)
            self._tolerated[tolerations] = found
        return found

    def device(self, at: int) -> Device:
        """Device number `at`."""
        offset, part = self.parts[bisect_right(self.offsets, at) - 1]
        return part.content.devices[at - offset]

    @cached_property
    def counting(self) -> int:
        """The devices that draw from counters which they share with others."""
        return sum(part.content.counting << offset for offset, part in self.parts)

    @cached_property
    def binding(self) -> int:
        """The devices that need conditions to come true before a pod may be bound."""
        return sum(part.content.binding << offset for offset, part in self.parts)

    @cached_property
    def shareable(self) -> int:
        """The devices of which several claims may have shares."""
        if not self.features.consumable_capacity:
            return 0
        return sum(part.content.shareable << offset for offset, part in self.parts)

    @cached_property
    def packing(self) -> Packing:
        """What devices consume."""
        return Packing(self.pools, self.shareable, self.features)

    def eligible(self, requests: Requests) -> int:
        """The devices that can serve a request for capacity when nobody uses them."""
        if not self.features.consumable_capacity:
            return -1
        return sum(1 << offset + at for offset, part in self.parts for at in self._eligible(part, requests).consumed)

    def capacity_faults(self, requests: Requests) -> dict[int, CapacityFault]:
        """The devices, by number, on which a request for capacity is an error."""
        if not self.features.consumable_capacity:
            return {}
        return {
            offset + at: fault
            for offset, part in self.parts
            for at, fault in self._eligible(part, requests).faults.items()
        }

    def takes(self, requests: Requests) -> Takes:
        """What an alternative takes of each shareable device when it asks for these capacities."""
        capacities = self.packing.capacities
        found: dict[int, Amounts] = {}
        for offset, part in self.parts:
            for at, consumed in self._eligible(part, requests).consumed.items():
                bit = 1 << offset + at
                if bit & self.shareable:
                    found[bit] = tuple((capacities[bit, name], nanos(much)) for name, much in consumed.items())
        return Takes(found)

    def consumed(self, at: int, requests: Requests) -> Consumption:
        """What a request takes of the capacity of device number `at`, which is shareable and eligible."""
        offset, part = self.parts[bisect_right(self.offsets, at) - 1]
        return self._eligible(part, requests).consumed[at - offset]

    def _eligible(self, part: LayoutPart, requests: Requests) -> Eligible:
        return part.content.eligible(requests, self.features.fractional_capacity_range)


class NodeView:
    """One node's layout with the names that go into results and messages."""

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
        self.elsewhere = tuple(elsewhere)  # for each pool, slices out of reach that draw on its counters

    def id_of(self, at: int) -> DeviceId:
        """The identity of device number `at`."""
        part = bisect_right(self.layout.offsets, at) - 1
        spec = self.slices[part].spec
        return DeviceId(spec.driver, spec.pool.name, spec.devices[at - self.layout.offsets[part]].name)

    @cached_property
    def devices(self) -> tuple[DeviceId, ...]:
        """The identity of every numbered device."""
        return tuple(self.id_of(at) for at in range(self.layout.size))

    @cached_property
    def places(self) -> dict[DeviceId, int]:
        """The number of every device."""
        return {device: at for at, device in enumerate(self.devices)}

    def slice_of(self, at: int) -> ResourceSlice:
        """The slice that holds device number `at`."""
        return self.slices[bisect_right(self.layout.offsets, at) - 1]
