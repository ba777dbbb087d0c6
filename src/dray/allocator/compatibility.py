"""Compatibility groups: which devices may consume counters of one counter set at the same time.

Devices may do so if they have a group in common, or if none of them has a group. Each device in use restricts the
groups that its counter sets still accept. Only used if DRADeviceCompatibilityGroups is on. Left out: the amounts that
devices consume (`packing`).
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.types.resource import Device

Groups = frozenset[str]
Standings = tuple[tuple[int, Groups], ...]
"""Pairs of the number of a counter set and the groups that all its consumers have in common (empty: they have none)."""


class Compatibility:
    """The compatibility groups of a layout's devices, by counter set."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, str], int] = {}
        self._of: dict[int, Standings] = {}
        self._by_set: dict[int, dict[Groups, int]] = {}

    def read(self, pool: int, device: Device) -> Standings:
        """Return the groups of a device in pool number `pool`, by counter set."""
        return tuple(
            (self._numbers.setdefault((pool, one.counterSet), len(self._numbers)), frozenset(one.compatibilityGroups))
            for one in device.consumesCounters
        )

    def add(self, bit: int, pool: int, device: Device) -> None:
        """Add a device of the layout."""
        self._of[bit] = self.read(pool, device)
        for number, groups in self._of[bit]:
            known = self._by_set.setdefault(number, {})
            known[groups] = known.get(groups, 0) | bit

    def of(self, bit: int) -> Standings:
        """Return the groups of an added device (`bit`, a set of one) by counter set. Empty for devices without
        counters.
        """
        return self._of.get(bit, ())

    def excluded(self, standings: Standings) -> int:
        """Return the devices whose groups are incompatible with those that counter sets still accept."""
        found = 0
        for number, held in standings:
            for groups, devices in self._by_set.get(number, {}).items():
                if not (held & groups or held == groups):
                    found |= devices
        return found


def joined(standings: Standings, members: Iterable[Standings]) -> Standings:
    """Return the common groups after adding further compatible devices."""
    found = dict(standings)
    for each in members:
        for number, groups in each:
            found[number] = found[number] & groups if number in found else groups
    return tuple(sorted(found.items(), key=lambda item: item[0]))
