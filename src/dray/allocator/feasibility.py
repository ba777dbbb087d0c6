"""Can what is still asked for be served at all? The oracle that lets the search never turn back.

With every alternative and every shared value decided, serving demands is a matching. So only these are branched on, the
one with the fewest possibilities first, after cheap conditions have struck out what cannot be: too few devices, no
common value, a matching of the least that is asked, a packing of groups into values. Parts that share no device are
solved apart, and states that failed are remembered up to the names of equal values. Packing is NP-hard, hence the
deadline. Left out: order; any answer will do here (`search`).
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

from dray.allocator.bipartite import Shortage, Wish, assign
from dray.allocator.bits import split
from dray.allocator.problem import Rule


class Option(NamedTuple):
    """One alternative of a demand: so many out of these devices, under these constraints."""

    choice: int
    wanted: int
    devices: int
    rules: tuple[int, ...]


class Demand(NamedTuple):
    """What is left of a request: one of the options must be served. `claim` matters where results are limited."""

    item: int
    claim: int
    options: tuple[Option, ...]


class Grant(NamedTuple):
    """How a demand can be served."""

    choice: int
    devices: int


Witness = dict[int, Grant]


class Expired(Exception):
    """The deadline has passed."""


class Oracle:
    """Answers whether demands can be served, for one problem. `pulse` is called often and may raise `Expired`."""

    def __init__(self, rules: Sequence[Rule], pulse: Callable[[], None]) -> None:
        self.rules = rules
        self.pulse = pulse
        self._failed: set[object] = set()

    def solve(
        self, demands: Sequence[Demand], pins: Sequence[int], budgets: dict[int, int] | None = None
    ) -> Witness | None:
        """A grant for every demand, or None.

        `pins` holds, for each rule, the devices that share the value already chosen (0: none chosen yet), or for a
        rule of distinct values the devices it now excludes. `budgets` limits the devices of some claims.
        """
        self.pulse()
        if len(demands) == 1 and len(demands[0].options) == 1 and not demands[0].options[0].rules:
            return _alone(demands[0])
        narrowed = self._narrow(list(demands), pins, budgets or {})
        if narrowed is None:
            return None
        witness: Witness = {}
        for part in _parts(narrowed, budgets or {}):
            found = self._solve_part(part, pins, budgets or {})
            if found is None:
                return None
            witness |= found
        return witness

    def _solve_part(self, demands: list[Demand], pins: Sequence[int], budgets: dict[int, int]) -> Witness | None:
        wishes = [_least(demand) for demand in demands]
        given = assign(wishes)
        if isinstance(given, Shortage):
            return None
        open_rules = self._open_rules(demands, pins)
        undecided = [demand for demand in demands if len(demand.options) > 1]
        if not open_rules and not undecided:
            return {
                demand.item: Grant(demand.options[0].choice, devices)
                for demand, devices in zip(demands, given, strict=True)
            }
        if self._overpacked(demands, open_rules, pins):
            return None
        key = self._key(demands, open_rules, pins, budgets)
        if key in self._failed:
            return None
        found = self._branch(demands, open_rules, undecided, pins, budgets)
        if found is None:
            self._failed.add(key)
        return found

    # Narrowing: strike out what cannot be part of any answer.

    def _narrow(self, demands: list[Demand], pins: Sequence[int], budgets: dict[int, int]) -> list[Demand] | None:
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

    def _limits(self, demands: Sequence[Demand], pins: Sequence[int]) -> dict[int, int] | None:
        """For every rule in play, the devices that can still take part in an answer."""
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

    def _values(self, number: int, demands: Sequence[Demand]) -> list[int]:
        """The values of a rule with which every demand under it could be served, were it alone."""
        values = list(self.rules[number].values)
        for options in dict.fromkeys(demand.options for demand in demands):
            values = [value for value in values if _servable(options, number, value)]
        return values

    # Bounds and branching.

    def _open_rules(self, demands: Sequence[Demand], pins: Sequence[int]) -> list[int]:
        """The rules whose outcome a matching cannot settle: two or more devices depend on a value not yet chosen."""
        return [
            number
            for number, bound in _by_rule(demands).items()
            if (self.rules[number].distinct or not pins[number])
            and sum(max(option.wanted for option in demand.options if number in option.rules) for demand in bound) > 1
        ]

    def _overpacked(self, demands: Sequence[Demand], open_rules: Sequence[int], pins: Sequence[int]) -> bool:
        """Whether groups that must each agree on a value cannot all find room: values have so many places for them."""
        groups: dict[tuple[int, ...], list[_Group]] = {}
        for number in open_rules:
            if not self.rules[number].distinct:
                groups.setdefault(self.rules[number].values, []).append(_group(demands, number))
            elif self._indistinct(demands, number, pins):
                return True
        return any(_cannot_pack(values, _disjoint(asked)) for values, asked in groups.items() if len(asked) > 1)

    def _indistinct(self, demands: Sequence[Demand], number: int, pins: Sequence[int]) -> bool:
        """Whether there are too few values for devices that must all differ."""
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
        demands: list[Demand],
        open_rules: Sequence[int],
        undecided: Sequence[Demand],
        pins: Sequence[int],
        budgets: dict[int, int],
    ) -> Witness | None:
        by_rule = _by_rule(demands)
        agreeing = [
            (len(self._values(number, by_rule[number])), number)
            for number in open_rules
            if not self.rules[number].distinct
        ]
        choosing = [(len(demand.options), demand.item) for demand in undecided]
        if agreeing and (not choosing or min(agreeing) <= min(choosing)):
            return self._branch_on_value(demands, min(agreeing)[1], pins, budgets)
        if choosing:
            return self._branch_on_option(demands, min(choosing)[1], pins, budgets)
        return self._branch_on_device(demands, open_rules, pins, budgets)

    def _branch_on_value(
        self, demands: list[Demand], number: int, pins: Sequence[int], budgets: dict[int, int]
    ) -> Witness | None:
        tried = set()
        kinds = self._kinds(demands, number)
        group = _group(demands, number)
        for value in self._values(number, _by_rule(demands)[number]):
            if _crowded(demands, group, value):
                continue
            profile = self._profile(value, kinds)
            if profile in tried:
                continue
            tried.add(profile)
            found = self.solve(demands, _pinned(pins, number, value), budgets)
            if found is not None:
                return found
        return None

    def _branch_on_option(
        self, demands: list[Demand], item: int, pins: Sequence[int], budgets: dict[int, int]
    ) -> Witness | None:
        place = next(place for place, demand in enumerate(demands) if demand.item == item)
        for option in demands[place].options:
            decided = [*demands]
            decided[place] = demands[place]._replace(options=(option,))
            found = self.solve(decided, pins, budgets)
            if found is not None:
                return found
        return None

    def _branch_on_device(
        self, demands: list[Demand], open_rules: Sequence[int], pins: Sequence[int], budgets: dict[int, int]
    ) -> Witness | None:
        """Values that must all differ: no matching settles that beside other demands, so try device by device."""
        covered = [demand for demand in demands if set(open_rules) & set(demand.options[0].rules)]
        demand = min(covered, key=lambda demand: demand.options[0].devices.bit_count())
        option = demand.options[0]
        tried = 0
        for kind in split(option.devices, self._distinctions(demands)):
            bit = kind & -kind
            rest = [_without(other, bit) for other in demands if other.item != demand.item]
            if option.wanted > 1:
                left = option._replace(wanted=option.wanted - 1, devices=option.devices & ~(bit | tried))
                rest.append(demand._replace(options=(left,)))
            after = [*pins]
            for number in option.rules:
                if self.rules[number].distinct:
                    after[number] |= self.rules[number].peers(bit)
            found = self.solve(rest, after, budgets)
            if found is not None:
                own = found.get(demand.item, Grant(option.choice, 0))
                return found | {demand.item: Grant(option.choice, own.devices | bit)}
            tried |= kind
        return None

    # Sameness: two states that differ in names only need not both be tried.

    def _distinctions(self, demands: Sequence[Demand]) -> list[int]:
        numbers = {number for demand in demands for option in demand.options for number in option.rules}
        sets = [option.devices for demand in demands for option in demand.options]
        return sets + [value for number in numbers for value in self.rules[number].values]

    def _profile(self, value: int, sets: Sequence[int]) -> tuple[tuple[int, tuple[int, ...]], ...]:
        """What a value has to offer: how many devices of which kind, apart from the value itself."""
        offered = value & _union(sets)
        return tuple(
            sorted(
                (group.bit_count(), tuple(place for place, each in enumerate(sets) if group & each))
                for group in split(offered, sets)
            )
        )

    def _kinds(self, demands: Sequence[Demand], number: int) -> list[int]:
        """The sets that tell devices apart in every respect but the value under one rule."""
        own = self.rules[number].values
        sets = dict.fromkeys(option.devices for demand in demands for option in demand.options)
        others = {other for demand in demands for option in demand.options for other in option.rules}
        for other in sorted(others):
            if self.rules[other].values != own:
                sets |= dict.fromkeys(self.rules[other].values)
        return list(sets)

    def _key(
        self, demands: Sequence[Demand], open_rules: Sequence[int], pins: Sequence[int], budgets: dict[int, int]
    ) -> object:
        """Equal for states that are the same up to renaming the values of one attribute."""
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
        partitions = {self.rules[number].values for number in open_rules}
        if len(partitions) == 1 and not any(self.rules[number].distinct for number in open_rules):
            number = open_rules[0]
            kinds = self._kinds(demands, number)
            values = self.rules[number].values
            profiles = tuple(sorted(self._profile(value, kinds) for value in values))
            rest = self._profile(~sum(values), kinds)
            return shape, rooms, profiles, rest
        return shape, rooms, tuple(sets), tuple(pins)


def _alone(demand: Demand) -> Witness | None:
    option = demand.options[0]
    given = assign([Wish(option.wanted, option.devices)])
    return None if isinstance(given, Shortage) else {demand.item: Grant(option.choice, given[0])}


def _by_rule(demands: Sequence[Demand]) -> dict[int, list[Demand]]:
    """For each rule, the demands with an option under it."""
    found: dict[int, list[Demand]] = {}
    for demand in demands:
        for number in dict.fromkeys(number for option in demand.options for number in option.rules):
            found.setdefault(number, []).append(demand)
    return found


def _bound(demand: Demand, number: int) -> bool:
    """Whether a demand is under a rule whichever option it takes."""
    return all(number in option.rules for option in demand.options)


def _servable(options: Sequence[Option], number: int, value: int) -> bool:
    """Whether one of the options has enough devices when a rule means this value."""
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


def _committed(demands: Sequence[Demand], demand: Demand) -> int:
    """The least that the other demands of the same claim will use of its budget."""
    return sum(
        min(option.wanted for option in other.options)
        for other in demands
        if other.claim == demand.claim and other.item != demand.item
    )


def _least(demand: Demand) -> Wish:
    """What a demand asks for at least, of whatever could serve it."""
    devices = 0
    for option in demand.options:
        devices |= option.devices
    return Wish(min(option.wanted for option in demand.options), devices)


def _union(sets: Sequence[int]) -> int:
    devices = 0
    for each in sets:
        devices |= each
    return devices


def _parts(demands: Sequence[Demand], budgets: Container[int]) -> list[list[Demand]]:
    """Demands that share no device, rule or budget, even through others, apart from each other."""
    parts: list[tuple[int, set[int], list[Demand]]] = []
    for demand in demands:
        devices = _least(demand).devices
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


def _crowded(demands: Sequence[Demand], group: _Group, value: int) -> bool:
    """Whether a value has no room for a group beside the demands that can only be served by that value."""
    need, devices = group.need, group.devices & value
    for demand in demands:
        wish = _least(demand)
        if demand.item not in group.items and wish.devices & ~value == 0:
            need += wish.wanted
            devices |= wish.devices
    return devices.bit_count() < need


class _Group(NamedTuple):
    """Demands that must share a value: how many devices they need at least, out of which."""

    need: int
    devices: int
    items: frozenset[int]


def _group(demands: Sequence[Demand], number: int) -> _Group:
    bound = [demand for demand in demands if _bound(demand, number)]
    wishes = [_least(demand) for demand in bound]
    items = frozenset(demand.item for demand in bound)
    return _Group(sum(wish.wanted for wish in wishes), _union([wish.devices for wish in wishes]), items)


def _disjoint(groups: Sequence[_Group]) -> list[_Group]:
    """Groups without a demand in common, the larger ones preferred."""
    kept: list[_Group] = []
    for group in sorted(groups, key=lambda group: -group.need):
        if group.need and not any(group.items & other.items for other in kept):
            kept.append(group)
    return kept


def _cannot_pack(values: Sequence[int], groups: Sequence[_Group]) -> bool:
    """For each size: a value with n usable devices has room for n // size groups of that size or more."""
    for size in sorted({group.need for group in groups}):
        large = [group.devices for group in groups if group.need >= size]
        usable = _union(large)
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


def _pinned(pins: Sequence[int], number: int, value: int) -> list[int]:
    after = [*pins]
    after[number] = value
    return after


def _without(demand: Demand, bit: int) -> Demand:
    options = tuple(option._replace(devices=option.devices & ~bit) for option in demand.options)
    return demand._replace(options=options)
