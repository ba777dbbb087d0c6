"""Families that a plain depth-first search finds hard: decided within a second at the largest size that claims allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dray.allocator import Allocated, Features, Unallocatable, allocate, steps_in, verify
from dray.api.types.resource import ResourceClaim
from tests.allocator.building import ANY, DRIVER, alternatives, claim, device, index_below, node, request, slice_, spec

Case = tuple[list[dict[str, Any]], list[ResourceClaim], bool]


def same_root(requests: int, roots: int, last: int) -> Case:
    """Requests that share a root; all roots but the last are one device short."""
    sizes = [requests - 1] * (roots - 1) + [last]
    devices = [device(f"d{root}-{at}", root=f"r{root}") for root, size in enumerate(sizes) for at in range(size)]
    asked = claim("a", *(request(f"q{at}") for at in range(requests)), match=(f"{DRIVER}/root",))
    return devices, [asked], last >= requests


def hall(requests: int, suitable: int, devices: int) -> Case:
    """Many requests for the first few devices."""
    asked = claim("a", *(request(f"q{at}", 1, index_below(suitable)) for at in range(requests)))
    return [device(f"d{at}", index=at) for at in range(devices)], [asked], requests <= suitable


def pairs(values: int, size: int, claims: int) -> Case:
    """Claims for two devices with the same value; a value has room for size // 2 of them."""
    devices = [device(f"d{at}", v=f"v{at // size}") for at in range(values * size)]
    asked = [claim(f"c{at}", request("a"), request("b"), match=(f"{DRIVER}/v",)) for at in range(claims)]
    return devices, asked, claims <= values * (size // 2)


def staircase(steps: int, short: int) -> Case:
    """Each request accepts one device less than the one before."""
    asked = claim("a", *(request(f"q{at}", 1, index_below(steps - at - short)) for at in range(steps)))
    return [device(f"d{at}", index=at) for at in range(steps)], [asked], not short


def many_alternatives(requests: int, choices: int, devices: int) -> Case:
    """Requests for two devices each, in several ways that are all the same."""
    asked = claim(
        "a",
        *(alternatives(f"q{at}", **{f"s{way}": spec(2) for way in range(choices)}) for at in range(requests)),
    )
    return [device(f"d{at}") for at in range(devices)], [asked], 2 * requests <= devices


def two_constraints(values: int, together: int, requests: int) -> Case:
    """Requests that agree in two attributes; every combination of values has as many devices."""
    devices = [
        device(f"d{root}-{numa}-{at}", root=f"r{root}", numa=numa)
        for root in range(values)
        for numa in range(values)
        for at in range(together)
    ]
    asked = claim("a", *(request(f"q{at}") for at in range(requests)), match=(f"{DRIVER}/root", f"{DRIVER}/numa"))
    return devices, [asked], requests <= together


CASES: list[tuple[Callable[..., Case], tuple[int, ...]]] = [
    (same_root, (32, 4, 32)),
    (same_root, (32, 4, 31)),
    (same_root, (12, 11, 11)),
    (hall, (32, 31, 128)),
    (hall, (32, 32, 128)),
    (pairs, (16, 3, 16)),
    (pairs, (16, 3, 17)),
    (pairs, (42, 3, 16)),
    (pairs, (25, 5, 16)),
    (staircase, (32, 0)),
    (staircase, (32, 1)),
    (many_alternatives, (16, 8, 32)),
    (many_alternatives, (16, 8, 31)),
    (two_constraints, (5, 5, 5)),
    (two_constraints, (5, 5, 6)),
    (two_constraints, (2, 32, 32)),
]


@pytest.mark.parametrize(("family", "size"), CASES, ids=lambda part: getattr(part, "__name__", str(part)))
def test_the_largest_members_are_decided(family: Callable[..., Case], size: tuple[int, ...]) -> None:
    devices, claims, solvable = family(*size)
    slices = [slice_("s", devices)]
    # A quarter of a second on a quiet machine; a plain search would need ages. The benchmark prints figures.
    outcome = allocate(node(), claims, [ANY], slices, (), Features(), steps_in(20))
    if solvable:
        assert isinstance(outcome, Allocated)
        assert verify(outcome.results, node(), claims, [ANY], slices) == []
    else:
        assert isinstance(outcome, Unallocatable)
