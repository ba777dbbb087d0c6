"""The feasibility oracle: decides whether the remaining demands can be served, so that the search need not backtrack.

Once every alternative and every shared attribute value is decided, serving demands is a bipartite matching. The
oracle therefore branches only on alternatives and values, first on the one with the fewest possibilities. Before
that, cheap necessary conditions exclude what is impossible: too few devices, no common value, no matching of the
minimum demands, no packing of groups into values, more consumption than all counters allow. Devices that consume
counters or capacity are chosen one by one if the lowest fitting devices do not serve all demands. Parts that share
nothing are solved separately. Failed states are remembered, independent of the names of equal values. Packing is
NP-hard, so steps are counted. Left out: the order of solutions, which only `search` needs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator, Sequence
from typing import NamedTuple

import msgspec

from dray.allocator.bipartite import Shortage, Wish, assign
from dray.allocator.bits import lowest, members, split, union
from dray.allocator.budget import StepMeter
from dray.allocator.packing import NOTHING_SPENT, NodeRoom, Spent, Takes
from dray.allocator.problem import ConstraintBits

DEMAND_STEPS = 3  # steps that a question to the oracle costs for each of its demands


class Option(NamedTuple):
    """One alternative of a demand: `wanted` out of `devices`, under the constraints `rules`.

    `takes` is what it consumes of the devices, or None for a demand that only visits them.
    """

    choice: int
    wanted: int
    devices: int
    rules: tuple[int, ...]
    takes: Takes | None = None


class DeviceDemand(NamedTuple):
    """The undecided part of a request: one of the options must be served. `claim` is used for the limit of results."""

    item: int
    claim: int
    options: tuple[Option, ...]


class DemandGrant(msgspec.Struct, frozen=True, gc=False):
    """The alternative and the devices that serve a demand."""

    choice: int
    devices: int


FeasibleGrants = dict[int, DemandGrant]


class Standing(NamedTuple):
    """The decisions made before the demands.

    For each constraint, `pins` contains the devices that have the value already chosen (0: none chosen yet), or for
    distinct values the devices that are excluded now. `spent` is what has been consumed.
    """

    pins: Sequence[int]
    spent: Spent = NOTHING_SPENT

    def pinned(self, number: int, value: int) -> Standing:
        """Return a copy in which a value (the bit set of the devices that have it) is chosen for constraint `number`."""
        after = [*self.pins]
        after[number] = value
        return self._replace(pins=after)


class Oracle:
    """Answers whether demands can be served, for one problem. The meter counts the steps and can end the computation."""

    def __init__(self, rules: Sequence[ConstraintBits], room: NodeRoom, meter: StepMeter) -> None:
        self.rules = rules
        self.room = room
        self.shareable = room.packing.shareable
        self.packed = room.packing.packed
        self._meter = meter
        self._failed: set[object] = set()

    def solve(
        self, demands: Sequence[DeviceDemand], standing: Standing, budgets: dict[int, int] | None = None
    ) -> FeasibleGrants | None:
        """Return a grant for every demand by the demand's item, or None if the demands cannot be served together.

        `budgets` limits the number of devices of some claims, by the claims' numbers. Raises what the meter raises.
        """
        if len(demands) == 1 and len(demands[0].options) == 1 and not demands[0].options[0].rules:
            option = demands[0].options[0]
            if option.wanted < 2 or not option.devices & self.packed:
                self._meter.spend()
                return _alone(demands[0])
        self._meter.spend(DEMAND_STEPS * len(demands))
        narrowed = self._narrow(list(demands), standing.pins, budgets or {})
        if narrowed is None:
            return None
        witness: FeasibleGrants = {}
        for part in self._parts(narrowed, budgets or {}):
            found = self._solve_part(part, standing, budgets or {})
            if found is None:
                return None
            witness |= found
        return witness

    def _solve_part(
        self, demands: list[DeviceDemand], standing: Standing, budgets: dict[int, int]
    ) -> FeasibleGrants | None:
        given = assign([self._exclusive(_least(demand)) for demand in demands])
        if isinstance(given, Shortage):
            return None
        open_rules = self._open_rules(demands, standing.pins)
        undecided = [demand for demand in demands if len(demand.options) > 1]
        packed = any(_least(demand).devices & self.packed for demand in demands)
        if not open_rules and not undecided:
            if not packed:
                return _granted(demands, given)
            if (found := self._greedy(demands, standing)) is not None:
                return found
        if self._overpacked(demands, open_rules, standing.pins):
            return None
        if packed and self._too_much(demands, undecided, standing):
            return None
        key = self._key(demands, open_rules, standing, budgets)
        if key in self._failed:
            return None
        found = self._branch(demands, open_rules, undecided, standing, budgets)
        if found is None:
            self._failed.add(key)
        return found

    def _too_much(self, demands: Sequence[DeviceDemand], undecided: Sequence[DeviceDemand], standing: Standing) -> bool:
        """Return whether demands exceed counters or capacity whichever devices they get.

        `undecided` are the demands with several options. False does not prove that the demands fit.
        """
        taking = [demand for demand in demands if all(option.takes is not None for option in demand.options)]
        if self.room.short([_least(demand) for demand in taking], standing.spent):
            return True
        options = [demand.options[0] for demand in demands]
        wishes = [(one.wanted, one.devices, one.takes) for one in options if one.takes is not None]
        return not undecided and len(wishes) == len(options) and self.room.overfull(wishes, standing.spent)

    def _exclusive(self, wish: Wish) -> Wish:
        """Reduce a wish to what it needs of devices that cannot be shared."""
        shared = wish.devices & self.shareable
        if not shared:
            return wish
        return Wish(max(0, wish.wanted - shared.bit_count()), wish.devices ^ shared)

    def _greedy(self, demands: Sequence[DeviceDemand], standing: Standing) -> FeasibleGrants | None:
        """Give each demand the lowest devices that fit. Returns None if this does not serve all demands.

        None does not prove that the demands cannot be served. Each demand has only one option.
        """
        witness: FeasibleGrants = {}
        used, spent = 0, standing.spent
        for demand in demands:
            option = demand.options[0]
            devices, chosen = option.devices & ~used, 0
            for _ in range(option.wanted):
                devices = self.room.fitting(option.takes, devices, spent)
                if not devices:
                    return None
                bit = lowest(devices)
                devices ^= bit
                chosen |= bit
                spent = self.room.take(option.takes, bit, spent)
            used |= chosen & ~self.shareable
            witness[demand.item] = DemandGrant(option.choice, chosen)
        return witness

    def _parts(self, demands: Sequence[DeviceDemand], budgets: Container[int]) -> list[list[DeviceDemand]]:
        """Split demands into parts that share no device, counter, constraint or budget, directly or through others."""
        parts: list[tuple[int, set[int], list[DeviceDemand]]] = []
        for demand in demands:
            devices = self.room.packing.related(_least(demand).devices)
            rules = {number for option in demand.options for number in option.rules}
            if demand.claim in budgets:
                rules.add(-1 - demand.claim)
            joined = [demand]
            apart = []
            for part in parts:
                if part[0] & devices or part[1] & rules:
                    devices |= part[0]
                    rules |= part[1]
                    joined = part[2] + joined
                else:
                    apart.append(part)
            parts = [*apart, (devices, rules, joined)]
        return [sorted(part, key=lambda demand: demand.item) for _, _, part in parts]

    # Narrowing: remove what cannot be part of any solution.

    def _narrow(
        self, demands: list[DeviceDemand], pins: Sequence[int], budgets: dict[int, int]
    ) -> list[DeviceDemand] | None:
        while True:
            limits = self._limits(demands, pins)
            if limits is None:
                return None
            changed = False
            for place, demand in enumerate(demands):
                options = tuple(
                    narrowed for option in demand.options if (narrowed := _within(option, limits)) is not None
                )
                if budgets and demand.claim in budgets:
                    room = budgets[demand.claim] - _committed(demands, demand)
                    options = tuple(option for option in options if option.wanted <= room)
                if not options:
                    return None
                if options != demand.options:
                    changed = True
                    demands[place] = demand._replace(options=options)
            if not changed:
                return demands

    def _limits(self, demands: Sequence[DeviceDemand], pins: Sequence[int]) -> dict[int, int] | None:
        """Return, for each constraint of the demands, the devices that can still be part of a solution.

        Returns None if no value of a constraint can serve the demands and one of them is under it with all options.
        """
        limits: dict[int, int] = {}
        for number, bound in _by_rule(demands).items():
            rule = self.rules[number]
            if rule.distinct:
                limits[number] = rule.holders & ~pins[number]
            elif pins[number]:
                limits[number] = pins[number]
            else:
                values = self._values(number, bound)
                if not values and any(_bound(demand, number) for demand in bound):
                    return None
                limits[number] = sum(values)
        return limits

    def _values(self, number: int, demands: Sequence[DeviceDemand]) -> list[int]:
        """Return the values of a constraint with which each of the demands could be served if it were the only one."""
        values = list(self.rules[number].values)
        for options in dict.fromkeys(demand.options for demand in demands):
            values = [value for value in values if _servable(options, number, value)]
        return values

    # Bounds and branching.

    def _open_rules(self, demands: Sequence[DeviceDemand], pins: Sequence[int]) -> list[int]:
        """Return the constraints that a matching cannot decide: several devices depend on a value that is not chosen
        yet.
        """
        return [
            number
            for number, bound in _by_rule(demands).items()
            if (self.rules[number].distinct or not pins[number])
            and sum(max(option.wanted for option in demand.options if number in option.rules) for demand in bound) > 1
        ]

    def _overpacked(self, demands: Sequence[DeviceDemand], open_rules: Sequence[int], pins: Sequence[int]) -> bool:
        """Return whether the groups of demands that must agree on a value cannot all be packed into the values.

        Also returns True if a constraint has too few distinct values left. False does not prove that there is a
        solution.
        """
        groups: dict[tuple[int, ...], list[_SharedValueDemands]] = {}
        for number in open_rules:
            if not self.rules[number].distinct:
                groups.setdefault(self.rules[number].values, []).append(_group(demands, number))
            elif self._indistinct(demands, number, pins):
                return True
        return any(
            _cannot_pack(values, _disjoint(asked))
            for values, asked in groups.items()
            if len(asked) > 1 and not any(group.devices & self.shareable for group in asked)
        )

    def _indistinct(self, demands: Sequence[DeviceDemand], number: int, pins: Sequence[int]) -> bool:
        """Return whether there are too few values for devices that must have distinct values under constraint
        `number`.

        Values that are chosen already (`pins`) do not count.
        """
        values = [value for value in self.rules[number].values if not value & pins[number]]
        wishes = [
            Wish(
                min(option.wanted for option in demand.options),
                sum(
                    1 << place
                    for place, value in enumerate(values)
                    if any(option.devices & value for option in demand.options)
                ),
            )
            for demand in demands
            if _bound(demand, number)
        ]
        return isinstance(assign(wishes), Shortage)

    def _branch(
        self,
        demands: list[DeviceDemand],
        open_rules: Sequence[int],
        undecided: Sequence[DeviceDemand],
        standing: Standing,
        budgets: dict[int, int],
    ) -> FeasibleGrants | None:
        by_rule = _by_rule(demands)
        agreeing = [
            (len(self._values(number, by_rule[number])), number)
            for number in open_rules
            if not self.rules[number].distinct
        ]
        choosing = [(len(demand.options), demand.item) for demand in undecided]
        if agreeing and (not choosing or min(agreeing) <= min(choosing)):
            return self._branch_on_value(demands, min(agreeing)[1], standing, budgets)
        if choosing:
            return self._branch_on_option(demands, min(choosing)[1], standing, budgets)
        return self._branch_on_device(demands, open_rules, standing, budgets)

    def _branch_on_value(
        self, demands: list[DeviceDemand], number: int, standing: Standing, budgets: dict[int, int]
    ) -> FeasibleGrants | None:
        tried = set()
        kinds = self._kinds(demands, number)
        group = _group(demands, number)
        for value in self._values(number, _by_rule(demands)[number]):
            if not group.devices & value & self.shareable and _crowded(demands, group, value):
                continue
            profile = self._profile(value, kinds)
            if profile in tried:
                continue
            tried.add(profile)
            found = self.solve(demands, standing.pinned(number, value), budgets)
            if found is not None:
                return found
        return None

    def _branch_on_option(
        self, demands: list[DeviceDemand], item: int, standing: Standing, budgets: dict[int, int]
    ) -> FeasibleGrants | None:
        place = next(place for place, demand in enumerate(demands) if demand.item == item)
        for option in demands[place].options:
            decided = [*demands]
            decided[place] = demands[place]._replace(options=(option,))
            found = self.solve(decided, standing, budgets)
            if found is not None:
                return found
        return None

    def _branch_on_device(
        self, demands: list[DeviceDemand], open_rules: Sequence[int], standing: Standing, budgets: dict[int, int]
    ) -> FeasibleGrants | None:
        """Try devices one by one, for distinct values and for devices that consume something, which no matching
        decides.

        Returns None if no device leads to a solution.
        """
        demand = min(self._covered(demands, open_rules), key=_difficulty)
        option = demand.options[0]
        tried = 0
        for kind in self._worth_trying(option, demands, standing):
            bit = kind & -kind
            after = self._after(option, bit, standing)
            rest = [self._after_other(other, bit, after.spent) for other in demands if other.item != demand.item]
            if option.wanted > 1:
                left = option._replace(wanted=option.wanted - 1, devices=option.devices & ~(bit | tried))
                rest.append(self._after_other(demand._replace(options=(left,)), 0, after.spent))
            found = self.solve(rest, after, budgets) if rest else {}
            if found is not None:
                own = found.get(demand.item, DemandGrant(option.choice, 0))
                return found | {demand.item: DemandGrant(option.choice, own.devices | bit)}
            tried |= kind
        return None

    def _covered(self, demands: Sequence[DeviceDemand], open_rules: Sequence[int]) -> list[DeviceDemand]:
        """Return the demands that a matching cannot decide."""
        return [
            demand
            for demand in demands
            if set(open_rules) & set(demand.options[0].rules) or demand.options[0].devices & self.packed
        ]

    def _after(self, option: Option, bit: int, standing: Standing) -> Standing:
        """Return the decisions after a device is taken."""
        pins = [*standing.pins]
        for number in option.rules:
            if self.rules[number].distinct:
                pins[number] |= self.rules[number].peers(bit)
        return Standing(pins, self.room.take(option.takes, bit, standing.spent))

    def _after_other(self, demand: DeviceDemand, bit: int, spent: Spent) -> DeviceDemand:
        """Return a demand after another demand has taken a device.

        `bit` is the device as a set of one, or 0 for none. Its options keep only devices that still fit.
        """
        gone = bit & ~self.shareable
        options = tuple(
            option._replace(devices=self.room.fitting(option.takes, option.devices & ~gone, spent))
            for option in demand.options
        )
        return demand._replace(options=options)

    # Symmetry: of states that differ in names only, one is tried.

    def _worth_trying(self, option: Option, demands: Sequence[DeviceDemand], standing: Standing) -> Iterator[int]:
        """Yield sets of equivalent devices of an option, without those that another set dominates.

        Devices dominate others if they can serve the same demands and consume less. In any solution, a dominated
        device can be replaced by a dominating one, or exchanged with the demand that has it.
        """
        alike = self.room.alike(option.devices, _takers(demands), standing.spent)
        for role in split(option.devices, self._roles(demands)):
            for kind in split(role, alike):
                if option.takes is None or not role & self.room.packing.cheaper(lowest(kind)):
                    yield kind

    def _roles(self, demands: Sequence[DeviceDemand]) -> list[int]:
        """Return the sets of devices that distinguish them by demand and by attribute value, as bit sets."""
        numbers = {number for demand in demands for option in demand.options for number in option.rules}
        sets = dict.fromkeys(option.devices for demand in demands for option in demand.options)
        return [*sets, *(value for number in sorted(numbers) for value in self.rules[number].values)]

    def _profile(self, value: int, sets: Sequence[int]) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """Return how many devices of which kind have a value, without naming the value.

        Each element is (number of devices, indexes of the sets that contain them). The elements are sorted.
        """
        offered = value & union(sets)
        return tuple(
            sorted(
                (group.bit_count(), tuple(place for place, each in enumerate(sets) if group & each))
                for group in split(offered, sets)
            )
        )

    def _kinds(self, demands: Sequence[DeviceDemand], number: int) -> list[int]:
        """Return the sets that distinguish devices in every respect except their value under one constraint."""
        own = self.rules[number].values
        sets = dict.fromkeys(option.devices for demand in demands for option in demand.options)
        others = {other for demand in demands for option in demand.options for other in option.rules}
        for other in sorted(others):
            if self.rules[other].values != own:
                sets |= dict.fromkeys(self.rules[other].values)
        return [*sets, *self.room.kinds(union([*sets]))]

    def _key_of_shares(self, demands: Sequence[DeviceDemand], devices: int, standing: Standing) -> object:
        """Return a key that is equal for states that differ only by exchanging devices with equal remaining capacity."""
        options = [(demand.item, option) for demand in demands for option in demand.options]
        takers = _takers(demands)
        offers = Counter(
            (self.room.offer(bit, takers, standing.spent), tuple(bool(option.devices & bit) for _, option in options))
            for bit in members(devices)
        )
        shape = tuple((item, option.choice, option.wanted) for item, option in options)
        return shape, frozenset(offers.items())

    def _key(
        self, demands: Sequence[DeviceDemand], open_rules: Sequence[int], standing: Standing, budgets: dict[int, int]
    ) -> object:
        """Return a key that is equal for states that differ only in the names of one attribute's values."""
        sets = list(dict.fromkeys(option.devices for demand in demands for option in demand.options))
        shape = tuple(
            (
                demand.item,
                tuple(
                    (option.choice, option.wanted, option.rules, sets.index(option.devices))
                    for option in demand.options
                ),
            )
            for demand in demands
        )
        rooms = tuple(sorted(budgets.items()))
        everything = union(sets)
        if not everything & (~self.shareable | self.room.packing.counted) and not any(
            option.rules or option.takes is None for demand in demands for option in demand.options
        ):
            return self._key_of_shares(demands, everything, standing), rooms
        partitions = {self.rules[number].values for number in open_rules}
        if len(partitions) == 1 and not any(self.rules[number].distinct for number in open_rules):
            number = open_rules[0]
            kinds = self._kinds(demands, number)
            values = self.rules[number].values
            profiles = tuple(sorted(self._profile(value, kinds) for value in values))
            rest = self._profile(~sum(values), kinds)
            return shape, rooms, profiles, rest, standing.spent
        return shape, rooms, tuple(sets), tuple(standing.pins), standing.spent


def _takers(demands: Sequence[DeviceDemand]) -> list[Takes]:
    return [option.takes for demand in demands for option in demand.options if option.takes is not None]


def _difficulty(demand: DeviceDemand) -> tuple[int, int]:
    """Return the sort key of a demand. Demands with few devices and large consumption come first.

    The key is the number of devices of its first option and the negative consumption of the lowest of them.
    """
    option = demand.options[0]
    amounts = option.takes.capacity.get(lowest(option.devices), ()) if option.takes is not None else ()
    return option.devices.bit_count(), -sum(much for _, much in amounts)


def _granted(demands: Sequence[DeviceDemand], given: Sequence[int]) -> FeasibleGrants:
    return {
        demand.item: DemandGrant(demand.options[0].choice, devices)
        for demand, devices in zip(demands, given, strict=True)
    }


def _alone(demand: DeviceDemand) -> FeasibleGrants | None:
    option = demand.options[0]
    given = assign([Wish(option.wanted, option.devices)])
    return None if isinstance(given, Shortage) else {demand.item: DemandGrant(option.choice, given[0])}


def _by_rule(demands: Sequence[DeviceDemand]) -> dict[int, list[DeviceDemand]]:
    """Return, for each constraint (by its number), the demands with an option under it."""
    found: dict[int, list[DeviceDemand]] = {}
    for demand in demands:
        for number in dict.fromkeys(number for option in demand.options for number in option.rules):
            found.setdefault(number, []).append(demand)
    return found


def _bound(demand: DeviceDemand, number: int) -> bool:
    """Return whether all options of a demand are under constraint `number`."""
    return all(number in option.rules for option in demand.options)


def _servable(options: Sequence[Option], number: int, value: int) -> bool:
    """Return whether one of the options has enough devices if a value is chosen for constraint `number`.

    `value` is the bit set of the devices that have the value. Options that are not under the constraint ignore it.
    """
    for option in options:
        devices = option.devices & value if number in option.rules else option.devices
        if devices.bit_count() >= option.wanted:
            return True
    return False


def _within(option: Option, limits: dict[int, int]) -> Option | None:
    devices = option.devices
    for number in option.rules:
        devices &= limits[number]
    if devices.bit_count() < option.wanted:
        return None
    return option if devices == option.devices else option._replace(devices=devices)


def _committed(demands: Sequence[DeviceDemand], demand: DeviceDemand) -> int:
    """Return the minimum number of devices that the other demands of the same claim need."""
    return sum(
        min(option.wanted for option in other.options)
        for other in demands
        if other.claim == demand.claim and other.item != demand.item
    )


def _least(demand: DeviceDemand) -> Wish:
    """Return the smallest number of devices of any option, out of the devices of all options."""
    devices = 0
    for option in demand.options:
        devices |= option.devices
    return Wish(min(option.wanted for option in demand.options), devices)


def _crowded(demands: Sequence[DeviceDemand], group: _SharedValueDemands, value: int) -> bool:
    """Return whether a value has too few devices for a group and all demands that only this value can serve."""
    need, devices = group.need, group.devices & value
    for demand in demands:
        wish = _least(demand)
        if demand.item not in group.items and wish.devices & ~value == 0:
            need += wish.wanted
            devices |= wish.devices
    return devices.bit_count() < need


class _SharedValueDemands(NamedTuple):
    """Demands that must share a value: the minimum number of devices, and the devices that can serve them."""

    need: int
    devices: int
    items: frozenset[int]


def _group(demands: Sequence[DeviceDemand], number: int) -> _SharedValueDemands:
    bound = [demand for demand in demands if _bound(demand, number)]
    wishes = [_least(demand) for demand in bound]
    items = frozenset(demand.item for demand in bound)
    return _SharedValueDemands(sum(wish.wanted for wish in wishes), union([wish.devices for wish in wishes]), items)


def _disjoint(groups: Sequence[_SharedValueDemands]) -> list[_SharedValueDemands]:
    """Return groups without common demands, preferring larger groups."""
    kept: list[_SharedValueDemands] = []
    for group in sorted(groups, key=lambda group: -group.need):
        if group.need and not any(group.items & other.items for other in kept):
            kept.append(group)
    return kept


def _cannot_pack(values: Sequence[int], groups: Sequence[_SharedValueDemands]) -> bool:
    """Return whether groups cannot be packed into values: n devices of a value hold at most n // size groups of a
    size.
    """
    for size in sorted({group.need for group in groups}):
        large = [group.devices for group in groups if group.need >= size]
        usable = union(large)
        places = 0
        homes: list[tuple[int, int]] = []
        for value in values:
            room = (usable & value).bit_count() // size
            homes.append((((1 << room) - 1) << places, value))
            places += room
        wishes = [
            Wish(1, sum(home for home, value in homes if (devices & value).bit_count() >= size)) for devices in large
        ]
        if isinstance(assign(wishes), Shortage):
            return True
    return False
