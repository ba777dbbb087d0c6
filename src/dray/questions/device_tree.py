"""Devices as lines of a table: partitions below their counter set, and shares below their device.

Partitions draw on a counter set, which represents one piece of hardware. The counter set has a line of its own with
its utilisation and the partitions that still fit. Left out: colours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from dray.questions.occupancy import DeviceRow
    from dray.questions.partial_use import CounterRow

_FITTING_NAMED = 3


class DeviceLine(NamedTuple):
    """Line for a device, a counter set (`used` is its utilised fraction), or a share. `fits` tells what still fits."""

    name: str
    row: DeviceRow
    state: str
    claim: str = ""
    used_by: tuple[str, ...] = ()
    fits: str = ""
    used: float | None = None


def lines(rows: Sequence[DeviceRow]) -> Iterator[DeviceLine]:
    """Yield lines for all devices in order. A counter set comes before its first partition."""
    by_set: dict[tuple[str, str, str], list[DeviceRow]] = {}
    for row in rows:
        by_set.setdefault((row.driver, row.pool, _set_of(row)), []).append(row)
    for row in rows:
        set_ = _set_of(row)
        if not set_:
            yield from _device(row, "")
        elif members := by_set.pop((row.driver, row.pool, set_), []):
            yield _counter_set(set_, members)
            for place, member in enumerate(members):
                yield from _device(member, "└ " if place == len(members) - 1 else "├ ")


def _set_of(row: DeviceRow) -> str:
    """Return the first counter set that a device draws on; empty if there is none."""
    return row.partial.counters[0].counter_set if row.partial.counters else ""


def _counter_set(name: str, members: Sequence[DeviceRow]) -> DeviceLine:
    """Return the line of a counter set, with its mean utilisation and the free partitions that still fit."""
    counters = {(one.counter_set, one.counter): one for row in members for one in row.partial.counters}
    own = [one for (set_, _), one in counters.items() if set_ == name]
    used = sum(_used(one) for one in own) / len(own)  # mean over all counters
    fitting = sorted((row for row in members if row.state == "free"), key=_weight, reverse=True)
    sizes = list(dict.fromkeys(_weight(row) for row in fitting))
    named = [next(row.device for row in fitting if _weight(row) == size) for size in sizes[:_FITTING_NAMED]]
    return DeviceLine(name, members[0], "counters", fits=", ".join(named) or "nothing", used=used)


def _device(row: DeviceRow, branch: str) -> Iterator[DeviceLine]:
    """Yield the line of a device, followed by lines for the shares that claims hold.

    `branch` is the text before the device's name, empty outside a counter set.
    """
    shares, is_shareable = row.partial.shares, bool(row.partial.left)
    fits = _amounts(row.partial.fits) or "nothing" if is_shareable and row.state in ("free", "shared") else ""
    claim = f"{len(shares)} shares" if len(shares) > 1 else row.claim
    yield DeviceLine(f"{branch}{row.device}", row, row.state, claim, row.used_by if len(shares) < 2 else (), fits)
    below = ("" if not branch else "  " if branch.startswith("└") else "│ ") + "  "
    for share in shares:
        yield DeviceLine(f"{below}{_amounts(share.consumed)}", row, "share", share.claim, share.used_by)


def _amounts(amounts: dict[str, str]) -> str:
    return ", ".join(f"{much} {name}" for name, much in amounts.items())


def _used(counter: CounterRow) -> float:
    """Return the used fraction of a counter.

    0 if the counter has no total.
    """
    total = _number(counter.total)
    return 1 - _number(counter.left) / total if total else 0.0


def _weight(row: DeviceRow) -> float:
    """Return the total fraction of its counters that a partition would use."""
    return sum(_number(one.drawn) / (_number(one.total) or 1) for one in row.partial.counters)


def _number(text: str) -> float:
    from dray.api.quantity import Quantity

    quantity = Quantity.parse(text)
    return float(quantity.unscaled * 10.0**quantity.scale)
