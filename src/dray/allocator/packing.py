"""Counters and capacities as numbered resources: how much devices consume, and how much is left.

Devices of a pool share counters, and shares of one device share its capacity. A device consumes counters once, however many
shares of it are in use; each share consumes capacity. `Packing` contains what all nodes with equal hardware have in common,
`NodeUsage` what is in use on a node, and `NodeRoom` says during a search which devices still fit. Left out: the order in which
devices are tried (`search`), and how much capacity a request consumes (`capacity`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from math import gcd
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from dray.allocator.bits import members, union
from dray.allocator.compatibility import Compatibility, Standings, joined
from dray.allocator.content import drawn_by
from dray.allocator.identity import Features
from dray.api.types.resource import Device

if TYPE_CHECKING:
    from dray.allocator.layout import PoolShape

CounterAmounts = tuple[tuple[int, int], ...]
"""Pairs of a resource's number and an amount."""

_SETS_KEPT = 4096  # size of the cache of `least_drawn`
_WEIGHT = 1 << 40  # weight of a whole counter, so that different counters are compared by fractions


class NodeUsage(msgspec.Struct, frozen=True, gc=False):
    """Use of a node's devices: whole devices, devices with shares, the rest of each resource, compatibility groups."""

    taken: int = 0
    shared: int = 0
    left: tuple[int, ...] = ()
    groups: Standings = ()


class Packing:
    """The resources of a layout. A resource's number is its position in `totals`: counters first, then capacities."""

    def __init__(self, pools: Sequence[PoolShape], shareable: int, features: Features) -> None:
        self.shareable = shareable
        self.compatibility = Compatibility()
        self._grouped = features.compatibility_groups
        self.totals: list[int] = []
        self.counters: dict[tuple[int, str, str], int] = {}
        self.capacities: dict[tuple[int, str], int] = {}
        self.draws: dict[int, CounterAmounts] = {}
        self._pools: list[tuple[range, int]] = []  # the counters of each pool, and the devices that consume them
        if features.partitionable_devices:
            self._number_counters(pools)
        self._number_capacities(pools)
        self.size = len(self.totals)
        self.counted = sum(self.draws)  # the sum of distinct bits is their union
        self.packed = self.counted | shareable
        self._thresholds = [self._threshold(number) for number in range(len(self.counters))]
        self.measures = self._measures()
        self._room: tuple[NodeUsage, NodeRoom] | None = None
        self._least: dict[int, tuple[int, ...]] = {}
        self._cheaper: dict[int, int] = {}

    def room(self, usage: NodeUsage) -> NodeRoom:
        """Return the room that is left on a node. The last result is cached, by identity of `usage`."""
        if self._room is None or self._room[0] is not usage:
            self._room = usage, NodeRoom(self, usage)
        return self._room[1]

    def _number_counters(self, pools: Sequence[PoolShape]) -> None:
        offset = 0
        for number, pool in enumerate(pools):
            first, devices = len(self.totals), 0
            for set_, name, total in pool.counters:
                self.counters[number, set_, name] = len(self.totals)
                self.totals.append(total)
            for part in pool.parts:
                for at, drawn in part.content.draws.items():
                    bit = 1 << offset + at
                    self.draws[bit] = self._amounts(number, drawn)
                    if self._grouped:
                        self.compatibility.add(bit, number, part.content.devices[at])
                    devices |= bit
                offset += len(part.content.devices)
            if devices:
                self._pools.append((range(first, len(self.totals)), devices))

    def _amounts(self, pool: int, drawn: Iterable[tuple[str, str, int]]) -> CounterAmounts:
        """Return the amounts that a device of pool number `pool` consumes, as (number of the resource, amount).

        Counters that the pool lacks are ignored.
        """
        named = ((self.counters.get((pool, set_, name)), much) for set_, name, much in drawn)
        return tuple((number, much) for number, much in named if number is not None)

    def _number_capacities(self, pools: Sequence[PoolShape]) -> None:
        offset = 0
        for pool in pools:
            for part in pool.parts:
                for at, totals in part.content.capacities.items():
                    if self.shareable >> offset + at & 1:
                        for name, total in totals.items():
                            self.capacities[1 << offset + at, name] = len(self.totals)
                            self.totals.append(total)
                offset += len(part.content.devices)

    def _threshold(self, resource: int) -> tuple[list[int], list[int]]:
        """Return the amounts that devices consume of a counter, ascending, and for each the devices that consume at
        least that.
        """
        drawing: dict[int, int] = {}
        for bit, amounts in self.draws.items():
            for number, much in amounts:
                if number == resource:
                    drawing[much] = drawing.get(much, 0) | bit
        ordered = sorted(drawing)
        above, sets = 0, []
        for much in reversed(ordered):
            above |= drawing[much]
            sets.append(above)
        return ordered, sets[::-1]

    def _measures(self) -> list[tuple[dict[int, int], dict[int, int]]]:
        """Return weights that sum up counters: by counter name, and of all counters by fraction.

        Each entry consists of the weights of counters and the resulting weights of devices.
        """
        names = {name for _, _, name in self.counters}
        found = []
        for wanted in [*sorted(names), None]:
            scale = {
                number: _WEIGHT // max(self.totals[number], 1) if wanted is None else 1
                for (_, _, name), number in self.counters.items()
                if wanted in (None, name)
            }
            devices = {
                bit: sum(much * scale[number] for number, much in amounts if number in scale)
                for bit, amounts in self.draws.items()
            }
            found.append((scale, devices))
        return found

    @cached_property
    def by_name(self) -> list[list[int]]:
        """The numbers of the counters in all sets, one list for each counter name."""
        found: dict[str, list[int]] = {}
        for (_, _, name), number in self.counters.items():
            found.setdefault(name, []).append(number)
        return [*found.values()]

    def least_drawn(self, devices: int) -> tuple[int, ...]:
        """Return, for each counter name, the minimum that one of these devices consumes of a single counter.

        `devices` is a bit set. The minimum is 0 if the set is empty or a device consumes no counter of that name.
        """
        known = self._least.get(devices)
        if known is None:
            if len(self._least) >= _SETS_KEPT:
                self._least.clear()
            draws = [dict(self.draws[bit]) for bit in members(devices)]
            known = self._least[devices] = tuple(
                min(max(drawn.get(number, 0) for number in numbers) for drawn in draws) if draws else 0
                for numbers in self.by_name
            )
        return known

    def cheaper(self, bit: int) -> int:
        """Return the devices that consume less of some counter than a device, more of none, and have the same groups.

        Only devices that cannot be shared are compared. `bit` is the device as a set of one; the result is 0 if there
        are none.
        """
        known = self._cheaper.get(bit)
        if known is None:
            own, group = _nonzero(self.draws.get(bit, ())), self.compatibility.of(bit)
            known = self._cheaper[bit] = sum(
                other
                for other, amounts in self.draws.items()
                if not (other | bit) & self.shareable
                and self.compatibility.of(other) == group
                and (drawn := _nonzero(amounts)) != own
                and all(much <= own.get(number, 0) for number, much in drawn.items())
            )
        return known

    def name_of(self, resource: int) -> tuple[str, str]:
        """Return the counter set and counter name of a resource, or an empty string and the name of the capacity.

        `resource` is a number of the layout. Raises StopIteration if there is no such resource.
        """
        for (_, set_, name), number in self.counters.items():
            if number == resource:
                return set_, name
        return next(("", name) for (_, name), number in self.capacities.items() if number == resource)

    def too_large(self, resource: int, left: int) -> int:
        """Return the devices that consume more of a counter than is left, or 0 if there are none."""
        amounts, sets = self._thresholds[resource]
        at = bisect_right(amounts, left)
        return sets[at] if at < len(sets) else 0

    def drawing(self, resource: int, devices: int) -> tuple[int, int]:
        """Return those of the devices that consume a counter, and the minimum that one of them consumes.

        Returns (0, 0) if none of them consumes the counter.
        """
        amounts, sets = self._thresholds[resource]
        at = bisect_right(amounts, 0)
        found = sets[at] & devices if at < len(sets) else 0
        if not found:
            return 0, 0
        while at + 1 < len(sets) and sets[at + 1] & devices == found:
            at += 1
        return found, amounts[at]

    def related(self, devices: int) -> int:
        """Return the devices and all devices that consume counters of the same pools, as a bit set."""
        for _, drawing in self._pools:
            if devices & drawing:
                devices |= drawing
        return devices

    def blocked(self, left: Sequence[int]) -> int:
        """Return the devices whose counters are insufficient. An overdrawn counter blocks all devices of its pool."""
        found = 0
        for counters, devices in self._pools:
            for number in counters:
                found |= self.too_large(number, left[number]) if left[number] >= 0 else devices
        return found

    def usage(
        self, taken: int, shares: Iterable[tuple[int, Mapping[str, int]]], elsewhere: Iterable[tuple[int, Device]]
    ) -> NodeUsage:
        """Return the usage of a node from devices and shares in use.

        `elsewhere` are devices in use that the node cannot reach but that consume counters of its pools. A share of a device that
        cannot be shared (any more) counts as the whole device.
        """
        left = list(self.totals)
        shared = 0
        for bit, consumed in shares:
            if not bit & self.shareable:
                taken |= bit
                continue
            shared |= bit
            for name, much in consumed.items():
                number = self.capacities.get((bit, name))
                if number is not None:
                    left[number] -= much
        drawing = [*members((taken | shared) & self.counted)]
        others = [*elsewhere]
        for bit in drawing:
            _draw(left, self.draws[bit])
        for pool, device in others:
            _draw(left, self._amounts(pool, drawn_by(device)))
        if not self._grouped:
            return NodeUsage(taken, shared, tuple(left))
        belonging = [self.compatibility.of(bit) for bit in drawing]
        belonging += [self.compatibility.read(pool, device) for pool, device in others]
        return NodeUsage(taken, shared, tuple(left), joined((), belonging))


def _nonzero(amounts: CounterAmounts) -> dict[int, int]:
    return {number: much for number, much in amounts if much}


def _draw(left: list[int], amounts: CounterAmounts) -> None:
    for number, much in amounts:
        left[number] -= much


class Spent(NamedTuple):
    """Consumption decided by a search: amounts ordered by resource, and the devices of which it takes shares.

    `groups` contains the common compatibility groups of the counter sets that it consumes.
    """

    amounts: CounterAmounts = ()
    shared: int = 0
    groups: Standings = ()


NOTHING_SPENT = Spent()


class NodeRoom:
    """Remaining amount of each resource on one node, before and during a search."""

    def __init__(self, packing: Packing, usage: NodeUsage) -> None:
        self.packing = packing
        self.left = usage.left or packing.totals
        self.shared = usage.shared
        self._groups = usage.groups
        self._blocked = packing.blocked(self.left) if packing.size else 0
        self._blocked |= packing.compatibility.excluded(usage.groups)
        self._fullness: dict[Takes, int] = {}

    def fitting(self, takes: Takes | None, devices: int, spent: Spent) -> int:
        """Return those of the devices that still fit, each considered alone.

        Without `takes`, all of them fit. A device of which shares are in use consumes no further counters.
        """
        packing = self.packing
        if takes is None or not devices & packing.packed:
            return devices
        blocked, changed = self._blocked, []
        for number, much in spent.amounts:
            if number < len(packing.counters):
                blocked |= packing.too_large(number, self.left[number] - much)
            else:
                changed.append(number)
        if spent.groups:
            blocked |= packing.compatibility.excluded(spent.groups)
        devices &= ~blocked | self.shared | spent.shared
        if takes.capacity and devices & packing.shareable:
            devices &= ~self._full(takes) if not changed else ~(self._full(takes) | self._exhausted(takes, spent))
        return devices

    def incompatible(self, devices: int) -> int:
        """Return those of the devices that have no compatibility group in common with devices in use.

        Devices of which shares are in use are left out.
        """
        return devices & self.packing.compatibility.excluded(self._groups) & ~self.shared

    def _full(self, takes: Takes) -> int:
        """Return the devices with too little capacity left before the search begins, 0 if there are none."""
        found = self._fullness.get(takes)
        if found is None:
            found = 0
            for bit, amounts in takes.capacity.items():
                if any(self.left[number] < much for number, much in amounts):
                    found |= bit
            self._fullness[takes] = found
        return found

    def _exhausted(self, takes: Takes, spent: Spent) -> int:
        """Return the devices of which the search has taken shares and that have too little left for one more."""
        gone = dict(spent.amounts)
        found = 0
        for bit in members(spent.shared):
            amounts = takes.capacity.get(bit, ())
            if any(self.left[number] - gone.get(number, 0) < much for number, much in amounts):
                found |= bit
        return found

    def take(self, takes: Takes | None, bit: int, spent: Spent) -> Spent:
        """Return what is spent after taking one more device. Nothing more is spent without `takes`.

        `bit` is the device as a set of one. Only the first share of a device consumes counters.
        """
        packing = self.packing
        if takes is None or not bit & packing.packed:
            return spent
        amounts, groups = takes.capacity.get(bit, ()), spent.groups
        if not bit & (self.shared | spent.shared):
            amounts += packing.draws.get(bit, ())
            if belonging := packing.compatibility.of(bit):
                own = dict(self._groups) | dict(groups)
                groups = joined(groups, [tuple((at, own[at] & has if at in own else has) for at, has in belonging)])
        if amounts:
            gone = dict(spent.amounts)
            for number, much in amounts:
                gone[number] = gone.get(number, 0) + much
            amounts = tuple(sorted(gone.items()))
        else:
            amounts = spent.amounts
        return Spent(amounts, spent.shared | bit & packing.shareable, groups)

    def short(self, wishes: Sequence[tuple[int, int]], spent: Spent) -> bool:
        """Return whether the wishes (count, devices) need more than all counters together have left.

        False does not prove that the wishes can be served.
        """
        gone = dict(spent.amounts)
        alone = [(wanted, devices) for wanted, devices in wishes if not devices & self.packing.shareable]
        if self._overcrowded(sum(wanted for wanted, _ in alone), union(devices for _, devices in alone), gone):
            return True
        once = self.packing.counted & ~self.packing.shareable  # devices that consume counters each time they are taken
        counted = [(wanted, devices) for wanted, devices in wishes if not devices & ~once]
        if not counted:
            return False
        reach = self._reach(devices for _, devices in counted)
        if self._crowded(counted, gone):
            return True
        for scale, weights in self.packing.measures:
            left = sum(
                max(0, self.left[number] - gone.get(number, 0)) * scale[number] for number in scale if number in reach
            )
            if sum(_least(wanted, devices, weights) for wanted, devices in counted) > left:
                return True
        return False

    def _crowded(self, wishes: Sequence[tuple[int, int]], gone: Mapping[int, int]) -> bool:
        """Return whether more devices with at least some consumption are wanted than counters have places of that size.

        For example, a counter with 7 left has one place for devices that consume 4.
        """
        drawn = [(wanted, self.packing.least_drawn(devices)) for wanted, devices in wishes]
        for place, numbers in enumerate(self.packing.by_name):
            for size in {least[place] for _, least in drawn} - {0}:
                places = sum(max(0, self.left[number] - gone.get(number, 0)) // size for number in numbers)
                if sum(wanted for wanted, least in drawn if least[place] >= size) > places:
                    return True
        return False

    def _overcrowded(self, wanted: int, devices: int, gone: Mapping[int, int]) -> bool:
        """Return whether no `wanted` of the devices can be used at once because of their counters.

        Each device is attributed to one of its counters. A counter has places for as many of its smallest devices as
        it can serve. Counters with few places for many devices are considered first.
        """
        offers = []
        for number in range(len(self.packing.counters)):
            drawing, least = self.packing.drawing(number, devices)
            if drawing:
                left = max(0, self.left[number] - gone.get(number, 0))
                offers.append((left // least / drawing.bit_count(), number, left))
        for _, number, left in sorted(offers):
            drawing, least = self.packing.drawing(number, devices)
            if drawing:
                wanted -= min(left // least, drawing.bit_count())
                devices &= ~drawing
                if wanted <= 0:
                    return False
        return wanted > devices.bit_count()

    def _reach(self, sets: Iterable[int]) -> set[int]:
        """Return the numbers of the counters that any of the devices consumes. `sets` are bit sets of devices."""
        devices = 0
        for each in sets:
            devices |= each
        return {number for bit in members(devices) for number, _ in self.packing.draws[bit]}

    def alike(self, devices: int, takers: Sequence[Takes], spent: Spent) -> list[int]:
        """Group devices as `kinds` does, but group shareable devices with the same offer for all takers."""
        found: dict[object, int] = {}
        for bit in members(devices & self.packing.packed):
            key = self.offer(bit, takers, spent) if bit & self.packing.shareable else self.packing.draws[bit]
            found[key, self.packing.compatibility.of(bit)] = (
                found.get((key, self.packing.compatibility.of(bit)), 0) | bit
            )
        return [*found.values()]

    def offer(self, bit: int, takers: Sequence[Takes], spent: Spent) -> object:
        """Return what a shareable device offers: the counters it would consume, and for each taker the amounts and the
        rest.
        """
        gone = dict(spent.amounts)
        active = bit & (self.shared | spent.shared)
        return (
            () if active else self.packing.draws.get(bit, ()),
            tuple(
                tuple((much, self.left[number] - gone.get(number, 0)) for number, much in takes.capacity.get(bit, ()))
                for takes in takers
            ),
        )

    def overfull(self, wishes: Sequence[tuple[int, int, Takes]], spent: Spent) -> bool:
        """Return whether the shares that wishes need exceed a capacity even if each device is filled optimally.

        Considers one capacity at a time, and only capacities that all devices have. Returns False if a device cannot
        be shared, or if only one device is wanted. A wish is (count, devices, amounts).
        """
        takers = [takes for wanted, _, takes in wishes for _ in range(wanted)]
        devices = 0
        for _, each, _ in wishes:
            devices |= each
        if devices & ~self.packing.shareable or len(takers) < 2:
            return False
        gone = dict(spent.amounts)
        for name in sorted({name for _, name in self.packing.capacities}):
            numbers = [self.packing.capacities.get((bit, name), -1) for bit in members(devices)]
            if -1 not in numbers:
                sizes = [_smallest(takes, devices, numbers) for takes in takers]
                lefts = [self.left[number] - gone.get(number, 0) for number in numbers]
                if sum(sizes) > _fillable(sizes, lefts):
                    return True
        return False

    def kinds(self, devices: int) -> list[int]:
        """Group devices with counters by equal consumption. Each shareable device is a group of its own."""
        found: dict[object, int] = {}
        for bit in members(devices & self.packing.packed):
            key: object = bit
            if not bit & self.packing.shareable:
                key = self.packing.draws[bit], self.packing.compatibility.of(bit)
            found[key] = found.get(key, 0) | bit
        return [*found.values()]


class Takes:
    """Amounts that one alternative takes of each shareable device. Compared by identity."""

    __slots__ = ("capacity",)

    def __init__(self, capacity: dict[int, CounterAmounts]) -> None:
        self.capacity = capacity


COUNTERS_ONLY = Takes({})


def _smallest(takes: Takes, devices: int, numbers: Collection[int]) -> int:
    """Return the minimum that is taken of one of these resources on any of the devices, or 0 if nothing is taken."""
    return min(
        (much for bit in takes.capacity if bit & devices for number, much in takes.capacity[bit] if number in numbers),
        default=0,
    )


_FINEST = 4096  # a capacity with more units than this is not computed exactly


def _fillable(sizes: Sequence[int], lefts: Sequence[int]) -> int:
    """Return an upper bound of what items of these sizes can fill of these rooms, with all items available to each
    room.
    """
    unit = gcd(*sizes) or 1
    most = max(lefts, default=0)
    if most // unit > _FINEST:
        return sum(left for left in lefts if left > 0)
    sums = 1  # bit n is set if some of the sizes add up to n units
    for size in sizes:
        sums |= sums << size // unit
    return sum(((sums & (1 << left // unit + 1) - 1).bit_length() - 1) * unit for left in lefts if left > 0)


def _least(wanted: int, devices: int, weights: Mapping[int, int]) -> int:
    """Return the minimum total weight of `wanted` of the devices. A device without a weight weighs 0."""
    return sum(sorted(weights.get(bit, 0) for bit in members(devices))[:wanted])
