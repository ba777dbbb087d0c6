"""The cheapest nodes for a small case by trying everything: every number of nodes of every group, every pod on every node,
pods in every order. A pod gets the first of its alternatives, and the first devices, that are free when it comes, as
Kubernetes has it. Knows nothing of the planner, the scheduler or the allocator."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

from tests.sim.autoscaling.cases import Case, Group, Option, Want

Used = frozenset[tuple[str, int]]  # chips by name, with how much of them is used


def cheapest(case: Case) -> tuple[int, int]:
    """How many pods can be placed at the most, and the lowest price of nodes that place so many."""
    ranges = [range(group.most + 1) for group in case.groups]
    vectors = sorted(itertools.product(*ranges), key=lambda vector: price(case, vector))
    most = placed(case, tuple(group.most for group in case.groups))
    return most, next(price(case, vector) for vector in vectors if placed(case, vector, most) == most)


def price(case: Case, vector: tuple[int, ...]) -> int:
    return sum(count * group.price for count, group in zip(vector, case.groups, strict=True))


def placed(case: Case, vector: tuple[int, ...], enough: int | None = None) -> int:
    """How many pods fit on so many nodes of each group at the most."""
    wants = tuple(sorted(case.wants, key=repr))
    everything = sum(want.pods for want in wants) if enough is None else enough

    @cache
    def best(at: int, nodes: tuple[tuple[int, tuple[Want, ...]], ...]) -> int:
        if at == len(wants):
            return 0
        want, most = wants[at], 0
        rest = sum(one.pods for one in wants[at:])
        for place, (group, there) in enumerate(nodes):
            if nodes[place] in nodes[:place]:
                continue
            together = tuple(sorted((*there, want), key=repr))
            if fits(case.groups[group], together):
                after = tuple(sorted((*nodes[:place], (group, together), *nodes[place + 1 :]), key=repr))
                most = max(most, want.pods + best(at + 1, after))
                if most == rest:
                    return most
        return max(most, best(at + 1, nodes))

    empty = tuple((group, ()) for group, count in enumerate(vector) for _ in range(count))
    return min(everything, best(0, empty))


@cache
def fits(group: Group, wants: tuple[Want, ...]) -> bool:
    """Whether one node takes all these pods."""
    if sum(want.cpu * want.pods for want in wants) > group.cpu:
        return False
    return _served(group, wants, frozenset())


@cache
def _served(group: Group, wants: tuple[Want, ...], used: Used) -> bool:
    """Whether the pods fit in some order."""
    if not wants:
        return True
    for at, want in enumerate(wants):
        if want in wants[:at]:
            continue
        ways = (after for option in want.options for after in _ways(group, option, want.one_root, used))
        first = next(ways, None)
        if first is not None and _served(group, (*wants[:at], *wants[at + 1 :]), first):
            return True
    return False


def _ways(group: Group, option: Option, one_root: bool, used: Used) -> Iterator[Used]:
    if option.memory:
        taken = dict(used)
        for chip in group.chips:
            if chip.shared and chip.shared - taken.get(chip.name, 0) >= option.memory:
                yield frozenset({**taken, chip.name: taken.get(chip.name, 0) + option.memory}.items())
        return
    free = [chip for chip in group.chips if chip.name not in dict(used) and not chip.shared]
    free = [chip for chip in free if not option.model or chip.model == option.model]
    for chosen in itertools.combinations(free, option.count):
        if one_root and len({chip.root for chip in chosen}) > 1:
            continue
        after = frozenset({**dict(used), **{chip.name: 1 for chip in chosen}}.items())
        if _cards_suffice(group, after):
            yield after


def _cards_suffice(group: Group, used: Used) -> bool:
    names = {name for name, _ in used}
    for card, much in group.cards:
        if sum(chip.draws for chip in group.chips if chip.card == card and chip.name in names) > much:
            return False
    return True
