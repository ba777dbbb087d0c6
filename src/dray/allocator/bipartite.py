"""Assigns devices to demands when each device can serve one demand: a maximum bipartite matching on bit sets.

Demands can accept the same devices, so counting is not enough; the matching uses augmenting paths. Demands are served
in order, and each takes the lowest devices it can. Left out: constraints and alternatives, which `feasibility` fixes
before it calls `assign`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dray.allocator.bits import first, lowest


class Wish(NamedTuple):
    """A demand for any `wanted` devices out of the set `devices`."""

    wanted: int
    devices: int


class Shortage(NamedTuple):
    """Wishes that together need more devices than the set of all devices that can serve any of them."""

    wishes: tuple[int, ...]
    devices: int


def assign(wishes: Sequence[Wish]) -> list[int] | Shortage:
    """Return disjoint sets of devices that serve all wishes, or a Shortage that proves that there are none.

    The list contains one bit set of exactly `wanted` devices for each wish, in the order of the wishes.
    """
    given = [0] * len(wishes)
    free = 0
    for wish in wishes:
        free |= wish.devices
    for index, wish in enumerate(wishes):
        taken = first(wish.devices & free, wish.wanted)
        given[index] = taken
        free &= ~taken
        for _ in range(wish.wanted - taken.bit_count()):
            gained = _augment(wishes, given, free, index)
            if isinstance(gained, Shortage):
                return gained
            free &= ~gained
    return given


def _augment(wishes: Sequence[Wish], given: list[int], free: int, start: int) -> int | Shortage:
    """Give one more device to wish `start`, moving devices between other wishes if needed.

    `given` contains the devices of each wish and is changed in place. `free` is the set of free devices. Returns the
    device that is no longer free (a set of one), or a Shortage, and then nothing is changed.
    """
    came: dict[int, tuple[int, int]] = {start: (start, 0)}
    queue = [start]
    seen = 0
    for index in queue:
        fresh = wishes[index].devices & ~seen
        if found := fresh & free:
            device = lowest(found)
            _shift(given, came, index, device)
            return device
        seen |= fresh
        for other, owned in enumerate(given):
            if owned & fresh and other not in came:
                came[other] = (index, lowest(owned & fresh))
                queue.append(other)
    return Shortage(tuple(sorted(came)), seen)


def _shift(given: list[int], came: dict[int, tuple[int, int]], index: int, device: int) -> None:
    """Apply an augmenting path from its end: each wish takes a device and gives one of its own to the wish before it."""
    while True:
        given[index] |= device
        before, device = came[index]
        if not device:
            return
        given[index] ^= device
        index = before
