"""GPUs cut into partitions of four sizes at fixed places, beside shared NICs: answers are those of a plain search, soon."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import pytest

from bench._plain_search import TooSlow, plain_search
from dray.allocator import Features, allocate
from dray.api.allocations import Share
from dray.api.types.resource import ResourceClaim
from tests.allocator.building import (
    ANY,
    DRIVER,
    ROOT,
    Consuming,
    Instance,
    alternatives,
    claim,
    counters,
    device,
    drawing,
    node,
    shareable,
    slice_,
    spec,
)
from tests.allocator.test_search import as_answer

NIC = "nic.example.org"
PLACES = {"1g": (1, range(7)), "2g": (2, (0, 2, 4)), "3g": (4, (0, 4)), "7g": (8, (0,))}
POLICIES: tuple[dict[str, Any], ...] = (
    {"default": "1", "validRange": {"min": "1", "step": "1"}},
    {"default": "2", "validValues": ["2", "5", "10"]},
)


def gpu(number: int) -> list[dict[str, Any]]:
    made = []
    for profile, (size, starts) in PLACES.items():
        for start in starts:
            drawn = {f"slice-{at}": 1 for at in range(start, start + size)}
            drawn |= {"engines": min(size, 7), "memory": 10 * size}
            attributes = {"profile": profile, ROOT: f"pci{number // 2}"}
            made.append(device(f"g{number}-{profile}-{start}", **attributes) | drawing(f"gpu-{number}", **drawn))
    return made


def machine(random: Random) -> Consuming:
    gpus = random.choice([2, 3, 4])
    whole = {f"slice-{at}": 1 for at in range(8)}
    sets = {f"gpu-{at}": {**whole, "engines": 7, "memory": random.choice([80, 80, 60])} for at in range(gpus)}
    parts = [part for at in range(gpus) for part in gpu(at)]
    for part in parts:
        if random.random() < 0.08:
            part |= shareable(units=random.choice([2, 4]))
    nics = [
        device(f"nic{at}", **{ROOT: f"pci{at % 2}"}) | shareable({"bw": random.choice(POLICIES)}, bw=10)
        for at in range(random.choice([1, 2, 3]))
    ]
    slices = [
        counters("a", "gpus", DRIVER, 2, **sets),
        slice_("b", parts, "gpus", DRIVER, 2, nodeName="n"),
        slice_("nics", nics, "nics", NIC, nodeName="n"),
    ]
    taken = [
        (DRIVER, "gpus", one["name"])
        for one in parts
        if random.random() < 0.06 and not one.get("allowMultipleAllocations")
    ]
    held = [one["name"] for one in nics if random.random() < 0.5]
    shares = [Share.of((NIC, "nics", name), "s", {"bw": random.choice(["1", "4", "8"])}) for name in held]
    claims = [asking(random, f"c{at}") for at in range(random.choice([1, 1, 2, 3]))]
    return Consuming(Instance(node(), claims, [ANY], slices, taken, Features()), shares)


def wish(random: Random) -> dict[str, Any]:
    kind = random.random()
    if kind < 0.7:
        profile = f'device.attributes["{DRIVER}"].profile == "{random.choice(sorted(PLACES))}"'
        return spec(random.choice([1, 1, 1, 2, 2, 3, 4]), f'device.driver == "{DRIVER}" && {profile}')
    if kind < 0.9:
        much = {"requests": {"bw": random.choice(["1", "2", "3", "5"])}}
        return spec(random.choice([1, 1, 2]), f'device.driver == "{NIC}"', capacity=much)
    return spec(random.choice([1, 2]))


def asking(random: Random, name: str) -> ResourceClaim:
    requests = []
    for number in range(random.choice([1, 2, 3, 4])):
        if random.random() < 0.3:
            ways = {f"s{at}": wish(random) for at in range(random.choice([2, 3]))}
            requests.append(alternatives(f"r{number}", **ways))
        else:
            requests.append({"name": f"r{number}", "exactly": wish(random)})
    return claim(name, *requests, match=random.choice([(), (), (ROOT,)]))


@pytest.mark.wording
def test_partitions_are_given_out_as_a_plain_search_gives_them_out() -> None:
    compared = 0
    for seed in range(120):
        case = machine(Random(seed))
        outcome = allocate(*case.instance, shares=case.shares)
        try:
            expected = plain_search(*case.instance, deadline=time.monotonic() + 0.1, shares=case.shares)
        except TooSlow:
            continue
        compared += 1
        assert as_answer(outcome) == expected, seed
    assert compared > 30


def test_places_that_are_too_small_are_counted_and_not_tried() -> None:
    """Seven engines have place for one of four; sixteen claims on eight GPUs would take a search for ever."""
    sets = {f"gpu-{at}": {"engines": 7} for at in range(8)}
    halves = [device(f"g{at}-{half}") | drawing(f"gpu-{at}", engines=4) for at in range(8) for half in range(2)]
    slices = [counters("a", "p", DRIVER, 2, **sets), slice_("b", halves, count=2)]
    asked = [claim(f"c{at}", {"name": "r", "exactly": spec(1)}) for at in range(9)]
    started = time.process_time()
    assert as_answer(allocate(node(), asked, [ANY], slices)).placements is None
    assert as_answer(allocate(node(), asked[:8], [ANY], slices)).placements is not None
    assert time.process_time() - started < 30
