"""The cheapest nodes for a small case by trying everything: every number of nodes of every group, every pod on every node,
pods in every order. A pod gets the first of its alternatives, and the first devices, that are free when it comes, as
Kubernetes has it. Knows nothing of the planner, the scheduler or the allocator."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import cache

from tests.autoscaling.cases import Case, Group, Option, Want

Used = frozenset[tuple[str, int]]  # chips by name, with how much of them is used


def cheapest(case: Case, step: int = 0) -> tuple[int, int]:
    """How many pods can be placed at the most, and the lowest cost of nodes that place so many.

    A node costs its price, and each step down a list of alternatives costs `step`.
    """
    ranges = [range(group.most + 1) for group in case.groups]
    vectors = sorted(itertools.product(*ranges), key=lambda vector: price(case, vector))
    most, _ = placed(case, tuple(group.most for group in case.groups), bool(step))
    best: int | None = None
    for vector in vectors:
        if best is not None and price(case, vector) >= best:
            break
        pods, steps = placed(case, vector, bool(step))
        if pods == most:
            best = min(price(case, vector) + step * steps, best if best is not None else 10**9)
    assert best is not None
    return most, best


def price(case: Case, vector: tuple[int, ...]) -> int:
    return sum(count * group.price for count, group in zip(vector, case.groups, strict=True))


def placed(case: Case, vector: tuple[int, ...], counts_steps: bool, required: tuple[Want, ...] = ()) -> tuple[int, int]:
    """How many pods fit on so many nodes of each group at the most, and in how few steps down lists of alternatives.

    `required` must be placed too, before the pods of the case; without a place for all of them the number is negative.
    """
    wants = (*sorted(required, key=repr), *sorted(case.wants, key=repr))
    numbers = [wants.index(want) for want in wants]  # equal pods have one number
    rests = [sum(one.pods for one in wants[at:]) for at in range(len(wants))]

    @cache
    def steps_of(group: int, there: tuple[int, ...]) -> int | None:
        return steps_on(case.groups[group], tuple(wants[number] for number in there))

    @cache
    def best(at: int, nodes: tuple[tuple[int, tuple[int, ...]], ...]) -> tuple[int, int]:
        """The most pods, and the steps of all nodes in the end, below zero."""
        if at == len(wants):
            return 0, -sum(steps_of(*node) or 0 for node in nodes)
        want, most = wants[at], (0 if at >= len(required) else -(10**6), -(10**9))
        for place, (group, there) in enumerate(nodes):
            if nodes[place] in nodes[:place]:
                continue
            together = tuple(sorted((*there, numbers[at])))
            if steps_of(group, together) is not None:
                after = tuple(sorted((*nodes[:place], (group, together), *nodes[place + 1 :])))
                pods, steps = best(at + 1, after)
                most = max(most, (want.pods + pods, steps))
                if most[0] == rests[at] and not counts_steps:
                    return most
        return most if at < len(required) else max(most, best(at + 1, nodes))

    empty = tuple((group, ()) for group, count in enumerate(vector) for _ in range(count))
    pods, steps = best(0, empty)
    return pods, -steps


@cache
def steps_on(group: Group, wants: tuple[Want, ...]) -> int | None:
    """In how few steps down their lists one node serves all these pods; None where it cannot."""
    if sum(want.cpu * want.pods for want in wants) > group.cpu:
        return None
    return _served(group, wants, frozenset())


@cache
def _served(group: Group, wants: tuple[Want, ...], used: Used) -> int | None:
    """The fewest steps in any order of the pods."""
    if not wants:
        return 0
    found: list[int] = []
    for at, want in enumerate(wants):
        if want in wants[:at]:
            continue
        ways = (
            (steps, after)
            for steps, option in enumerate(want.options)
            for after in _ways(group, option, want.one_root, used)
        )
        first = next(ways, None)
        rest = _served(group, (*wants[:at], *wants[at + 1 :]), first[1]) if first is not None else None
        if first is not None and rest is not None:
            found.append(first[0] + rest)
    return min(found, default=None)


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
