"""Cases for autoscaling with gangs: those of `cases`, with some of the pods in gangs; and the best plan by trying everything."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from msgspec import convert

from dray.api.types.scheduling import PodGroup
from tests.autoscaling import exhaustive
from tests.autoscaling.cases import NAMESPACE, Case, Want, case, objects


@dataclass(frozen=True)
class Gang:
    """The wants of a gang, by number, and how many of its pods it needs at once."""

    members: tuple[int, ...]
    least: int


@dataclass(frozen=True)
class GangCase:
    plain: Case
    gangs: tuple[Gang, ...]


def gang_case(seed: int) -> GangCase:
    """One or two gangs. A gang that needs fewer pods than it has has equal ones."""
    rng, plain = random.Random(f"gangs {seed}"), case(seed)
    wants = plain.wants
    left, gangs = [*range(len(wants))], []
    for _ in range(rng.choice((1, 1, 2))):
        size = min(len(left), rng.randint(2, 4))
        if not size:
            break
        members = tuple(sorted(rng.sample(left, size)))
        left = [number for number in left if number not in members]
        pods = sum(wants[number].pods for number in members)
        is_even = len({wants[number] for number in members}) == 1 and pods == size > 1
        gangs.append(Gang(members, pods - 1 if is_even and rng.random() < 0.6 else pods))
    return GangCase(plain, tuple(gangs))


def gang_objects(case: GangCase) -> list[Any]:
    made: list[Any] = []
    for name, gang in enumerate(case.gangs):
        spec = {"schedulingPolicy": {"gang": {"minCount": gang.least}}}
        made.append(convert({"metadata": {"name": f"g{name}", "namespace": NAMESPACE}, "spec": spec}, PodGroup))
    of = {number: f"g{name}" for name, gang in enumerate(case.gangs) for number in gang.members}
    for tree in objects(case.plain):
        number = int(tree["metadata"]["name"].split("-")[1])
        if tree["kind"] == "Pod" and number in of:
            tree["spec"]["schedulingGroup"] = {"podGroupName": of[number]}
        made.append(tree)
    return made


def cheapest(case: GangCase) -> tuple[int, int]:
    """How many pods can be placed at the most when every gang is whole or absent, and what nodes for them cost."""
    plain = case.plain
    most = _placed(case, tuple(group.most for group in plain.groups))  # more nodes are in nobody's way
    vectors = itertools.product(*(range(group.most + 1) for group in plain.groups))
    for vector in sorted(vectors, key=lambda vector: exhaustive.price(plain, vector)):
        if _placed(case, vector) == most:
            return most, exhaustive.price(plain, vector)
    raise AssertionError("all nodes take as many pods as all nodes")


def _placed(case: GangCase, vector: tuple[int, ...]) -> int:
    groups = case.plain.groups
    found = (exhaustive.placed(Case(groups, more), vector, False, required)[0] for required, more in _choices(case))
    return max(found)


def _choices(case: GangCase) -> Iterator[tuple[tuple[Want, ...], tuple[Want, ...]]]:
    """The wants that must be served and those that may be, for each set of gangs."""
    wants = case.plain.wants
    inside = {number for gang in case.gangs for number in gang.members}
    alone = tuple(want for number, want in enumerate(wants) if number not in inside)
    for chosen in itertools.product((False, True), repeat=len(case.gangs)):
        required, optional = [], [*alone]
        for gang, is_in in zip(case.gangs, chosen, strict=True):
            own = [wants[number] for number in gang.members]
            spare = sum(want.pods for want in own) - gang.least
            if is_in:
                required += own[spare:]
                optional += own[:spare]
        yield tuple(required), tuple(optional)
