"""Which devices may draw on the same counters at the same time: those with a group in common, or all without groups.

Each device in use narrows what its counter sets still admit. Pure, and only used where DRADeviceCompatibilityGroups is
on. Left out: how much devices draw (`packing`).
"""

from __future__ import annotations

from collections.abc import Iterable

from dray.api.types.resource import Device

Groups = frozenset[str]
Standings = tuple[tuple[int, Groups], ...]
"""For each counter set that devices draw on, by its number: the groups that all of them have; empty: none has any."""


class Compatibility:
    """The counter sets of a layout, and what devices belong to on each of them."""

    def __init__(self) -> None:
        self._numbers: dict[tuple[int, str], int] = {}
        self._of: dict[int, Standings] = {}
        self._by_set: dict[int, dict[Groups, int]] = {}

    def read(self, pool: int, device: Device) -> Standings:
        """What a device of pool number `pool` belongs to."""
        return tuple(
            (self._numbers.setdefault((pool, one.counterSet), len(self._numbers)), frozenset(one.compatibilityGroups))
            for one in device.consumesCounters
        )

    def add(self, bit: int, pool: int, device: Device) -> None:
        """Note a device that can be chosen."""
        self._of[bit] = self.read(pool, device)
        for number, groups in self._of[bit]:
            known = self._by_set.setdefault(number, {})
            known[groups] = known.get(groups, 0) | bit

    def of(self, bit: int) -> Standings:
        """What a device belongs to; nothing where it draws on nothing, or the feature is off."""
        return self._of.get(bit, ())

    def excluded(self, standings: Standings) -> int:
        """The devices that may not draw on these counter sets any more."""
        found = 0
        for number, held in standings:
            for groups, devices in self._by_set.get(number, {}).items():
                if not (held & groups or held == groups):
                    found |= devices
        return found


def joined(standings: Standings, members: Iterable[Standings]) -> Standings:
    """What is left in common when further devices draw; each must have been admitted."""
    found = dict(standings)
    for each in members:
        for number, groups in each:
            found[number] = found[number] & groups if number in found else groups
    return tuple(sorted(found.items(), key=lambda item: item[0]))
