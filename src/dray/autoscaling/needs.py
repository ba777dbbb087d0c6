"""Minimum needs of each kind on a new node, as shares of what the node has. No I/O.

Each row is one limited resource: CPU, memory, pods, a set of devices that some requests must use, a counter, a shared
capacity. Units whose shares of any row add up to more than 1 cannot be on one node; bounds use this, and it avoids
most hopeless trials. Constraints are ignored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial

from dray.allocator.bits import positions
from dray.allocator.content import content_of
from dray.allocator.faults import Fault
from dray.allocator.identity import Features
from dray.allocator.layout import Layout
from dray.allocator.plan import plan
from dray.allocator.pools import view
from dray.allocator.problem import AlternativeBits, Item, pose
from dray.api.pools import by_pool
from dray.api.types.core import Pod
from dray.api.types.resource import DeviceClass, ResourceSlice
from dray.autoscaling.demand import PodKind, Unit
from dray.autoscaling.trial import Trial
from dray.verdicts.demand import ResourceAmounts, amounts, demand_of

UnitNeeds = tuple[float, ...]
_PODS = "pods"
_IMPOSSIBLE = 2.0  # marks a request that even an empty node cannot serve


def needs_of(trial: Trial, kinds: Sequence[PodKind]) -> list[UnitNeeds]:
    """Return for each kind the shares that one unit needs of the node, one number per row."""
    return [*zip(*(*_countable(trial, kinds), *_devices(trial, kinds)), strict=True)]


def reaching(trial: Trial, kinds: Sequence[PodKind]) -> list[bool]:
    """Return for each kind whether a unit on the node may get devices that other nodes can also reach.

    The result is in the order of the kinds.
    """
    shared = [piece for piece in trial.cluster.all(ResourceSlice) if not piece.spec.nodeName]
    if not shared:
        return [False] * len(kinds)
    features = Features.from_gates(trial.cluster.gates.enabled)
    layout = _layout(trial, shared, features)
    items = [_items(trial, kind.first, layout, features) for kind in kinds]
    return [any(choice.devices for item in own for choice in item.choices) for own in items]


def _layout(trial: Trial, slices: Iterable[ResourceSlice], features: Features) -> Layout:
    return view(trial.node, by_pool(slices), content_of, partial(Layout, features=features), features).layout


def _countable(trial: Trial, kinds: Sequence[PodKind]) -> Iterable[list[float]]:
    """Yield rows for CPU, memory, pods and other node resources, after subtracting the daemons' requests.

    Each row has the share of the node that a unit of each kind needs.
    """
    free = amounts(trial.node.status.allocatable)
    for pod in trial.cluster.all(Pod):
        for name, much in _asked([pod]).items():
            free[name] = free.get(name, 0) - much
    asked = [_asked(kind.first.pods) for kind in kinds]
    for name in sorted({name for one in asked for name in one} & set(free)):
        yield [one.get(name, 0) / free[name] if free[name] > 0 else float(bool(one.get(name))) for one in asked]


def _asked(pods: Iterable[Pod]) -> ResourceAmounts:
    total: ResourceAmounts = {_PODS: 0}
    for pod in pods:
        total[_PODS] += 1
        for name, much in demand_of(pod).amounts.items():
            total[name] = total.get(name, 0) + much
    return total


def _devices(trial: Trial, kinds: Sequence[PodKind]) -> Iterable[list[float]]:
    """Yield rows for devices, counters and shared capacity."""
    features = Features.from_gates(trial.cluster.gates.enabled)
    layout = _layout(trial, trial.cluster.all(ResourceSlice), features)
    items = [_items(trial, kind.first, layout, features) for kind in kinds]
    yield [_IMPOSSIBLE * any(not item.choices for item in own) for own in items]
    items = [tuple(item for item in own if item.choices) for own in items]
    yield from _whole_devices(layout, items)
    yield from _counters(layout, items)
    yield from _shares(layout, items)


def _items(trial: Trial, unit: Unit, layout: Layout, features: Features) -> tuple[Item, ...]:
    """Return the device requests of a unit's unallocated claims; empty if the claims are invalid."""
    asked = [claim.spec.devices for claim in unit.claims if claim.status.allocation is None]

    def class_of(name: str) -> DeviceClass | None:
        return trial.cluster.get(DeviceClass, name)

    problem = pose(plan(asked, class_of, features), layout, features)
    return () if isinstance(problem, Fault) else tuple(_servable(item) for item in problem.items)


def _servable(item: Item) -> Item:
    """Return a request with only those alternatives that an empty node can serve.

    The request may have none left.
    """
    return item._replace(choices=tuple(one for one in item.choices if one.devices.bit_count() >= one.wanted))


def _whole_devices(layout: Layout, items: Sequence[tuple[Item, ...]]) -> Iterable[list[float]]:
    """Yield a row for each set of devices that some request must use. All requests confined to the set count.

    Each row has the share of the set that a unit of each kind needs.
    """
    whole = [[(_union(item), _least(item)) for item in own if not _is_shared(layout, item)] for own in items]
    for devices in sorted({devices for own in whole for devices, _ in own if devices}):
        size = devices.bit_count()
        yield [sum(least for within, least in own if not within & ~devices) / size for own in whole]


def _counters(layout: Layout, items: Sequence[tuple[Item, ...]]) -> Iterable[list[float]]:
    """Yield a row for each weighted sum of counters."""
    packing = layout.packing
    for scale, drawn in packing.measures if packing.counters else ():
        total = sum(packing.totals[number] * weight for number, weight in scale.items())
        # shared devices draw only once
        whole = {bit: much for bit, much in drawn.items() if not bit & layout.shareable}
        if total:
            yield [sum(_least(item, whole) for item in own) / total for own in items]


def _shares(layout: Layout, items: Sequence[tuple[Item, ...]]) -> Iterable[list[float]]:
    """Yield a row for each shared capacity, summed over all devices."""
    packing = layout.packing
    names = {number: name for (_, name), number in packing.capacities.items()}
    for wanted in sorted(set(names.values())):
        total = sum(packing.totals[number] for number, name in names.items() if name == wanted)

        def taken(choice: AlternativeBits, wanted: str = wanted) -> dict[int, int]:
            return {
                bit: sum(much for number, much in consumed if names[number] == wanted)
                for bit, consumed in choice.takes.capacity.items()
            }

        if total:
            rows = [sum(min(_of_choice(one, taken(one)) for one in item.choices) for item in own) for own in items]
            yield [much / total for much in rows]


def _union(item: Item) -> int:
    found = 0
    for choice in item.choices:
        found |= choice.devices
    return found


def _is_shared(layout: Layout, item: Item) -> bool:
    """Whether some alternative needs no device exclusively."""
    return any(choice.admin or choice.devices & layout.shareable for choice in item.choices)


def _least(item: Item, drawn: dict[int, int] | None = None) -> int:
    """Return the least that a request takes over its alternatives: devices, or amounts drawn from `drawn` if given.

    `drawn` maps the bit of a device to the amount drawn from it.
    """
    if drawn is None:
        return min(choice.wanted for choice in item.choices)
    return min(_of_choice(choice, drawn) for choice in item.choices)


def _of_choice(choice: AlternativeBits, drawn: dict[int, int]) -> int:
    """Return the least amount that an alternative draws; 0 for admin access."""
    if choice.admin or not choice.devices:
        return 0
    return choice.wanted * min(drawn.get(1 << at, 0) for at in positions(choice.devices))
