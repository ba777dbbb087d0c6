"""Who gets which device when every device serves one demand: a maximum matching on bit sets.

Demands overlap, so counting devices is not enough; an augmenting path is. Demands are served in their order and each
takes the lowest devices it can, so the first answer is often already the one the reference would give. Left out:
constraints and alternatives, which `feasibility` fixes before it asks here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from dray.allocator.bits import first, lowest


class Wish(NamedTuple):
    """`wanted` devices out of `devices`."""

    wanted: int
    devices: int


class Shortage(NamedTuple):
    """Wishes that together ask for more devices than can serve any of them."""

    wishes: tuple[int, ...]
    devices: int


def assign(wishes: Sequence[Wish]) -> list[int] | Shortage:
    """A set of devices for every wish, no device twice; or some wishes that cannot be granted together."""
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
    """Give one more device to `start`, moving those of others where needed; answers the device no longer free."""
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
    """Walk an augmenting path backwards: each wish on it takes a device and hands its own to the one before."""
    while True:
        given[index] |= device
        before, device = came[index]
        if not device:
            return
        given[index] ^= device
        index = before
