"""What devices consume, as numbers: counters that devices of a pool share, and capacity that shares of a device take.

Both are resources with so much left. A device that consumes counters draws on them once, however many shares it has; a
share takes capacity of its device each time. `Packing` is the part that all nodes with equal hardware have in common,
`NodeUsage` what others hold of it, and `NodeRoom` answers which devices still fit as a search goes on. Left out: the order in
which devices are tried (`search`), and what a request takes of a capacity (`capacity`).
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

Amounts = tuple[tuple[int, int], ...]
"""Pairs of a resource's number and how much of it."""

_SETS_KEPT = 4096  # of devices, of which the least that they draw is known
_WEIGHT = 1 << 40  # what a whole counter weighs: devices that draw on different counters are compared by their shares


class NodeUsage(msgspec.Struct, frozen=True, gc=False):
    """What is in use on a node: whole devices, devices with shares, what is left of each resource, groups in common."""

    taken: int = 0
    shared: int = 0
    left: tuple[int, ...] = ()
    groups: Standings = ()


class Packing:
    """The resources of a layout. Numbers of resources are positions in `totals`: counters first, then capacities."""

    def __init__(self, pools: Sequence[PoolShape], shareable: int, features: Features) -> None:
        self.shareable = shareable
        self.compatibility = Compatibility()
        self._grouped = features.compatibility_groups
        self.totals: list[int] = []
        self.counters: dict[tuple[int, str, str], int] = {}
        self.capacities: dict[tuple[int, str], int] = {}
        self.draws: dict[int, Amounts] = {}
        self._pools: list[tuple[range, int]] = []  # the counters of a pool, and the devices that draw on them
        if features.partitionable_devices:
            self._number_counters(pools)
        self._number_capacities(pools)
        self.size = len(self.totals)
        self.counted = sum(self.draws)  # every device is a bit of its own
        self.packed = self.counted | shareable
        self._thresholds = [self._threshold(number) for number in range(len(self.counters))]
        self.measures = self._measures()
        self._room: tuple[NodeUsage, NodeRoom] | None = None
        self._least: dict[int, tuple[int, ...]] = {}
        self._cheaper: dict[int, int] = {}

    def room(self, usage: NodeUsage) -> NodeRoom:
        """The room that a usage leaves; one that was just asked for is at hand."""
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

    def _amounts(self, pool: int, drawn: Iterable[tuple[str, str, int]]) -> Amounts:
        """What a device of pool number `pool` draws; counters that the pool does not have are no counters."""
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
        """Amounts that devices draw of a counter, ascending, and for each the devices that draw as much or more."""
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
        """Ways to add up counters: by name, and all of them by weight; as (of each counter, of each device)."""
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
        """The counters of each name, in all sets."""
        found: dict[str, list[int]] = {}
        for (_, _, name), number in self.counters.items():
            found.setdefault(name, []).append(number)
        return [*found.values()]

    def least_drawn(self, devices: int) -> tuple[int, ...]:
        """For each name of counters, the least that one of these devices draws from a single one."""
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
        """The devices that draw less than a device in some counter and more in none, and go with the same others.

        Only devices that serve one claim at a time are compared.
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
        """The counter set and the counter of a resource, or no set and the capacity."""
        for (_, set_, name), number in self.counters.items():
            if number == resource:
                return set_, name
        return next(("", name) for (_, name), number in self.capacities.items() if number == resource)

    def too_large(self, resource: int, left: int) -> int:
        """The devices that draw more of a counter than is left."""
        amounts, sets = self._thresholds[resource]
        at = bisect_right(amounts, left)
        return sets[at] if at < len(sets) else 0

    def drawing(self, resource: int, devices: int) -> tuple[int, int]:
        """Those of the devices that draw on a counter, and the least that one of them draws."""
        amounts, sets = self._thresholds[resource]
        at = bisect_right(amounts, 0)
        found = sets[at] & devices if at < len(sets) else 0
        if not found:
            return 0, 0
        while at + 1 < len(sets) and sets[at + 1] & devices == found:
            at += 1
        return found, amounts[at]

    def related(self, devices: int) -> int:
        """The devices, and those that draw on counters of the same pool."""
        for _, drawing in self._pools:
            if devices & drawing:
                devices |= drawing
        return devices

    def blocked(self, left: Sequence[int]) -> int:
        """The devices whose counters are not enough; all of a pool of which a counter is overdrawn."""
        found = 0
        for counters, devices in self._pools:
            for number in counters:
                found |= self.too_large(number, left[number]) if left[number] >= 0 else devices
        return found

    def usage(
        self, taken: int, shares: Iterable[tuple[int, Mapping[str, int]]], elsewhere: Iterable[tuple[int, Device]]
    ) -> NodeUsage:
        """What is left when these devices and shares are in use, and others of a pool draw on counters from elsewhere.

        A share of a device that cannot be shared (any more) takes all of it.
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


def _nonzero(amounts: Amounts) -> dict[int, int]:
    return {number: much for number, much in amounts if much}


def _draw(left: list[int], amounts: Amounts) -> None:
    for number, much in amounts:
        left[number] -= much


class Spent(NamedTuple):
    """What a search has decided to consume: amounts by resource, in order, and devices of which it takes shares.

    `groups` are those in common on the counter sets that it draws on.
    """

    amounts: Amounts = ()
    shared: int = 0
    groups: Standings = ()


NOTHING_SPENT = Spent()


class NodeRoom:
    """What is left on one node, before and during a search."""

    def __init__(self, packing: Packing, usage: NodeUsage) -> None:
        self.packing = packing
        self.left = usage.left or packing.totals
        self.shared = usage.shared
        self._groups = usage.groups
        self._blocked = packing.blocked(self.left) if packing.size else 0
        self._blocked |= packing.compatibility.excluded(usage.groups)
        self._fullness: dict[Takes, int] = {}

    def fitting(self, takes: Takes | None, devices: int, spent: Spent) -> int:
        """Those of the devices that still fit, each by itself."""
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
        """Those of the devices that have no group in common with devices in use."""
        return devices & self.packing.compatibility.excluded(self._groups) & ~self.shared

    def _full(self, takes: Takes) -> int:
        """The devices that have too little capacity left before the search begins."""
        found = self._fullness.get(takes)
        if found is None:
            found = 0
            for bit, amounts in takes.capacity.items():
                if any(self.left[number] < much for number, much in amounts):
                    found |= bit
            self._fullness[takes] = found
        return found

    def _exhausted(self, takes: Takes, spent: Spent) -> int:
        """The devices of which the search itself has taken shares, and that have too little left for one more."""
        gone = dict(spent.amounts)
        found = 0
        for bit in members(spent.shared):
            amounts = takes.capacity.get(bit, ())
            if any(self.left[number] - gone.get(number, 0) < much for number, much in amounts):
                found |= bit
        return found

    def take(self, takes: Takes | None, bit: int, spent: Spent) -> Spent:
        """What is spent after one more device is taken."""
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
        """Whether so many out of these devices, for each wish, draw more than all counters together have left."""
        gone = dict(spent.amounts)
        alone = [(wanted, devices) for wanted, devices in wishes if not devices & self.packing.shareable]
        if self._overcrowded(sum(wanted for wanted, _ in alone), union(devices for _, devices in alone), gone):
            return True
        once = self.packing.counted & ~self.packing.shareable  # these draw each time that they are taken
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
        """Whether more devices are wanted that draw so much or more than sets have places for: 7 has one place for 4s."""
        drawn = [(wanted, self.packing.least_drawn(devices)) for wanted, devices in wishes]
        for place, numbers in enumerate(self.packing.by_name):
            for size in {least[place] for _, least in drawn} - {0}:
                places = sum(max(0, self.left[number] - gone.get(number, 0)) // size for number in numbers)
                if sum(wanted for wanted, least in drawn if least[place] >= size) > places:
                    return True
        return False

    def _overcrowded(self, wanted: int, devices: int, gone: Mapping[int, int]) -> bool:
        """Whether so many of these devices cannot draw at once, whichever they are.

        Each device is counted with one of its counters, and each counter with its places for the smallest of its devices;
        counters with few places for many devices come first.
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
        """The counters that any of the devices draws on."""
        devices = 0
        for each in sets:
            devices |= each
        return {number for bit in members(devices) for number, _ in self.packing.draws[bit]}

    def alike(self, devices: int, takers: Sequence[Takes], spent: Spent) -> list[int]:
        """As `kinds`, with shareable devices together that have the same left and give the same to all takers."""
        found: dict[object, int] = {}
        for bit in members(devices & self.packing.packed):
            key = self.offer(bit, takers, spent) if bit & self.packing.shareable else self.packing.draws[bit]
            found[key, self.packing.compatibility.of(bit)] = (
                found.get((key, self.packing.compatibility.of(bit)), 0) | bit
            )
        return [*found.values()]

    def offer(self, bit: int, takers: Sequence[Takes], spent: Spent) -> object:
        """What a shareable device has for each taker: what it takes, and what is left of that; and what it draws."""
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
        """Whether so many shares, for each wish, take more than devices can give when each is filled as far as can be.

        Looks at one capacity at a time, where all devices have it.
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
        """The packed ones of the devices, in sets that consume the same of the same; shareable ones stand alone."""
        found: dict[object, int] = {}
        for bit in members(devices & self.packing.packed):
            key: object = bit
            if not bit & self.packing.shareable:
                key = self.packing.draws[bit], self.packing.compatibility.of(bit)
            found[key] = found.get(key, 0) | bit
        return [*found.values()]


class Takes:
    """What one alternative takes of each shareable device. Every alternative has its own."""

    __slots__ = ("capacity",)

    def __init__(self, capacity: dict[int, Amounts]) -> None:
        self.capacity = capacity


COUNTERS_ONLY = Takes({})


def _smallest(takes: Takes, devices: int, numbers: Collection[int]) -> int:
    """The least that is taken of one of these resources, on whichever of the devices."""
    return min(
        (much for bit in takes.capacity if bit & devices for number, much in takes.capacity[bit] if number in numbers),
        default=0,
    )


_FINEST = 4096  # steps of a capacity up to which sums are told one by one


def _fillable(sizes: Sequence[int], lefts: Sequence[int]) -> int:
    """The most that things of these sizes can fill of these rooms, were each room alone with all of them."""
    unit = gcd(*sizes) or 1
    most = max(lefts, default=0)
    if most // unit > _FINEST:
        return sum(left for left in lefts if left > 0)
    sums = 1  # bit n: some of the sizes add up to n units
    for size in sizes:
        sums |= sums << size // unit
    return sum(((sums & (1 << left // unit + 1) - 1).bit_length() - 1) * unit for left in lefts if left > 0)


def _least(wanted: int, devices: int, weights: Mapping[int, int]) -> int:
    """The least that so many of the devices weigh together."""
    return sum(sorted(weights.get(bit, 0) for bit in members(devices))[:wanted])
