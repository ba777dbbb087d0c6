"""Sets of devices as Python integers: bit n is the device at position n in the reference's order.

Union, intersection and counting cost nanoseconds on a few words, which is what makes the exact search affordable.
Left out: what the positions mean; that is `layout`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def lowest(bits: int) -> int:
    """The lowest member of a set that is not empty, as a set of one."""
    return bits & -bits


def position(bit: int) -> int:
    """The position of the only member of a set of one."""
    return bit.bit_length() - 1


def above(bit: int) -> int:
    """All positions beyond that of a set of one; all positions when it is empty."""
    return ~((bit << 1) - 1) if bit else -1


def members(bits: int) -> Iterator[int]:
    """The members in order, each as a set of one."""
    while bits:
        bit = bits & -bits
        yield bit
        bits ^= bit


def positions(bits: int) -> Iterator[int]:
    """The positions of the members in order."""
    while bits:
        bit = bits & -bits
        yield bit.bit_length() - 1
        bits ^= bit


def union(sets: Iterable[int]) -> int:
    """All members of all sets."""
    found = 0
    for each in sets:
        found |= each
    return found


def first(bits: int, count: int) -> int:
    """The `count` lowest members; all of them when there are fewer."""
    rest = bits
    for _ in range(count):
        rest &= rest - 1
        if not rest:
            return bits
    return bits ^ rest if count else 0


def split(everything: int, sets: Iterable[int]) -> list[int]:
    """Partition `everything` into the groups whose members belong to the same of the given sets."""
    groups = [everything] if everything else []
    for cut in sets:
        parted: list[int] = []
        for group in groups:
            inside = group & cut
            if inside and inside != group:
                parted += (inside, group ^ inside)
            else:
                parted.append(group)
        groups = parted
    return groups
